"""`model.kind: encoder`, against NumPy in float64: padding, segments, both losses, leakage, sizes, and refusals."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import SIZES, architecture, default_init, node
from numpy_transformer import norm, perturbed, post_layer, pre_layer, sines, weights_of
from reading import decoders, transformer
from scipy.special import erf, logsumexp

from ablate.api import load_block
from ablate.compiler import compile_model, size_report
from ablate.data.batch import NO_TARGET, Batch
from ablate.errors import InputError
from ablate.plan.identity import model_identity
from ablate.plan.size import cost, part_costs
from ablate.probes.registry import select
from ablate.probes.sites import read_at
from ablate.probes.update import streams
from ablate.probes.watch import padding_of, watching
from ablate.space.recipe import Loss
from ablate.train.microbatches import BatchShares, Passes
from ablate.train.objectives.declare import Given
from ablate.train.objectives.masked_words import MaskedWords, Objective

CATALOGUE = transformer().catalogue
PRE = """[residual: {gain: 1/sqrt(2*depth), branch: [layer_norm, attention]},
    residual: {gain: 1/layer, branch: [layer_norm, mlp: {activation: silu, hidden: 2x}]}]"""
POST = "[residual: [attention], layer_norm, residual: [mlp: {activation: silu, hidden: 2x}], layer_norm]"
LAYERS = {"pre": (PRE, pre_layer), "post": (POST, post_layer)}
BOTH = pytest.mark.parametrize(("block", "layer_of"), list(LAYERS.values()), ids=list(LAYERS))
DEPTH, PADDING, MASK, START, SCALE = 3, 0, 1, 2, 2.0
REAL = (9, 6)
"""How many tokens of each of two sequences are no padding."""


def whole(block=PRE, **changes):
    block = load_block(block) if isinstance(block, str) else block
    sizes = replace(
        SIZES, n_layers=DEPTH, n_heads=2, seq_len=9, causal=False, padding=PADDING, mask=MASK, start=START, separator=3
    )
    around = {
        "init": default_init(),
        "final_norm": node("layer_norm", bias=True, scale=True),
        "kind": "encoder",
        "sizes": sizes,
        "positions": "sinusoidal",
        "position_std": None,
        "embedding_scale": SCALE,
        "segments": 2,
        "transform": "gelu",
        "classes": 2,
    }
    return architecture(block, **{**around, **changes})


def model_of(block=PRE, **changes):
    return perturbed(compile_model(whole(block, **changes), CATALOGUE, dtype=torch.float64))


def texts():
    """Two pairs, the second of them filled up, some of their tokens hidden, and what is to be predicted."""
    drawn = torch.Generator().manual_seed(2)
    tokens = torch.randint(4, SIZES.vocab_size, (2, 9), generator=drawn)
    segments = (torch.arange(9) >= 5).long().repeat(2, 1)
    tokens[:, 0], tokens[:, 5] = START, 3
    targets = torch.full_like(tokens, NO_TARGET)
    for row, column in ((0, 1), (0, 4), (0, 7), (1, 2)):
        targets[row, column] = tokens[row, column]
        tokens[row, column] = MASK
    for row, real in enumerate(REAL):
        tokens[row, real:], segments[row, real:] = PADDING, 0
    return Batch((tokens, segments), (targets, torch.tensor([0, 1])))


def by_numpy(w, tokens, segments, layer_of):
    """Return the logits and the classes."""
    batch, length = tokens.shape
    x = SCALE * w["embedding.weight"][tokens] + w["segments.weight"][segments]
    x = x + sines(length, x.shape[-1])
    seen = np.broadcast_to((tokens != PADDING)[:, None, :], (batch, length, length))
    for n in range(1, DEPTH + 1):
        x = layer_of(x, None, seen, None, w, f"layers.{n}", n, DEPTH)
    x = norm(x, w, "final_norm")
    dense = x @ w["transform.dense.weight"].T + w["transform.dense.bias"]
    dense = dense * 0.5 * (1 + erf(dense / np.sqrt(2))) if not np.iscomplexobj(dense) else gelu(dense)
    logits = norm(dense, w, "transform.norm") @ w["head.weight"].T + w["head_bias"]
    pooled = np.tanh(x[:, 0] @ w["classifier.pooler.weight"].T + w["classifier.pooler.bias"])
    return logits, pooled @ w["classifier.classes.weight"].T + w["classifier.classes.bias"]


def gelu(z):
    """x Φ(x) of numbers with a small imaginary part, to first order, as complex steps need."""
    x = z.real
    slope = 0.5 * (1 + erf(x / np.sqrt(2))) + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return x * 0.5 * (1 + erf(x / np.sqrt(2))) + 1j * z.imag * slope


def losses_by_numpy(w, batch, layer_of):
    """Return the mean cross-entropy of the chosen tokens, and that of the pairs."""
    (tokens, segments), (targets, labels) = (tuple(each.numpy() for each in side) for side in batch)
    logits, classes = by_numpy(w, tokens, segments, layer_of)
    chosen = np.argwhere(targets != NO_TARGET)
    of_tokens = [log_normaliser(logits[b, t]) - logits[b, t, targets[b, t]] for b, t in chosen]
    of_pairs = [log_normaliser(classes[b]) - classes[b, label] for b, label in enumerate(labels)]
    return np.mean(of_tokens), np.mean(of_pairs)


def log_normaliser(logits):
    return logsumexp(logits) if not np.iscomplexobj(logits) else np.log(np.exp(logits).sum())


def pairs_objective():
    return Objective(MaskedWords(next_sentence=True), Given(whole().sizes, Loss()))


@BOTH
def test_the_whole_model_is_that_of_numpy(block, layer_of):
    model, batch = model_of(block), texts()
    tokens, segments = batch.inputs
    expected = by_numpy(weights_of(model), tokens.numpy(), segments.numpy(), layer_of)
    for found, wanted in zip(model(tokens, segments), expected, strict=True):
        assert np.abs(found.detach().numpy() - wanted).max() < 1e-9
    turned = by_numpy(weights_of(model), tokens.numpy(), 1 - segments.numpy(), layer_of)
    assert all(np.abs(a - b).max() > 1e-3 for a, b in zip(turned, expected, strict=True)), "it sees the segments"


@BOTH
@pytest.mark.parametrize("parts", [1, 2])
def test_both_losses_and_their_gradient_are_those_of_numpy(block, layer_of, parts):
    """The gradient along a random direction of every parameter, by complex steps: exact to rounding."""
    model, batch, objective = model_of(block), texts(), pairs_objective()
    passes = Passes(model, "float64", BatchShares(parts), objective)
    loss = passes.backward(BatchShares(parts).of(batch, torch.device("cpu"), objective))
    w = weights_of(model)
    of_tokens, of_pairs = losses_by_numpy(w, batch, layer_of)
    assert loss == pytest.approx(of_tokens, rel=1e-9)
    assert passes.added["head.next_sentence"] == pytest.approx(of_pairs, rel=1e-9)
    random = np.random.default_rng(1)
    for name, parameter in model.named_parameters():
        direction = random.normal(size=parameter.shape)
        slope = sum(losses_by_numpy({**w, name: w[name] + 1e-30j * direction}, batch, layer_of)).imag / 1e-30
        assert (parameter.grad.numpy() * direction).sum() == pytest.approx(slope, rel=1e-8, abs=1e-11), name


@BOTH
def test_every_token_sees_all_real_tokens_and_no_padding(block, layer_of):
    model, (tokens, segments) = model_of(block).eval(), texts().inputs
    with torch.no_grad():
        logits, classes = model(tokens, segments)
        for row, real in enumerate(REAL):
            for place in range(real):
                other = tokens.clone()
                other[row, place] = other[row, place] % (SIZES.vocab_size - 1) + 1
                found, of_pair = model(other, segments)
                moved = (found - logits).abs().amax(-1)
                assert (moved[row, :real] > 1e-9).all() and (of_pair[row] != classes[row]).all()
                assert moved[1 - row].sum() == 0
        filled = torch.full((2, 3), PADDING)
        longer, same = model(torch.cat([tokens, filled], 1), torch.cat([segments, filled], 1))
        for row, real in enumerate(REAL):
            assert torch.allclose(longer[row, :real], logits[row, :real], rtol=0, atol=1e-13)
        assert torch.allclose(same, classes, rtol=0, atol=1e-13)
        blind = model_of(block, sizes=replace(whole().sizes, padding=None))  # the twin: padding that nothing knows
        assert (blind(torch.cat([tokens, filled], 1))[0][:, :4] - blind(tokens)[0][:, :4]).abs().max() > 1e-3


def test_without_a_table_it_is_not_told_the_segments():
    (tokens, segments), plain = texts().inputs, model_of(segments=0)
    assert torch.equal(plain(tokens, segments)[0], plain(tokens)[0])
    assert not torch.equal(model_of()(tokens, segments)[0], model_of()(tokens)[0])


def test_probes_leave_out_padding_and_copies_forget_it():
    model, (tokens, segments) = model_of(), texts().inputs
    with watching(model, select(["kurtosis", "attention_entropy"], CATALOGUE), padding_of(model)) as readings:
        model(tokens, segments)
    found = {(r.metric, r.address): float(r.value) for r in readings}
    streams = []
    model.layers["2"].register_forward_pre_hook(lambda m, inputs: streams.append(inputs[0].detach()))
    logits, _ = model(tokens, segments)
    squares = np.square(streams[0][tokens != PADDING].numpy()).mean(0)
    assert found["kurtosis", "layers.2"] == pytest.approx(np.square(squares).mean() / squares.mean() ** 2, rel=1e-9)
    assert found["attention_entropy", "layers.1.attention"] <= np.log(max(REAL)) + 1e-12
    for other in (copy.deepcopy(model_of()), pickle.loads(pickle.dumps(model_of()))):
        assert torch.equal(other(tokens, segments)[0], logits)


VARIED = {
    "pairs": {},
    "plain": {"segments": 0, "transform": "none", "classes": 0, "tied": True},
    "relu behind an entry norm": {"transform": "relu", "entry_norm": node("rms_norm"), "final_norm": None},
    "classes alone": {"segments": 0, "transform": "none"},
}


def test_what_probes_of_updates_read_is_without_padding():
    model, (tokens, segments) = model_of(), texts().inputs
    real, whole = tokens != PADDING, {}
    hooks = [
        module.register_forward_pre_hook(lambda _, inputs, address=address: whole.update({address: inputs[0].detach()}))
        for address, module in read_at(model, "blocks")
    ]
    found = streams(model, lambda: model(tokens, segments))
    for hook in hooks:
        hook.remove()
    assert found.keys() == whole.keys() == {*(f"layers.{n}" for n in range(1, DEPTH + 1)), "head"} and not real.all()
    assert all(torch.equal(found[address], whole[address][real]) for address in found)


@pytest.mark.parametrize("block", [PRE, POST], ids=list(LAYERS))
@pytest.mark.parametrize("changes", list(VARIED.values()), ids=list(VARIED))
def test_the_closed_form_is_the_count(block, changes):
    model = whole(block, **changes)
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)
    built = compile_model(model, CATALOGUE, device="meta")
    assert set(part_costs(model, CATALOGUE)) <= {
        name for name, _ in (*built.named_modules(), *built.named_parameters())
    }


def test_identities_and_refusals():
    ids = [model_identity(whole(**changes), CATALOGUE) for changes in ({}, *VARIED.values(), {"transform": "tanh"})]
    assert ids[0] == ids[1] and len({str(each) for each in ids}) == 5
    with pytest.raises(InputError, match=r"model\.transform has a norm"):
        cost(whole(final_norm=None), CATALOGUE)


REFUSED = {
    "e_spa_skips": "no attention compensates",  # at four layers, as a decoder's
    "e_spa_skips_norm": "no attention compensates",
    "e_spa_tat": "or more layers",
    **dict.fromkeys(transformer().blocks.keys() - set(decoders()), "a model of this kind has none"),
}


@pytest.mark.sampled(12, gate="all")
@pytest.mark.parametrize("name", sorted(transformer().blocks))
def test_named_blocks_are_an_encoders_or_say_why_not(name):
    block = transformer().blocks[name].block
    try:
        model = whole(block, sizes=replace(whole().sizes, n_layers=4))
        counted = cost(model, CATALOGUE)
    except InputError as error:
        assert name in REFUSED and REFUSED[name] in str(error) and "\n  = " in str(error)
        return
    assert name not in REFUSED
    assert counted == size_report(model, CATALOGUE)
