"""Sweeps of made-up trainings of which the truth is known, all at once: what a family is judged to be, look by look."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtr


def differences(sweeps: int, true: Sequence[float], n: int, *, arms: str, seed: int) -> np.ndarray:
    """[sweeps, comparisons, n] with sd 1 around the true ones; `arms` is how comparisons share theirs.

    `apart`: not at all. `baseline`: one side is the same, which correlates them by ½. `path`: what is after for one is
    before for the next, which correlates neighbours by -½.
    """
    random, m = np.random.default_rng(seed), len(true)
    if arms == "apart":
        noise = random.standard_normal((sweeps, m, n))
    else:
        arm = random.standard_normal((sweeps, m + 1, n)) / np.sqrt(2)
        noise = arm[:, 1:] - (arm[:, :1] if arms == "baseline" else arm[:, :-1])
    return noise + np.asarray(true)[None, :, None]


def p_values(d: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """The p of t for two sides, and that of equivalence."""
    n = d.shape[-1]
    mean, error = d.mean(axis=-1), d.std(axis=-1, ddof=1) / np.sqrt(n)
    return 2 * stdtr(n - 1, -np.abs(mean) / error), stdtr(n - 1, (np.abs(mean) - margin) / error)


def rejected(p: np.ndarray, level: float) -> np.ndarray:
    """Holm's step-down over the last axis: reject the least while it is below level over the number that is left."""
    m = p.shape[-1]
    order = np.argsort(p, axis=-1)
    passed = np.take_along_axis(p, order, axis=-1) < level / np.arange(m, 0, -1)
    passed = np.logical_and.accumulate(passed, axis=-1)
    found = np.zeros_like(passed)
    np.put_along_axis(found, order, passed, axis=-1)
    return found


def false_verdicts(
    looks: Sequence[int],
    levels: Sequence[float],
    true: Sequence[float],
    margin: float,
    *,
    sweeps: int,
    arms: str = "apart",
    seed: int = 0,
) -> float:
    """The share of sweeps with a verdict, at any look, that is false: different at 0, or equivalent at the margin."""
    d = differences(sweeps, true, looks[-1], arms=arms, seed=seed)
    truth = np.abs(np.asarray(true))
    false = np.zeros(sweeps, dtype=bool)
    for n, level in zip(looks, levels, strict=True):
        p, p_equivalent = p_values(d[..., :n], margin)
        false |= (rejected(p, level) & (truth == 0)).any(axis=-1)
        false |= (rejected(p_equivalent, level) & (truth >= margin)).any(axis=-1)
    return float(false.mean())
