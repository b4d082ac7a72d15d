"""Power: the chance of each claim to come true before anything is run, and the seeds that would decide a comparison.

Chances are those of the verdicts that `judge` would give, for the whole family at its level (`SimulatedFamily`) and
the sd of the noise floor; the comparisons that a claim is not about are taken to be of no difference. What a claim
says nothing of by `by` is found instead: the difference at which it comes true with a chance of 80 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ablate import statistics
from ablate.plan.comparisons import ClaimStep, claim_steps
from ablate.plan.designs.design_matrix import coded, columns, columns_of, fitted_terms
from ablate.plan.plan import Factors, Plan
from ablate.space.judge import Expected, Judge
from ablate.space.metrics import Better, direction
from ablate.statistics import POWER, Floor, Ranked
from ablate.statistics.contrasts import least_squares
from ablate.statistics.multiple_testing import spent
from ablate.statistics.planning import DOWN, INSIDE, UP, SimulatedFamily, correlation_power
from ablate.verdict.contrasts import (
    Contrast,
    Difference,
    FactorialEffect,
    SpeedUpTrend,
    WeightedSum,
    comparison_id,
    contrast,
    contrasts,
    is_tested_on,
)
from ablate.verdict.hypothesis_test import Ruling, Tested, absolute_margin
from ablate.verdict.judgement import FIRST, Account, judgement_of, metric_families
from ablate.verdict.summary import Metric

# The power of claims.

Floats = NDArray[np.float64]
Chance = Callable[[float, float], float]
"""The chance that a claim comes true, by the difference (towards what it says above 0) and the sd."""

CORRELATION = "correlation"
USUAL_CORRELATION = 0.5  # the correlation that power is reported for where a claim states none
HALVINGS = 18
LARGEST = 1e4  # the largest difference that is looked for, in sds


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A number for the sd of the floor, and for the ends of the 95 % interval of that sd."""

    at: float
    low: float
    high: float


def _exactly(number: float) -> Interval:
    return Interval(at=number, low=number, high=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPower:
    """The chances of a claim with n seeds at the `level` of its family of so many `tests`.

    `power` is its chance at a true `difference` towards what it says, which is `given` by the space, or else such that
    the chance is 80 %; of a claim of equivalence alone it is 0. `if_nothing` is the chance at no difference, and
    `if_opposite` at the `opposite` one: as large the other way, or of a claim of equivalence one at the margin. `scale`
    is that of the metric. `why` there is none, empty where there is.
    """

    claim: str
    of: str
    metric: str
    scale: str
    why: str = ""
    difference: Interval | None = None
    given: bool = False
    power: Interval | None = None
    if_nothing: float | None = None
    opposite: float | None = None
    if_opposite: float | None = None
    sd: Interval | None = None
    n: int = 0
    level: float = 0.0
    tests: int = 1


def claim_powers(
    plan: Plan, rules: Judge, floors: Sequence[Floor], means: Mapping[str, float], account: Account
) -> tuple[ClaimPower, ...]:
    """The power of each claim of a plan, from the noise `floors` of the metrics and the baseline's `means`."""
    known = {floor.metric: floor for floor in floors}
    names = {name: variant.id for variant in plan.variants for name in variant.names}
    families: dict[tuple[str, float], _Family] = {}
    powers = []
    correlated = [claim for claim in rules.expect if claim.correlation is not None]
    for claim in rules.expect:
        judged = rules.metrics[claim.metric]
        if claim in correlated:
            powers.append(_of_correlation(claim, plan, rules, account, len(correlated)))
            continue
        steps = claim_steps(claim, names, plan.comparisons, judged.better)
        level = _level(steps, plan, rules, claim.metric, account)
        if (claim.metric, level) not in families:
            families[claim.metric, level] = _Family(plan, rules, claim.metric, account, level)
        powers.append(_power(claim, steps, families[claim.metric, level], known.get(claim.metric), rules, means))
    return tuple(powers)


def _level(steps: Sequence[ClaimStep], plan: Plan, rules: Judge, metric: str, account: Account) -> float:
    """The level that is left for the comparisons of a claim: the least of its steps, 0 if one of them is settled."""
    held, alpha = account.get(metric, FIRST), 1 - rules.confidence
    factors, ladders = dict(plan.factors), dict(plan.ladders)
    left = [held.of(metric, comparison_id(contrast(step.comparison, factors, ladders))) for step in steps]
    shares = (0.0 if one.state == "settled" else spent(one.left, looks=bool(plan.looks)) for one in left)
    return alpha * min(shares, default=held.share(looks=bool(plan.looks)))


class _Family:
    def __init__(self, plan: Plan, rules: Judge, metric: str, account: Account, level: float):
        self.plan, self.metric = plan, metric
        self.factors, self.ladders = dict(plan.factors), dict(plan.ladders)
        self.n = plan.looks[-1] if plan.looks else len(plan.seeds)
        family = next(metrics for metrics in metric_families(rules) if metric in metrics)
        judgement = judgement_of(plan, rules, family, account)
        self.tests, self.level = judgement.tests, level
        self.variants = {variant.id: place for place, variant in enumerate(plan.variants)}
        asked = [one for one in dict.fromkeys(contrasts(plan)) if one is not None and is_tested_on(one, metric)]
        rows = {question: row for question in asked if (row := self._weights(question)) is not None}
        self.places = {question: place for place, question in enumerate(rows)}
        weights = np.array(list(rows.values())).reshape(len(rows), len(self.variants))
        self.weights = weights
        self.simulated = SimulatedFamily(weights, self.n, self.level, self.tests) if rows and self.n > 1 else None

    def place(self, step: ClaimStep) -> int | None:
        return self.places.get(contrast(step.comparison, self.factors, self.ladders))

    def shift(self, claim: Expected, steps: Sequence[ClaimStep], better: Better) -> Floats:
        """The change of every contrast if the difference of each step of a claim is 1, towards what it says.

        Of equivalents the last differs from the others by 1. Variants that an order does not name are as the baseline.
        """
        if claim.of is not None and not steps[0].comparison.after:
            alone = np.zeros(len(self.weights))
            alone[self.place(steps[0])] = _towards(steps[0], better)
            return alone
        means = np.zeros(len(self.variants))
        if claim.of is not None:
            means[self.variants[steps[0].comparison.after]] = _towards(steps[0], better)
        elif claim.order is None:
            means[self._named(claim.variants[-1])] = 1.0
        else:
            places = [self._named(name) for name in claim.variants]
            base = self.variants[self.plan.baseline]
            means[:] = places.index(base) if base in places else 0.0
            means[places] = np.arange(len(places))
        return self.weights @ means

    def _named(self, name: str) -> int:
        return next(self.variants[variant.id] for variant in self.plan.variants if name in variant.names)

    def up(self, step: ClaimStep) -> int:
        """The sign with which the contrast goes up where the comparison does."""
        question = contrast(step.comparison, self.factors, self.ladders)
        return -1 if isinstance(question, Difference) and step.comparison.before != question.first else 1

    def _weights(self, question: Contrast) -> Floats | None:
        row = np.zeros(len(self.variants))
        match question:
            case Difference(first, second, paired=True):
                row[self.variants[first]], row[self.variants[second]] = -1.0, 1.0
            case WeightedSum(weights):
                for variant, weight in weights:
                    row[self.variants[variant]] = weight
            case FactorialEffect(edits, runs):
                factors = next(each for each in self.factors.values() if each.runs == runs)
                for variant, weight in _of_term(factors, edits):
                    row[self.variants[variant]] = weight
            case Difference() | SpeedUpTrend():
                return None
        return row


def _of_term(factors: Factors, edits: Sequence[str]) -> Iterator[tuple[str, float]]:
    runs = dict(reversed(factors.runs))
    levels = coded(factors, list(runs.values()))
    terms = fitted_terms(factors, levels)
    names = [column.name for column in columns_of(factors)]
    x = columns(levels, terms)
    x = x - x.mean(axis=0)
    place = terms.index(tuple(names.index(edit) for edit in edits))
    weights = 2.0 ** len(edits) * least_squares(x, np.zeros(len(runs))).weights[place]
    yield from zip(runs, weights.tolist(), strict=True)


def _power(
    claim: Expected,
    steps: Sequence[ClaimStep],
    family: _Family,
    floor: Floor | None,
    rules: Judge,
    means: Mapping[str, float],
) -> ClaimPower:
    judged = rules.metrics[claim.metric]
    log, mean = judged.scale == "log", means.get(claim.metric)
    margin = absolute_margin(judged.margin, log=log, baseline_mean=mean)
    by = None if claim.by is None else absolute_margin(claim.by, log=log, baseline_mean=mean)
    claimed = ClaimPower(claim=claim.claim, of=claim.about, metric=claim.metric, scale=judged.scale)
    why = _why_none(claim, steps, family, floor, margin, by)
    if why or floor is None:
        return replace(claimed, why=why)
    chance = _chance(claim, steps, family, margin, judged.better)
    low, high = floor.sd_interval()
    sd = Interval(at=floor.sd, low=low, high=high)
    foreseen = {verdict for step in steps for verdict in step.verdicts}
    if foreseen == {"equivalent"}:
        wanted, opposite = _exactly(0.0), by or margin or 0.0
    elif by is not None or "equivalent" in foreseen:
        size = by or margin or 0.0
        wanted, opposite = _exactly(size), -size
    else:
        wanted = _each(lambda sd: _size_with_power(chance, sd), sd)
        if math.isinf(max(wanted.at, wanted.high)):
            return replace(claimed, why=f"no difference comes true with a chance of {100 * POWER:.0f} %")
        opposite = -wanted.at
    power = Interval(at=chance(wanted.at, sd.at), low=chance(wanted.high, sd.high), high=chance(wanted.low, sd.low))
    return replace(
        claimed,
        difference=wanted,
        given=claim.by is not None,
        power=power,
        if_nothing=chance(0.0, sd.at),
        opposite=opposite,
        if_opposite=chance(opposite, sd.at),
        sd=sd,
        n=family.n,
        level=family.level,
        tests=family.tests,
    )


def _why_none(
    claim: Expected,
    steps: Sequence[ClaimStep],
    family: _Family,
    floor: Floor | None,
    margin: float | None,
    by: float | None,
) -> str:
    if not steps:
        return "it is not known yet what is compared"
    if floor is None:
        return "there is no noise floor of its metric yet"
    if family.n < 2:
        return "one seed has no spread to judge by"
    if family.level <= 0:
        return "it was judged before, and no level is left for new findings"
    if floor.sd == 0:
        return "the differences of the floor do not vary"
    if any(family.place(step) is None for step in steps):
        trend = any(step.comparison.kind == "trend" for step in steps)
        return "it is of a speed-up, whose noise is not known" if trend else "its sides are not paired, as the floor is"
    if any("equivalent" in step.verdicts for step in steps) and margin is None:
        return "its margin has no value until the baseline has a mean"
    if claim.by is not None and by is None:
        return "its size has no value until the baseline has a mean"
    return ""


def _chance(
    claim: Expected, steps: Sequence[ClaimStep], family: _Family, margin: float | None, better: Better
) -> Chance:
    """The chance of every step at once, by the verdicts of the simulated family."""
    simulated = family.simulated
    assert simulated is not None
    shift = family.shift(claim, steps, better)
    wanted: list[tuple[int, list[int]]] = []
    for step in steps:
        place, up = family.place(step), family.up(step)
        assert place is not None
        codes = {direction(True, better): up, direction(False, better): -up, "equivalent": INSIDE}
        wanted.append((place, [codes[verdict] for verdict in step.verdicts]))

    def chance(difference: float, sd: float) -> float:
        found = simulated.verdicts(difference * shift, sd, margin)
        return float(np.logical_and.reduce([np.isin(found[:, place], codes) for place, codes in wanted]).mean())

    return chance


def _towards(step: ClaimStep, better: Better) -> int:
    """The sign of a difference towards what a step says: of two verdicts that differ, towards the first."""
    said = next((verdict for verdict in step.verdicts if verdict != "equivalent"), "better")
    return UP if said == direction(True, better) else DOWN


def _size_with_power(chance: Chance, sd: float) -> float:
    """The smallest difference at which a claim comes true with a chance of 80 %; infinite if none has it."""
    low, high = 0.0, sd
    while chance(high, sd) < POWER:
        low, high = high, 2 * high
        if high > LARGEST * sd:
            return math.inf
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle, sd) < POWER else (low, middle)
    return high


def _of_correlation(claim: Expected, plan: Plan, rules: Judge, account: Account, claimed: int) -> ClaimPower:
    """The power of a claim of a correlation: of one within each seed, drawn anew with every seed.

    It does not depend on the noise floor. Where variants differ by more than chance the correlation varies less from
    seed to seed than is taken here, and is found more often.
    """
    n, looks = plan.looks[-1] if plan.looks else len(plan.seeds), max(1, len(plan.looks))
    family = next(metrics for metrics in metric_families(rules) if claim.metric in metrics)
    level = judgement_of(plan, rules, family, account).least_level / looks
    power = ClaimPower(claim=claim.claim, of=claim.about, metric=claim.metric, scale=CORRELATION)
    if n < 2 or level <= 0:
        why = "one seed has no spread to judge by" if n < 2 else "no level is left for new findings"
        return replace(power, why=why)
    rows = sum(variant.setting.salt == 0 for variant in plan.variants)
    size = claim.by if isinstance(claim.by, float) else USUAL_CORRELATION
    chances = [correlation_power(rho, rows, n, level / claimed) for rho in (size, 0.0, -size)]
    return replace(
        power,
        difference=_exactly(size),
        given=claim.by is not None,
        power=_exactly(chances[0]),
        if_nothing=chances[1],
        opposite=-size,
        if_opposite=chances[2],
        n=n,
        level=level,
        tests=claimed,
    )


def _each(of: Callable[[float], float], sd: Interval) -> Interval:
    return Interval(at=of(sd.at), low=of(sd.low), high=of(sd.high))


# The number of seeds that would decide an undecided comparison.

NOT_PLANNED = ("floor", "strata", "mann_whitney")
"""Methods for which no number of seeds is planned: the noise is told by other runs, or within strata, or not at all."""


def seeds_needed(test: Tested, metric: Metric, ruling: Ruling) -> int | None:
    """The total number of seeds that would decide, at the level of one test of the family in the next judgement.

    It is always more than there are.

    None where nothing can be planned from the results (as where one seed's lack of fit is the error, or a run of a
    factorial has no result), and where no affordable number is enough.
    """
    if ruling.next_level <= 0 or test.method in NOT_PLANNED:
        return None
    level = ruling.next_level / ruling.tests
    if test.ranks is not None:
        return _seeds_by_ranks(test.ranks, level)
    if test.estimate is None or test.sd is None:
        return None
    seeds = _seeds_by_signs(test, metric, level) if test.sd == 0 else _seeds_by_spread(test, metric, level)
    return None if seeds is None else max(seeds, test.n + 1)


def _seeds_by_ranks(ranks: Ranked, level: float) -> int | None:
    """The seeds needed for the observed tendency, never fewer than would decide if all further ones agreed.

    The tendency is ignored where all seeds go one way, for which Noether's number is too large, and where there are too
    few seeds to decide at all and its number is not affordable: from so few seeds it is hardly known.
    """
    least, telling = statistics.fewest_seeds(level, open=ranks.open), ranks.n - ranks.ties
    if least is None:
        return None
    planned: int | None = 0
    if 0 < ranks.tendency < 1:
        planned = statistics.seeds_for_ranks(ranks.tendency, alpha=level)
    if planned is None and telling >= least:
        return None
    return statistics.seeds_for_agreement(ranks, alpha=level, least=max(planned or 0, ranks.ties + least))


def _seeds_by_signs(test: Tested, metric: Metric, level: float) -> int | None:
    if metric.margin is not None and abs(test.estimate or 0.0) < metric.margin:
        return statistics.seeds_for_signs(2 * level)
    return statistics.seeds_for_signs(level) if test.estimate else None


def _seeds_by_spread(test: Tested, metric: Metric, level: float) -> int | None:
    """The fewer of those for a narrow interval and, beyond the margin, those for finding the difference."""
    if not test.df or test.estimate is None or test.sd is None or test.n < 2:
        return None
    sd = statistics.sd_upper(test.sd, test.n)
    for_power = statistics.seeds_for_power(test.estimate, sd, alpha=level)
    if metric.margin is None:
        return for_power
    narrow = statistics.seeds_for_margin(sd, metric.margin, confidence=1 - level)
    ways = [n for n in (narrow, for_power if abs(test.estimate) > metric.margin else None) if n is not None]
    return min(ways, default=None)
