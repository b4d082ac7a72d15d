"""Which judgement of a question this is, at what level it is held, and which verdicts of earlier ones stand.

A question is a family: the comparisons of a plan on a metric, or on all metrics of a page, over which the chance of a
false verdict is bounded. It is the same question at whatever seeds, machine or order of variants. A judgement is the
set of seeds that it saw: the same seeds again are no other judgement, unless one that had no result then has one now,
or a margin or the evaluation is another (see `how_measured`). Each spends of the question's α (`alpha_spending.py`),
and what one has found the later ones find, too, unless their data speak against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ablate.block.fingerprint import digest
from ablate.output import numbers, words
from ablate.output.numbers import interval
from ablate.plan.identity import training_of
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.space.documents import Judge, Judged
from ablate.space.metrics import AT_THE_END
from ablate.statistics.alpha_spending import spent
from ablate.verdict.contrasts import Contrast, Difference, WeightedSum, contrasts
from ablate.verdict.finals import Finals
from ablate.verdict.summary import Effect, Judgement

FOUND = ("better", "worse", "better_by_rank", "worse_by_rank", "equivalent")
"""The verdicts that stand at later judgements: what the numbers of seeds have shown."""

RESULTS = ("finished", "diverged")
"""How a trial ends that has a result."""

NOT_IN_JSON = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierVerdict:
    """A verdict that an earlier judgement gave: its effect, and how many seeds that judgement saw."""

    effect: Effect
    seeds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextJudgement:
    """How a family is judged now: as judgement `number` of its `question`, from the share `left` of α.

    `given` are the verdicts of earlier judgements by metric and comparison (`comparison_id`). `counted` tells whether
    the record of questions may count this judgement: where it may not, numbers are shown and no verdict is given.
    """

    question: str = ""
    number: int = 1
    left: float = 1.0
    given: Mapping[tuple[str, str], EarlierVerdict] = field(default_factory=dict)
    counted: bool = True

    def share(self, *, looks: bool) -> float:
        """The share of α that it is held at."""
        return spent(self.left, looks=looks)

    def next_share(self, *, looks: bool) -> float:
        """The share of α that fixed seeds are held at after it."""
        return spent(self.left - self.share(looks=looks))


FIRST = NextJudgement()
"""A question that was never judged before."""

Account = Mapping[str, NextJudgement]
"""How each metric of a plan is judged now; of one that is not named, `FIRST`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What is judged together: its id, its metrics, and its comparisons by id."""

    id: str
    metrics: tuple[str, ...]
    comparisons: Mapping[str, Contrast]


def families(plan: Plan, rules: Judge) -> tuple[Family, ...]:
    """The questions of a plan, by what they ask and not by the seeds that it has.

    An id stands for the comparisons, the variants as they are trained (block, recipe, text, sizes), and the metrics
    with their scale and direction. Margins, what else is measured, threads and versions are not in it: who changes
    these, and judges the same trainings anew, spends from the same account.
    """
    trained = {t.variant: training_of(t) for t in reversed(tuple(_judged_trials(plan)))}
    comparisons = {comparison_id(one): one for one in contrasts(plan) if one is not None}
    about = {"trained": sorted(trained.items()), "comparisons": sorted(comparisons)}
    groups = [tuple(rules.metrics)] if rules.family == "page" else [(name,) for name in rules.metrics]
    return tuple(
        Family(
            id=digest({**about, "metrics": sorted((m, *_way(rules.metrics[m])) for m in metrics)}, 16),
            metrics=metrics,
            comparisons=comparisons,
        )
        for metrics in groups
    )


def _way(judged: Judged) -> tuple[str, str]:
    return judged.scale, judged.better


def how_measured(plan: Plan, rules: Judge, metrics: Sequence[str]) -> str:
    """What of a judgement at the same seeds may be another, 16 hex digits: margins, windows of the evaluation and, of a
    metric that is read on the way, how often that is.
    """
    evaluation = plan.trials[0].measure.evaluation if plan.trials else None
    often = evaluation.every if evaluation and not AT_THE_END.issuperset(metrics) else None
    margins = sorted((name, rules.metrics[name].margin) for name in metrics)
    return digest({"margins": margins, "windows": evaluation and evaluation.windows, "every": often}, 16)


def without_result(plan: Plan, finals: Finals, seeds: Sequence[int]) -> tuple[tuple[str, int], ...]:
    """The variants and seeds whose trials ended without a result, to be judged without them."""
    among = {(trial.variant, trial.seed): finals.get(trial.id) for trial in _judged_trials(plan) if trial.seed in seeds}
    return tuple(sorted(one for one, final in among.items() if final and final["status"] not in RESULTS))


def with_result(plan: Plan, finals: Finals) -> frozenset[tuple[str, int]]:
    """The variants and seeds whose trials have a result."""
    ended = {(trial.variant, trial.seed): finals.get(trial.id) for trial in _judged_trials(plan)}
    return frozenset(one for one, final in ended.items() if final and final["status"] in RESULTS)


def _judged_trials(plan: Plan) -> Iterator[Trial]:
    return (trial for trial in plan.trials if trial.split == "verdict" and trial.salt == 0)


def comparison_id(question: Contrast) -> str:
    """What is compared, by the ids of its variants: the same for whichever is called before, and after."""
    if isinstance(question, Difference):
        return digest(["difference", question.one, question.other], 16)
    if isinstance(question, WeightedSum):
        return digest(["sum", sorted(question.weights)], 16)
    return digest(["effect", question.edits, sorted(question.runs)], 16)


def carried_over(effect: Effect, earlier: EarlierVerdict, seeds: int) -> Effect:
    """An effect with the verdict of an earlier judgement, whose numbers it then has; `seeds` are those seen now.

    It does not stand in the face of an interval, of all seeds seen now, with no value of its sign or none inside the
    margin. What was found equivalent, or is now, is so whatever else was found: it is too small to matter.
    """
    then = earlier.effect if earlier.effect.before == effect.before else turned(earlier.effect)
    now = f"at the {seeds} seeds seen now: {_difference(effect)}"
    at = f"found at {words.plural(earlier.seeds, 'seed')}"
    told = judged_as(then) if f"{at};" in then.note else f"{at}, {judged_as(then)}"
    if _against(then, effect):
        found = "equivalence" if then.verdict == "equivalent" else "a difference"
        past = replace(then, note="")
        note = f"{found} was {told}: {_difference(past)}; {now}, no more so"
        verdict = "undecided" if effect.verdict in FOUND else effect.verdict
        effect = replace(effect, verdict=verdict, differs=False, note=_with(effect.note, note))
        if verdict != "undecided":
            return effect
        return replace(effect, adjusted_low=None, adjusted_high=None, adjusted_confidence=None)
    if effect.verdict == "equivalent" and then.verdict != "equivalent":
        note = f"a difference was {told}: {_difference(then)}"
        return replace(effect, differs=True, note=_with(effect.note, note))
    differs = then.differs or (then.verdict == "equivalent" and effect.verdict in ("better", "worse"))
    return replace(
        then,
        kind=effect.kind,
        change=effect.change,
        before=effect.before,
        after=effect.after,
        terms=effect.terms,
        differs=differs,
        seeds_needed=None,
        note=_with(then.note, f"{told}; {now}"),
    )


def _difference(effect: Effect) -> str:
    return interval(effect.estimate, effect.low, effect.high, log=effect.scale == "log")


def _with(note: str, more: str) -> str:
    return "; ".join(filter(None, (note, more)))


def _against(then: Effect, now: Effect) -> bool:
    """Whether the interval of now holds nothing of what was found then; or a run diverged since, and ranks go the other
    way: nor is what diverged equivalent.
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
    """Above zero where it goes up."""
    return (effect.rank_sum if effect.ranked else effect.estimate) or 0.0


def turned(effect: Effect) -> Effect:
    """The same effect with before and after changed about."""

    def minus(value: float | None) -> float | None:
        return None if value is None else -value

    other = {"better": "worse", "better_by_rank": "worse_by_rank"}
    other |= {after: before for before, after in other.items()}
    return replace(
        effect,
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
        verdict=other.get(effect.verdict, effect.verdict),  # type: ignore[arg-type]
    )


def judged_as(effect: Effect) -> str:
    """`judged the first time, at 4 %`."""
    return f"judged the {words.ordinal(effect.judgement or 1)} time, at {numbers.percent(effect.level or 0.0)}"


def judgement_notes(judgements: Sequence[Judgement], *, several: bool) -> Iterator[str]:
    """Which judgement it is where it is not the first, and why there is none yet; metrics that share it in one line."""
    of: dict[str, list[str]] = {}
    for one in judgements:
        if said := _judgement_note(one):
            of.setdefault(said, []).extend(one.metrics)
    whole = sum(len(one.metrics) for one in judgements)
    for said, metrics in of.items():
        yield said if len(metrics) == whole or not several else f"{', '.join(metrics)}: {said}"


def _judgement_note(one: Judgement) -> str:
    ordinal, level = words.ordinal(one.number), numbers.percent(one.level)
    time = f"a {ordinal} time" if one.number > 1 else "the first time"
    if one.pending:
        return f"no verdicts yet: {one.pending}, and then it is judged {time}, at {level}"
    if one.number == 1:
        return ""
    if one.level == 0:
        return (
            f"judged {time}, at 0 %: nothing is left to judge this question by, so what was found stands and nothing "
            "is added; at seeds that were not seen here it may be asked anew, in a results folder of its own"
        )
    return f"judged {time}, at {level}: other seeds, results or margins were before, and what they have shown stands"


def effect_of(document: Mapping[str, Any]) -> Effect:
    """An effect from its document in the record, in which text stands for what JSON has no number for."""
    known: dict[str, Any] = {name: document[name] for name in Effect.__dataclass_fields__ if name in document}
    numbers: dict[str, Any] = {name: float(value) for name, value in known.items() if value in NOT_IN_JSON}
    return Effect(**known | numbers)


def effect_documents(
    effects: Sequence[Effect], asked: Sequence[Contrast | None], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """The effects of a family on its metrics as the record keeps them: each comparison once."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    each = max(1, len(effects) // max(1, len(asked)))  # effects go metric by metric within each comparison
    for place, effect in enumerate(effects):
        question = asked[place // each]
        if question is not None and effect.metric in metrics:
            key = comparison_id(question)
            found.setdefault((key, effect.metric), {"comparison": key, **asdict(effect)})
    return list(found.values())
