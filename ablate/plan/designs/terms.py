"""Effects of edits as columns: what runs can estimate, and which aliases enter an estimate.

A run has level +1 of each edit that is present and -1 of each that is not. The column of a term, a set of edits, is the
product of theirs, and the outcome is sum_t beta_t · column_t. The effect of one edit, the mean difference that it
makes, is 2·beta; that of two, how much the effect of one changes when the other is present, is 4·beta.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Term: TypeAlias = tuple[int, ...]
"""Positions of edits, ascending; without any: the mean."""
Levels: TypeAlias = NDArray[np.float64]
"""A row for each run, a column for each edit, -1 or +1."""

MEAN: Term = ()
TOLERANCE = 1e-9


def mains(edits: int) -> tuple[Term, ...]:
    """Return the terms of single edits."""
    return tuple((edit,) for edit in range(edits))


def pairs(edits: int) -> tuple[Term, ...]:
    """Return the terms of all pairs of edits."""
    return tuple(combinations(range(edits), 2))


def threes(edits: int) -> tuple[Term, ...]:
    """Return the terms of all triples of edits."""
    return tuple(combinations(range(edits), 3))


def columns(levels: Levels, terms: Sequence[Term]) -> Levels:
    """Return the column of each term over the runs."""
    return np.stack([levels[:, list(term)].prod(axis=1) for term in terms], axis=1)


def estimable(levels: Levels, terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return, in order, the terms that are linearly independent of the mean and of those before them."""
    kept: list[Term] = [MEAN]
    for term in terms:
        if int(np.linalg.matrix_rank(columns(levels, [*kept, term]))) == len(kept) + 1:
            kept.append(term)
    return tuple(kept[1:])


def aliases(levels: Levels, terms: Sequence[Term], others: Sequence[Term]) -> tuple[tuple[Term, Term, float], ...]:
    """Return which `others` enter the least-squares estimate of each of `terms`, with a mean, and by what factor.

    E[b1] = beta1 + (X1ᵀX1)⁻¹ X1ᵀX2 · beta2 (Box & Wilson 1951), here in effects: 2·beta for an edit, 4·beta for two.
    """
    if not others:
        return ()
    estimated = [MEAN, *terms]
    matrix = np.linalg.lstsq(columns(levels, estimated), columns(levels, others), rcond=None)[0]
    order = np.array([len(other) for other in others])
    rows = []
    for term, row in zip(terms, matrix[1:], strict=True):
        times = row * 2.0 ** (len(term) - order)
        rows += [
            (term, others[j], round(float(times[j]), 12)) for j in np.flatnonzero(np.abs(times) > TOLERANCE).tolist()
        ]
    return tuple(rows)


def in_estimates(
    levels: Levels, terms: Sequence[Term], *, most: int = 3, factors: Sequence[int] = ()
) -> tuple[tuple[Term, Term, float], ...]:
    """Return the aliases of `terms` among all other effects of at most 2 or 3 (`most`) edits, those of fewer first.

    `factors` are the factors of the columns, where one has several: these are not combined with each other.
    """
    edits = levels.shape[1]
    others = (*mains(edits), *pairs(edits), *(threes(edits) if most > 2 else ()))
    estimated = set(terms)
    apart = [term for term in others if not factors or len({factors[i] for i in term}) == len(term)]
    return aliases(levels, terms, [term for term in apart if term not in estimated])


def d_efficiency(levels: Levels, terms: Sequence[Term]) -> float:
    """Compute |XᵀX|^(1/p) / n with the mean among the p terms: 1 for orthogonal columns, 0 for dependent ones."""
    x = columns(levels, [MEAN, *terms])
    sign, logarithm = np.linalg.slogdet(x.T @ x)
    return float(np.exp(logarithm / x.shape[1]) / len(x)) if sign > 0 else 0.0
