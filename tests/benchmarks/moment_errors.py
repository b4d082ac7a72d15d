"""How far the closed forms of each component are from simulations of it, as a page beside Table 21 of the paper.

    PYTHONPATH=tests/support python tests/benchmarks/moment_errors.py results/bench/2026-11-30-moment_errors.md

Ranges, settings and what an error is: `tests/support/simulated_moments.py`. Two channels of one token (Table 19) are
those behind each component for channels that are correlated in front of it, at the width of 256, over `TOKENS` tokens.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from scipy.special import erf
from simulated_moments import BACKWARD, FORWARD, PERCENTILES, PUBLISHED, SETTINGS, SIMULATED, percentiles

from ablate.signal.moments import Moments, dropout, gelu, relu
from ablate.store.machines import installed

WORDS = {
    "mean": "mean",
    "variance": "variance",
    "covariance": "covariance of two tokens",
    "grad_variance": "gradient: variance",
    "grad_covariance": "gradient: covariance of two tokens",
}
WIDTH, TOKENS = 256, 20_000
IN_FRONT = (0.0, 0.3, 0.8)
"""Correlations of two channels in front of a component."""

Random = np.random.Generator


def errors() -> Iterator[str]:
    """Yield the rows of the table of errors: found / published at each percentile."""
    for component in SIMULATED:
        found = percentiles(component, SETTINGS)
        for column in (*FORWARD, *BACKWARD):
            if column in PUBLISHED[component]:
                cells = (f"{q:.2f} / {p:g}" for q, p in zip(found[column], PUBLISHED[component][column], strict=True))
                yield f"| {component.replace('_', ' ')} | {WORDS[column]} | {' | '.join(cells)} |"


def drawn(random: Random, r: float) -> np.ndarray:
    """Return tokens whose channels are correlated by r, [tokens, channels], of mean 0 and variance 1."""
    common, own = random.normal(size=(TOKENS, 1)), random.normal(size=(TOKENS, WIDTH))
    return math.sqrt(r) * common + math.sqrt(1 - r) * own


def correlation(y: np.ndarray) -> float:
    """Return the mean correlation of two channels over tokens."""
    y = y - y.mean()
    square = float((y**2).sum())
    return (float((y.sum(1) ** 2).sum()) - square) / (y.shape[1] - 1) / square


def normalised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


MAPS: dict[str, tuple[Callable[[float], float], Callable[[np.ndarray, Random], np.ndarray]]] = {
    "linear": (lambda r: 0.0, lambda x, random: _each_its_weights(x, random)),
    "relu": (lambda r: relu(Moments(1.0, r)).correlation, lambda x, random: np.maximum(x, 0)),
    "gelu": (lambda r: gelu(Moments(1.0, r)).correlation, lambda x, random: x / 2 * (1 + erf(x / math.sqrt(2)))),
    "dropout, p = 0.1": (
        lambda r: dropout(Moments(1.0, r), 0.1).correlation,
        lambda x, random: x * (random.random(x.shape) >= 0.1) / 0.9,
    ),
    "layer norm": (lambda r: -1 / (WIDTH - 1), lambda x, random: normalised(x)),
}
"""For each component the correlation of two channels behind it by its closed form, and what it does to tokens."""


def _each_its_weights(x: np.ndarray, random: Random) -> np.ndarray:
    """Return what 50 draws of weights make of the tokens, each of as many of them."""
    parts = np.array_split(x, 50)
    return np.concatenate([part @ random.normal(size=(WIDTH, WIDTH)) / math.sqrt(WIDTH) for part in parts])


def channels() -> Iterator[str]:
    """Yield the rows of the table of two channels: closed form / simulated, at each correlation in front."""
    for name, (form, act) in MAPS.items():
        random = np.random.default_rng(0)
        cells = (f"{form(r):.4f} / {correlation(act(drawn(random, r), random)):.4f}" for r in IN_FRONT)
        yield f"| {name} | {' | '.join(cells)} |"


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    began = time.monotonic()
    shown = ", ".join(f"{name} {version}" for name, version in installed().items() if name in ("python", "ablate"))
    yield "# Errors of closed forms"
    yield ""
    yield f"{datetime.now(UTC):%Y-%m-%d}, CPU, {shown}. `tests/benchmarks/moment_errors.py`."
    yield ""
    yield (
        f"Each closed form (`ablate/signal/moments.py`) against {SETTINGS} simulations of its component, over ranges "
        "chosen before (`tests/support/simulated_moments.py`): the absolute error in per cent, that of a mean over the "
        "standard deviation; found / published (Kedia et al. 2024, arXiv:2403.09635, Table 21, whose ranges are not "
        "known). Noise of the simulation is part of what is found."
    )
    yield ""
    yield f"| component | moment | {' | '.join(f'{p} %' for p in PERCENTILES)} |"
    yield f"|---|---|{'---|' * len(PERCENTILES)}"
    yield from errors()
    yield ""
    yield (
        f"## Two channels of one token\n\nThe correlation of two of {WIDTH} channels behind each component (Table 19), "
        f"for one in front of it: closed form / simulated over {TOKENS:,} tokens."
    )
    yield ""
    yield f"| component | {' | '.join(f'{r:g} in front' for r in IN_FRONT)} |"
    yield f"|---|{'---|' * len(IN_FRONT)}"
    yield from channels()
    yield ""
    yield f"{time.monotonic() - began:.0f} s."


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.parse_args().page.write_text("\n".join(page()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
