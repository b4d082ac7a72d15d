"""Initialisation depends on seed, salt and address alone: variants are paired parameter by parameter."""

import math
from dataclasses import replace

import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, gain, node, op, pre_ln, residual, sequence

from ablate import api
from ablate.block.expression import Size
from ablate.compiler import compile_block, compile_model
from ablate.compiler.initialise import Draw, initialise
from ablate.errors import InputError

pytestmark = pytest.mark.fast


def state(block, *, seed=0, salt=0, dtype=torch.float32, **around):
    return compile_model(architecture(block, **around), CATALOGUE, seed=seed, salt=salt, dtype=dtype).state_dict()


def test_shared_addresses_hold_the_same_bits_in_every_variant():
    base = state(pre_ln())
    variants = {
        "op": op(),
        "post_norms": sequence(residual("attention"), "rms_norm", residual("mlp")),
        "gains": sequence(residual("attention", gain=gain(0, trainable=True)), residual("layer_norm", "mlp")),
        "parallel": sequence(node("parallel", branches=[["attention"], ["mlp"]])),
        "macaron": sequence("mlp", "attention", "mlp"),
    }
    for name, block in variants.items():
        other = state(block)
        shared = [key for key in base if key in other and base[key].shape == other[key].shape]
        assert {"layers.1.attention.query.weight", "layers.2.mlp.down.weight", "head.weight"} <= set(shared), name
        for key in shared:
            assert torch.equal(base[key], other[key]), f"{key} differs in {name}"


def test_seed_and_salt_change_every_drawn_parameter():
    base = state(pre_ln())
    for other in (state(pre_ln(), seed=1), state(pre_ln(), salt=1)):
        for key, value in base.items():
            assert torch.equal(value, other[key]) == (value.unique().numel() == 1), key
    both = state(pre_ln(), seed=1), state(pre_ln(), salt=1)
    assert not torch.equal(both[0]["head.weight"], both[1]["head.weight"])


def test_addresses_have_streams_of_their_own():
    weights = [value for key, value in state(pre_ln()).items() if key.endswith(("query.weight", "key.weight"))]
    assert len(weights) == 4
    for i, a in enumerate(weights):
        for b in weights[:i]:
            assert not torch.equal(a, b)
            assert torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1].abs() < 0.3


DRAWING = '''
"""A norm that draws its start as ordinary code does."""
from ablate.components.declare import Cost, component, implements

@component("drawing", slots=("part", "norm"), role="norm", modifier=True, source="nobody")
class Config:
    """Nothing to choose."""

    def cost(self, sizes, width=None):
        return Cost(parameters=3)

import random
import numpy as np
import torch
from torch import nn

@implements(Config)
class Drawing(nn.Module):
    def __init__(self, config, sizes, width=None):
        super().__init__()
        self.drawn = nn.Parameter(torch.tensor([torch.rand(()).item(), random.random(), np.random.rand()]))
'''


def test_what_a_constructor_draws_is_of_seed_and_place(tmp_path):
    """Of PyTorch's generator, Python's and NumPy's, and for each of two modules that one maker makes at one address."""
    (tmp_path / "drawing.py").write_text(DRAWING, encoding="utf-8")
    drawn = []
    for seed, layer in ((0, 1), (0, 2), (1, 1)):
        block = api.compile_block(
            "[attention: {entropy: {qk_norm: drawing}}]", SIZES, init="normal: {std: 0.02}", seed=seed, layer=layer,
            plugins=[tmp_path / "drawing.py"],
        )  # fmt: skip
        drawn += [value.tolist() for name, value in block.named_parameters() if name.endswith("drawn")]
    assert len(drawn) == 6
    assert [len(set(column)) for column in zip(*drawn, strict=True)] == [6, 6, 6]


def test_lower_precision_is_the_same_model_rounded():
    double = state(pre_ln(), dtype=torch.float64)
    for dtype in (torch.float32, torch.bfloat16):
        for key, value in state(pre_ln(), dtype=dtype).items():
            assert value.dtype == dtype
            assert torch.equal(value, double[key].to(dtype)), key


def test_a_trained_gain_starts_at_its_number_in_full_precision():
    third = gain("1/3", trainable=True)
    block = sequence(residual("mlp", gain=third, skip=gain("1/layer", trainable=True, per="channel")))
    found = state(block, dtype=torch.float64)
    assert found["layers.2.mlp_residual.gain.factor"].item() == 1 / 3
    assert found["layers.2.mlp_residual.skip.factor"].tolist() == [0.5] * 16
    assert found["layers.1.mlp_residual.skip.factor"].tolist() == [1.0] * 16


def test_no_parameter_is_left_as_memory_was_found(monkeypatch):
    # A trial carried out in this process has switched it off: see `train/data_parallel.py`.
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # fills what `torch.empty` returns with NaN
    try:
        assert torch.empty(3).isnan().all()
        found = state(pre_ln(), positions="learned", final_norm=node("layer_norm", bias=True))
    finally:
        torch.use_deterministic_algorithms(before)
    assert all(value.isfinite().all() for value in found.values())


WIDE = replace(SIZES, d_model=256, n_heads=4, n_layers=1, seq_len=64, vocab_size=300)


@pytest.mark.parametrize(
    ("init", "up", "down"),
    [
        (node("normal", std=0.03), 0.03, 0.03),
        (node("fan_in", gain=2.0), 2 / math.sqrt(256), 2 / math.sqrt(1024)),
    ],
    ids=["normal", "fan_in"],
)
def test_the_models_init_fills_what_names_none(init, up, down):
    mlp = node("mlp", gate=node("dense", init="zero"), up="dense")
    found = state(sequence(mlp), init=init, sizes=WIDE)
    assert found["layers.1.mlp.up.weight"].std().item() == pytest.approx(up, rel=0.01)
    assert found["layers.1.mlp.down.weight"].std().item() == pytest.approx(down, rel=0.01)
    assert found["layers.1.mlp.up.weight"].mean().abs().item() < 0.01 * up
    assert not found["layers.1.mlp.gate.weight"].any()
    assert found["head.weight"].std().item() == pytest.approx(up, rel=0.02)


def test_embedding_and_positions_have_their_own_spread():
    around = {"positions": "learned", "embedding_std": 0.7, "position_std": 0.1, "sizes": WIDE}
    found = state(pre_ln(), init=node("zero"), **around)
    assert found["embedding.weight"].std().item() == pytest.approx(0.7, rel=0.02)
    assert found["positions.weight"].std().item() == pytest.approx(0.1, rel=0.03)
    assert not found["head.weight"].any()


def test_a_block_alone_is_the_block_in_its_model():
    model = state(pre_ln(), seed=5, init=default_init())
    alone = compile_block(pre_ln(), SIZES, CATALOGUE, layer=2, seed=5, init=default_init()).state_dict()
    assert {f"layers.2.{key}" for key in alone} == {key for key in model if key.startswith("layers.2.")}
    for key, value in alone.items():
        assert torch.equal(value, model[f"layers.2.{key}"])
        if key.endswith("query.weight"):
            assert not torch.equal(value, model[f"layers.1.{key}"])


def test_another_shape_at_the_same_address_is_another_draw():
    narrow = state(sequence(node("mlp", hidden=Size(units=8))))
    wide = state(sequence(node("mlp", hidden=Size(units=24))))
    assert narrow["layers.1.mlp.up.weight"].shape != wide["layers.1.mlp.up.weight"].shape
    assert torch.equal(narrow["head.weight"], wide["head.weight"])


class After:
    """An init made from the numbers of the weight at `address`."""

    def __init__(self, address, scheme):
        self.address, self.scheme = address, scheme

    def fill_after(self, tensor, d_in, d_out, draw, name):
        tensor.copy_(2 * draw.at(self.address).numbers(name, self.scheme, d_in=d_in, d_out=d_out))


class Weighted(torch.nn.Module):
    def __init__(self, scheme):
        super().__init__()
        self.scheme, self.weight = scheme, torch.nn.Parameter(torch.zeros(3, 3))

    def initialise(self, draw):
        draw.weight("weight", self.weight, self.scheme, d_in=3, d_out=3)


class Spread:
    def __init__(self, std):
        self.std = std

    def fill(self, tensor, d_in, d_out, generator):
        tensor.normal_(0.0, self.std, generator=generator)


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_numbers_that_follow_from_another_weight_whichever_is_filled_first(order):
    parts = {"one": Weighted(Spread(1.0)), "two": Weighted(After("one", Spread(1.0)))}
    model = torch.nn.ModuleDict({name: parts[name] for name in order})
    initialise(model, Draw(0, 0, Spread(0.1)))
    assert torch.equal(model["two"].weight, 2 * model["one"].weight) and model["one"].weight.any()
    other = torch.nn.ModuleDict({"one": Weighted(Spread(1.0))})
    initialise(other, Draw(0, 0, Spread(0.1)))
    assert torch.equal(other["one"].weight, model["one"].weight)  # what was made from it did not use up its stream


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
@pytest.mark.parametrize("of", ["one", "three"])
def test_other_numbers_than_presumed_are_refused(order, of):
    parts = {"one": Weighted(Spread(2.0)), "two": Weighted(After(of, Spread(1.0)))}
    model = torch.nn.ModuleDict({name: parts[name] for name in order})
    with pytest.raises(InputError, match=f"computed from the initial numbers of {of}, which starts from other numbers"):
        initialise(model, Draw(0, 0, Spread(0.1)))


def test_what_stands_outside_of_what_is_filled_is_taken_at_its_word():
    alone = torch.nn.ModuleDict({"two": Weighted(After("layers.1.one", Spread(1.0)))})
    initialise(alone, Draw(0, 0, Spread(0.1), "layers.2"))
    whole = torch.nn.ModuleDict(
        {"layers": torch.nn.ModuleDict({"1": torch.nn.ModuleDict({"one": Weighted(Spread(1.0))})})}
    )
    initialise(whole, Draw(0, 0, Spread(0.1)))
    assert torch.equal(alone["two"].weight, 2 * whole["layers"]["1"]["one"].weight)
