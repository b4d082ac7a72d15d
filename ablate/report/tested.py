"""What the data say of one question on one metric, before any correction for how many are asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ablate import statistics
from ablate.report import seeds
from ablate.report.pairing import Pairs, Side, align
from ablate.report.summary import Method, Metric
from ablate.statistics import Paired


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """How a test is made: the `confidence` of its intervals, the `level` that a family of so many `tests` is held
    against, and whether it is of a `look`.

    At a look the t-test decides at every n, since it is what the boundaries are calibrated for.
    """

    confidence: float
    level: float
    tests: int
    look: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """A test of one question, its numbers as `summary.Effect` has them; what cannot be computed is None.

    `sd` is that of the differences over seeds, 0 where they do not vary. `notes` say what is missing, and why.
    """

    n: int
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    tost_low: float | None = None
    tost_high: float | None = None
    sd: float | None = None
    df: float | None = None
    p: float | None = None
    p_equivalent: float | None = None
    method: Method = "student"
    notes: tuple[str, ...] = ()

    @property
    def up(self) -> bool:
        """Whether the estimate is above zero."""
        return (self.estimate or 0.0) > 0

    def mirrored(self) -> Tested:
        """The same with before and after changed about."""

        def turned(value: float | None) -> float | None:
            return None if value is None else -value

        return replace(
            self,
            estimate=turned(self.estimate),
            low=turned(self.high),
            high=turned(self.low),
            tost_low=turned(self.tost_high),
            tost_high=turned(self.tost_low),
        )


def test_pairs(pairs: Pairs, metric: Metric, ruling: Ruling) -> Tested:
    """The difference of two variants over the seeds they share."""
    if pairs.n < 2:
        return _too_few([_difference(x, y, metric) for x, y in zip(pairs.before, pairs.after, strict=True)])
    found = statistics.paired(
        pairs.before,
        pairs.after,
        log=metric.log,
        confidence=ruling.confidence,
        family=ruling.tests,
        only_student=ruling.look,
    )
    return _of(found, metric, ruling)


def test_sum(weights: Sequence[float], named: Sequence[tuple[str, Side]], metric: Metric, ruling: Ruling) -> Tested:
    """A weighted sum over variants, seed by seed, held against zero."""
    rows = align(named, metric.name, log=metric.log)
    notes = tuple(missing(rows.left_out, "left out"))
    values = np.array(rows.values, dtype=np.float64).reshape(-1, len(weights))
    scaled = np.log(values) if metric.log else values
    sums = scaled @ np.asarray(weights, dtype=np.float64)
    if sums.size < 2:
        few = _too_few([float(one) for one in sums])
        return replace(few, notes=(*notes, *few.notes))
    found = statistics.of_differences(
        sums,
        size=max(float(np.abs(scaled).max()), float(metric.log)),
        confidence=ruling.confidence,
        family=ruling.tests,
        only_student=ruling.look,
    )
    result = _of(found, metric, ruling)
    return replace(result, notes=(*notes, *result.notes))


def missing(reasons: Mapping[int, str], what: str) -> list[str]:
    """`seeds 2, 4 not paired: bug before`: seeds that share a reason in one line."""
    return [f"{seeds.named(of)} {what}: {reason}" for reason, of in seeds.by_reason(reasons.items()).items()]


def _of(found: Paired, metric: Metric, ruling: Ruling) -> Tested:
    note = ""
    if found.sd == 0:
        same = "the two sides are identical" if found.mean == 0 else "the difference is the same"
        note = f"{same} at every seed: no spread, so the sign test decides"
    return Tested(
        n=found.n,
        estimate=found.mean,
        low=found.low,
        high=found.high,
        tost_low=found.tost_low,
        tost_high=found.tost_high,
        sd=found.sd,
        df=found.df,
        p=found.p,
        p_equivalent=None if metric.margin is None else found.p_equivalent(metric.margin),
        method="repeated" if ruling.look and found.method == "student" else found.method,
        notes=(note,) if note else (),
    )


def _difference(before: float, after: float, metric: Metric) -> float:
    return math.log(after / before) if metric.log else after - before


def _too_few(differences: Sequence[float]) -> Tested:
    if not differences:
        return Tested(n=0, notes=("no seed has a result on both sides",))
    return Tested(n=1, estimate=differences[0], notes=("one pair has no spread to judge by, two or more seeds do",))
