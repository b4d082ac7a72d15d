"""Hypothesis test: that of one contrast on one metric, before any correction for multiple comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ablate import statistics
from ablate.output.words import plural
from ablate.space.judge import Judged
from ablate.statistics import ByT, KnownNoise, Paired, Ranked, Welch
from ablate.statistics.paired import EXACT, one_sided_p
from ablate.statistics.spread import log_ratio, logarithms, magnitude
from ablate.statistics.t_tests import TELLING
from ablate.verdict.experiment import Rows, Seed, SeedPairs, Side, align, by_reason, seed_list
from ablate.verdict.summary import Method, Metric, minus

# Equivalence margins: as a space states them, and as numbers on the scale of their metric.


def absolute_margin(margin: str | float, *, log: bool, baseline_mean: float | None) -> float | None:
    """A margin on its metric's scale: a number stays, `5%` is of the baseline's mean, log 1.05 on the log scale.

    None for `none`, for a margin relative to a mean that does not exist, and for a margin of zero.

    >>> absolute_margin("1%", log=False, baseline_mean=-2.5)
    0.025
    """
    if isinstance(margin, float):
        return margin
    if not margin.endswith("%"):
        return None
    share = float(margin[:-1]) / 100
    return (math.log1p(share) if log else share * abs(baseline_mean or 0.0)) or None


def _no_mean(baseline: str, side: Side) -> str:
    if side.lost:
        return f"is undefined, {baseline} diverged at every seed"
    return "is undefined, none of its values is usable" if side.finished else "has no value yet"


def judged_metric(name: str, judged: Judged, baseline: str, side: Side) -> Metric:
    """A metric with its margin, which may be a share of the baseline's mean over its finished seeds."""
    log = judged.scale == "log"
    values = side.values(name, log=log)
    mean = float(np.mean(list(values.values()))) if values else None
    margin = absolute_margin(judged.margin, log=log, baseline_mean=mean)
    stated = f"{judged.margin:g}" if isinstance(judged.margin, float) else judged.margin.replace("%", " %")
    reason = ""
    if margin is None:
        declared = stated.endswith("%")
        value = "gives a margin of 0" if mean is not None else _no_mean(baseline, side)
        reason = f"{stated} of {baseline}'s mean {value}" if declared else "no margin declared"
    return Metric(
        name=name, scale=judged.scale, better=judged.better, margin=margin, stated=stated, why_no_margin=reason
    )


# Tests: of two variants, in pairs or as two samples, and of a weighted sum.

Floats = NDArray[np.float64]

TIED = "the two sides are identical at every seed: no spread, so the sign test decides"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The `confidence` of a test's intervals, the `level` of its family of so many `tests`, and whether it is a `look`.

    At a look (an interim analysis) the t-test decides at every n, as its boundaries require. `next_level` is that of
    the judgement that would follow with more seeds.
    """

    confidence: float
    level: float
    tests: int
    next_level: float
    look: bool = False

    @property
    def level_of_one(self) -> float:
        """The level that Holm's procedure compares the smallest p of the family with."""
        return self.level / self.tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """The test of one contrast, with its numbers as in `summary.Effect`; what cannot be computed is None.

    `sd` is the standard deviation of the differences over seeds, or of the difference of two runs where these are not
    paired, 0 where they do not vary. Where runs were lost, `ranks` are those of all seeds and p is by ranks; all other
    numbers are over survivors. `error` is the standard error of the estimate, 0 where nothing varies, and `differences`
    are those of the seeds. `notes` say what is missing, and why. `critical` gives the t of a confidence level where
    that is simulated, `interval` the interval of a two-sided test at a level where that is not by t.
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
    ranks: Ranked | None = None
    error: float | None = None
    differences: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    critical: Callable[[float], float] | None = field(default=None, repr=False, compare=False)
    interval: Callable[[float], tuple[float, float]] | None = field(default=None, repr=False, compare=False)

    @property
    def up(self) -> bool:
        """True if the estimate, or the sum of ranks where ranks decide, is above zero."""
        return ((self.estimate or 0.0) if self.ranks is None else self.ranks.total) > 0

    def mirrored(self) -> Tested:
        return replace(
            self,
            estimate=minus(self.estimate),
            low=minus(self.high),
            high=minus(self.low),
            tost_low=minus(self.tost_high),
            tost_high=minus(self.tost_low),
            interval=None if self.interval is None else _turned(self.interval),
            ranks=None if self.ranks is None else self.ranks.mirrored(),
            differences=tuple(-difference for difference in self.differences),
        )


def _turned(interval: Callable[[float], tuple[float, float]]) -> Callable[[float], tuple[float, float]]:
    def turned(level: float) -> tuple[float, float]:
        low, high = interval(level)
        return -high, -low

    return turned


def test_pairs(
    pairs: SeedPairs,
    metric: Metric,
    ruling: Ruling,
    *,
    independent: tuple[Side, Side] | None = None,
    strata: Mapping[Seed, str] = MappingProxyType({}),
) -> Tested:
    """Test the difference of two variants over the seeds they share; by ranks over all seeds where runs were lost.

    The two sides of `independent` see other batches at one seed, and are compared as two samples. Ranks are of the same
    seeds in either case: that test holds for independent runs too. Within `strata` differences are those of each.
    """
    if strata:
        survivors = _test_strata(pairs, metric, ruling, independent, strata)
    elif independent is not None:
        survivors = _test_apart(*independent, metric, ruling)
    else:
        survivors = _test_survivors(pairs, metric, ruling)
    if not pairs.lost and not pairs.open:
        return survivors
    differences = [_difference(x, y, metric) for x, y in zip(pairs.before, pairs.after, strict=True)]
    size = max((abs(value) for value in (*pairs.before, *pairs.after)), default=0.0)
    upwards = worse(metric)
    sided = [upwards * side for side in pairs.lost if upwards or side == 0]
    ranks = statistics.worst_rank(
        differences, sided, pairs.open + len(pairs.lost) - len(sided), size=1.0 if metric.log else size
    )
    return by_ranks(survivors, ranks, metric, ruling)


def worse(metric: Metric) -> int:
    """The side of all numbers that a diverged run is on: 1 above them, -1 below, 0 where neither is better."""
    return {"lower": 1, "higher": -1, "none": 0}[metric.better]


def by_ranks(survivors: Tested, ranks: Ranked, metric: Metric, ruling: Ruling) -> Tested:
    """The test by ranks, with the numbers of the survivors; a diverged run is never equivalent to another run.

    Its notes are about the ranks alone.
    """
    lost = "worse than any number" if worse(metric) else "neither higher nor lower than any"
    notes = [f"judged by ranks over {plural(ranks.n, 'seed')}, with a diverged run {lost}"]
    if survivors.n == 0:
        notes.append("no seed has a result on both sides")
    if ranks.ties:
        tied = "is a tie" if ranks.ties == 1 else "are ties"
        notes.append(f"{plural(ranks.ties, 'seed')} {tied}: as many diverged on each side, or no difference")
    if ranks.open:
        counts = "counts" if ranks.open == 1 else "count"
        notes.append(f"{plural(ranks.open, 'seed')} with a lost run {counts} against the direction of the others")
    if ruling.level > 0:
        notes += _too_few_ranks(ranks, ruling)
    return replace(survivors, p=ranks.p, p_equivalent=None, method="worst_rank", ranks=ranks, notes=tuple(notes))


def _too_few_ranks(ranks: Ranked, ruling: Ruling) -> Iterator[str]:
    level, telling = ruling.level_of_one, ranks.n - ranks.ties
    least = statistics.fewest_seeds(level, open=ranks.open)
    if least is not None and telling >= least:
        return
    others = f" (one of {ruling.tests} comparisons)" if ruling.tests > 1 else ""
    again = ""
    if 0 < ruling.next_level < ruling.level:
        most = statistics.fewest_seeds(ruling.next_level / ruling.tests, open=ranks.open)
        again = f", {most or f'more than {EXACT}'} if judged again"
    yield (
        f"{plural(telling, 'seed')} cannot decide by ranks at level {level:.2g}{others}: that takes "
        f"{least or f'more than {EXACT}'}{again}"
    )


def _test_survivors(pairs: SeedPairs, metric: Metric, ruling: Ruling) -> Tested:
    if pairs.n < 2:
        return _too_few([_difference(x, y, metric) for x, y in zip(pairs.before, pairs.after, strict=True)])
    result = statistics.paired(
        pairs.before,
        pairs.after,
        log=metric.log,
        confidence=ruling.confidence,
        level=ruling.level_of_one,
        only_student=ruling.look,
    )
    return _of(result, metric, ruling)


def _test_apart(before: Side, after: Side, metric: Metric, ruling: Ruling) -> Tested:
    x, y = (tuple(side.values(metric.name, log=metric.log).values()) for side in (before, after))
    if min(len(x), len(y)) < 2:
        return Tested(n=min(len(x), len(y)), notes=("a side with fewer than two seeds has no spread to judge by",))
    result = statistics.welch(x, y, log=metric.log, confidence=ruling.confidence)
    if result.df is None:
        shift = [result.difference] * result.n
        return _of(statistics.of_differences(shift, confidence=ruling.confidence), metric, ruling)
    return _by_t(result, result.n, metric, "welch", _apart(result), sd=result.sd)


def _test_strata(
    pairs: SeedPairs,
    metric: Metric,
    ruling: Ruling,
    independent: tuple[Side, Side] | None,
    strata: Mapping[Seed, str],
) -> Tested:
    samples: dict[str, list[list[float]]] = {}
    if independent is None:
        for seed, x, y in zip(pairs.seeds, pairs.before, pairs.after, strict=True):
            samples.setdefault(strata[seed], [[]])[0].append(_difference(x, y, metric))
    else:
        for k, side in enumerate(independent):
            for seed, value in side.values(metric.name, log=metric.log).items():
                samples.setdefault(strata[seed], [[], []])[k].append(math.log(value) if metric.log else value)
    known = [name for name in dict.fromkeys(strata.values()) if samples.get(name) and all(samples[name])]
    absent = [name for name in dict.fromkeys(strata.values()) if name not in known]
    few = [name for name in known if min(map(len, samples[name])) < 2]
    if few or not known:
        return Tested(n=0, notes=(f"fewer than two runs a side in {', '.join(few)}",) if few else ())
    result = statistics.stratified([samples[name] for name in known], confidence=ruling.confidence)
    note = f"the mean of {result.strata} strata, whose runs vary within each"
    if absent:
        note = f"{note}; left out, as they are not on both sides: {', '.join(absent)}"
    if result.of_smallest:
        note += f", with {plural(result.n - 1, 'degree')} of freedom, as fewer than {TELLING} runs say little of noise"
    return _by_t(result, result.n, metric, "strata", note)


def test_by_rank_sum(before: Side, after: Side, metric: Metric, ruling: Ruling) -> Tested:
    """Test which of two sides tends to be lower; a diverged run is worse than any number, if a side is better."""
    worst = math.inf * worse(metric) if worse(metric) else None
    x, y = ([*_numbers(side, metric), *(worst for _ in side.diverged if worst is not None)] for side in (before, after))
    if not x or not y:
        return Tested(n=0, notes=("a side has no result",))
    result = statistics.mann_whitney(x, y, confidence=ruling.confidence)
    lower = 1 - result.tendency
    return Tested(
        n=result.n,
        estimate=result.difference,
        low=result.low,
        high=result.high,
        p=result.p,
        method="mann_whitney",
        error=math.nan,
        interval=result.interval,
        notes=(
            f"by ranks of {result.before} and {plural(result.after, 'run')}: a run after is lower than one before with "
            f"the chance {lower:.2g}",
        ),
    )


def _numbers(side: Side, metric: Metric) -> list[float]:
    values = side.values(metric.name, log=metric.log).values()
    return [math.log(value) if metric.log else value for value in values]


def test_by_floor(before: Side, after: Side, noise: KnownNoise, metric: Metric, ruling: Ruling) -> Tested:
    """Test the difference of two sides by the noise of other runs; those that diverged are not in it."""
    x, y = (tuple(side.values(metric.name, log=metric.log).values()) for side in (before, after))
    if not x or not y:
        return Tested(n=0, notes=("a side has no result",))
    result = statistics.against_floor(x, y, noise, log=metric.log, confidence=ruling.confidence)
    note = f"judged by {noise.whose}, if its noise is that"
    return _by_t(result, min(len(x), len(y)), metric, "floor", note, sd=noise.sd * math.sqrt(2))


def _by_t(result: ByT, n: int, metric: Metric, method: Method, note: str, *, sd: float | None = None) -> Tested:
    """`n` are the runs of the smaller side."""
    equivalent = None
    if metric.margin is not None and result.df is not None:
        equivalent = one_sided_p(result.difference, metric.margin, result.error, result.df, n)
    return Tested(
        n=n,
        estimate=result.difference,
        low=result.low,
        high=result.high,
        tost_low=result.tost_low,
        tost_high=result.tost_high,
        sd=sd,
        df=result.df,
        p=result.p,
        p_equivalent=equivalent,
        method=method,
        error=result.error,
        notes=(note,),
    )


def _apart(result: Welch) -> str:
    note = f"not paired by seed: Welch's t over {result.before} and {plural(result.after, 'run')}"
    if not result.of_smaller:
        return note
    return (
        f"{note}, with {plural(result.n - 1, 'degree')} of freedom, those of the smaller side alone, since fewer than "
        f"{TELLING} runs say little of its noise"
    )


def test_sum(weights: Sequence[float], named: Sequence[tuple[str, Side]], metric: Metric, ruling: Ruling) -> Tested:
    """Test a weighted sum over variants, seed by seed, against zero. Its weights sum to zero."""
    rows = align(named, metric.name, log=metric.log)
    lost = {seed: why for seed, why in rows.left_out.items() if seed in rows.lost}
    others = {seed: why for seed, why in rows.left_out.items() if seed not in rows.lost}
    notes = (*missing(lost, "not in the difference"), *missing(others, "left out"))
    values = np.array(rows.values, dtype=np.float64).reshape(-1, len(weights))
    scaled = logarithms(values, magnitude(values)) if metric.log else values
    sums = scaled @ np.asarray(weights, dtype=np.float64)
    size = max(float(np.abs(scaled).max(initial=0.0)), float(metric.log))
    if sums.size < 2:
        few = _too_few([float(total) for total in sums])
        return _of_sum(few, sums, size, rows, notes, metric, ruling)
    result = statistics.of_differences(
        sums,
        size=size,
        confidence=ruling.confidence,
        level=ruling.level_of_one,
        only_student=ruling.look,
    )
    return _of_sum(_of(result, metric, ruling), sums, size, rows, notes, metric, ruling)


def _of_sum(
    test: Tested, sums: Floats, size: float, rows: Rows, notes: Sequence[str], metric: Metric, ruling: Ruling
) -> Tested:
    """The test of a sum, in which a seed with a lost run is open: its side is not determined by symmetry.

    `size` is the magnitude of the summed values: a difference within their rounding error is a tie.
    """
    if rows.lost:
        test = by_ranks(test, statistics.worst_rank(sums, open=len(rows.lost), size=size), metric, ruling)
    return replace(test, notes=(*notes, *test.notes))


def missing(reasons: Mapping[Seed, str], what: str) -> list[str]:
    """One line per reason: `seeds 2, 4 not paired: bug before`."""
    return [f"{seed_list(of)} {what}: {reason}" for reason, of in by_reason(reasons.items()).items()]


def _of(result: Paired, metric: Metric, ruling: Ruling) -> Tested:
    note = ""
    if result.sd == 0:
        same = "the difference is the same at every seed: no spread, so the sign test decides"
        note = TIED if result.mean == 0 else same
    return Tested(
        n=result.n,
        estimate=result.mean,
        low=result.low,
        high=result.high,
        tost_low=result.tost_low,
        tost_high=result.tost_high,
        sd=result.sd,
        df=result.df,
        p=result.p,
        p_equivalent=None if metric.margin is None else result.p_equivalent(metric.margin),
        method="repeated" if ruling.look and result.method == "student" else result.method,
        error=result.sd / math.sqrt(result.n),
        differences=result.differences,
        notes=(note,) if note else (),
    )


def _difference(before: float, after: float, metric: Metric) -> float:
    return log_ratio(before, after) if metric.log else after - before


def _too_few(differences: Sequence[float]) -> Tested:
    if not differences:
        return Tested(n=0, notes=("no seed has a result on both sides",))
    return Tested(
        n=1, estimate=differences[0], notes=("one pair has no spread to judge by: two or more seeds are needed",)
    )
