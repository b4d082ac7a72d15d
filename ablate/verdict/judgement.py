"""Judgement: which judgement of a question this is, with what is left of α, and which verdicts of earlier ones stand.

A question is a family: the comparisons of a plan on a metric, or on all metrics of a page. It stays the same question
at other seeds, on other machines and in any order of variants. Its comparisons have an account each: at data that
they were judged at, in whatever company, the verdict is the earlier one; at other data each judgement spends part of
α (`statistics.multiple_testing`), and earlier verdicts stand, unless their data contradict them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from ablate.block.normal_form import digest
from ablate.output import words
from ablate.output.words import interval
from ablate.space.judge import Judge
from ablate.space.metrics import AT_THE_END, Better, direction
from ablate.statistics.multiple_testing import spent
from ablate.verdict.contrasts import (
    Contrast,
    ContrastSource,
    JudgedDesign,
    comparison_id,
    contrasts,
    family_size,
    is_tested_on,
)
from ablate.verdict.summary import Effect, Judgement, StateCounts, Verdict, better_of, minus, verdict_of

# The account of a comparison: which judgement of it this is, with what is left of α, and over which family.
#
# The first judgement of a comparison spends 4 % of tables out of 5 %, the next at other data 0.8 %, then 0.16 %, each
# divided by Holm over the largest family that it was ever judged in. New comparisons beside earlier ones are tested
# at 4 % over all of them, so any verdict of the question is false in at most
#
#     Σ over judgements of   α_k · tested / family          4 · 3/3 + 4 · 2/5 = 5.6 %   for 2 new ones beside 3

State: TypeAlias = Literal["new", "again", "continued", "settled"]
"""`new`: never judged; `again`: judged, at other data; `continued`: the looks that were begun go on, in other company;
`settled`: judged at these data, in whatever company."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierVerdict:
    """A verdict of an earlier judgement, in the direction of the present one, and the number of seeds it saw.

    `elsewhere` names the metric or the scale of the effect, where it is another one.
    """

    effect: Effect
    seeds: int
    elsewhere: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonAccount:
    """The present judgement of a comparison: its `number`, and the share `left` of α.

    `earlier` is its earlier finding, or, where it is settled, its verdict.
    """

    state: State = "new"
    number: int = 1
    left: float = 1.0
    earlier: EarlierVerdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextJudgement:
    """The present judgement of a family. `accounts` are those of its comparisons, by metric and `comparison_id`.

    One that is not named is judged as judgement `number` of it, with the share `left` of α. `tests` is the size of the
    largest family (None: the comparisons of the plan). Unless the record of questions may count it (`counted`), no
    verdict is given. `so_far` is the share of tables in which any verdict of the question may be false, with this
    judgement, `among` that over the `questions` on trainings that are compared here.
    """

    question: str = ""
    number: int = 1
    left: float = 1.0
    counted: bool = True
    tests: int | None = None
    accounts: Mapping[tuple[str, str], ComparisonAccount] = field(default_factory=dict)
    so_far: float | None = None
    questions: int = 1
    among: float | None = None

    def of(self, metric: str, comparison: str) -> ComparisonAccount:
        place = metric, comparison
        if place in self.accounts:
            return self.accounts[place]
        state: State = "new" if self.number == 1 else "again"
        return ComparisonAccount(state=state, number=self.number, left=self.left)

    @property
    def before(self) -> float:
        """The share of α that is left before this judgement: of the comparisons that it tests, the largest."""
        tested = [account.left for account in self.accounts.values() if account.state != "settled"]
        return max(tested or [account.left for account in self.accounts.values()], default=self.left)

    def share(self, *, looks: bool) -> float:
        """The share of α that this judgement spends on the comparisons that it tests: of several, the largest."""
        settled = self.accounts and all(account.state == "settled" for account in self.accounts.values())
        return 0.0 if settled else spent(self.before, looks=looks)

    def after(self, *, looks: bool) -> float:
        """The share of α that it leaves."""
        return self.before - self.share(looks=looks)


FIRST = NextJudgement()  # a question that was never judged before

Account: TypeAlias = Mapping[str, NextJudgement]
"""The present judgement of each metric of a plan; a metric that is not named is judged as in `FIRST`."""


def any_false(shares: Iterable[float]) -> float:
    """The share of tables in which any of several questions has a false verdict, from that of each.

    1 - Π(1 - a): what independent questions reach; those that share a training are positively dependent, and reach less
    (Šidák 1967, of t with two sides).

    >>> round(any_false([0.04] * 8), 3)
    0.279
    """
    return 1 - math.prod(1 - share for share in shares)


# Questions, and what earlier judgements of them found.

OPPOSITE: Mapping[str, Verdict] = {
    "better": "worse",
    "worse": "better",
    "higher": "lower",
    "lower": "higher",
    "better_by_rank": "worse_by_rank",
    "worse_by_rank": "better_by_rank",
    "higher_by_rank": "lower_by_rank",
    "lower_by_rank": "higher_by_rank",
}

FOUND = (*OPPOSITE, "equivalent")  # the verdicts that stand at later judgements

OTHER_SIDE = "diverged runs ranked on another side then"
NOT_IN_JSON = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The comparisons that are judged together, by id, with the metrics."""

    id: str
    metrics: tuple[str, ...]
    comparisons: Mapping[str, Contrast]


def families(design: JudgedDesign, rules: Judge) -> tuple[Family, ...]:
    """The questions of a design, whatever its seeds.

    An id stands for the comparisons, the variants as they are trained (block, recipe, text, sizes), and the metrics
    with their scale and direction: the same id is the same to the last sign. Accounts know more (`comparison_key`).
    """
    comparisons = {comparison_id(contrast): contrast for contrast in contrasts(design) if contrast is not None}
    about = {"trained": sorted(design.trained.items()), "comparisons": sorted(comparisons)}
    every: list[Family] = []
    for metrics in metric_families(rules):
        ways = sorted((name, rules.metrics[name].scale, rules.metrics[name].better) for name in metrics)
        id = digest({**about, "metrics": ways}, 16)
        every.append(Family(id=id, metrics=metrics, comparisons=comparisons))
    return tuple(every)


def metric_families(rules: Judge) -> list[tuple[str, ...]]:
    """The metrics that are judged as one family: each, or all of the page."""
    return [tuple(rules.metrics)] if rules.family == "page" else [(name,) for name in rules.metrics]


def how_measured(design: JudgedDesign, rules: Judge, metrics: Sequence[str]) -> str:
    """The hash of what may differ between judgements at the same seeds, 16 hex digits: margins, windows of the
    evaluation and, for a metric that is read during training, how often it is read.
    """
    return _measured(design, metrics, sorted((name, rules.metrics[name].margin) for name in metrics))


def measured_alone(design: JudgedDesign, rules: Judge, metric: str) -> str:
    """The hash of `how_measured` for one metric, whatever its name where it has no margin."""
    margin = rules.metrics[metric].margin
    return _measured(design, (metric,), [] if margin == "none" else [(metric, margin)])


def _measured(design: JudgedDesign, metrics: Sequence[str], margins: Sequence[tuple[str, object]]) -> str:
    often = None if AT_THE_END.issuperset(metrics) else design.every
    return digest({"margins": margins, "windows": design.evaluation, "every": often}, 16)


def carried_over(effect: Effect, earlier: EarlierVerdict, seeds: int) -> Effect:
    """An effect with the verdict and numbers of an earlier judgement; `seeds` is the number of seeds seen now.

    The earlier verdict does not stand if the interval over all seeds seen now has no value of its sign, or none inside
    the margin. Equivalence, found then or now, takes precedence over a difference: it is too small to matter.
    """
    then = oriented(earlier, effect)
    alone = ", by itself undecided at its level" if effect.verdict == "undecided" else ""
    now = f"at the {seeds} seeds seen now: {_difference(effect)}, unadjusted{alone}"
    at = f"found{earlier.elsewhere and f' {earlier.elsewhere}'} at {words.plural(earlier.seeds, 'seed')}"
    origin = judged_as(then) if f"{at};" in then.note else f"{at}, {judged_as(then)}"
    if _against(then, effect):
        finding = "equivalence" if then.verdict == "equivalent" else "a difference"
        past = replace(then, note="")
        note = f"{finding} was {origin}: {_difference(past)}; no longer {now}"
        verdict = "undecided" if effect.verdict in FOUND else effect.verdict
        effect = replace(effect, verdict=verdict, differs=False, note=_with(effect.note, note))
        if verdict != "undecided":
            return effect
        return replace(effect, adjusted_low=None, adjusted_high=None, adjusted_confidence=None)
    if effect.verdict == "equivalent" and then.verdict != "equivalent":
        note = f"a difference was {origin}: {_difference(then)}"
        return replace(effect, differs=True, note=_with(effect.note, note))
    differs = then.differs or (then.verdict == "equivalent" and effect.verdict in OPPOSITE)
    if earlier.elsewhere:
        return _as_elsewhere(effect, replace(then, differs=differs), f"{origin}: {_difference(then)}")
    return replace(
        then,
        kind=effect.kind,
        change=effect.change,
        before=effect.before,
        after=effect.after,
        terms=effect.terms,
        differs=differs,
        seeds_needed=None,
        note=_with(then.note, f"{origin}; {now}"),
    )


def settled(effect: Effect, earlier: EarlierVerdict) -> Effect:
    """An effect as it was judged at these very data, with the names that it has now."""
    then, now = oriented(earlier, effect), effect
    if earlier.elsewhere:
        return _as_elsewhere(effect, then, f"judged {earlier.elsewhere}, {judged_as(then)}: {_difference(then)}")
    return replace(then, kind=now.kind, change=now.change, before=now.before, after=now.after, terms=now.terms)


def _as_elsewhere(effect: Effect, then: Effect, origin: str) -> Effect:
    """An effect with the verdict that it has on another metric or scale, whose numbers are not its own."""
    return replace(
        effect,
        verdict=then.verdict,
        differs=then.differs,
        level=then.level,
        judgement=then.judgement,
        p_adjusted=None,
        p_equivalent_adjusted=None,
        adjusted_low=None,
        adjusted_high=None,
        adjusted_confidence=None,
        seeds_needed=None,
        note=_with(effect.note, origin),
    )


def oriented(earlier: EarlierVerdict, effect: Effect) -> Effect:
    return earlier.effect if earlier.effect.before == effect.before else turned(earlier.effect)


def _difference(effect: Effect) -> str:
    return interval(effect.estimate, effect.low, effect.high, log=effect.scale == "log")


def _with(note: str, more: str) -> str:
    return "; ".join(filter(None, (note, more)))


def _against(then: Effect, now: Effect) -> bool:
    """True if the present interval contradicts the earlier finding; or, where a run diverged since, ranks go the other
    way, or equivalence was found: a diverged run is not equivalent to anything.
    """
    if now.ranked:
        return then.verdict == "equivalent" or _up(then) * _up(now) < 0
    if now.low is None or now.high is None:
        return False
    if then.verdict == "equivalent":
        margin = now.margin if now.margin is not None else then.margin
        return margin is not None and (now.low > margin or now.high < -margin)
    return now.high < 0 if _up(then) > 0 else now.low > 0


def _up(effect: Effect) -> float:
    return (effect.rank_sum if effect.ranked else effect.estimate) or 0.0


def turned(effect: Effect) -> Effect:
    return replace(
        effect,
        verdict=OPPOSITE.get(effect.verdict, effect.verdict),
        before=effect.after,
        after=effect.before,
        ended_before=effect.ended_after,
        ended_after=effect.ended_before,
        diverged_before=effect.diverged_after,
        diverged_after=effect.diverged_before,
        unusable_before=effect.unusable_after,
        unusable_after=effect.unusable_before,
        estimate=minus(effect.estimate),
        low=minus(effect.high),
        high=minus(effect.low),
        tost_low=minus(effect.tost_high),
        tost_high=minus(effect.tost_low),
        adjusted_low=minus(effect.adjusted_high),
        adjusted_high=minus(effect.adjusted_low),
        rank_sum=minus(effect.rank_sum),
    )


def renamed(effect: Effect, then: Better, now: Better) -> Effect:
    """An effect that was found where one side of its metric was better, as it is called where another is.

    By ranks, where diverged runs stood on the worse side, it was found of that side alone, and is undecided of another.
    """
    before, after = better_of(effect.kind, then), better_of(effect.kind, now)
    if before == after or effect.verdict not in OPPOSITE:
        return effect
    if effect.ranked:
        note = _with(effect.note, OTHER_SIDE)
        return replace(effect, verdict="undecided", p=None, p_adjusted=None, q=None, note=note)
    up = effect.verdict == direction(True, before)
    return replace(effect, verdict=verdict_of(up, after, by_rank=False))


def judged_as(effect: Effect) -> str:
    """A text such as `judged for the first time, at 4 %`."""
    return f"judged for the {words.ordinal(effect.judgement or 1)} time, at {words.percent(effect.level or 0.0)}"


class LookedAt(ContrastSource, Protocol):
    """A source of comparisons with the numbers of seeds of its interim analyses."""

    @property
    def looks(self) -> tuple[int, ...]:
        """Those numbers; none where seeds are fixed."""


def judgement_of(design: LookedAt, rules: Judge, metrics: Sequence[str], account: Account) -> Judgement:
    alpha, looks, held = 1 - rules.confidence, bool(design.looks), account.get(metrics[0], FIRST)
    questions = [question for question in dict.fromkeys(contrasts(design)) if question is not None]
    accounts = [
        held.of(name, comparison_id(question))
        for question in questions
        for name in metrics
        if is_tested_on(question, name)
    ]
    states = Counter(account.state for account in accounts)
    again = [alpha * spent(each.left, looks=looks) for each in accounts if each.state == "again"]
    share = alpha * held.share(looks=looks)
    known = [each.earlier.effect.level or 0.0 for each in accounts if each.earlier]
    return Judgement(
        question=held.question,
        metrics=tuple(metrics),
        number=max((account.number for account in accounts), default=held.number),
        level=share if states.total() > states["settled"] else max(known, default=share),
        next_level=alpha * spent(held.after(looks=looks)),
        left=alpha * held.after(looks=looks),
        tests=held.tests or max(1, family_size(design, metrics, page=True)),
        states=StateCounts(
            new=states["new"], again=states["again"], continued=states["continued"], settled=states["settled"]
        ),
        again_level=max(again, default=0.0),
        again_number=max((each.number for each in accounts if each.state == "again"), default=1),
        so_far=share if held.so_far is None else held.so_far,
        questions=held.questions,
        among=share if held.among is None else held.among,
    )


def judgement_notes(judgements: Sequence[Judgement], *, several: bool) -> Iterator[str]:
    of: dict[str, list[str]] = {}
    for judgement in judgements:
        if note := _judgement_note(judgement):
            of.setdefault(note, []).extend(judgement.metrics)
    whole = sum(len(judgement.metrics) for judgement in judgements)
    for note, metrics in of.items():
        yield note if len(metrics) == whole or not several else f"{', '.join(metrics)}: {note}"


def _judgement_note(judgement: Judgement) -> str:
    ordinal, level = words.ordinal(judgement.number), words.percent(judgement.level)
    states = judgement.states
    if judgement.pending and states.settled:
        left = states.new + states.again + states.continued
        return (
            f"no verdict yet on {left} of {left + states.settled} comparisons: {judgement.pending}; what was judged "
            "before stands"
        )
    if judgement.pending:
        return f"no verdicts yet: {judgement.pending}; the {ordinal} judgement, at {level}"
    return "; ".join(told_of(judgement))


def told_of(judgement: Judgement) -> Iterator[str]:
    """Yield the earlier judgements of a question in words, and how often a verdict of it may be false so far."""
    states = judgement.states
    new, again, continued, settled = states.new, states.again, states.continued, states.settled
    tests = judgement.tests
    among = f"{again} of {tests} comparisons " if new or continued or settled else ""
    time = f"a {words.ordinal(judgement.again_number)} time"
    if again and judgement.again_level == 0:
        yield (
            f"{among}judged {time}, at 0 %: no α is left for {'these' if among else 'this question'}, so earlier "
            "findings stand and none is added; at seeds that were not seen here it may be asked again, in a results "
            "folder of its own"
        )
    elif again:
        over = f" over all {tests}" if tests > again else ""
        level = words.percent(judgement.again_level)
        yield (
            f"{among}judged {time}, at {level}{over}: earlier judgements had other seeds, results or margins, and "
            "their findings stand"
        )
    if continued and (new or again or settled):
        yield f"{continued} of {tests} {'goes on with its' if continued == 1 else 'go on with their'} interim analyses"
    if settled and not new and tests > settled + again + continued:
        yield f"judged before, among {tests}: leaving arms out changes nothing"
    elif settled and not judgement.tested:
        yield "judged before, at the same seeds and margins: the verdicts stand"
    if new and (again or continued or settled):
        level = words.percent(judgement.level)
        yield (
            f"{new} of {tests} {'is' if new == 1 else 'are'} new{',' if new == 1 else ', each'} at {level} over all "
            f"{tests}: any false verdict in this question so far in at most {words.percent(judgement.so_far)}"
        )
    if judgement.questions > 1:
        yield (
            f"these trainings were asked {judgement.questions} questions: at least one false verdict among them in up "
            f"to {words.percent(judgement.among)}"
        )


def effect_of(document: Mapping[str, Any]) -> Effect:
    """An effect from its document in the record, where NaN and infinities, absent in JSON, are texts."""
    known = {name: value for name, value in document.items() if name in Effect.__dataclass_fields__}
    return Effect(**known | {name: float(value) for name, value in known.items() if value in NOT_IN_JSON})


def effect_documents(
    effects: Sequence[Effect], questions: Sequence[Contrast | None], metrics: Sequence[str], keys: Mapping[str, str]
) -> list[dict[str, str | float | None]]:
    """The effects of a family on its metrics as documents for the record, each comparison once, by its key."""
    documents: dict[tuple[str, str], dict[str, str | float | None]] = {}
    every = dict.fromkeys(effect.metric for effect in effects)
    asked = [
        question  # effects go metric by metric within each comparison
        for question in questions
        for metric in every
        if question is None or is_tested_on(question, metric)
    ]
    for question, effect in zip(asked, effects, strict=True):
        if question is not None and effect.metric in metrics:
            key = keys[comparison_id(question)]
            documents.setdefault((key, effect.metric), {"comparison": key, **asdict(effect)})
    return list(documents.values())
