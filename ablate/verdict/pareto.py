"""Which variants no other beats on every metric at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ablate.verdict.pairing import Side, pair
from ablate.verdict.summary import Metric


def front(of: Mapping[str, Side], metrics: Sequence[Metric]) -> tuple[str, ...]:
    """The ids of the variants that no other is at least as good as on every metric and better than on one, by means.

    Two are compared at the seeds that both have, metric by metric, so that none wins by having lost the hard ones; two
    without a seed in common do not beat each other. Empty where there are fewer than two metrics. Variants without a
    value on some metric are neither on it nor beat others; noise is not reckoned with, so that being on the front is no
    verdict.
    """
    if len(metrics) < 2:
        return ()
    valued = [id for id, side in of.items() if all(side.values(metric.name, log=metric.log) for metric in metrics)]
    return tuple(id for id in valued if not any(_beats(of[other], of[id], metrics) for other in valued if other != id))


def _beats(other: Side, here: Side, metrics: Sequence[Metric]) -> bool:
    gains = [_gain(other, here, metric) for metric in metrics]
    known = [gain for gain in gains if gain is not None]
    return len(known) == len(gains) and all(gain >= 0 for gain in known) and any(gain > 0 for gain in known)


def _gain(other: Side, here: Side, metric: Metric) -> float | None:
    """By how much the other is better on average at the seeds of both; by how many times, where ratios are compared."""
    pairs = pair(here, other, metric.name, log=metric.log)
    if not pairs.n:
        return None
    rises = [math.log(y / x) if metric.log else y - x for x, y in zip(pairs.before, pairs.after, strict=True)]
    return math.fsum(rises) / pairs.n * (-1 if metric.better == "lower" else 1)
