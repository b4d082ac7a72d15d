"""`model.ahead`: blocks that predict tokens further ahead, against NumPy in float64, and what they leave as it was."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, many_blocks, node
from objectives import next_token
from reading import transformer

from ablate.api import load_block
from ablate.block.architecture import Sharing
from ablate.compiler import compile_model, size_report
from ablate.compiler.initialise import profile
from ablate.compiler.values import logits_ahead
from ablate.data.batch import Batch
from ablate.errors import InputError
from ablate.plan.identity import model_identity
from ablate.plan.size import cost, part_costs
from ablate.probes.registry import select
from ablate.probes.watch import watching
from ablate.space.recipe import Loss
from ablate.train.microbatches import BatchShares, Passes

PLAIN = """[residual: [rms_norm: {eps: 1e-5}, attention],
    residual: [rms_norm: {eps: 1e-5}, mlp: {activation: silu, hidden: 2x}]]"""
WEIGHTS = (0.5, 0.25)
DEPTH, HEADS, CAP, SCALE = 2, 2, 3.0, 2.0


def whole(block=PLAIN, **around):
    block = load_block(block) if isinstance(block, str) else block
    return architecture(block, **{"init": default_init(), "final_norm": node("rms_norm", eps=1e-5), **around})


def model_of(block=PLAIN, dtype=torch.float64, **around):
    return compile_model(whole(block, **around), transformer().catalogue, dtype=dtype)


def text(rows=3, times=SIZES.seq_len):
    windows = torch.randint(SIZES.vocab_size, (rows, times + 1), generator=torch.Generator().manual_seed(0))
    return windows[:, :-1], windows[:, 1:]


def norm(x, w, name, eps=1e-5):
    return w[f"{name}.scale"] * x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


def block_by_numpy(x, w, name):
    """Pre-LN: attention, then an MLP of SiLU; analytic, so that complex numbers go through."""
    batch, times, width = x.shape
    inside = norm(x, w, f"{name}.attention_norm")
    q, k, v = (
        (inside @ w[f"{name}.attention.{which}.weight"].T).reshape(batch, times, HEADS, -1).swapaxes(1, 2)
        for which in ("query", "key", "value")
    )
    scores = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(width // HEADS)) * np.tri(times)
    mixed = (scores / scores.sum(-1, keepdims=True)) @ v
    x = x + mixed.swapaxes(1, 2).reshape(batch, times, width) @ w[f"{name}.attention.projection.weight"].T
    up = norm(x, w, f"{name}.mlp_norm") @ w[f"{name}.mlp.up.weight"].T
    return x + (up / (1 + np.exp(-up))) @ w[f"{name}.mlp.down.weight"].T


def logits_by_numpy(w, tokens, order=(2, 3)):
    """The logits of the next token, and those of the blocks in this order."""
    x = 50 * w["embedding.weight"][tokens]
    for layer in range(1, DEPTH + 1):
        x = block_by_numpy(x, w, f"layers.{layer}")
    streams = [x, *(block_by_numpy(x, w, f"ahead.{token}") for token in order)]
    return [CAP * np.tanh(SCALE * norm(s, w, "final_norm") @ w["head.weight"].T / CAP) for s in streams]


def loss_by_numpy(w, tokens, targets, order=(2, 3)):
    total = 0
    for further, logits in enumerate(logits_by_numpy(w, tokens, order)):
        nats = [
            np.log(np.exp(logits[b, t]).sum()) - logits[b, t, targets[b, t + further]]
            for b in range(len(targets))
            for t in range(targets.shape[1] - further)
        ]
        total += (1, *WEIGHTS)[further] * np.mean(nats)
    return total


def capped():
    return model_of(ahead=2, logit_softcap=CAP, logit_scale=SCALE)


def values(model):
    return {name: value.detach().numpy().copy() for name, value in model.named_parameters()}


def test_logits_by_numpy():
    model, (tokens, _) = capped(), text()
    logits = [model(tokens), *logits_ahead(model)]
    for found, wanted in zip(logits, logits_by_numpy(values(model), tokens.numpy()), strict=True):
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_the_whole_loss_and_its_gradient_by_numpy(parts):
    """The gradient along a random direction of every parameter, by complex steps: exact to rounding."""
    model, (tokens, targets) = capped(), text()
    w = values(model)
    objective, cut = next_token(Loss(ahead=WEIGHTS)), BatchShares(parts)
    passes = Passes(model, "float64", cut, objective)
    found = passes.backward(cut.of(Batch(tokens, targets), torch.device("cpu"), objective))
    assert set(passes.added) == {"head.ahead.2", "head.ahead.3"}
    wanted = loss_by_numpy(w, tokens.numpy(), targets.numpy())
    assert found + sum(passes.added.values()) == pytest.approx(wanted, rel=1e-9)
    swapped = loss_by_numpy(w, tokens.numpy(), targets.numpy(), order=(3, 2))
    assert abs(swapped - wanted) > 1e-3  # so blocks that change places would be noticed
    random = np.random.default_rng(1)
    for name, parameter in model.named_parameters():
        direction = random.normal(size=parameter.shape)
        moved = {**w, name: w[name] + 1e-30j * direction}
        slope = loss_by_numpy(moved, tokens.numpy(), targets.numpy()).imag / 1e-30
        assert (parameter.grad.numpy() * direction).sum() == pytest.approx(slope, rel=1e-9, abs=1e-12), name
    assert logits_ahead(model) == (), "they are handed out once"


@pytest.mark.fast
def test_parameters_are_its_own_by_address():
    without, one, two = (model_of(ahead=n).state_dict() for n in (0, 1, 2))
    assert set(without) < set(one) < set(two)
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    assert all(torch.equal(value, two[name]) for name, value in without.items())
    assert {name.split(".")[1] for name in set(two) - set(without)} == {"2", "3"}
    queries = [two[f"{place}.attention.query.weight"] for place in ("layers.2", "ahead.2", "ahead.3")]
    assert not any(torch.equal(a, b) for a, b in [queries[:2], queries[1:], queries[::2]])


@pytest.mark.fast
def test_an_evaluation_is_that_of_the_model_without_them():
    without, model, (tokens, _) = model_of(), model_of(ahead=2), text()
    ran = []
    for block in model.ahead.values():
        block.register_forward_hook(lambda *_: ran.append(1))
    wanted = without(tokens)
    with torch.no_grad():
        assert torch.equal(model(tokens), wanted)
    assert torch.equal(model.eval()(tokens), wanted)
    assert (ran, logits_ahead(model)) == ([], ())
    assert torch.equal(model.train()(tokens), wanted) and len(ran) == 2
    passed = model_of(ahead=1)
    passed(tokens)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(passed))):
        assert logits_ahead(other) == (), "logits are in no copy"
    assert len(logits_ahead(model)) == 2 and logits_ahead(without) == ()


def test_what_is_read_at_the_head_is_the_models_own_stream():
    with_blocks, tokens = model_of(ahead=2), text()[0]
    without = model_of()
    without.load_state_dict({k: v for k, v in with_blocks.state_dict().items() if not k.startswith("ahead")})
    read = []
    for model in (with_blocks, without):
        with watching(model, select(("kurtosis",))) as readings:
            model(tokens).sum().backward()
        read.append([(r.address, r.value.item()) for r in readings if r.metric == "kurtosis"])
    assert read[0] == read[1] and [address for address, _ in read[0]].count("head") == 1


AROUND = {
    "bare": {},
    "tied": {"tied": True, "positions": "learned"},
    "normed": {"final_norm": node("layer_norm", bias=True), "entry_norm": node("rms_norm")},
    "shared": {"share": Sharing(cycle=1), "final_norm": node("rms_norm")},
}
OPENED = {
    "experts": "[residual: [rms_norm, attention], residual: [rms_norm, moe: {experts: 4, active: 2, shared: 1}]]",
    "patterns": "[residual: [attention: {value: {cycle: [dense, spectral]}}], residual: [mlp]]",
    "own values": "[residual: [rms_norm, attention: {value: {from: attention.key}}], residual: [mlp]]",
    "first values": "[residual: [attention: {value: {where: {layers: first, use: dense, "
    "otherwise: {from: layers.first.attention.value}}}}], residual: [mlp]]",
    "streams": "[depth_average: layers.*.in, residual: [rms_norm, attention], residual: [mlp]]",
    "value embedding": "[residual: [attention: {value: {blend: {beside: lookup}}}], residual: [mlp]]",
}


DIFFERENT = {"patterns", "first values", "streams"}
"""Layers of these differ, so they cannot share parameters."""


@pytest.mark.sampled(8, gate=28)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("block", [*many_blocks(), *OPENED])
def test_the_closed_form_equals_the_count(block, around):
    named = many_blocks().get(block) or load_block(OPENED[block])
    if around == "shared" and block in DIFFERENT:
        with pytest.raises(InputError, match=r"model\.share is"):
            cost(architecture(named, ahead=1, **AROUND[around]), CATALOGUE)
        return
    for ahead in (1, 3):
        model = architecture(named, ahead=ahead, **AROUND[around])
        assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)


@pytest.mark.fast
def test_each_costs_a_last_layer_and_a_head():
    model = whole(ahead=2)
    without, parts = part_costs(replace(model, ahead=0), CATALOGUE), part_costs(model, CATALOGUE)
    for token in (2, 3):
        mine = {
            name.removeprefix(f"ahead.{token}."): c for name, c in parts.items() if name.startswith(f"ahead.{token}")
        }
        last = {name.removeprefix("layers.2."): c for name, c in parts.items() if name.startswith("layers.2.")}
        assert mine == last
    assert parts["head"].flops == 3 * without["head"].flops
    assert parts["head"].parameters == without["head"].parameters
    assert parts["final_norm"].parameters == without["final_norm"].parameters


@pytest.mark.fast
def test_it_is_the_block_of_the_last_layer():
    """Arithmetic and patterns resolve there; what layers share is not shared with it."""
    position = "{where: {layers: last, use: rope, otherwise: none}}"
    block = f"[residual: {{gain: 1/layer, branch: [attention: {{position: {position}}}]}}]"
    model = model_of(block, sizes=replace(SIZES, n_layers=3), ahead=1)
    assert str(model.ahead["2"]) == str(model.layers["3"]) != str(model.layers["2"])
    tied = model_of(share=Sharing(cycle=1), ahead=2)
    held = [id(each.attention.query.weight) for each in (*tied.layers.values(), *tied.ahead.values())]
    assert len(set(held)) == 3 and held[0] == held[1]


@pytest.mark.parametrize("block", ["own values", "first values"])
def test_what_it_reads_is_its_own_or_the_trunks(block):
    """As one more layer with its parameters, where nothing depends on the number of the layer."""
    named, (tokens, _) = OPENED[block], text()
    model = model_of(named, ahead=1)
    deeper = model_of(named, sizes=replace(SIZES, n_layers=3))
    state = model.state_dict()
    deeper.load_state_dict({name.replace("ahead.2.", "layers.3."): value for name, value in state.items()})
    model(tokens)
    torch.testing.assert_close(logits_ahead(model)[0], deeper(tokens), rtol=1e-12, atol=1e-12)


def test_parts_that_start_from_data_see_them():
    block = "[admin: {branch: [attention]}, layer_norm, admin: {branch: [mlp]}, layer_norm]"
    model = model_of(block, ahead=1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    profile(model, text()[0])
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert {name.split(".")[0] for name in moved} == {"layers", "ahead"}
    assert logits_ahead(model) == () and model.training


@pytest.mark.fast
def test_an_identity_has_them_where_there_are_any():
    first, second, none = (model_identity(whole(ahead=n), CATALOGUE) for n in (1, 2, 0))
    assert first != second and "ahead" not in none
