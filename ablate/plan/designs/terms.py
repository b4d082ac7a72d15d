"""Effects of edits as columns: what runs can estimate, and what else is in an estimate.

A run has level +1 of each edit that is there and -1 of each that is not. The column of a term, a set of edits, is the
product of theirs, and the outcome is sum_t beta_t · column_t. The effect of one edit, the mean difference that it
makes, is 2·beta; of two, how much more the one does where the other is there than where it is not, 4·beta.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Term: TypeAlias = tuple[int, ...]
"""Positions of edits, ascending; of none: the mean."""
Levels: TypeAlias = NDArray[np.float64]
"""A row for each run, a column for each edit, -1 or +1."""

MEAN: Term = ()
TOLERANCE = 1e-9


def mains(edits: int) -> tuple[Term, ...]:
    """Each edit alone."""
    return tuple((edit,) for edit in range(edits))


def pairs(edits: int) -> tuple[Term, ...]:
    """Every two edits."""
    return tuple(combinations(range(edits), 2))


def columns(levels: Levels, terms: Sequence[Term]) -> Levels:
    """The column of each term over the runs."""
    return np.stack([levels[:, list(term)].prod(axis=1) for term in terms], axis=1)


def estimable(levels: Levels, terms: Sequence[Term]) -> tuple[Term, ...]:
    """The terms that can be told apart, with the mean, from those before them; in their order."""
    kept: list[Term] = [MEAN]
    for term in terms:
        if int(np.linalg.matrix_rank(columns(levels, [*kept, term]))) == len(kept) + 1:
            kept.append(term)
    return tuple(kept[1:])


def aliases(levels: Levels, terms: Sequence[Term], others: Sequence[Term]) -> tuple[tuple[Term, Term, float], ...]:
    """Of each of `terms`, estimated by least squares beside the mean, which `others` are in its estimate, how often.

    E[b1] = beta1 + (X1ᵀX1)⁻¹ X1ᵀX2 · beta2 (Box & Wilson 1951), here in effects: 2·beta of an edit, 4·beta of two.
    """
    if not others:
        return ()
    estimated = [MEAN, *terms]
    matrix = np.linalg.lstsq(columns(levels, estimated), columns(levels, others), rcond=None)[0]
    found = []
    for i, term in enumerate(estimated[1:], start=1):
        for j, other in enumerate(others):
            times = float(matrix[i, j]) * 2 ** (len(term) - len(other))
            if abs(times) > TOLERANCE:
                found.append((term, other, round(times, 12)))
    return tuple(found)


def d_efficiency(levels: Levels, terms: Sequence[Term]) -> float:
    """|XᵀX|^(1/p) / n with the mean among the p terms: 1 where all columns are orthogonal, 0 where some depend."""
    x = columns(levels, [MEAN, *terms])
    sign, logarithm = np.linalg.slogdet(x.T @ x)
    return float(np.exp(logarithm / x.shape[1]) / len(x)) if sign > 0 else 0.0
