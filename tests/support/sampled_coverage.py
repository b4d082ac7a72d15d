"""How often sampled starts lie within the intervals of their forecast, block by block.

Forecasts and starts are those of `ablate forecast BLOCK --samples`: it knows nothing of the tokens that a start reads.
"""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import replace

import numpy as np
from reading import transformer

from ablate.block.expression import Block
from ablate.errors import InputError
from ablate.report.screens.block import DISPLAY
from ablate.session.forecasting import Forecasts, forecast_block
from ablate.theory.diagnostics import dangers

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
