"""The judge's answers computed once more, of many tables at once, from the definitions and with SciPy alone.

Every question of a design is a weighted sum over its variants, seed by seed: contrasts [questions, variants].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ablate.plan.plan import Plan

Floats = NDArray[np.float64]

FIRST = 0.8 * 0.05
"""The level of a first judgement: a fifth of α is kept for judging again."""


def contrasts(plan: Plan) -> Floats:
    """What each comparison of a plan sums up [comparisons, variants], least squares of a factorial by `lstsq`."""
    row = {variant.id: i for i, variant in enumerate(plan.variants)}
    factors = dict(plan.factors)
    found = np.zeros((len(plan.comparisons), len(row)))
    for weights, asked in zip(found, plan.comparisons, strict=True):
        if asked.weights:
            for variant, weight in asked.weights:
                weights[row[variant]] += weight
        elif asked.before:
            weights[row[asked.after]] += 1
            weights[row[asked.before]] -= 1
        else:
            design = factors[asked.terms]
            runs = dict(reversed(design.runs))
            levels = np.array(list(runs.values()), dtype=np.float64)
            x = np.array([[np.prod([run[design.edits.index(e)] for e in effect]) for effect in design.effects]
                          for run in levels])  # fmt: skip
            betas = np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), np.eye(len(x)), rcond=None)[0][1:]
            place = [" × ".join(effect) for effect in design.effects].index(asked.change)
            weights[[row[variant] for variant in runs]] = 2.0 ** len(design.effects[place]) * betas[place]
    return found


def distinct(sums: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first of all rows that are the same but for their sign, and which of these each row is."""
    signs = np.sign(sums[np.arange(len(sums)), np.argmax(np.abs(sums) > 1e-9, axis=1)])
    _, first, which = np.unique(np.round(sums * signs[:, None], 9), axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


@dataclass(frozen=True)
class Answers:
    """Of each table and comparison [tables, comparisons], named as `Effect` names them."""

    estimate: Floats
    low: Floats
    high: Floats
    tost_low: Floats
    tost_high: Floats
    p: Floats
    p_adjusted: Floats
    p_equivalent: Floats
    p_equivalent_adjusted: Floats
    verdict: NDArray[np.str_]

    @property
    def false(self) -> NDArray[np.bool_]:
        """Whether a table has any better or worse."""
        return np.isin(self.verdict, ["better", "worse"]).any(axis=1)


def answers(
    plan: Plan, values: Floats, *, margin: float = math.nan, level: float = FIRST, only_t: bool = False
) -> Answers:
    """What the judge ought to find in tables of values [tables, variants, seeds], lower being better.

    p by t; where 16·2^(1-n) is below the family's first level, by all flips of the signs of n seeds, unless `only_t`.
    """
    sums = contrasts(plan)
    first, which = distinct(sums)
    d = np.einsum("qv,tvs->tqs", sums, values)
    n = d.shape[-1]
    mean, error = d.mean(axis=-1), d.std(axis=-1, ddof=1) / math.sqrt(n)
    t = stats.t(n - 1)
    p = flips(d) if not only_t and 16 * 2.0 ** (1 - n) < level / len(first) else 2 * t.sf(np.abs(mean) / error)
    inside = t.sf((margin - np.abs(mean)) / error)
    adjusted = holm(p[:, first])[:, which]
    inside_adjusted = holm(inside[:, first])[:, which]
    verdict = np.where(mean < 0, "better", "worse").astype("<U10")
    verdict[~(adjusted < level)] = "undecided"
    verdict[inside_adjusted < level] = "equivalent"
    return Answers(
        estimate=mean,
        low=mean - t.isf(0.025) * error,
        high=mean + t.isf(0.025) * error,
        tost_low=mean - t.isf(0.05) * error,
        tost_high=mean + t.isf(0.05) * error,
        p=p,
        p_adjusted=adjusted,
        p_equivalent=inside,
        p_equivalent_adjusted=inside_adjusted,
        verdict=verdict,
    )


def flips(d: Floats) -> Floats:
    """The share of all signs of the seeds with a sum as far from 0 as there is."""
    signs = np.array(list(product([1.0, -1.0], repeat=d.shape[-1])))
    reached = np.abs(d.sum(axis=-1)) - 1e-9 * np.abs(d).sum(axis=-1)
    return np.array([[(np.abs(signs @ one) >= least).mean() for one, least in zip(table, leasts, strict=True)]
                     for table, leasts in zip(d, reached, strict=True)])  # fmt: skip


def holm(p: Floats) -> Floats:
    """Holm's adjusted p of each row."""
    order = np.argsort(p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1) * (p.shape[1] - np.arange(p.shape[1]))
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(np.maximum.accumulate(ranked, axis=1), 1), axis=1)
    return adjusted


def pooled_p(plan: Plan, values: Floats) -> Floats:
    """p of a factorial's effects [tables, effects] against one error for all: runs by seeds, less the means of both.

    The twin, which promises too much where an edit's effect varies over seeds.
    """
    ((_, design),) = plan.factors
    row = {variant.id: i for i, variant in enumerate(plan.variants)}
    runs = dict(reversed(design.runs))
    x = np.array([[np.prod([run[design.edits.index(e)] for e in effect]) for effect in design.effects]
                  for run in runs.values()])  # fmt: skip
    y = values[:, [row[run] for run in runs]]
    left = y - y.mean(axis=1, keepdims=True) - y.mean(axis=2, keepdims=True) + y.mean(axis=(1, 2), keepdims=True)
    df = (y.shape[1] - 1) * (y.shape[2] - 1)
    variance = (left**2).sum(axis=(1, 2)) / df
    x = x - x.mean(axis=0)
    means = y.mean(axis=2)
    betas = (means - means.mean(axis=1, keepdims=True)) @ np.linalg.pinv(x).T
    shares = np.linalg.inv(x.T @ x).diagonal() / y.shape[2]
    found: Floats = 2 * stats.t(df).sf(np.abs(betas) / np.sqrt(variance[:, None] * shares))
    return found
