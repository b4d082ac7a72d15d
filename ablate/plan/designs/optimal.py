"""D-optimal runs: among the candidates, those with the smallest joint uncertainty of the effects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ablate.plan.designs.terms import MEAN, Levels, Term, columns

STARTS = 10
EXCHANGES = 1_000
GAIN = 1e-6
RIDGE = 1e-6


def d_optimal(levels: Levels, terms: Sequence[Term], runs: int, fixed: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the positions of `runs` distinct candidates with the largest |XᵀX| found, with the mean among the terms.

    Candidates that are `fixed` are kept where that costs nothing. Runs are exchanged one at a time, the best exchange
    first (Fedorov 1972), starting from a greedy choice and from random ones, the same each time. Ties go to the earlier
    candidate. Raises ValueError where there are fewer candidates than runs, or fewer runs than terms.
    """
    if not len(terms) + 1 <= runs <= len(levels):
        raise ValueError(f"{runs} runs of {len(levels)} for {len(terms) + 1} terms")
    x = columns(levels, [MEAN, *terms])
    kept = [tuple(fixed[:some]) for some in range(len(fixed), -1, -1)]
    candidates = [_best(x, runs, keep) for keep in kept]
    best = max(logarithm for logarithm, _ in candidates)
    return next(chosen for logarithm, chosen in candidates if logarithm >= best - GAIN * len(x))


def _best(x: Levels, runs: int, keep: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
    """Return the largest log |XᵀX| over all starts, and the rows that have it."""
    rng = np.random.default_rng(0)
    starts = [_grown(x, runs, keep)]
    rest = np.setdiff1d(np.arange(len(x)), keep)
    for _ in range(STARTS):
        starts.append([*keep, *rng.choice(rest, runs - len(keep), replace=False).tolist()])
    candidates = [_exchanged(x, chosen, keep) for chosen in starts]
    best = max(logarithm for logarithm, _ in candidates)
    return best, min(chosen for logarithm, chosen in candidates if logarithm >= best - GAIN)


def _grown(x: Levels, runs: int, keep: tuple[int, ...]) -> list[int]:
    """Choose runs greedily, each the one with the largest prediction variance given those before (Dykstra 1971)."""
    chosen = list(keep)
    inverse = np.linalg.inv(x[chosen].T @ x[chosen] + RIDGE * np.eye(x.shape[1]))
    while len(chosen) < runs:
        variance = np.einsum("ij,jk,ik->i", x, inverse, x)
        variance[chosen] = -np.inf
        chosen.append(int(variance.argmax()))
        inverse = np.linalg.inv(x[chosen].T @ x[chosen] + RIDGE * np.eye(x.shape[1]))
    return chosen


def _exchanged(x: Levels, start: Sequence[int], keep: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
    """Exchange runs for candidates until no exchange increases |XᵀX|."""
    chosen = list(start)
    movable = np.array([run not in keep for run in chosen])
    for _ in range(EXCHANGES if movable.any() else 0):
        gains = _gains(x, chosen)
        gains[~movable] = -np.inf
        gains[:, chosen] = -np.inf
        run, candidate = np.unravel_index(int(gains.argmax()), gains.shape)
        if gains[run, candidate] <= 1 + GAIN:
            break
        chosen[run] = int(candidate)
    sign, logarithm = np.linalg.slogdet(x[chosen].T @ x[chosen])
    return (float(logarithm) if sign > 0 else -np.inf), tuple(sorted(chosen))


def _gains(x: Levels, chosen: Sequence[int]) -> NDArray[np.float64]:
    """Compute by what each exchange multiplies |XᵀX|: (1 + d_j)(1 - d_i) + d_ij², d the variances of predictions."""
    inverse = np.linalg.inv(x[chosen].T @ x[chosen] + RIDGE * np.eye(x.shape[1]))
    within = np.einsum("ij,jk,ik->i", x[chosen], inverse, x[chosen])
    every = np.einsum("ij,jk,ik->i", x, inverse, x)
    gains: NDArray[np.float64] = (1 - within)[:, None] * (1 + every) + (x[chosen] @ inverse @ x.T) ** 2
    return gains
