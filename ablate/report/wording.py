"""Numbers and verdicts in words. Digits follow the interval: no more than two uncertain ones are shown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from ablate.output.words import deviation, factor, interval, measured, plural, ratio, significant, spoken, with_interval
from ablate.plan.designs.design_matrix import CURVATURE
from ablate.plan.plan import Plan
from ablate.space.metrics import DIRECTIONS
from ablate.verdict.summary import Arm, Effect, Level, Method, Metric, Summary


class TestWords(NamedTuple):
    """A test in words: its name in a sentence, the mark of a difference that is not by Student's t, and the runs that
    would decide more where others than seeds tell the noise.
    """

    name: str
    mark: str = ""
    more: str = ""


TESTS: Final[Mapping[Method, TestWords]] = {
    "student": TestWords("Student's t"),
    "sign_flip": TestWords("sign flips", ", sign flips"),
    "sign": TestWords("the sign test", ", sign test"),
    "repeated": TestWords("Student's t at the level of an interim analysis"),
    "pooled": TestWords("Student's t with the residual of all effects as the error"),
    "welch": TestWords("Welch's t of two samples", ", Welch"),
    "mann_whitney": TestWords("ranks of two samples", ", ranks", "more runs on both sides"),
    "floor": TestWords("t by the noise of other runs", ", floor", "more reruns"),
    "strata": TestWords("t of the mean over strata, by the noise within them", ", strata", "more runs in each stratum"),
    "worst_rank": TestWords("signed ranks over all seeds, diverged runs ranked worst", ", survivors only"),
    "simulated_t": TestWords("t of a trend over sizes, against that of simulated ladders"),
}

LITTLE = 0.01  # a standard deviation of logarithms below which two decimals of its factor would show nothing


def level(value: Level | None, metric: Metric) -> str:
    """`2.310 ± 0.011`: mean and standard deviation over seeds; on the log scale the geometric ones, `3.02 ×÷ 1.08`."""
    if value is None:
        return "no value"
    return _log_level(value) if metric.log else plain_level(value)


def _log_level(value: Level) -> str:
    if value.sd is None:
        return significant(value.mean)
    if 0 < value.sd < LITTLE:
        return f"{measured(value.mean, value.mean * value.sd)} ×÷ {ratio(value.sd)}"
    return f"{significant(value.mean)} ×÷ {factor(value.sd):.2f}"


def plain_level(value: Level) -> str:
    """Mean ± standard deviation, to the decimals of the latter: `2.310 ± 0.011`."""
    if not value.sd:
        return f"{value.mean:.4g}" + ("" if value.sd is None else " ± 0")
    return f"{measured(value.mean, value.sd)} ± {deviation(value.sd, value.mean)}"


def difference(effect: Effect) -> str:
    """Return `-0.012 [-0.020, -0.004]`, or `×0.62 [0.53, 0.71]` as a ratio."""
    if effect.estimate is None:
        return "no pair" if effect.before and effect.after else "not estimable"
    return interval(effect.estimate, *bounds(effect), log=effect.scale == "log")


def bounds(effect: Effect) -> tuple[float | None, float | None]:
    """The adjusted interval, which agrees with the verdict, if there is one."""
    if effect.adjusted_low is None:
        return effect.low, effect.high
    return effect.adjusted_low, effect.adjusted_high


def single(effect: Effect) -> str:
    """Return the unadjusted interval, `[-0.018, -0.006]`; empty if there is none, or no adjusted one is shown."""
    if effect.estimate is None or effect.low is None or effect.adjusted_low is None:
        return ""
    shown = interval(effect.estimate, effect.low, effect.high, log=effect.scale == "log")
    return shown[shown.index("[") :] if "[" in shown else ""


def margin(metric: Metric) -> str:
    """Return `1 %`, `±0.02`, or on the log scale `a factor 1.05`; empty if there is none."""
    if metric.margin is None:
        return ""
    if metric.stated.endswith("%"):
        return metric.stated
    return f"a factor {factor(metric.margin):.3g}" if metric.log else f"±{metric.margin:.3g}"


def better(metric: Metric) -> str:
    """Return `lower is better`, `higher is better` or `neither side is better`."""
    return f"{'neither side' if metric.better == 'none' else metric.better} is better"


def left_aside(summary: Summary) -> str:
    sided = all(metric.better != "none" for metric in summary.metrics)
    return "" if sided else "; metrics without a better side do not count"


def verdict(effect: Effect) -> str:
    """The verdict with its qualifier: `better, survivors`, `undecided, +9 seeds`; `A/A` if it is not judged."""
    if not effect.judged:
        return "A/A, diverged" if effect.verdict == "diverged" else "A/A"
    words: list[str] = [spoken(effect.verdict)]
    if effect.verdict == "undecided" and effect.identical:
        return "identical"
    if effect.verdict == "undecided":
        words.append(_undecided(effect, "+{} seed", f"> {_most_seeds()} seeds"))
    if effect.differs:
        words.append("differs")
    if effect.survivors and not effect.ranked and effect.verdict not in ("diverged", "undecided"):
        words.append("survivors")
    return ", ".join(words)


def pairs(effect: Effect) -> str:
    """The n of a difference: `5`; where ranks decide, survivors and all ranked seeds, `3/5`."""
    return f"{effect.n}/{effect.ranked}" if effect.ranked and effect.verdict != "diverged" else str(effect.n)


def seeds_of(n: int, effect: Effect | None) -> str:
    """Return the seeds of a variant, and those of its difference if others: `5`, `5 (3)`; by rank `4 (3/5)`."""
    paired = str(n) if effect is None else pairs(effect)
    return paired if effect is None or effect.n == n else f"{n} ({paired})"


def _most_seeds() -> int:
    from ablate.statistics import MOST_SEEDS  # imports scipy, which checking a space does not need

    return MOST_SEEDS


def _undecided(effect: Effect, more: str, too_many: str) -> str:
    n = effect.ranked or effect.n
    if effect.estimate is None and n > 1 and not effect.ranked:
        return "not estimable"
    if effect.level == 0:
        return "no α is left"
    if effect.seeds_needed is not None:
        more_seeds = effect.seeds_needed - n
        return more.format(more_seeds) + ("" if more_seeds == 1 else "s")
    if effect.p is None and n > 1:
        return "not judged"
    if effect.p_adjusted is None and n > 1:
        return "not judged yet"
    if more := TESTS[effect.method].more:
        return more
    if effect.p is None or n < 2:
        return f"n = {n}"
    if effect.estimate == 0 and not effect.ranked:
        return "no difference"
    if effect.kind == "trend":
        return "more seeds or sizes"
    return "more seeds will not help" if effect.method == "repeated" else too_many


def phrase(effect: Effect, metric: Metric) -> str:
    """Return one verdict as part of a sentence: `lowers peak kurtosis by a factor 1.61 [1.40, 1.86] (better)`.

    For an interaction: `together they lower eval loss by 0.02 [0.01, 0.03] beyond what each does alone (better)`.
    """
    name, together = spoken(metric.name), effect.kind == "interaction"
    if effect.kind == "trend":
        return f"{name}: {trend(effect)}"
    if effect.verdict == "undecided" and effect.identical:
        return f"{name} identical at every seed (more seeds change nothing)"
    if effect.verdict == "undecided":
        return f"{name} undecided ({_undecided(effect, 'about {} more seed', f'over {_most_seeds()} seeds needed')})"
    if effect.verdict == "equivalent":
        differs = f" (it differs, but by less: {difference(effect)})" if effect.differs else ""
        if together:
            apart = f"within {margin(metric)} of what each does by itself (equivalent)"
            return f"no interaction in {name}: {apart}{differs}"
        return f"{name} equivalent within {margin(metric)}{differs}"
    if effect.verdict == "diverged":
        return f"{name} cannot be compared"
    if effect.ranked:
        seen = "" if effect.estimate is None else f"; among survivors {difference(effect)}, n = {effect.n}"
        return f"{name} {spoken(effect.verdict)} over {plural(effect.ranked, 'seed')}{seen}"
    size = with_interval(effect.estimate or 0.0, *bounds(effect), log=metric.log, turned=True)
    size = f"a factor {size}" if metric.log else size
    if effect.kind == "main" and effect.change.endswith(f": {CURVATURE}"):
        side = "below" if (effect.estimate or 0.0) < 0 else "above"
        return f"{name} at the ends of the range lies {side} its middle by {size} ({effect.verdict})"
    verb = "lower" if (effect.estimate or 0.0) < 0 else "raise"
    if effect.method == "mann_whitney":
        by = f" by {size}" if math.isfinite(effect.estimate or 0.0) else ", as most runs of one side diverged"
        return f"{name} tends to be {'lower' if verb == 'lower' else 'higher'}{by} ({effect.verdict})"
    if together:
        return f"together they {verb} {name} by {size} beyond what each does alone ({effect.verdict})"
    return f"{verb}s {name} by {size} ({effect.verdict})"


def trend(effect: Effect) -> str:
    """Return `the speed-up grows ×1.12 [1.03, 1.22] for ten times the compute (better)`."""
    if effect.estimate is None:
        return "the trend of the speed-up is not estimable"
    size = f"{difference(effect)} for ten times the compute"
    if effect.verdict in DIRECTIONS:
        return f"the speed-up {'grows' if effect.estimate > 0 else 'shrinks'}, {size} ({effect.verdict})"
    return f"whether the speed-up grows or shrinks is {effect.verdict}, {size}"


def noise(effect: Effect, metric: Metric) -> str:
    """Return `eval loss differs by +0.001 [-0.002, +0.004] (sd 0.0021, 6 pairs)`."""
    name = spoken(metric.name)
    if effect.estimate is None:
        return f"{name} has no pair"
    spread = "" if effect.sd is None else f"sd {significant(effect.sd)}{' of logarithms' if metric.log else ''}, "
    return f"{name} differs by {difference(effect)} ({spread}{plural(effect.n, 'pair')})"


def failed(kinds: Iterable[str]) -> str:
    """Return `2 failed with bug, 1 with timeout`."""
    counts = Counter(kinds).most_common()
    return ", ".join(f"{n} {'failed ' if place == 0 else ''}with {kind}" for place, (kind, n) in enumerate(counts))


def trials_of(plan: Plan) -> str:
    """Return `8 trials of 4 variants at 2 seeds`."""
    more = ", more may follow" if plan.open else ""
    seeds, variants = plural(len(plan.seeds), "seed"), plural(len(plan.variants), "variant")
    return f"{plural(len({trial.id for trial in plan.trials}), 'trial')} of {variants} at {seeds}{more}"


def with_fate(arm: Arm) -> str:
    """Return `op (diverged 4 of 5)`; the name alone if it diverged at no seed."""
    return f"{arm.name} (diverged {arm.diverged} of {arm.ended})" if arm.diverged else arm.name


def fate(before: Arm, after: Arm) -> str:
    """Return `2 of 5 seeds diverged, 0 of 5 before`; empty if none did."""
    if before.diverged + after.diverged == 0:
        return ""
    return f"{after.diverged} of {after.ended} seeds diverged, {before.diverged} of {before.ended} before"


def cost(before: Arm, after: Arm) -> str:
    """Return `parameters -0.2 %, FLOPs the same`, with training if its share differs; empty if it is not known."""
    if before.cost is None or after.cost is None:
        return ""
    (parameters, flops, training), (more_parameters, more_flops, more_training) = before.cost, after.cost
    parts = [f"parameters {change(parameters, more_parameters)}"]
    times = Fraction(after.steps or 1, before.steps or 1) if before.steps and after.steps else 1
    grown = times * Fraction(more_training, training)
    if grown == Fraction(more_flops, flops):
        return ", ".join([*parts, f"FLOPs {change(flops, more_flops)}"])
    share = 100 * float(grown - 1)
    trained = "the same" if share == 0 else f"{share:+.1f} %" if abs(share) >= 0.05 else f"{share:+.1g} %"
    return ", ".join([*parts, f"FLOPs per pass {change(flops, more_flops)}", f"training FLOPs {trained}"])


def change(old: int, new: int) -> str:
    """Return `-0.2 %`, `the same`, or the difference if the share is too small to show."""
    if old == new:
        return "the same"
    share = 100 * (new - old) / old
    return f"{share:+.1f} %" if abs(share) >= 0.05 else f"{new - old:+,}"
