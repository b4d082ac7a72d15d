"""Layers that share parameters: which, that they are one from the start and after a step, and what it costs."""

from __future__ import annotations

import copy
import io
from dataclasses import replace

import pytest
import torch
from builders import CATALOGUE, SIZES, architecture
from reading import read_block
from torch.nn.functional import cross_entropy

from ablate.block.architecture import Architecture, Sharing
from ablate.block.normal_form import canonical, digest
from ablate.compiler import compile_model, size_report
from ablate.errors import InputError
from ablate.plan.identity import model_identity
from ablate.plan.size import cost, part_costs
from ablate.space.documents import Choice
from ablate.train.optimizer import build_optimizer

PLAIN = "[residual: [layer_norm, attention: {position: rope}], residual: {gain: 1/layer, branch: [layer_norm, mlp]}]"
SOURCES = {
    Sharing(cycle=2): (1, 2, 1, 2, 1),
    Sharing(cycle=1): (1, 1, 1, 1, 1),
    Sharing(repeat=3): (1, 1, 1, 4, 4),
    Sharing(repeat=2): (1, 1, 3, 3, 5),
}
EACH = pytest.mark.parametrize("share", SOURCES, ids=str)


def at(share: Sharing | None, text: str = PLAIN, depth: int = 5) -> Architecture:
    return architecture(read_block(text), sizes=replace(SIZES, n_layers=depth), share=share)


def tokens(seed: int = 0):
    return torch.randint(11, (2, SIZES.seq_len), generator=torch.Generator().manual_seed(seed))


def assert_tied(model, share):
    for layer, source in enumerate(SOURCES[share], start=1):
        mine, theirs = (dict(model.layers[str(n)].named_parameters(remove_duplicate=False)) for n in (layer, source))
        assert mine.keys() == theirs.keys()
        assert all(mine[name] is theirs[name] for name in mine), layer
    apart = {source: id(next(model.layers[str(source)].parameters())) for source in SOURCES[share]}
    assert len(set(apart.values())) == len(apart)


def step(model):
    chosen = Choice("adamw", ADAMW)
    optimizer = build_optimizer(model, chosen, CATALOGUE)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    cross_entropy(model(tokens()).flatten(0, 1), tokens(1).flatten()).backward()
    optimizer.step()
    return optimizer


ADAMW = {
    "lr": 1e-2, "betas": [0.9, 0.999], "eps": 1e-8, "eps_when": "after_correction", "weight_decay": 0.1,
    "decays": ["weights"], "decay_when": "before_update", "embedding_lr": None,
}  # fmt: skip


@EACH
def test_layers_have_one_parameter_before_and_after_a_step(share):
    model = compile_model(at(share), CATALOGUE, seed=1)
    assert at(share).sources() == SOURCES[share]
    assert_tied(model, share)
    before = copy.deepcopy(model)
    assert_tied(before, share)
    step(model)
    assert_tied(model, share)
    moved = zip(model.layers.parameters(), before.layers.parameters(), strict=True)
    assert all(not torch.equal(one, other) for one, other in moved)


@EACH
def test_the_optimiser_has_each_parameter_once(share):
    model = compile_model(at(share), CATALOGUE)
    held = [id(p) for group in step(model).param_groups for p in group["params"]]
    assert len(held) == len(set(held)) == len(list(model.parameters()))


@EACH
def test_a_layer_that_shares_computes_with_the_weights_of_its_source_and_its_own_fixed_numbers(share):
    """Against the model without sharing, whose layers get the weights of their sources by hand."""
    shared, apart = (compile_model(at(each), CATALOGUE, seed=1, dtype=torch.float64) for each in (share, None))
    for layer, source in enumerate(SOURCES[share], start=1):
        apart.layers[str(layer)].load_state_dict(apart.layers[str(source)].state_dict())
    assert torch.equal(shared(tokens()), apart(tokens()))
    shared(tokens()).square().mean().backward()
    apart(tokens()).square().mean().backward()
    for name, parameter in shared.layers.named_parameters():
        source, _, inside = name.partition(".")
        users = [str(n) for n, of in enumerate(SOURCES[share], start=1) if str(of) == source]
        added = sum(dict(apart.layers[user].named_parameters())[inside].grad for user in users)
        torch.testing.assert_close(parameter.grad, added, rtol=1e-12, atol=1e-15)


@EACH
def test_parameters_count_once_and_products_in_every_layer(share):
    declared, alone = cost(at(share), CATALOGUE), cost(at(None), CATALOGUE)
    assert declared == size_report(at(share), CATALOGUE)
    assert (declared.flops, declared.spared) == (alone.flops, alone.spared)
    parts = part_costs(at(None), CATALOGUE)
    one = sum(each.parameters for name, each in parts.items() if name.startswith("layers.1."))
    assert alone.parameters - declared.parameters == one * (5 - len(set(SOURCES[share])))


def test_layers_that_do_not_share_are_as_they_were():
    """And those that others share with have the numbers that they have alone."""
    alone, shared = (compile_model(at(share), CATALOGUE, seed=2) for share in (None, Sharing(cycle=2)))
    theirs = dict(alone.named_parameters())
    for name, parameter in shared.named_parameters():
        assert torch.equal(parameter, theirs[name]), name


def test_what_is_made_of_a_weight_at_the_start_fits_the_weight_that_is_used():
    """Constants that are drawn, and vectors found from a weight, are those of the source as well."""
    text = (
        "[residual: [attention: {value: {frozen: {init: orthogonal}}, projection: spectral, entropy: sigma_reparam}]]"
    )
    model = compile_model(at(Sharing(cycle=1), text, depth=3), CATALOGUE, seed=2)
    first, *others = (dict(layer.named_buffers()) for layer in model.layers.values())
    assert first
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)


def test_a_state_is_restored_with_its_layers_tied():
    model = compile_model(at(Sharing(cycle=2)), CATALOGUE, seed=1)
    step(model)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    other = compile_model(at(Sharing(cycle=2)), CATALOGUE, seed=5)
    other.load_state_dict(torch.load(io.BytesIO(buffer.getvalue()), weights_only=True))
    assert_tied(other, Sharing(cycle=2))
    assert torch.equal(model(tokens()), other(tokens()))


def test_a_pattern_that_repeats_with_the_share_is_shared():
    text = "[residual: [attention: {position: {cycle: [rope, none]}}], {cycle: [[residual: [mlp]], none]}]"
    model = at(Sharing(cycle=2), text)
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)
    assert_tied(compile_model(model, CATALOGUE), Sharing(cycle=2))


@pytest.mark.parametrize(
    ("share", "text", "said"),
    [
        (Sharing(repeat=2), "[residual: [{cycle: [attention, mlp]}]]", "layer 2 is another block than layer 1"),
        (Sharing(cycle=1), "[mlp: {up: {dense: {rate: layer}}}]", "layer 2 is another block"),
        (Sharing(cycle=1), "[mlp: {up: {dense: {init: {normal: 1/layer}}}}]", "layer 2 is another block"),
        (Sharing(cycle=1), "[residual: {gain: {init: 1/layer, trainable: true}, branch: [mlp]}]", "layer 2 is another"),
        (Sharing(cycle=1), "[first_layer: [layer_norm], mlp]", "mlp_norm has other parameters"),
        (Sharing(cycle=1), "[attention: {value: {by_layer: {first: dense, others: identity}}}]", "attention has other"),
        (Sharing(cycle=5), "[mlp]", "by which no two of the model's 5 layers share"),
        (Sharing(repeat=1), "[mlp]", "by which no two"),
    ],
)  # fmt: skip
def test_layers_that_cannot_share_are_refused_without_building_them(share, text, said):
    with pytest.raises(InputError, match=said):
        cost(at(share, text), CATALOGUE)


def test_a_part_that_starts_from_data_is_not_shared():
    with pytest.raises(InputError, match="start from data"):
        compile_model(at(Sharing(cycle=1), "[admin: [mlp]]"), CATALOGUE)


def test_an_identity_tells_what_is_shared_and_is_of_before_without():
    def identity(share, depth=4):
        return digest(model_identity(at(share, depth=depth), CATALOGUE))

    assert "sources" not in model_identity(at(None), CATALOGUE) and "share" not in model_identity(at(None), CATALOGUE)
    assert "share" not in canonical(at(None))
    assert identity(Sharing(cycle=1)) == identity(Sharing(repeat=4))
    assert len({identity(share) for share in (None, Sharing(cycle=1), Sharing(cycle=2), Sharing(repeat=2))}) == 4
