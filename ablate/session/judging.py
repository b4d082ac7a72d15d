"""The answer to a space's question, once what was asked for has ended: judged, and kept beside the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from ablate.plan.plan import Plan
from ablate.report.answers import against_baseline
from ablate.space.documents import Judge
from ablate.store import questions
from ablate.store.results import Results
from ablate.verdict.contrasts import contrasts as contrasts_of
from ablate.verdict.finals import Finals
from ablate.verdict.judge import judge
from ablate.verdict.judgement import (
    FOUND,
    Account,
    EarlierVerdict,
    NextJudgement,
    effect_documents,
    effect_of,
    families,
    how_measured,
    with_result,
    without_result,
)
from ablate.verdict.summary import Summary


def judged(plan: Plan, rules: Judge, store: Results) -> Summary:
    """Judge a plan by what has ended, and keep the verdicts."""

    store.refresh()
    finals = cast("Finals", store.finals({trial.id for trial in plan.trials}))
    account = account_of(plan, rules, store.folder, finals)
    summary = judge(plan, rules, finals, account)
    keep(summary, plan, rules, account, finals, store)
    store.refresh()
    return summary


def keep(summary: Summary, plan: Plan, rules: Judge, account: Account, finals: Finals, store: Results) -> None:
    """Keep the verdicts; first that the questions were judged, so that no verdict is known which does not count."""
    store.record_questions(judgements(summary, plan, rules, account, finals))
    store.record_verdicts(document(summary, plan))


def account_of(plan: Plan, rules: Judge, folder: Path, finals: Finals, *, reading: bool = False) -> Account:
    """Which judgement of its questions a plan's seeds are by the record in a results folder, and what others found.

    Seeds that the record has, measured as they were, are the judgement that they were; others are the next one, and so
    are the same where a trial has a result by now that had none then (but after looks, which are gone through anew).
    Who is only `reading`, and cannot put them there, gives no verdicts by these: else one could look at as many seeds
    as one likes.
    """

    known, told = questions.read(folder), with_result(plan, finals)
    account: dict[str, NextJudgement] = {}
    for family in families(plan, rules):
        past = known.get(family.id, ())
        now = questions.basis(plan.seeds, plan.looks, how_measured(plan, rules, family.metrics))
        alike = [one for one in past if questions.basis_of(one) == now]
        same = [one for one in alike if plan.looks or told.isdisjoint(map(tuple, one["without"]))]
        number = same[-1]["number"] if same else 1 + max((one["number"] for one in past), default=0)
        held = NextJudgement(
            question=family.id,
            number=number,
            left=same[-1]["before"] if same else min((one["left"] for one in past), default=1.0),
            given=_given([one for one in past if one["number"] < number], rules),
            counted=bool(same) or not reading,
        )
        account |= dict.fromkeys(family.metrics, held)
    return account


def _given(earlier: Sequence[Mapping[str, Any]], rules: Judge) -> dict[tuple[str, str], EarlierVerdict]:
    """What earlier judgements found, with what each said of it then.

    A difference stands until the numbers of a later judgement speak against it. An equivalence is within the margin
    that was declared then, and is none under another: judgements under others neither have it nor speak against it.
    """

    by_number = {one["number"]: one for one in earlier}
    different: dict[tuple[str, str], EarlierVerdict] = {}
    equivalent: dict[tuple[str, str], EarlierVerdict] = {}
    for one in earlier:
        for document in one["effects"]:
            effect, comparison = effect_of(document), document["comparison"]
            place = effect.metric, comparison
            first = by_number.get(effect.judgement or one["number"], one)
            alike = one["judged"][effect.metric]["margin"] == rules.metrics[effect.metric].margin
            notes = [d["note"] for d in first["effects"] if (d["metric"], d["comparison"]) == place]
            seeds = effect.ranked or effect.n if first["looks"] else len(first["seeds"])
            given = EarlierVerdict(effect=replace(effect, note=notes[0] if notes else effect.note), seeds=seeds)
            if effect.verdict == "equivalent":
                if alike:
                    equivalent[place] = given
            elif effect.verdict in FOUND:
                different[place] = given
            else:
                different.pop(place, None)
                if alike:
                    equivalent.pop(place, None)
    too_small = {
        place: replace(given, effect=replace(given.effect, differs=given.effect.differs or place in different))
        for place, given in equivalent.items()
    }
    return different | too_small


def judgements(summary: Summary, plan: Plan, rules: Judge, account: Account, finals: Finals) -> list[dict[str, Any]]:
    """What the record of questions is to have of a summary: each family that anything was tested of."""

    found: list[dict[str, Any]] = []
    asked, several, seeds = contrasts_of(plan), bool(plan.looks), sorted(plan.seeds[: summary.looked])
    for one in summary.judgements:
        tested = any(
            effect.metric in one.metrics and effect.judged and effect.p is not None for effect in summary.effects
        )
        if one.pending or not tested or (several and summary.looked is None):
            continue
        held = account[one.metrics[0]]
        found.append(
            {
                "question": one.question,
                "space": summary.space,
                "number": one.number,
                "asks": summary.question,
                "design": summary.design,
                "baseline": plan.baseline,
                "family": summary.family,
                "metrics": list(one.metrics),
                "judged": {name: rules.metrics[name].model_dump() for name in one.metrics},
                "seeds": seeds,
                "looks": list(plan.looks),
                "measured": how_measured(plan, rules, one.metrics),
                "without": [list(lost) for lost in without_result(plan, finals, seeds)],
                "alpha": 1 - summary.confidence,
                "level": one.level,
                "before": held.left,
                "left": held.left - held.share(looks=several),
                "effects": effect_documents(summary.effects, asked, one.metrics),
            }
        )
    return found


def document(summary: Summary, plan: Plan) -> dict[str, Any]:
    """What is kept of a summary: what was judged and how, every effect, and in a sentence what each variant does, by
    its id; `seeds` are those it looked at.
    """
    return {
        "space": summary.space,
        "seeds": list(plan.seeds[: summary.looked]),
        "looked": summary.looked,
        "confidence": summary.confidence,
        "metrics": [asdict(metric) for metric in summary.metrics],
        "effects": [asdict(effect) for effect in summary.effects],
        "anova": [asdict(line) for line in summary.anova],
        "front": list(summary.front),
        "sentences": against_baseline(summary),
    }
