"""Numbers and verdicts in words. Digits follow the interval: two that it leaves uncertain, no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from ablate.output.numbers import decimals, factor, interval, ratio, significant, with_interval
from ablate.output.words import plural, spoken
from ablate.plan.plan import Plan
from ablate.verdict.summary import Arm, Effect, Level, Metric

LITTLE = 0.01
"""A standard deviation of logarithms below which two decimals of its factor would say nothing."""


def level(value: Level | None, metric: Metric) -> str:
    """Mean ± standard deviation over seeds; on the log scale the geometric mean and the factor it varies by.

    `2.310 ± 0.011`, `3.02 ×÷ 1.08`.
    """
    if value is None:
        return "no value"
    return _log_level(value) if metric.log else plain_level(value)


def _log_level(value: Level) -> str:
    if value.sd is None:
        return significant(value.mean)
    if 0 < value.sd < LITTLE:
        return f"{value.mean:.{decimals(value.mean * value.sd)}f} ×÷ {ratio(value.sd)}"
    return f"{significant(value.mean)} ×÷ {factor(value.sd):.2f}"


def plain_level(value: Level) -> str:
    """Mean ± standard deviation over seeds, to the decimals of the latter: `2.310 ± 0.011`."""
    if not value.sd:
        return f"{value.mean:.4g}" + ("" if value.sd is None else " ± 0")
    places = decimals(value.sd)
    return f"{value.mean:.{places}f} ± {value.sd:.{places}f}"


def difference(effect: Effect) -> str:
    """The paired difference and its interval: `-0.012 [-0.020, -0.004]`, or `×0.62 [0.53, 0.71]` as a ratio."""
    if effect.estimate is None:
        return "no pair" if effect.before and effect.after else "cannot be told"
    return interval(effect.estimate, *bounds(effect), log=effect.scale == "log")


def bounds(effect: Effect) -> tuple[float | None, float | None]:
    """The ends of the interval to show: that which agrees with the verdict, where there is one, else the single one."""
    if effect.adjusted_low is None:
        return effect.low, effect.high
    return effect.adjusted_low, effect.adjusted_high


def single(effect: Effect) -> str:
    """The interval of a comparison by itself, `[-0.018, -0.006]`; empty where there is none, or no other is shown."""
    if effect.estimate is None or effect.low is None or effect.adjusted_low is None:
        return ""
    shown = interval(effect.estimate, effect.low, effect.high, log=effect.scale == "log")
    return shown[shown.index("[") :] if "[" in shown else ""


def margin(metric: Metric) -> str:
    """`1 %`, `±0.02`, or on the log scale `a factor 1.05`; empty where there is none."""
    if metric.margin is None:
        return ""
    if metric.stated.endswith("%"):
        return metric.stated
    return f"a factor {factor(metric.margin):.3g}" if metric.log else f"±{metric.margin:.3g}"


def verdict(effect: Effect) -> str:
    """The verdict with what qualifies it: `better, survivors`, `equivalent, differs`, `undecided, +9 seeds`.

    What is not judged has none: `A/A`.
    """
    if not effect.judged:
        return "A/A, diverged" if effect.verdict == "diverged" else "A/A"
    words: list[str] = [spoken(effect.verdict)]
    if effect.verdict == "undecided":
        words.append(_undecided(effect, "+{}", f"> {_most_seeds()} seeds"))
    if effect.differs:
        words.append("differs")
    if effect.survivors and not effect.ranked and effect.verdict not in ("diverged", "undecided"):
        words.append("survivors")
    return ", ".join(words)


def pairs(effect: Effect) -> str:
    """The n of a difference: `5`; of survivors, of all seeds whose ranks decide, `3/5`."""
    return f"{effect.n}/{effect.ranked}" if effect.ranked and effect.verdict != "diverged" else str(effect.n)


def seeds_of(n: int, effect: Effect | None) -> str:
    """The seeds of a variant, and those of its difference where they are others: `5`, `5 (3)`; by rank `4 (3/5)`."""
    paired = str(n) if effect is None else pairs(effect)
    return paired if effect is None or effect.n == n else f"{n} ({paired})"


def _most_seeds() -> int:
    from ablate.statistics import MOST_SEEDS  # with scipy, which checking a space does without

    return MOST_SEEDS


def _undecided(effect: Effect, more: str, too_many: str) -> str:
    n = effect.ranked or effect.n
    if effect.estimate is None and n > 1 and not effect.ranked:
        return "not to be told"
    if effect.level == 0:
        return "no α is left"
    if effect.seeds_needed is not None:
        return more.format(plural(effect.seeds_needed - n, "seed"))
    if effect.p is None and n > 1:
        return "not judged"
    if effect.p_adjusted is None and n > 1:
        return "not judged yet"
    if effect.p is None or n < 2:
        return f"n = {n}"
    if effect.estimate == 0 and not effect.ranked:
        return "no difference"
    return "not by more seeds" if effect.method == "repeated" else too_many


def phrase(effect: Effect, metric: Metric) -> str:
    """One verdict as part of a sentence: `lowers peak kurtosis by a factor 1.61 [1.40, 1.86] (better)`.

    Of an interaction: `together they lower eval loss by 0.02 [0.01, 0.03] beyond what each does (better)`.
    """
    name, together = spoken(metric.name), effect.kind == "interaction"
    if effect.verdict == "undecided":
        return f"{name} undecided ({_undecided(effect, 'about {} more', f'over {_most_seeds()} seeds needed')})"
    if effect.verdict == "equivalent":
        differs = f", though it differs: {difference(effect)}" if effect.differs else ""
        if together:
            apart = f"within {margin(metric)} of what each does by itself (equivalent)"
            return f"no interaction in {name}: {apart}{differs}"
        return f"{name} equivalent within {margin(metric)}{differs}"
    if effect.verdict == "diverged":
        return f"{name} cannot be compared"
    if effect.ranked:
        seen = "" if effect.estimate is None else f"; of survivors {difference(effect)}, n = {effect.n}"
        return f"{name} {spoken(effect.verdict)} over {plural(effect.ranked, 'seed')}{seen}"
    size = with_interval(effect.estimate or 0.0, *bounds(effect), log=metric.log, turned=True)
    size = f"a factor {size}" if metric.log else size
    verb = "lower" if (effect.estimate or 0.0) < 0 else "raise"
    if together:
        return f"together they {verb} {name} by {size} beyond what each does ({effect.verdict})"
    return f"{verb}s {name} by {size} ({effect.verdict})"


def noise(effect: Effect, metric: Metric) -> str:
    """What A/A arms differ by: `eval loss differs by +0.001 [-0.002, +0.004] (sd 0.0021, 6 pairs)`."""
    name = spoken(metric.name)
    if effect.estimate is None:
        return f"{name} has no pair"
    spread = "" if effect.sd is None else f"sd {significant(effect.sd)}{' of logarithms' if metric.log else ''}, "
    return f"{name} differs by {difference(effect)} ({spread}{plural(effect.n, 'pair')})"


def failed(kinds: Iterable[str]) -> str:
    """How many trials have no result, by outcome: `2 failed as bug, 1 as timeout`."""
    counts = Counter(kinds).most_common()
    return ", ".join(f"{n} {'failed ' if place == 0 else ''}as {kind}" for place, (kind, n) in enumerate(counts))


def trials_of(plan: Plan) -> str:
    """How much a plan trains: `8 trials of 4 variants at 2 seeds`."""
    more = ", more may follow" if plan.open else ""
    seeds, variants = plural(len(plan.seeds), "seed"), plural(len(plan.variants), "variant")
    return f"{plural(len({trial.id for trial in plan.trials}), 'trial')} of {variants} at {seeds}{more}"


def with_fate(arm: Arm) -> str:
    """An arm's name, and of how many seeds it diverged where it did: `op (diverged 4 of 5)`."""
    return f"{arm.name} (diverged {arm.diverged} of {arm.ended})" if arm.diverged else arm.name


def fate(before: Arm, after: Arm) -> str:
    """Who diverged, where someone did: `2 of 5 seeds diverged, 0 of 5 before`."""
    if before.diverged + after.diverged == 0:
        return ""
    return f"{after.diverged} of {after.ended} seeds diverged, {before.diverged} of {before.ended} before"


def cost(before: Arm, after: Arm) -> str:
    """What the change costs: `parameters -0.2 %, FLOPs the same`; of training as well, where that is another share.

    Nothing where it is not known.
    """
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
    return ", ".join([*parts, f"FLOPs of a pass {change(flops, more_flops)}", f"training FLOPs {trained}"])


def change(old: int, new: int) -> str:
    """A count against another: `-0.2 %`, `the same`, or the difference itself where the share is too small to show."""
    if old == new:
        return "the same"
    share = 100 * (new - old) / old
    return f"{share:+.1f} %" if abs(share) >= 0.05 else f"{new - old:+,}"
