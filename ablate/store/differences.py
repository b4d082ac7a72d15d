"""Paired differences from a baseline over training: seed by seed, at every measured step.

    d(seed) = y_variant(seed) - y_baseline(seed), or log(y_variant / y_baseline) on the log scale

for seeds where both have a finite value at that step (above zero where logarithms are taken).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeAlias

from ablate.store.pages import CURVE_STEPS, TRIALS, thinned
from ablate.store.query import asking

Over: TypeAlias = Literal["mean", "largest"]
"""How a seed's values are combined where a metric is measured at several parts of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceCurve:
    """A variant's differences in a metric against the step: mean and sd over `n` seeds, of logarithms if `log`.

    `over` says how a seed's values are combined over parts. `measured` is the number of steps it was measured at.
    """

    variant: str
    metric: str
    over: Over
    log: bool
    steps: tuple[int, ...]
    n: tuple[int, ...]
    mean: tuple[float, ...]
    sd: tuple[float | None, ...]
    measured: int


def differences(
    folder: Path, trials: Mapping[str, str], baseline: str, metrics: Sequence[tuple[str, Over, bool]]
) -> tuple[DifferenceCurve, ...]:
    """Compute the difference curves of trials (id → variant's id) in each of `metrics`: its name, how parts are
    combined, and whether of logarithms. InputError without results.
    """
    made = []
    with asking(folder) as ask:
        for metric, over, log in metrics:
            values = {
                "trials": list(trials), "variants": list(trials.values()), "baseline": baseline, "metric": metric,
                "most": CURVE_STEPS, "largest": over == "largest", "log": log,
            }  # fmt: skip
            for variant, group in groupby(ask(_SQL, values).rows, key=lambda row: row[0]):
                _, steps, n, mean, sd, measured = zip(*group, strict=True)
                course = DifferenceCurve(
                    variant=variant,
                    metric=metric,
                    over=over,
                    log=log,
                    steps=steps,
                    n=n,
                    mean=mean,
                    sd=sd,
                    measured=measured[0],
                )
                made.append(course)
    return tuple(made)


_SQL = f"""
WITH {TRIALS},
each AS (
    SELECT a.variant, t.seed, x.step,
        coalesce(
            max(x.value) FILTER (x.address = ''),
            CASE WHEN $largest THEN max(x.value) ELSE avg(x.value ORDER BY x.address) END
        ) AS value
    FROM metrics x JOIN requested a USING (trial_id) JOIN trials t USING (trial_id)
    WHERE x.metric = $metric
    GROUP BY a.variant, t.seed, x.step
),
pairs AS (
    SELECT e.variant, e.seed, e.step,
        CASE WHEN $log THEN CASE WHEN e.value > 0 AND b.value > 0 THEN ln(e.value / b.value) END
            ELSE e.value - b.value END AS value
    FROM each e JOIN each b USING (seed, step)
    WHERE b.variant = $baseline AND e.variant <> $baseline AND isfinite(e.value) AND isfinite(b.value)
),
{thinned("pairs", "variant")}
SELECT variant, step, count(value), avg(value ORDER BY seed), stddev_samp(value ORDER BY seed), any_value(measured)
FROM pairs JOIN kept USING (variant, step)
WHERE value IS NOT NULL
GROUP BY variant, step ORDER BY variant, step
"""
