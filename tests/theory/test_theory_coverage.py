"""How often sampled starts lie within the interval that `ablate forecast` prints: named and derived blocks.

Forecasts and starts are those of the verb itself, with `--samples`: it knows nothing of the tokens that a start reads.
"""

from __future__ import annotations

import random
import time
from collections.abc import Container
from dataclasses import replace

import numpy as np
import pytest
from reading import transformer

from ablate.block.cross import reads_encoder
from ablate.block.expression import Block
from ablate.errors import InputError
from ablate.report.screens.block import DISPLAY
from ablate.session.forecasting import Forecasts, forecast_block
from ablate.theory.dangers import dangers

GRAMMAR = transformer()
QUANTITIES = ("size", "cosine", "gradient")
VOCABULARY = 1024
"""Rows of the embedding and of the head. Tokens that repeat as often as the verb has them are of 20 kinds."""


class Within:
    """Where samples lie in the intervals of their forecast, -1 at the lower end and 1 at the upper, by block."""

    def __init__(self) -> None:
        self.places: dict[str, np.ndarray] = {}
        self.widths: dict[str, np.ndarray] = {}
        self.in_danger: set[str] = set()
        self.refused: dict[str, str] = {}
        self.began = time.monotonic()

    def add(self, name: str, block: Block, width: int, layers: int, starts: int, length: int = 128) -> None:
        """Forecast a block as the verb does, and sample it so many times."""
        sizes = replace(
            DISPLAY, n_layers=layers, d_model=width, n_heads=width // 64, seq_len=length, vocab_size=VOCABULARY
        )
        try:
            made = forecast_block(name, block, sizes, GRAMMAR.catalogue, samples=starts)
        except InputError as error:
            self.refused[name] = str(error)
            return
        for model in made.models:  # of a block that reads an encoder both stacks
            self._keep(model, made, length)

    def _keep(self, name: str, made: Forecasts, length: int) -> None:
        ends = np.array([stream.intervals() for stream in made.models[name].streams])
        drawn = np.array([[stream.shown() for stream in start.streams] for start in made.sampled[name]])
        ends, drawn = _unbounded(ends, length), _unbounded(drawn, length)
        with np.errstate(all="ignore"):
            places = (2 * drawn - ends[..., 1] - ends[..., 0]) / (ends[..., 1] - ends[..., 0])
        places[:, -1, 2] = np.nan  # the gradient behind the last layer is 1 by definition
        self.places[name] = places
        if dangers(made.models[name]):
            self.in_danger.add(name)
        self.widths[name] = np.array([_half_widths(stream.intervals()) for stream in made.models[name].streams])

    @property
    def inside(self) -> dict[str, np.ndarray]:
        """The share of layers within, of each quantity, by block."""
        return {name: _share(np.abs(places) <= 1, places) for name, places in self.places.items()}

    def over_all(self) -> np.ndarray:
        """The share of layers within, of each quantity, over all blocks."""
        places = np.concatenate([each.reshape(-1, 3) for each in self.places.values()])
        return _share(np.abs(places) <= 1, places)

    def above(self) -> np.ndarray:
        """The share of layers in which the sample is above the middle of the interval."""
        places = np.concatenate([each.reshape(-1, 3) for each in self.places.values()])
        return _share(places > 0, places)

    def half_widths(self, *, without: Container[str] = ()) -> np.ndarray:
        """The median half-widths: of size² and gradient² relative, of the cosine absolute; of blocks but for some."""
        return np.nanmedian(np.concatenate([each for name, each in self.widths.items() if name not in without]), axis=0)

    def outside(self, least: float = 0.85) -> dict[str, str]:
        """The blocks of which fewer layers than that lie within, in some quantity."""
        return {name: _words(inside) for name, inside in self.inside.items() if (inside < least).any()}

    def told(self) -> str:
        """The account of all of it, with the time that it took."""
        return "\n".join(
            [
                f"{len(self.places)} blocks, {len(self.refused)} refused, {time.monotonic() - self.began:.0f} s",
                f"within: {_words(self.over_all())}; above the middle: {_words(self.above())}",
                f"half-widths: {_words(self.half_widths())}",
                f"but for {len(self.in_danger)} in danger: {_words(self.half_widths(without=self.in_danger))}",
                *(f"{name}: {inside}" for name, inside in self.outside().items()),
            ]
        )


def _unbounded(values: np.ndarray, length: int) -> np.ndarray:
    """Logarithms of sizes and gradients, and of the odds of cosines; ends have their own axis, the last."""
    least, axis = -1 / (length - 1), -2 if values.shape[-1] == 2 else -1
    size, cosine, gradient = (values.take(k, axis=axis) for k in range(3))
    with np.errstate(all="ignore"):
        odds = np.log(np.maximum(cosine - least, 1e-12) / np.maximum(1 - cosine, 1e-12))
        return np.stack([np.log(size), odds, np.log(gradient)], axis=axis)


def _half_widths(ends: tuple[tuple[float, float], ...]) -> tuple[float, float, float]:
    (low, high), (least, most), (small, large) = ends
    return (high / low - 1 if low else np.nan), (most - least) / 2, (large / small - 1 if small else np.nan)


def _share(holds: np.ndarray, places: np.ndarray) -> np.ndarray:
    flat = np.where(np.isnan(places), np.nan, holds).reshape(-1, 3)
    return np.nanmean(flat, axis=0)


def _words(numbers: np.ndarray) -> str:
    return ", ".join(f"{name} {number:.3f}" for name, number in zip(QUANTITIES, numbers, strict=True))


def derived(count: int, width: int, layers: int, starts: int, length: int = 128) -> Within:
    within = Within()
    for k in range(count):
        within.add(f"derivation {k}", GRAMMAR.sample(random.Random(k)), width, layers, starts, length)
    return within


def named(width: int, layers: int, starts: int, *names: str) -> Within:
    within = Within()
    for name in names or sorted(GRAMMAR.blocks):
        within.add(name, GRAMMAR.blocks[name].block, width, layers, starts)
    return within


@pytest.mark.full
def test_derivations_of_the_grammar_agree_with_their_forecast():
    within = derived(16, 256, 3, 1, length=24)
    assert (within.over_all() >= 0.95).all(), within.told()
    assert not within.refused


@pytest.mark.full
def test_both_stacks_of_blocks_with_cross_attention_agree_with_their_forecast():
    """Encoders see the tokens behind too, and DeepScaleLM has dropout.

    The interval of a decoder's gradient is too narrow where tokens are few and alike: norms divide it by the size of
    what is read from the encoder, of which it does not know how that varies.
    """
    names = [name for name, known in GRAMMAR.blocks.items() if reads_encoder(known.block)]
    within = Within()
    for name in names:
        within.add(name, GRAMMAR.blocks[name].block, 256, 3, 4, length=24)
    assert not within.refused and len(within.places) == 2 * len(names) == 8
    size, cosine, gradient = within.over_all()
    assert min(size, cosine) >= 0.95 and gradient >= 0.8, within.told()
    encoders = {name: inside for name, inside in within.inside.items() if name.endswith(", encoder")}
    assert len(encoders) == len(names) and np.mean(list(encoders.values())) >= 0.95, within.told()


SAMPLED = (4, 5, 10, 11, 12, 13, 19, 20, 26, 28, 29, 32)
"""Derivations with random relative positions, or scores of a standard deviation above 4, in some layer."""


@pytest.mark.full
def test_derivations_whose_attention_is_sampled_agree_with_their_forecast():
    within = Within()
    for k in SAMPLED:
        within.add(f"derivation {k}", GRAMMAR.sample(random.Random(k)), 256, 3, 1, length=24)
    assert (within.over_all() >= 0.95).all(), within.told()
    assert not within.refused


@pytest.mark.slow
@pytest.mark.parametrize("width", [512, 1024])
def test_named_blocks_agree_with_what_the_verb_prints(width):
    within = named(width, 4, 16)
    print(within.told())
    assert (within.over_all() >= 0.95).all(), within.told()
    assert len(within.outside()) <= 3, within.told()
    size, cosine, gradient = within.half_widths()
    assert size <= 0.15
    assert cosine <= 0.08
    assert gradient <= 0.25


@pytest.mark.slow
def test_named_blocks_of_48_layers_agree_with_what_the_verb_prints():
    within = named(512, 48, 4)
    print(within.told())
    assert (within.over_all() >= 0.95).all(), within.told()
    size, _, gradient = within.half_widths(without=within.in_danger)
    assert max(size, gradient) <= 0.4, within.told()


@pytest.mark.slow
def test_derived_blocks_lie_on_both_sides_of_the_middle_of_their_interval():
    within = derived(50, 512, 4, 8)  # weights of one name are the same in all blocks of a start: one alone lies aside
    print(within.told())
    assert (within.over_all() >= 0.95).all(), within.told()
    assert ((within.above() >= 0.25) & (within.above() <= 0.75)).all(), within.told()


def test_blocks_in_danger_are_told_from_those_that_are_not():
    within = Within()
    for name in ("pre_ln", "skipless"):
        within.add(name, GRAMMAR.blocks[name].block, 64, 8, 1, length=16)
    assert within.in_danger == {"skipless"}
    assert (within.half_widths(without={"skipless"}) == np.nanmedian(within.widths["pre_ln"], axis=0)).all()


def test_intervals_that_are_too_narrow_are_found_out():
    within = derived(4, 256, 3, 1, length=24)
    within.places = {name: 3 * places for name, places in within.places.items()}
    assert not (within.over_all() >= 0.95).all()
