"""What a parameter may start from, as papers say it, and whether an array does."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from paper_equations import Array


@dataclass(frozen=True)
class Start:
    """What is said of the numbers, and whether it holds."""

    says: str
    holds: Callable[[Array], bool]


def constant(value: float, *shape: int) -> Start:
    """One number everywhere."""
    return Start(f"{value:g} of shape {shape}", lambda x: x.shape == shape and bool((x == value).all()))


def zeros() -> Start:
    """A matrix of zeros."""
    return Start("zeros", lambda x: x.ndim == 2 and not x.any())


def eye() -> Start:
    return Start("the identity", lambda x: bool((x == np.eye(len(x))).all()))


def normal(std: float) -> Start:
    """By its standard deviation (to 5 %, of 4,096 entries or more) and its tails, which no uniform one has."""

    def holds(x: Array) -> bool:
        return x.ndim == 2 and x.size >= 4096 and close(x.std(), std) and abs(x).max() > 2.5 * std

    return Start(f"normal({std:g})", holds)


def uniform(bound: float) -> Start:
    """Up to the bound and not beyond."""

    def holds(x: Array) -> bool:
        within = 0.99 * bound < abs(x).max() <= bound
        return x.ndim == 2 and x.size >= 4096 and within and close(x.std(), bound / math.sqrt(3))

    return Start(f"uniform({bound:g})", holds)


def orthogonal(gain: float = 1.0) -> Start:
    """Of lengths kept, and scaled by √(d_out / d_in) where the map widens (Martens et al. 2021, arXiv:2110.01765)."""

    def holds(x: Array) -> bool:
        d_out, d_in = x.shape
        gram = x.T @ x if d_out >= d_in else x @ x.T
        scale = gain**2 * max(d_out / d_in, 1.0)
        return bool(np.abs(gram - scale * np.eye(len(gram))).max() < 1e-10) and bool(np.count_nonzero(x) == x.size)

    return Start(f"orthogonal({gain:g})", holds)


def close(seen: float, wanted: float) -> bool:
    return bool(abs(seen / wanted - 1) < 0.05)


def xavier_bound(d_in: int, d_out: int, gain: float = 1.0) -> float:
    """Glorot & Bengio 2010, Eq. 16."""
    return gain * math.sqrt(6 / (d_in + d_out))


def weights(**starts: Start) -> dict[str, Start]:
    """Of attention's weights and the MLP's: `query=zeros()` is `attention.query.weight`."""
    parts = {"up": "mlp", "gate": "mlp", "down": "mlp"}
    return {f"{parts.get(name, 'attention')}.{name}.weight": start for name, start in starts.items()}


def same(start: Start, *names: str) -> dict[str, Start]:
    """One start for several weights."""
    return weights(**dict.fromkeys(names, start))


ALL = ("query", "key", "value", "projection", "up", "down")


def rms(width: int, *names: str) -> dict[str, Start]:
    """The gains of RMSNorms."""
    return {f"{name}.scale": constant(1, width) for name in names}


def layer(width: int, *names: str) -> dict[str, Start]:
    """The gains and shifts of LayerNorms."""
    return rms(width, *names) | {f"{name}.bias": constant(0, width) for name in names}
