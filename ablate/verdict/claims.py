"""Claims: what a space claims before it is run, beside the verdicts and the correlations that were measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ablate import statistics
from ablate.output.words import plural
from ablate.plan.comparisons import FEWEST_ROWS, ClaimStep, claim_steps
from ablate.plan.plan import Comparison
from ablate.space.judge import FORECAST, Expected
from ablate.space.metrics import Better
from ablate.verdict.experiment import Seed, Side
from ablate.verdict.summary import Correlation, Effect, Expectation, ExpectedStep, Judgement

# Claims about comparisons, beside their verdicts.


def expectations(
    claims: Sequence[Expected],
    better: Mapping[str, Better],
    names: Mapping[str, str],
    comparisons: Sequence[Comparison],
    effects: Sequence[Effect],
    correlations: Sequence[Correlation] = (),
) -> tuple[Expectation, ...]:
    """Each claim with its outcome, for the `better` side of each metric and the ids of variants by `names`.

    `correlations` are those that are claimed, in order.
    """
    left = iter(correlations)
    seen = {(effect.metric, _comparison_of(effect)): effect for effect in reversed(effects)}
    return tuple(
        Expectation(
            claim=claim.claim,
            of=claim.about,
            metric=claim.metric,
            verdicts=claim.verdicts,
            steps=_expected_steps(claim_steps(claim, names, comparisons, better[claim.metric]), claim.metric, seen),
            correlation=None if claim.correlation is None else next(left, None),
        )
        for claim in claims
    )


ComparisonOf = tuple[str, str, str, str, str]


def _expected_steps(
    steps: Sequence[ClaimStep], metric: str, seen: Mapping[tuple[str, ComparisonOf], Effect]
) -> tuple[ExpectedStep, ...]:
    pairs = [(step, seen.get((metric, _comparison_of(step.comparison)))) for step in steps]
    whole = [ExpectedStep(verdicts=step.verdicts, effect=effect) for step, effect in pairs if effect is not None]
    return tuple(whole) if len(whole) == len(steps) else ()


def _comparison_of(of: Comparison | Effect) -> ComparisonOf:
    return of.kind, of.change, of.before, of.after, of.terms


# The correlation of two metrics over the variants of a design: within each seed, then tested over seeds.
#
#     ρ_s    Spearman's rank correlation of the two metrics over the variants that have both at seed s
#     test   t over the n values ρ_s, one a seed, against 0
#
# The variants of a design were chosen and are no sample: a correlation over their means, or over all runs at once,
# would pass as more certain than it is. A seed is a sample of what chance does. Ranks do not depend on the scale of a
# metric.

Floats = NDArray[np.float64]


def correlations(
    claims: Sequence[Expected],
    sides: Mapping[str, Side],
    forecasts: Mapping[str, Mapping[str, float]],
    seeds: Sequence[Seed],
    judgements: Sequence[Judgement],
    *,
    looks: int,
) -> tuple[Correlation, ...]:
    """The correlations that a space claims, over the variants `sides` at these seeds, in order.

    They are a family of their own, by Holm, each at the least level of the comparisons on its metric, shared among the
    `looks`. Without verdicts there are numbers and no p.
    """
    levels = {name: None if each.pending else each.least_level for each in judgements for name in each.metrics}
    every = [
        _correlation(
            claim.metric,
            str(claim.correlation),
            list(_values(claim.metric, str(claim.correlation), sides, forecasts)),
            seeds,
            levels.get(claim.metric),
            max(1, looks),
        )
        for claim in claims
        if claim.correlation is not None
    ]
    adjusted = statistics.holm([each.p for each in every])
    return tuple(replace(each, p_adjusted=p) for each, p in zip(every, adjusted, strict=True))


Values = tuple[Mapping[Seed, float], Mapping[Seed, float]]  # the values of the two metrics of one variant, by seed


def _values(
    metric: str, other: str, sides: Mapping[str, Side], forecasts: Mapping[str, Mapping[str, float]]
) -> Iterator[Values]:
    """Yield the values of each variant; a number of its forecast is the same at every seed."""
    for variant, side in sides.items():
        measured = side.values(metric, log=False)
        if not other.startswith(FORECAST):
            yield side.values(other, log=False), measured
            continue
        number = forecasts.get(variant, {}).get(other, math.nan)
        yield dict.fromkeys(measured, number) if math.isfinite(number) else {}, measured


def _correlation(
    metric: str, other: str, values: Sequence[Values], seeds: Sequence[Seed], level: float | None, looks: int
) -> Correlation:
    over_seeds, rows = [], []
    for x, y in _rows(values, seeds):
        rows.append(x.size)
        if x.size >= FEWEST_ROWS and np.ptp(x) > 0 and np.ptp(y) > 0:
            over_seeds.append(spearman(x, y))
    lacking = [number for number in rows if number < len(values)]
    note = f"{plural(len(lacking), 'seed')} of {len(rows)} without all {len(values)} variants" if lacking else ""
    if len(over_seeds) < len(rows):
        note += f"{'; ' if note else ''}{plural(len(rows) - len(over_seeds), 'seed')} with no correlation left out"
    empty = Correlation(
        metric=metric,
        other=other,
        rows=max(rows, default=0),
        n=len(over_seeds),
        over_seeds=tuple(over_seeds),
        mean=float(np.mean(over_seeds)) if over_seeds else None,
        low=None,
        high=None,
        p=None,
        p_adjusted=None,
        level=None if level is None else level / looks,
        note=note,
    )
    if len(over_seeds) < 2 or not level:
        return empty
    test = statistics.of_differences(over_seeds, size=1.0, confidence=1 - level / looks)
    return replace(empty, low=max(-1.0, test.low), high=min(1.0, test.high), p=test.p)


def _rows(values: Sequence[Values], seeds: Sequence[Seed]) -> Iterator[tuple[Floats, Floats]]:
    for seed in seeds:
        both = [(x[seed], y[seed]) for x, y in values if seed in x and seed in y]
        if both:
            table = np.array(both, dtype=np.float64)
            yield table[:, 0], table[:, 1]


def spearman(x: Floats, y: Floats) -> float:
    """Spearman's rank correlation of two lists of numbers, of equal ones the mean rank.

    >>> spearman(np.array([1.0, 2.0, 30.0]), np.array([5.0, 6.0, 7.0]))
    1.0
    """
    ranks = [_ranks(values) for values in (x, y)]
    x, y = (each - each.mean() for each in ranks)
    return float(np.clip((x @ y) / math.sqrt((x @ x) * (y @ y)), -1.0, 1.0))


def _ranks(values: Floats) -> Floats:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: Floats = ((last - count + 1 + last) / 2)[place]
    return ranks
