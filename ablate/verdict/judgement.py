"""Which judgement of a question this is, at what level it is held, and which verdicts of earlier ones stand.

A question is a family: the comparisons of a plan on a metric, or on all metrics of a page, over which the chance of a
false verdict is bounded. It stays the same question at other seeds, on other machines and in any order of variants. A
judgement is identified by the seeds that it saw: the same seeds again are not a new judgement, unless a trial that had
no result has one now, or a margin or the evaluation has changed (see `how_measured`). Each judgement spends part of the
question's α (`alpha_spending.py`), and its verdicts stand at later ones, unless their data contradict them.
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
from ablate.verdict.contrasts import Contrast, Difference, SpeedUpTrend, WeightedSum, contrasts, is_tested_on
from ablate.verdict.finals import Finals
from ablate.verdict.summary import Effect, Judgement

FOUND = ("better", "worse", "better_by_rank", "worse_by_rank", "equivalent")
"""The verdicts that stand at later judgements."""

RESULTS = ("finished", "diverged")
"""The endings of a trial that has a result."""

NOT_IN_JSON = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierVerdict:
    """A verdict of an earlier judgement: its effect, and the number of seeds which that judgement saw."""

    effect: Effect
    seeds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextJudgement:
    """How a family is judged now: as judgement `number` of its `question`, with the share `left` of α.

    `given` are the verdicts of earlier judgements by metric and comparison (`comparison_id`). `counted`: the record of
    questions may count this judgement; where it may not, numbers are shown and no verdict is given.
    """

    question: str = ""
    number: int = 1
    left: float = 1.0
    given: Mapping[tuple[str, str], EarlierVerdict] = field(default_factory=dict)
    counted: bool = True

    def share(self, *, looks: bool) -> float:
        """Return the share of α that this judgement spends."""
        return spent(self.left, looks=looks)

    def next_share(self, *, looks: bool) -> float:
        """Return the share of α that a following judgement at fixed seeds would spend."""
        return spent(self.left - self.share(looks=looks))


FIRST = NextJudgement()
"""A question that was never judged before."""

Account = Mapping[str, NextJudgement]
"""How each metric of a plan is judged now; a metric that is not named is judged as in `FIRST`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What is judged together: its id, its metrics, and its comparisons by id."""

    id: str
    metrics: tuple[str, ...]
    comparisons: Mapping[str, Contrast]


def families(plan: Plan, rules: Judge) -> tuple[Family, ...]:
    """Return the questions of a plan, whatever its seeds.

    An id stands for the comparisons, the variants as they are trained (block, recipe, text, sizes), and the metrics
    with their scale and direction. Margins, other measurements, threads and versions are not part of it: changing these
    and judging the same trainings again spends from the same account.
    """
    trained = {t.variant: training_of(t) for t in reversed(tuple(_judged_trials(plan)))}
    comparisons = {comparison_id(contrast): contrast for contrast in contrasts(plan) if contrast is not None}
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
    """Return the hash of what may differ between judgements at the same seeds, 16 hex digits: margins, windows of the
    evaluation and, for a metric that is read during training, how often it is read.
    """
    evaluation = plan.trials[0].measure.evaluation if plan.trials else None
    often = evaluation.every if evaluation and not AT_THE_END.issuperset(metrics) else None
    margins = sorted((name, rules.metrics[name].margin) for name in metrics)
    return digest({"margins": margins, "windows": evaluation and evaluation.windows, "every": often}, 16)


def without_result(plan: Plan, finals: Finals, seeds: Sequence[int]) -> tuple[tuple[str, int], ...]:
    """Return the variants and seeds whose trials ended without a result, so that they are judged without them."""
    among = {(trial.variant, trial.seed): finals.get(trial.id) for trial in _judged_trials(plan) if trial.seed in seeds}
    return tuple(sorted(run for run, final in among.items() if final and final["status"] not in RESULTS))


def with_result(plan: Plan, finals: Finals) -> frozenset[tuple[str, int]]:
    """Return the variants and seeds whose trials have a result."""
    ended = {(trial.variant, trial.seed): finals.get(trial.id) for trial in _judged_trials(plan)}
    return frozenset(run for run, final in ended.items() if final and final["status"] in RESULTS)


def _judged_trials(plan: Plan) -> Iterator[Trial]:
    return (trial for trial in plan.trials if trial.split == "verdict" and trial.salt == 0)


def comparison_id(question: Contrast) -> str:
    """Return the id of a comparison, from the ids of its variants: the same if before and after are swapped."""
    if isinstance(question, Difference):
        return digest(["difference", question.first, question.second], 16)
    if isinstance(question, WeightedSum):
        return digest(["sum", sorted(question.weights)], 16)
    if isinstance(question, SpeedUpTrend):
        return digest(["trend", question.pairs, question.law], 16)
    return digest(["effect", question.edits, sorted(question.runs)], 16)


def carried_over(effect: Effect, earlier: EarlierVerdict, seeds: int) -> Effect:
    """Return an effect with the verdict and numbers of an earlier judgement; `seeds` is the number of seeds seen now.

    The earlier verdict does not stand if the interval over all seeds seen now has no value of its sign, or none inside
    the margin. Equivalence, found then or now, takes precedence over a difference: it is too small to matter.
    """
    then = earlier.effect if earlier.effect.before == effect.before else turned(earlier.effect)
    now = f"at the {seeds} seeds seen now: {_difference(effect)}"
    at = f"found at {words.plural(earlier.seeds, 'seed')}"
    told = judged_as(then) if f"{at};" in then.note else f"{at}, {judged_as(then)}"
    if _against(then, effect):
        finding = "equivalence" if then.verdict == "equivalent" else "a difference"
        past = replace(then, note="")
        note = f"{finding} was {told}: {_difference(past)}; no longer {now}"
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
    """Return whether the present interval contradicts the earlier finding; or, where a run diverged since, ranks go the
    other way, or equivalence was found: a diverged run is not equivalent to anything.
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
    """Return a number that is above zero where the effect goes up."""
    return (effect.rank_sum if effect.ranked else effect.estimate) or 0.0


def turned(effect: Effect) -> Effect:
    """Return the same effect with before and after swapped."""

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
    """Describe which judgement gave an effect: `judged for the first time, at 4 %`."""
    return f"judged for the {words.ordinal(effect.judgement or 1)} time, at {numbers.percent(effect.level or 0.0)}"


def judgement_notes(judgements: Sequence[Judgement], *, several: bool) -> Iterator[str]:
    """Describe which judgement it is, if not the first, or why there is none yet; metrics that share it in one line."""
    of: dict[str, list[str]] = {}
    for judgement in judgements:
        if note := _judgement_note(judgement):
            of.setdefault(note, []).extend(judgement.metrics)
    whole = sum(len(judgement.metrics) for judgement in judgements)
    for note, metrics in of.items():
        yield note if len(metrics) == whole or not several else f"{', '.join(metrics)}: {note}"


def _judgement_note(judgement: Judgement) -> str:
    ordinal, level = words.ordinal(judgement.number), numbers.percent(judgement.level)
    time = f"a {ordinal} time"
    if judgement.pending:
        return f"no verdicts yet: {judgement.pending}; the {ordinal} judgement, at {level}"
    if judgement.number == 1:
        return ""
    if judgement.level == 0:
        return (
            f"judged {time}, at 0 %: no α is left for this question, so earlier findings stand and none is added; at "
            "seeds that were not seen here it may be asked again, in a results folder of its own"
        )
    return (
        f"judged {time}, at {level}: earlier judgements had other seeds, results or margins, and their findings stand"
    )


def effect_of(document: Mapping[str, Any]) -> Effect:
    """Read an effect from its document in the record, where NaN and infinities, absent in JSON, are texts."""
    known: dict[str, Any] = {name: document[name] for name in Effect.__dataclass_fields__ if name in document}
    numbers: dict[str, Any] = {name: float(value) for name, value in known.items() if value in NOT_IN_JSON}
    return Effect(**known | numbers)


def effect_documents(
    effects: Sequence[Effect], questions: Sequence[Contrast | None], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the effects of a family on its metrics as documents for the record, each comparison once."""
    documents: dict[tuple[str, str], dict[str, Any]] = {}
    every = dict.fromkeys(effect.metric for effect in effects)
    asked = [
        question  # effects go metric by metric within each comparison
        for question in questions
        for metric in every
        if question is None or is_tested_on(question, metric)
    ]
    for question, effect in zip(asked, effects, strict=True):
        if question is not None and effect.metric in metrics:
            key = comparison_id(question)
            documents.setdefault((key, effect.metric), {"comparison": key, **asdict(effect)})
    return list(documents.values())
