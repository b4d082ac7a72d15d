"""The Pareto front: the variants that no other variant dominates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ablate.statistics.magnitude import log_ratio
from ablate.verdict.pairing import Side, pair
from ablate.verdict.summary import Metric


def front(of: Mapping[str, Side], metrics: Sequence[Metric]) -> tuple[str, ...]:
    """Return the ids of the variants on the Pareto front by means: no other is at least as good on every metric that
    has a better side, and better on one.

    Two variants are compared at the seeds that both have, metric by metric, so that none wins by having lost the hard
    ones; without a common seed neither dominates the other. Empty where there are fewer than two such metrics. Variants
    without a value on some of them are not on the front and dominate none. Noise is ignored, so being on the front is
    not a verdict.
    """
    metrics = [metric for metric in metrics if metric.better != "none"]
    if len(metrics) < 2:
        return ()
    valued = [id for id, side in of.items() if all(side.values(metric.name, log=metric.log) for metric in metrics)]
    return tuple(id for id in valued if not any(_beats(of[other], of[id], metrics) for other in valued if other != id))


def _beats(other: Side, here: Side, metrics: Sequence[Metric]) -> bool:
    gains = [_gain(other, here, metric) for metric in metrics]
    known = [gain for gain in gains if gain is not None]
    return len(known) == len(gains) and all(gain >= 0 for gain in known) and any(gain > 0 for gain in known)


def _gain(other: Side, here: Side, metric: Metric) -> float | None:
    """Return how much better the other is on average over common seeds; the mean log ratio on the log scale."""
    pairs = pair(here, other, metric.name, log=metric.log)
    if not pairs.n:
        return None
    rises = [log_ratio(x, y) if metric.log else y - x for x, y in zip(pairs.before, pairs.after, strict=True)]
    return math.fsum(rises) / pairs.n * (-1 if metric.better == "lower" else 1)
