"""Which variants no other beats on every metric at once."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.report.summary import Arm, Metric


def front(arms: Sequence[Arm], metrics: Sequence[Metric]) -> tuple[str, ...]:
    """The ids of the variants that no other is at least as good as on every metric and better than on one, by means.

    Empty where there are fewer than two metrics. Variants without a mean on some metric are neither on it nor beat
    others; noise is not reckoned with, so that being on the front is no verdict.
    """
    if len(metrics) < 2:
        return ()
    signs = [1.0 if metric.better == "lower" else -1.0 for metric in metrics]
    places = {
        arm.variant: [sign * arm.levels[metric.name].mean for sign, metric in zip(signs, metrics, strict=True)]
        for arm in arms
        if all(metric.name in arm.levels for metric in metrics)
    }
    return tuple(id for id, here in places.items() if not any(_beats(other, here) for other in places.values()))


def _beats(other: Sequence[float], here: Sequence[float]) -> bool:
    pairs = list(zip(other, here, strict=True))
    return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)
