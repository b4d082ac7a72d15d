"""Ordinary PyTorch code in a component of one's own: its random numbers follow from seed and address alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from builders import SIZES
from own_fixtures import write_own_world
from torch import nn

from ablate import api
from ablate.compiler import compile_block
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.testing import ComponentContract

PLAIN = "residual: [plain: {norm: none}]"
NOISY = "residual: [plain: {norm: noisy_norm}]"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    return write_own_world(tmp_path_factory.mktemp("own"), "plain")[1]


@pytest.fixture(scope="module")
def built(plugin):
    """From YAML to a block, with the plugin's components, at seed 3 unless told otherwise."""
    grammar = api.load_grammar(ComponentContract.grammar, plugins=[plugin])

    def build(text, **options):
        problems = Problems()
        block = grammar.reader_for(problems).block(parse_yaml(f"[{text}]", "block"))
        problems.raise_if_any()
        init = api.read_init("normal: {std: 0.02}", grammar.catalogue)
        return compile_block(block, SIZES, grammar.catalogue, init=init, **{"seed": 3, **options})

    return build


def numbers(module, under=""):
    return {name: value for name, value in module.state_dict().items() if name.startswith(under)}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def disturb(seed):
    """What another trial may have done in the process before."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    nn.Linear(3, 3)


def test_whatever_ran_before_the_same_seed_gives_the_same_numbers(built):
    found = []
    for seed in (0, 1):
        disturb(seed)
        found.append(numbers(built(NOISY)))
    assert same(*found) and len(found[0]) == 6


@pytest.mark.fast
def test_building_draws_nothing_from_the_process(built):
    disturb(0)
    before = [torch.rand(2).tolist(), random.random(), np.random.rand()]
    disturb(0)
    built(NOISY)
    assert [torch.rand(2).tolist(), random.random(), np.random.rand()] == before


@pytest.mark.fast
@pytest.mark.parametrize("other", [{"seed": 4}, {"salt": 1}, {"layer": 2}], ids=str)
def test_another_seed_salt_or_layer_gives_other_numbers(built, other):
    one, other = numbers(built(NOISY)), numbers(built(NOISY, **other))
    assert one.keys() == other.keys() and not any(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.fast
@pytest.mark.parametrize(
    "text", [f"{PLAIN}, mlp", "first_layer: [plain: {norm: none}]", "rms_norm, plain: {norm: none}, mlp", NOISY]
)
def test_it_has_its_numbers_wherever_it_stands_and_whatever_is_in_it_or_around_it(built, text):
    alone, there = numbers(built(PLAIN)), numbers(built(text), "plain.")
    assert same(alone, {name: value for name, value in there.items() if ".norm." not in name})


@pytest.mark.fast
def test_two_at_one_place_differ_and_what_hands_on_a_slot_hands_on_its_numbers(built):
    block = built(
        "attention: {query: {plain: {norm: none}}, key: {plain: {norm: none}}, entropy: {qk_norm: noisy_norm}}"
    )
    layered = built(
        "attention: {query: {by_layer: {first: {plain: {norm: none}}, others: identity}}, key: {plain: {norm: none}}}"
    )
    here = block.attention
    assert same(numbers(here.query), numbers(layered.attention.query))
    assert not torch.equal(here.query.linear.weight, here.key.linear.weight)
    norms = here.entropy["qk_norm"]
    assert not torch.equal(norms.query.weight, norms.key.weight)


@pytest.mark.fast
def test_in_every_type_they_are_the_same_rounded(built):
    """As constructed, in float32; `initialise` has PyTorch draw in the type of the model, each in its own way."""
    single, double, half = (numbers(built(NOISY, dtype=t)) for t in (torch.float32, torch.float64, torch.bfloat16))
    constructed = [name for name in single if not name.endswith("shift")]
    assert len(constructed) == len(single) - 1 == 5
    assert all(torch.equal(single[name].double(), double[name]) for name in constructed)
    assert all(torch.equal(single[name].bfloat16(), half[name]) for name in constructed)
    assert all(bool(found["plain.norm.shift"].any()) for found in (single, double, half))


@pytest.mark.fast
def test_on_meta_nothing_is_drawn(built):
    before = torch.get_rng_state()
    assert all(value.is_meta for value in numbers(built(NOISY, device="meta")).values())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("written", ["noisy_norm", "plain: {norm: noisy_norm}"])
def test_it_keeps_the_contract(plugin, written):
    class Own(ComponentContract):
        plugins = (plugin,)
        component = written

    Own().check_all()


@pytest.mark.fast
def test_it_is_constructed_on_the_cpu_and_moved_with_what_it_keeps_as_plain_tensors(built, monkeypatch):
    """Meta stands for a GPU here: built where it is to be, nothing would show where its numbers were drawn."""
    from ablate.compiler import compile

    drawn_on = []
    rand = torch.randn
    monkeypatch.setattr(torch, "randn", lambda *n: drawn_on.append(rand(*n).device.type) or rand(*n))
    monkeypatch.setattr(compile, "_building", lambda device: torch.device("cpu"))
    block = built(PLAIN, device="meta")
    assert drawn_on == ["cpu"] and block.plain.seen.is_meta and block.plain.linear.weight.is_meta
