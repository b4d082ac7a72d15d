"""Patterns over layers, built: each layer is, to the bit, what it would be if its alternative stood there alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from builders import CATALOGUE, SIZES, architecture
from reading import read_block

import ablate
from ablate.block.architecture import Architecture
from ablate.compiler import compile_block, compile_model, size_report
from ablate.errors import InputError
from ablate.plan.size import block_costs, cost, part_costs

FIVE = replace(SIZES, n_layers=5)
PATTERNS = {
    "[residual: [layer_norm, attention: {position: {cycle: [rope, none]}}], residual: [mlp]]": (
        "[residual: [layer_norm, attention: {position: rope}], residual: [mlp]]",
        "[residual: [layer_norm, attention], residual: [mlp]]",
    ),
    "[residual: [{cycle: [layer_norm, rms_norm]}, attention: {value: {cycle: [dense, identity]}}]]": (
        "[residual: [layer_norm, attention: {value: dense}]]",
        "[residual: [rms_norm, attention: {value: identity}]]",
    ),
    "[residual: [attention: {matrix: {cycle: [shaped, softmax]}, entropy: {cycle: [[softcap: 30], none]}}]]": (
        "[residual: [attention: {matrix: shaped, entropy: {softcap: 30}}]]",
        "[residual: [attention]]",
    ),
    "[{cycle: [[residual: [layer_norm, attention]], [residual: [mlp], residual: [layer_norm, mlp]]]}, mlp]": (
        "[residual: [layer_norm, attention], mlp]",
        "[residual: [mlp], residual: [layer_norm, mlp], mlp]",
    ),
    "[mlp: {up: {where: {layers: {every: 2}, use: {dense: {bias: true, init: {normal: 0.3}}}, otherwise: dense}}}]": (
        "[mlp]",
        "[mlp: {up: {dense: {bias: true, init: {normal: 0.3}}}}]",
    ),
}
EACH = pytest.mark.parametrize("text", PATTERNS)


def at(text: str, depth: int = 5) -> Architecture:
    return architecture(read_block(text), sizes=replace(SIZES, n_layers=depth))


@EACH
def test_each_layer_is_the_alternative_alone_to_the_bit(text):
    model = compile_model(at(text), CATALOGUE, seed=3)
    x = torch.randn(2, SIZES.seq_len, SIZES.d_model, generator=torch.Generator().manual_seed(0))
    for layer in range(1, 6):
        alone = read_block(PATTERNS[text][(layer - 1) % 2])
        module = compile_block(alone, FIVE, CATALOGUE, init=at(text).init, layer=layer, seed=3)
        built = model.layers[str(layer)]
        assert [name for name, _ in built.named_modules()] == [name for name, _ in module.named_modules()]
        for (name, one), (other, same) in zip(built.named_parameters(), module.named_parameters(), strict=True):
            assert name == other and torch.equal(one, same), (layer, name)
        assert torch.equal(built(x), module(x)), layer


@EACH
def test_the_closed_form_is_what_the_meta_device_counts(text):
    assert cost(at(text), CATALOGUE) == size_report(at(text), CATALOGUE)


@EACH
def test_the_costs_of_a_layer_are_those_of_its_alternative(text):
    whole = part_costs(at(text), CATALOGUE)
    for layer in range(1, 6):
        alone = block_costs(read_block(PATTERNS[text][(layer - 1) % 2]), FIVE, CATALOGUE, layer)
        assert {name: each for name, each in whole.items() if name.startswith(f"layers.{layer}.")} == alone


def test_a_pattern_that_is_not_used_is_refused_before_anything_is_built():
    model = at("[attention: {position: {cycle: [rope, none]}}]", depth=1)
    for refuses in (cost, compile_model):
        with pytest.raises(InputError, match=r"attention\.position: of the model's 1 layers none has item 2"):
            refuses(model, CATALOGUE)


def test_outside_the_layers_a_pattern_is_refused():
    norm = next(iter(read_block("[attention: {pre_qk: {cycle: [layer_norm, rms_norm]}}]")))["pre_qk"]
    for refuses in (cost, compile_model):
        with pytest.raises(InputError, match="cycle is used outside the layers"):
            refuses(architecture(read_block("[mlp]"), final_norm=norm), CATALOGUE)


def test_the_face_of_the_package_builds_one_layer_of_it():
    block = read_block("[mlp: {up: {where: {layers: last, use: {dense: {bias: true}}, otherwise: dense}}}]")
    named = [
        dict(ablate.compile_block(block, FIVE, init="normal: 0.1", layer=layer).named_parameters()) for layer in (1, 5)
    ]
    assert ["mlp.up.bias" in each for each in named] == [False, True]
