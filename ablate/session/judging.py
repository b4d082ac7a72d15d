"""The answer to a space's question, once its trials have ended: judged, and stored beside the numbers."""

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
    """Judge a plan by the trials that have ended, and store the verdicts."""

    store.refresh()
    finals = cast("Finals", store.finals({trial.id for trial in plan.trials}))
    account = account_of(plan, rules, store.folder, finals)
    summary = judge(plan, rules, finals, account)
    keep(summary, plan, rules, account, finals, store)
    store.refresh()
    return summary


def keep(summary: Summary, plan: Plan, rules: Judge, account: Account, finals: Finals, store: Results) -> None:
    """Store the verdicts; first that the questions were judged, so that no verdict exists that is not counted."""
    store.record_questions(judgements(summary, plan, rules, account, finals))
    store.record_verdicts(document(summary, plan))


def account_of(plan: Plan, rules: Judge, folder: Path, finals: Finals, *, reading: bool = False) -> Account:
    """Return which judgement of its questions a plan's seeds are, by the record in a results folder, and earlier ones.

    Seeds that are in the record, measured in the same way, keep their judgement. Other seeds are the next judgement,
    and so are the same seeds if a trial that had no result then has one now (except with looks, which are gone through
    again). When only `reading`, without storing the judgement, new seeds give no verdicts: else one could look at any
    number of seeds.
    """

    known, told = questions.read(folder), with_result(plan, finals)
    account: dict[str, NextJudgement] = {}
    for family in families(plan, rules):
        past = known.get(family.id, ())
        now = questions.basis(plan.seeds, plan.looks, how_measured(plan, rules, family.metrics))
        alike = [earlier for earlier in past if questions.basis_of(earlier) == now]
        same = [earlier for earlier in alike if plan.looks or told.isdisjoint(map(tuple, earlier["without"]))]
        number = same[-1]["number"] if same else 1 + max((earlier["number"] for earlier in past), default=0)
        held = NextJudgement(
            question=family.id,
            number=number,
            left=same[-1]["before"] if same else min((earlier["left"] for earlier in past), default=1.0),
            given=_given([earlier for earlier in past if earlier["number"] < number], rules),
            counted=bool(same) or not reading,
        )
        account |= dict.fromkeys(family.metrics, held)
    return account


def _given(earlier: Sequence[Mapping[str, Any]], rules: Judge) -> dict[tuple[str, str], EarlierVerdict]:
    """Return what earlier judgements found, with the note of each.

    A difference stands until a later judgement contradicts it. An equivalence holds only for the margin that was
    declared then: judgements under another margin neither confirm nor contradict it.
    """

    by_number = {judgement["number"]: judgement for judgement in earlier}
    different: dict[tuple[str, str], EarlierVerdict] = {}
    equivalent: dict[tuple[str, str], EarlierVerdict] = {}
    for judgement in earlier:
        for document in judgement["effects"]:
            effect, comparison = effect_of(document), document["comparison"]
            place = effect.metric, comparison
            first = by_number.get(effect.judgement or judgement["number"], judgement)
            alike = judgement["judged"][effect.metric]["margin"] == rules.metrics[effect.metric].margin
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
    """Return the entries of a summary for the record of questions: one for each family in which anything was tested."""

    entries: list[dict[str, Any]] = []
    contrasts, several, seeds = contrasts_of(plan), bool(plan.looks), sorted(plan.seeds[: summary.looked])
    for judgement in summary.judgements:
        tested = any(
            effect.metric in judgement.metrics and effect.judged and effect.p is not None for effect in summary.effects
        )
        if judgement.pending or not tested or (several and summary.looked is None):
            continue
        held = account[judgement.metrics[0]]
        entries.append(
            {
                "question": judgement.question,
                "space": summary.space,
                "number": judgement.number,
                "asks": summary.question,
                "design": summary.design,
                "baseline": plan.baseline,
                "family": summary.family,
                "metrics": list(judgement.metrics),
                "judged": {name: rules.metrics[name].model_dump() for name in judgement.metrics},
                "seeds": seeds,
                "looks": list(plan.looks),
                "measured": how_measured(plan, rules, judgement.metrics),
                "without": [list(lost) for lost in without_result(plan, finals, seeds)],
                "alpha": 1 - summary.confidence,
                "level": judgement.level,
                "before": held.left,
                "left": held.left - held.share(looks=several),
                "effects": effect_documents(summary.effects, contrasts, judgement.metrics),
            }
        )
    return entries


def document(summary: Summary, plan: Plan) -> dict[str, Any]:
    """Return what is stored of a summary: what was judged and how, every effect, and a sentence on each variant, by its
    id; `seeds` are those it looked at.
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
    } | ({"ladders": [asdict(one) for one in summary.ladders]} if summary.ladders else {})
