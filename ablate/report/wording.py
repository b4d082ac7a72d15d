"""Numbers and verdicts in words. Digits follow the interval: two that it leaves uncertain, no more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import get_args

from ablate.plan.plan import Plan
from ablate.report.summary import Arm, Effect, Level, Metric, Summary, Verdict

NEAR_ONE = 0.01
"""A factor less than this off one is shown by what it is off."""
LITTLE = 0.01
"""A standard deviation of logarithms below which two decimals of its factor would say nothing."""
NARROW = 0.1
"""An interval of factors whose half is less than this share of its lower end has the decimals of its half."""


def spoken(name: str) -> str:
    """A metric's name in a sentence.

    >>> spoken("peak_kurtosis")
    'peak kurtosis'
    """
    return name.replace("_", " ")


def plural(count: int, noun: str) -> str:
    """A count and its noun.

    >>> plural(1, "seed"), plural(5, "seed")
    ('1 seed', '5 seeds')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def ordinal(number: int) -> str:
    """A place in a row, from 1.

    >>> ordinal(2), ordinal(11), ordinal(22)
    ('second', '11th', '22nd')
    """
    if number <= len(ORDINALS):
        return ORDINALS[number - 1]
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def percent(share: float) -> str:
    """A share in hundredths, to three digits.

    >>> percent(0.05), percent(0.0016)
    ('5 %', '0.16 %')
    """
    return f"{100 * share:.3g} %"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def duration(seconds: float) -> str:
    """A time in one or two units, no more exact than an estimate is.

    >>> duration(42), duration(400), duration(5000), duration(300_000)
    ('40 s', '7 min', '1 h 23 min', '3 d 11 h')
    """
    if seconds < 57.5:
        return f"{max(5, 5 * round(seconds / 5))} s"
    minutes = max(1, round(seconds / 60))
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def took(seconds: float) -> str:
    """A time that was measured, to three digits or the second.

    >>> took(4.83), took(42.2), took(400), took(5000)
    ('4.8 s', '42 s', '6 min 40 s', '1 h 23 min')
    """
    whole = round(seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else duration(seconds)


def factor(log: float) -> float:
    """exp(log), infinite where that is too large a number."""
    return math.exp(log) if log < 700 else math.inf


def decimals(uncertainty: float) -> int:
    """How many decimals (up to 6) show two significant digits of an uncertainty above zero.

    >>> decimals(0.0143), decimals(22.0)
    (3, 0)
    """
    return min(6, max(0, 1 - math.floor(math.log10(uncertainty))))


def significant(value: float) -> str:
    """Three significant digits, without an exponent where that stays short.

    >>> significant(1234.5), significant(0.5), significant(2e-7)
    ('1234', '0.500', '2e-07')
    """
    if 1000 <= abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:#.3g}".rstrip(".") if 1e-3 <= abs(value) < 1000 else f"{value:.3g}"


def ratio(log: float) -> str:
    """A factor with three significant digits, or two of what it is off one where that is little.

    >>> ratio(0.5), ratio(0.0004)
    ('1.65', '1.00040')
    """
    found = factor(log)
    off = abs(found - 1)
    return f"{found:.{decimals(off)}f}" if 1e-6 < off < NEAR_ONE else significant(found)


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
    return interval(effect.estimate, effect.low, effect.high, log=effect.scale == "log")


def interval(estimate: float | None, low: float | None, high: float | None, *, log: bool) -> str:
    """A difference and its interval as `difference` has them; `no value` where there is none.

    >>> interval(-0.012, -0.02, -0.004, log=False)
    '-0.0120 [-0.0200, -0.0040]'
    """
    if estimate is None:
        return "no value"
    return ("×" if log else "") + _with_interval(estimate, low, high, log=log, turned=False)


def _with_interval(estimate: float, low: float | None, high: float | None, *, log: bool, turned: bool) -> str:
    """`estimate [low, high]`; `turned` gives the size of a fall as a positive number or a factor above one."""
    values = [estimate]
    if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
        values += [low, high]
    if turned and estimate < 0:
        values = [-estimate, *(-value for value in reversed(values[1:]))]
    numbers = _rounded(values, log=log, sign="" if turned else "+")
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]" if len(numbers) > 1 else numbers[0]


def _rounded(values: Sequence[float], *, log: bool, sign: str) -> list[str]:
    if log:
        return _factors([factor(value) for value in values])
    half = (values[2] - values[1]) / 2 if len(values) > 1 else 0.0
    return [_signed(f"{value:{sign}z.{decimals(half)}f}" if half else f"{value:{sign}z.4g}", sign) for value in values]


def _signed(number: str, sign: str) -> str:
    """Nought has no sign."""
    return number if float(number) else number.removeprefix(sign)


def _factors(values: Sequence[float]) -> list[str]:
    """Three significant digits of factors, or where their interval is narrow two of its half."""
    if len(values) == 1:
        return [ratio(math.log(values[0])) if 0 < values[0] < math.inf else significant(values[0])]
    half = (values[2] - values[1]) / 2
    if not 0 < half < NARROW * values[1]:
        return [significant(value) for value in values]
    return [f"{value:.{decimals(half)}f}" for value in values]


def margin(metric: Metric) -> str:
    """`1 %`, `±0.02`, or on the log scale `a factor 1.05`; empty where there is none."""
    if metric.margin is None:
        return ""
    if metric.stated.endswith("%"):
        return metric.stated
    return f"a factor {factor(metric.margin):.3g}" if metric.log else f"±{metric.margin:.3g}"


def chance(p: float | None) -> str:
    """A p or a level: two significant digits, and no exponent; empty where there is none.

    >>> chance(0.0314), chance(2e-7)
    ('0.031', '< 0.0001')
    """
    if p is None:
        return ""
    return "< 0.0001" if p < 1e-4 else f"{p:.{decimals(p)}f}" if p < 0.99 else f"{p:.2f}"


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
    size = _with_interval(effect.estimate or 0.0, effect.low, effect.high, log=metric.log, turned=True)
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


def verdicts_of(summary: Summary) -> str:
    """How often each verdict was given: `9 verdicts: 5 better, 1 worse, 3 undecided`."""
    counts = Counter(effect.verdict for effect in summary.effects if effect.judged)
    said = ", ".join(f"{counts[verdict]} {spoken(verdict)}" for verdict in get_args(Verdict) if counts[verdict])
    return plural(counts.total(), "verdict") + (f": {said}" if said else "")


def with_fate(arm: Arm) -> str:
    """An arm's name, and of how many seeds it diverged where it did: `op (diverged 4 of 5)`."""
    return f"{arm.name} (diverged {arm.diverged} of {arm.ended})" if arm.diverged else arm.name


def fate(before: Arm, after: Arm) -> str:
    """Who diverged, where someone did: `2 of 5 seeds diverged, 0 of 5 before`."""
    if before.diverged + after.diverged == 0:
        return ""
    return f"{after.diverged} of {after.ended} seeds diverged, {before.diverged} of {before.ended} before"


def cost(before: Arm, after: Arm) -> str:
    """What the change costs: `parameters -0.2 %, FLOPs the same`; of training as well, where that is another share."""
    parts = [f"parameters {change(before.parameters, after.parameters)}"]
    times = Fraction(after.steps or 1, before.steps or 1) if before.steps and after.steps else 1
    grown = times * Fraction(after.training_flops, before.training_flops)
    if grown == Fraction(after.flops, before.flops):
        return ", ".join([*parts, f"FLOPs {change(before.flops, after.flops)}"])
    share = 100 * float(grown - 1)
    training = "the same" if share == 0 else f"{share:+.1f} %" if abs(share) >= 0.05 else f"{share:+.1g} %"
    return ", ".join([*parts, f"FLOPs of a pass {change(before.flops, after.flops)}", f"training FLOPs {training}"])


def change(old: int, new: int) -> str:
    """A count against another: `-0.2 %`, `the same`, or the difference itself where the share is too small to show."""
    if old == new:
        return "the same"
    share = 100 * (new - old) / old
    return f"{share:+.1f} %" if abs(share) >= 0.05 else f"{new - old:+,}"
