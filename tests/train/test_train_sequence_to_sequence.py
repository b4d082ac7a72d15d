"""Sequence to sequence and span filling: what the decoder is given, what it is to say, and weights by targets."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from builders import SIZES, architecture, default_init
from weighed import assert_weighs_by_targets, gradient_of

from ablate.api import load_block
from ablate.data.batch import NO_TARGET, Batch
from ablate.data.pair_stream import Pairs
from ablate.data.pairs import PairBatches
from ablate.data.uniform import Uniform
from ablate.space.recipe import Loss
from ablate.train.objectives.declare import Given
from ablate.train.objectives.sequence_to_sequence import Objective as ToSequence
from ablate.train.objectives.sequence_to_sequence import SequenceToSequence
from ablate.train.objectives.span_filling import Objective as Filling
from ablate.train.objectives.span_filling import SpanFilling

START, PADDING, FIRST = 20, 21, 22
SOURCE, TARGET = 9, 5


def given(source=SOURCE, target=TARGET, sentinels=10, loss=None):
    sizes = replace(
        SIZES,
        seq_len=target,
        source_len=source,
        vocab_size=FIRST + sentinels,
        start=START,
        padding=PADDING,
        sentinels=FIRST,
    )
    return Given(sizes, loss or Loss())


def drawn_pairs(examples=10):
    """Pairs of 1 to 8 tokens of a source and 1 to 6 of a target, each behind the other's separator."""
    random = np.random.default_rng(0)
    texts = [random.integers(1, 20, random.integers(1, n)).tolist() for _ in range(30) for n in (9, 7)]
    stream = np.array([token for text in texts for token in (*text, 0)], dtype=np.uint16)
    return PairBatches(Pairs(stream, 0), SOURCE, TARGET, examples, seed=0).at(0)


def test_the_decoder_is_given_what_is_one_earlier_and_padding_is_no_target():
    drawn = drawn_pairs()
    (source, inputs), targets = ToSequence(SequenceToSequence(), given()).batch(drawn, Uniform("a"))
    (texts, text_lengths), (answers, lengths) = drawn
    assert lengths.min() < TARGET and lengths.max() == TARGET and text_lengths.min() < SOURCE
    for n in range(10):
        read, said = texts[n, : text_lengths[n]].tolist(), answers[n, : lengths[n]].tolist()
        left = TARGET - len(said)
        assert source[n].tolist() == read + [PADDING] * (SOURCE - len(read))
        assert targets[n].tolist() == said + [NO_TARGET] * left
        assert inputs[n].tolist() == [START, *said[:-1]] + [PADDING] * left


@pytest.mark.parametrize("length", [2, 3, 5, 8, 24, 100, 512])
@pytest.mark.parametrize(("share", "span"), [(0.15, 3.0), (0.5, 1.0), (0.01, 10.0), (0.9, 4.0)])
def test_a_text_and_its_spans_are_put_together_again(share, span, length):
    settings = SpanFilling(share=share, span=span, spans=512)
    n_source, n_target = settings.lengths(length)
    made = Filling(settings, given(n_source + 2, n_target + 2, sentinels=512))
    windows = torch.from_numpy(np.random.default_rng(1).integers(1, 20, (20, length)))
    (source, inputs), targets = made.batch(Batch(windows, windows), Uniform("b"))
    hidden, spans = settings.hidden(length)
    assert abs(hidden - length * share) <= 0.5 or hidden in (1, length - 1)
    assert abs(spans - hidden / span) <= 0.5 or spans in (1, length - hidden)
    for n in range(20):
        read, said = source[n].tolist(), targets[n].tolist()
        assert read[n_source:] == [PADDING] * 2 and said[n_target:] == [NO_TARGET] * 2
        assert read[n_source - 1] == said[n_target - 1] == 0
        assert inputs[n].tolist() == [START, *said[: n_target - 1], PADDING, PADDING]
        fill, place = {}, None
        for token in said[: n_target - 1]:
            place = token if token >= FIRST else place
            fill.setdefault(place, [])
            fill[place] += [] if token >= FIRST else [token]
        assert list(fill) == list(range(FIRST, FIRST + spans)) and all(fill.values())
        assert sum(len(part) for part in fill.values()) == hidden
        whole = [t for token in read[: n_source - 1] for t in (fill[token] if token >= FIRST else [token])]
        assert whole == windows[n].tolist()


def test_every_way_to_cut_is_as_likely():
    """Of 8 tokens 4 are hidden in 2 spans: 3 ways to cut these, 3 to cut the others, independently."""
    settings = SpanFilling(share=0.5, span=2.0)
    assert settings.hidden(8) == (4, 2)
    windows = torch.arange(1, 9).repeat(9_000, 1)
    (source, _), _ = Filling(settings, given(*settings.lengths(8))).batch(Batch(windows, windows), Uniform("c"))
    ways, counts = np.unique(source.numpy(), axis=0, return_counts=True)
    assert len(ways) == 9 and (abs(counts - 1_000) < 5 * math.sqrt(1_000)).all()


def test_the_shares_of_the_paper_and_the_longest_window():
    """512 tokens of text, of which 15 % are hidden in spans of 3: 77 tokens in 26 spans (Raffel et al., Sec. 3.1.4)."""
    settings = SpanFilling()
    assert settings.hidden(512) == (77, 26)
    source, target = settings.lengths(512)
    assert (source, target) == (512 - 77 + 26 + 1, 77 + 26 + 1)
    for more in (0, 1):
        sizes = given(source + more, target + more).sizes
        length = settings.window(sizes)
        assert length >= 512
        assert all(a <= b for a, b in zip(settings.lengths(length), (source + more, target + more), strict=True))
        assert any(a > b for a, b in zip(settings.lengths(length + 1), (source + more, target + more), strict=True))


@pytest.mark.parametrize("loss", [Loss(), Loss(label_smoothing=0.1, z=1e-2)], ids=["plain", "smoothed"])
def test_parts_and_ranks_weigh_by_targets(loss):
    made = ToSequence(SequenceToSequence(), given(loss=loss))
    batch = made.batch(drawn_pairs(), Uniform("d"))
    assert len(set((batch.targets != NO_TARGET).sum(1).tolist())) > 1, "every sequence has as many targets"
    assert_weighs_by_targets(partial(gradient, made, batch))


CROSS = """[residual: [layer_norm, attention], residual: [layer_norm, attention: {source: encoder}],
    residual: [layer_norm, mlp]]"""


def gradient(made, batch, parts, ranks, **more):
    whole = architecture(load_block(CROSS), kind="encoder_decoder", sizes=made.sizes, init=default_init())
    return gradient_of(whole, made, batch, parts, ranks, **more)


def test_what_fills_up_a_source_and_a_target_changes_no_gradient():
    """Three more places of padding in both change nothing."""
    short, long = (ToSequence(SequenceToSequence(), given(SOURCE + n, TARGET + n)) for n in (0, 3))
    drawn = drawn_pairs()
    (texts, text_lengths), (answers, lengths) = drawn
    filled = (torch.nn.functional.pad(texts, (0, 3)), text_lengths), (torch.nn.functional.pad(answers, (0, 3)), lengths)
    a = gradient(short, short.batch(drawn, Uniform("e")), 1, 1)
    b = gradient(long, long.batch(Batch(*filled), Uniform("e")), 1, 1)
    assert all((x - y).abs().max() < 1e-12 for x, y in zip(a, b, strict=True))
