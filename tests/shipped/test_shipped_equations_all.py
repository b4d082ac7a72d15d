"""Every named block has an equation of its paper beside it, and no block passes for another."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import test_shipped_equations_dslm as dslm
import test_shipped_equations_espa as espa
import test_shipped_equations_modern as modern
import test_shipped_equations_outlier as outlier
import test_shipped_equations_prior as prior
import test_shipped_equations_simplify as simplify
from paper_equations import Weights, attention_matrix
from paper_fixtures import SIGNALS, block_at, depth_of, disturb, is_written, numbers_of, place_of, sizes_of, started
from paper_starts import normal, uniform
from reading import decoders, transformer

GRAMMAR = transformer()
BLOCKS = {name: written for paper in (simplify, outlier, espa, prior, dslm) for name, written in paper.BLOCKS.items()}
WITHOUT_EQUATION = dict.fromkeys(modern.BLOCKS, "its layers differ or read each other: a model of it has equations")
WITHOUT_EQUATION |= dict.fromkeys(
    set(GRAMMAR.blocks) - set(decoders()), "it reads an encoder: a model of both has equations, in compiler/"
)
"""Named blocks that no equation of one layer can be written for, and why."""
ALIKE = (
    {"pre_ln", "bamboo"},  # one block of two names
    {
        "simplify_eq6_orthogonal",
        "simplify_eq6_tied",
        "simplify_eq6_tied_last",
    },  # what is fixed differs: see simplify_start
)
"""Blocks of one equation and one start of all that is trained."""


def without_equation(names: Iterable[str]) -> set[str]:
    return set(names) - set(BLOCKS) - set(WITHOUT_EQUATION)


def test_every_named_block_has_an_equation():
    assert without_equation(GRAMMAR.blocks) == set()
    assert set(BLOCKS) | set(WITHOUT_EQUATION) == set(GRAMMAR.blocks)
    assert without_equation((*GRAMMAR.blocks, "a_new_block")) == {"a_new_block"}


@pytest.mark.sampled(8, gate="all")
@pytest.mark.parametrize("name", BLOCKS)
def test_no_block_is_what_is_written_of_another(name):
    """So each comparison can fail: of all that is written, a block is one."""
    passes_for = {other for other, written in BLOCKS.items() if is_written(name, written)}
    assert passes_for == next((alike for alike in ALIKE if name in alike), {name})


@pytest.mark.parametrize("name", BLOCKS)
def test_a_small_change_of_any_number_is_seen(name):
    """One entry of a parameter, by a thousandth: every parameter counts, and to more digits than are compared."""
    sizes = sizes_of(depth_of(name))
    at, module = place_of(sizes, 1), block_at(GRAMMAR.block(name), sizes, 1, BLOCKS[name].init)
    disturb(module, 1)
    numbers = numbers_of(module)
    whole = BLOCKS[name].output(SIGNALS[0], Weights(numbers), at)
    for address, value in numbers.items():
        if address == "attention.key.bias":  # it moves all scores of a query alike
            continue
        changed = value.copy()
        changed.flat[0] += 1e-3
        other = BLOCKS[name].output(SIGNALS[0], Weights(numbers | {address: changed}), at)
        assert np.abs(other - whole).max() > 1e-8 * np.abs(whole).max(), address


@pytest.mark.parametrize("name", BLOCKS)
def test_a_wrong_start_is_seen(name):
    """Of numbers a tenth too large, none is what its paper says."""
    written = BLOCKS[name]
    starts = written.starts(place_of(sizes_of(depth_of(name), 64), 1))
    module = started(name, 1, written.init)
    for address, value in module.named_parameters():
        numbers = value.detach().numpy()
        assert starts[address].holds(numbers) and not starts[address].holds(1.1 * numbers + 1e-3), address


def test_normal_and_uniform_numbers_of_one_variance_are_told_apart():
    random = np.random.default_rng(0)
    gaussian, flat = random.normal(size=(64, 64)), random.uniform(-np.sqrt(3), np.sqrt(3), size=(64, 64))
    assert normal(1).holds(gaussian) and not normal(1).holds(flat)
    assert uniform(np.sqrt(3)).holds(flat) and not uniform(np.sqrt(3)).holds(gaussian)


def test_attention_of_the_equations_sees_the_past_alone():
    sizes = sizes_of(6)
    weights = Weights(numbers_of(block_at(GRAMMAR.block("pre_ln"), sizes, 1, "fan_in: {gain: 1}")))
    a = attention_matrix(SIGNALS[1], weights, place_of(sizes, 1))
    assert np.allclose(a.sum(-1), 1) and not np.triu(a, 1).any()
