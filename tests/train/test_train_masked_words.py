"""Masked words: which tokens are chosen, what replaces them, pairs, and weights by targets over parts and ranks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from builders import SIZES, architecture, default_init
from weighed import assert_weighs_by_targets, gradient_of

from ablate.api import load_block
from ablate.data.batch import NO_TARGET, Batch, first
from ablate.data.uniform import Uniform
from ablate.space.recipe import Loss
from ablate.train.objectives.declare import Given
from ablate.train.objectives.masked_words import MaskedWords, Objective

MASK, START, PADDING, VOCABULARY = 256, 257, 258, 259


def objective(loss=None, **settings):
    sizes = replace(SIZES, seq_len=64, vocab_size=VOCABULARY, causal=False, mask=MASK, start=START, padding=PADDING)
    return Objective(MaskedWords(**settings), Given(sizes, loss or Loss()))


def drawn(examples=64, length=64, seed=0):
    """Tokens of text and separators, some sequences of almost nothing but these."""
    random = np.random.default_rng(seed)
    tokens = random.integers(0, 256, (examples, length))
    tokens[1, 3:], tokens[2] = 0, 0
    tokens = torch.from_numpy(tokens)
    return Batch(tokens, tokens)


@pytest.mark.parametrize("share", [0.15, 0.25, 1.0])
def test_as_many_tokens_of_text_are_chosen_as_the_share_says(share):
    batch = drawn()
    made = objective(share=share).batch(batch, Uniform("a"))
    tokens, targets = batch.inputs.numpy(), made.targets.numpy()
    chosen = targets != NO_TARGET
    real = (tokens != 0).sum(1)
    assert real.min() == 0 and real.max() == 64
    wanted = [0 if n == 0 else max(1, int(n * share + 0.5)) for n in real]
    assert chosen.sum(1).tolist() == wanted
    assert (targets[chosen] == tokens[chosen]).all() and (tokens[chosen] != 0).all()
    assert (made.inputs.numpy()[~chosen] == tokens[~chosen]).all()


@pytest.mark.parametrize(("context", "pairs"), [(17, False), (16, False), (20, True), (20, False), (2, False)])
def test_the_share_in_force_is_the_one_that_is_hidden(context, pairs):
    settings = {"share": 0.15, "next_sentence": pairs}
    told = MaskedWords(**settings).in_force(SimpleNamespace(context=context))
    tokens = torch.full((400, context), 7)
    made = objective(**settings).batch(Batch(tokens, tokens), Uniform("s"))
    chosen = (first(made.targets) != NO_TARGET).sum(1)
    words = (first(made.inputs)[:, :] != PADDING).sum(1).max().item() - (3 if pairs else 0)
    most = chosen.max().item()
    assert told == ("" if (context, pairs) == (20, False) else f"{most} of {words} tokens of a sequence, "
                    f"{100 * most / words:.3g} % for the 15 % asked")  # fmt: skip
    assert context != 17 or "17.6 %" in told


def test_what_replaces_a_chosen_token():
    batch = drawn(examples=2_000)
    made = objective().batch(batch, Uniform("b"))
    chosen = made.targets != NO_TARGET
    now, then = made.inputs[chosen], made.targets[chosen]
    n = len(now)
    of_mask, same = (now == MASK).double().mean(), (now == then).double().mean()
    for found, share in ((of_mask, 0.8), (same, 0.1 + 0.1 / 255)):
        assert abs(found - share) < 5 * np.sqrt(share * (1 - share) / n)
    random = now[(now != MASK) & (now != then)]
    counts = np.bincount(random.numpy(), minlength=VOCABULARY)
    assert counts[[0, MASK, START, PADDING]].sum() == 0  # what stands for no text replaces none
    expected = len(random) / 255
    assert ((counts[1:256] - expected) ** 2 / expected).sum() < 255 + 5 * np.sqrt(2 * 255)  # uniform: χ² of 254


def test_every_place_is_chosen_as_often():
    tokens = torch.full((20_000, 8), 7)
    made = objective().batch(Batch(tokens, tokens), Uniform("c"))
    chosen = (made.targets != NO_TARGET).double()
    assert chosen.sum(1).eq(2).all()
    assert (chosen.mean(0) - 0.25).abs().max() < 5 * np.sqrt(0.25 * 0.75 / 20_000)
    both = chosen.T @ chosen / 20_000
    assert (both[~torch.eye(8, dtype=torch.bool)] - 1 / 28).abs().max() < 5 * np.sqrt(1 / 28 / 20_000)


def test_it_follows_from_the_key():
    first, again, other = (objective().batch(drawn(), Uniform(key)) for key in ("d", "d", "e"))
    assert torch.equal(first.inputs, again.inputs) and not torch.equal(first.inputs, other.inputs)


def test_pairs_are_continued_or_not_and_told_apart():
    windows = torch.arange(400)[:, None].repeat(1, 64) % 200 + 1
    windows = torch.where(torch.arange(64) % 2 == 0, windows, torch.arange(64).repeat(400, 1) + 1)
    made = objective(next_sentence=True, share=0.01, masked=0.0, random=0.0).batch(
        Batch(windows, windows), Uniform("f")
    )
    (tokens, segments), (_, labels) = (tuple(each.numpy() for each in side) for side in made)
    assert abs(labels.mean() - 0.5) < 5 * 0.5 / np.sqrt(400)
    short = 0
    for n in range(400):
        real = tokens[n][tokens[n] != PADDING]
        ends = np.flatnonzero(real == 0)
        assert real[0] == START and len(ends) == 2 and ends[1] == len(real) - 1
        first, second = real[1 : ends[0]], real[ends[0] + 1 : -1]
        assert len(first) >= 1 and len(second) >= 1
        whole = windows[n].numpy()
        other = windows[(n + 200) % 400].numpy()
        assert (first == whole[: len(first)]).all()
        of = other[: len(second)] if labels[n] else whole[len(first) : len(first) + len(second)]
        assert (second == of).all()
        inside = np.zeros(64, int)
        inside[ends[0] + 1 : len(real)] = 1
        assert (segments[n] == inside).all()
        short += len(real) < 64
    assert abs(short / 400 - 0.1) < 5 * np.sqrt(0.09 / 400)


@pytest.mark.parametrize("settings", [{}, {"next_sentence": True}], ids=["words", "pairs"])
@pytest.mark.parametrize("loss", [Loss(), Loss(label_smoothing=0.1, z=1e-2)], ids=["plain", "smoothed"])
def test_parts_and_ranks_weigh_by_targets(settings, loss):
    made = objective(loss, **settings)
    batch = made.batch(drawn(examples=10, length=12), Uniform("g"))
    assert len(set((first(batch.targets) != NO_TARGET).sum(1).tolist())) > 1, "every sequence has as many targets"
    assert_weighs_by_targets(partial(gradient, made, batch))


def gradient(made, batch, parts, ranks, **more):
    block = load_block("[residual: [layer_norm, attention], residual: [layer_norm, mlp]]")
    sizes, classes = replace(made.sizes, seq_len=12), made.settings.classes
    whole = architecture(block, kind="encoder", sizes=sizes, init=default_init(), classes=classes, segments=classes)
    return gradient_of(whole, made, batch, parts, ranks, **more)


def test_no_targets_at_all_are_a_loss_of_nothing():
    made = objective()
    tokens = torch.zeros(2, 12, dtype=torch.int64)
    batch = made.batch(Batch(tokens, tokens), Uniform("h"))
    assert made.targets(batch) == {"": 0}
    assert all((each == 0).all() for each in gradient(made, batch, 2, 1))
