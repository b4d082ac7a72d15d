"""The analysis at a number of seeds and, where there are several looks (interim analyses), what they find in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablate import statistics
from ablate.plan.plan import Factors
from ablate.space.judge import Judge
from ablate.statistics.multiple_testing import spent
from ablate.verdict.contrasts import (
    Contrast,
    Difference,
    FactorialEffect,
    SpeedUpTrend,
    WeightedSum,
    comparison_id,
    contrasts,
    is_tested_on,
)
from ablate.verdict.experiment import Experiment, Finals, Seed, Side, pair, same_results, sides
from ablate.verdict.factorial import Analysed, analyse
from ablate.verdict.hypothesis_test import (
    Ruling,
    Tested,
    judged_metric,
    test_by_floor,
    test_by_rank_sum,
    test_pairs,
    test_sum,
)
from ablate.verdict.judgement import FIRST, Account
from ablate.verdict.ladder import test_trend
from ablate.verdict.multiplicity import NOTHING, Asked, Corrected, Share, correct
from ablate.verdict.summary import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimAnalysis:
    """Every contrast tested at the first seeds of a plan, with p-values corrected over the family.

    `factorials` are by metric and terms. `elsewhere`: the numbers are of a table, which may have rounded them.
    """

    seeds: tuple[Seed, ...]
    sides: Mapping[str, Side]
    metrics: tuple[Metric, ...]
    tested: Mapping[Asked, Tested]
    corrected: Mapping[Asked, Corrected]
    factorials: Mapping[tuple[str, str], Analysed]
    factors: tuple[tuple[str, Factors], ...]
    rulings: Mapping[Asked, Ruling]
    elsewhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimAnalyses:
    """The looks that count, in order, and `looked`, the number of seeds at the last.

    `looked` is None where no look counts yet, and the one here only shows numbers. `every` has the variants at all
    seeds. `left` is the number of trials that verdicts wait for, of `planned` in all; `held` is the level that adjusted
    p-values of a contrast are compared with, 0 where it is settled.
    """

    looks: tuple[InterimAnalysis, ...]
    looked: int | None
    every: Mapping[str, Side]
    held: Mapping[Asked, float]
    left: int = 0
    planned: int = 0

    @property
    def look(self) -> InterimAnalysis:
        return self.looks[-1]


def analyse_looks(experiment: Experiment, rules: Judge, finals: Finals, account: Account) -> InterimAnalyses:
    """Analyse the trials that have ended: at the plan's seeds, or at one look after another until all is decided.

    A look counts once every trial of its seeds has ended, with or without a result: judging partial results, and then
    more, would amount to uncounted looks. Before that, and where the `account`, which says how much of α may be spent,
    does not count the judgement, the numbers of the first look are shown and nothing is significant.
    """
    every = sides(experiment, finals)
    shares = _shares(experiment, rules, account)
    if experiment.looks:
        return _each_look(experiment, rules, every, shares, account)
    look = _look(experiment, rules, every, shares, experiment.seeds, 1 - rules.confidence)
    judged = _judged(experiment, every).values()
    left = sum(len(side.seeds - _ended(side)) for side in judged)
    if left:
        look = replace(look, corrected=dict.fromkeys(look.tested, NOTHING))
    return InterimAnalyses(
        looks=(_uncounted(look, account),),
        looked=None,
        every=every,
        held={request: share.held for request, share in shares.items()},
        left=left,
        planned=sum(len(side.seeds) for side in judged),
    )


def _shares(experiment: Experiment, rules: Judge, account: Account) -> dict[Asked, Share]:
    questions = tuple(question for question in dict.fromkeys(contrasts(experiment)) if question is not None)
    each = {name: sum(is_tested_on(question, name) for question in questions) for name in rules.metrics}
    alpha, several = 1 - rules.confidence, bool(experiment.looks)

    def share(name: str, question: Contrast) -> Share:
        held = account.get(name, FIRST)
        own = held.of(name, comparison_id(question))
        family = held.tests or max(1, sum(each.values()) if rules.family == "page" else each[name])
        if own.state == "settled":
            then = own.earlier.effect.level if own.earlier else None
            return Share(wave="", held=0.0, level=then or 0.0, next_level=0.0, family=family)
        now = spent(own.left, looks=several)
        # The last look leaves no α for another judgement.
        after = alpha * now if several else alpha * spent(own.left - now)
        wave = f"{own.state} {own.number} {own.left!r}"  # what has no α left is rejected with nothing, nor with others
        return Share(wave=wave, held=alpha * now, level=alpha * now, next_level=after, family=family)

    asked = ((name, question) for question in questions for name in rules.metrics if is_tested_on(question, name))
    return {request: share(*request) for request in asked}


def _uncounted(look: InterimAnalysis, account: Account) -> InterimAnalysis:
    counted = {request: account.get(request[0], FIRST).counted for request in look.tested}
    if all(counted.values()):
        return look
    return replace(
        look,
        corrected={
            request: corrected if counted[request] else NOTHING for request, corrected in look.corrected.items()
        },
    )


def _each_look(
    experiment: Experiment, rules: Judge, every: Mapping[str, Side], shares: Mapping[Asked, Share], account: Account
) -> InterimAnalyses:
    margin = any(judged.margin != "none" for judged in rules.metrics.values())
    held = {request: share.held for request, share in shares.items()}
    most = max((share.family for share in shares.values()), default=1)
    whole = statistics.boundaries(experiment.looks, most, alpha=1 - rules.confidence, margin=margin)

    def at(share: Share, place: int) -> Share:
        level = share.held
        if level > 0:
            level = statistics.boundaries(experiment.looks, share.family, alpha=level, margin=margin).levels[place]
        return replace(share, level=level, next_level=level if place + 1 < len(experiment.looks) else 0.0)

    reached: list[InterimAnalysis] = []
    for place, n in enumerate(experiment.looks):
        seeds = experiment.seeds[:n]
        complete = len(seeds) == n and all(set(seeds) <= _ended(side) for side in _judged(experiment, every).values())
        if not complete and reached:
            break
        here = {request: at(share, place) for request, share in shares.items()}
        look = _uncounted(_look(experiment, rules, every, here, seeds, whole.interval_levels[place]), account)
        if not complete:
            nothing = replace(look, corrected=dict.fromkeys(look.tested, NOTHING))
            return InterimAnalyses(looks=(nothing,), looked=None, every=every, held=held)
        reached.append(look)
        open_ones = [request for request in look.tested if held[request] > 0] or look.tested
        if all(is_decided(request, reached, held[request]) for request in open_ones):
            break
    return InterimAnalyses(looks=tuple(reached), looked=len(reached[-1].seeds), every=every, held=held)


def is_decided(request: Asked, looks: Sequence[InterimAnalysis], level: float) -> bool:
    """True for a difference, equivalence, a variant that diverged at every seed, or two that are identical."""
    findings = stand(request, looks, level)
    found = findings.difference is not None or findings.inside is not None
    return found or lost(request[1], looks[-1]) or the_same(request, looks[-1])


def the_same(request: Asked, look: InterimAnalysis) -> bool:
    """True for a contrast of two variants whose results are identical at every seed, on its metric too."""
    question, test = request[1], look.tested[request]
    tied = test.ranks is None and test.estimate == 0 and test.sd == 0
    if not tied or look.elsewhere or not isinstance(question, Difference):
        return False
    return same_results(look.sides[question.first], look.sides[question.second])


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The looks at which a difference, and equivalence, were first found; None where there is none, or where the
    interval of the last look contradicts the earlier finding: `no_difference` and `not_inside` are then that earlier
    look.
    """

    difference: InterimAnalysis | None
    inside: InterimAnalysis | None
    no_difference: InterimAnalysis | None
    not_inside: InterimAnalysis | None

    @property
    def shown(self) -> InterimAnalysis | None:
        """The look whose numbers support the verdict, None without a finding; equivalence takes precedence."""
        return self.inside or self.difference


def stand(request: Asked, looks: Sequence[InterimAnalysis], level: float) -> Findings:
    """The findings of the looks up to the last about a contrast.

    A finding stands at later looks, which the levels allow for, unless the repeated confidence interval of the last
    look (whose confidence holds for all looks together) has no value of that sign, or none inside the margin.
    """
    name, now = request[0], looks[-1]
    margin = next(metric.margin for metric in now.metrics if metric.name == name)
    difference = next((look for look in looks if look.corrected[request].significant(level)), None)
    inside = next((look for look in looks if look.corrected[request].equivalent(level)), None)
    other_sign = difference is not None and _excludes(now.tested[request], up=difference.tested[request].up)
    outside = inside is not None and margin is not None and _beyond(now.tested[request], margin)
    return Findings(
        difference=None if other_sign else difference,
        inside=None if outside else inside,
        no_difference=difference if other_sign else None,
        not_inside=inside if outside else None,
    )


def _excludes(test: Tested, *, up: bool) -> bool:
    """True if the interval has no difference of that sign or, with a run lost since, ranks go the other way."""
    if test.ranks is not None:
        return test.ranks.total < 0 if up else test.ranks.total > 0
    return test.low is not None and test.high is not None and (test.high < 0 if up else test.low > 0)


def _beyond(test: Tested, margin: float) -> bool:
    """True if the interval has no difference inside the margin, or a run was lost: it is not equivalent."""
    if test.ranks is not None:
        return True
    return test.low is not None and test.high is not None and (test.low > margin or test.high < -margin)


def lost(question: Contrast, look: InterimAnalysis) -> bool:
    """True if a variant of the contrast diverged at every seed, so that there is nothing to compare."""
    if isinstance(question, FactorialEffect):
        analysed = [test for (_, effect), test in look.tested.items() if effect == question]
        gone = any(look.sides[variant].lost for variant, _ in question.runs)
        return gone and all(test.estimate is None for test in analysed)
    return any(look.sides[variant].lost for variant in variants_of(question))


def variants_of(question: Contrast) -> tuple[str, ...]:
    if isinstance(question, Difference):
        return question.first, question.second
    if isinstance(question, WeightedSum):
        return tuple(variant for variant, _ in question.weights)
    if isinstance(question, SpeedUpTrend):
        return tuple(variant for pair_of in question.pairs for variant in pair_of)
    return tuple(dict.fromkeys(variant for variant, _ in question.runs))


def _judged(experiment: Experiment, every: Mapping[str, Side]) -> dict[str, Side]:
    """The sides of all variants but those that differ in their initialisation alone (A/A)."""
    return {v.id: every[v.id] for v in experiment.variants if not v.noise}


def _ended(side: Side) -> set[Seed]:
    return {*side.finished, *side.diverged, *(seed for seed, why in side.missing.items() if why != "not run")}


def _look(
    experiment: Experiment,
    rules: Judge,
    every: Mapping[str, Side],
    shares: Mapping[Asked, Share],
    seeds: tuple[Seed, ...],
    interval_level: float,
) -> InterimAnalysis:
    """Intervals have the confidence of 1 - `interval_level`."""
    among, looks = frozenset(seeds), bool(experiment.looks)
    here = {id: side.at(among) for id, side in _judged(experiment, every).items()}
    names = {variant.id: variant.name for variant in experiment.variants}
    compute = {variant.id: variant.compute for variant in experiment.variants}
    baseline = experiment.baseline
    metrics = {
        name: judged_metric(name, judged, names[baseline], here[baseline]) for name, judged in rules.metrics.items()
    }
    rulings = {
        request: Ruling(
            confidence=1 - interval_level,
            level=share.level,
            tests=share.family,
            next_level=share.next_level,
            look=looks,
        )
        for request, share in shares.items()
    }
    factorials: dict[tuple[str, str], Analysed] = {}
    effects: dict[Asked, Tested] = {}
    for metric in metrics.values():
        for terms, factors in experiment.factors:
            own = {edits: (metric.name, FactorialEffect(edits, factors.runs)) for edits in factors.effects}
            rest = [rulings[request] for request in own.values() if request in rulings]
            ruling = min(rest, key=lambda ruling: ruling.level_of_one, default=None)
            if ruling is None:
                continue
            factorials[metric.name, terms] = analysed = analyse(factors, names, here, seeds, metric, ruling)
            effects |= {own[edits]: test for edits, test in analysed.tested.items()}
    tested: dict[Asked, Tested] = {}
    for name, question in shares:
        metric, ruling = metrics[name], rulings[name, question]
        if isinstance(question, FactorialEffect):
            tested[name, question] = effects[name, question]
        elif isinstance(question, SpeedUpTrend):
            tested[name, question] = test_trend(question, here, compute, metric, ruling)
        else:
            tested[name, question] = _test(question, names, here, metric, ruling, experiment)
    return InterimAnalysis(
        seeds=seeds,
        sides=here,
        metrics=tuple(metrics.values()),
        tested=tested,
        corrected=correct(tested, rules, shares),
        factorials=factorials,
        factors=experiment.factors,
        rulings=rulings,
        elsewhere=experiment.elsewhere,
    )


def _test(
    question: Difference | WeightedSum,
    names: Mapping[str, str],
    of: Mapping[str, Side],
    metric: Metric,
    ruling: Ruling,
    experiment: Experiment,
) -> Tested:
    if isinstance(question, Difference):
        first, second = of[question.first], of[question.second]
        if metric.name in experiment.noise:
            return test_by_floor(first, second, experiment.noise[metric.name], metric, ruling)
        lost = bool(first.diverged or second.diverged)
        apart = experiment.elsewhere and not question.paired and not experiment.strata
        if experiment.by_ranks or (apart and lost):  # of runs without partners, one that diverged is worse than any
            return test_by_rank_sum(first, second, metric, ruling)
        pairs = pair(first, second, metric.name, log=metric.log)
        independent = None if question.paired else (first, second)
        return test_pairs(pairs, metric, ruling, independent=independent, strata=experiment.strata)
    named = [(names[variant], of[variant]) for variant, _ in question.weights]
    return test_sum([weight for _, weight in question.weights], named, metric, ruling)
