"""The answer to a space's question, once its trials have ended: judged, and stored beside the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ablate.plan.plan import Plan
from ablate.report.answers import against_baseline
from ablate.space.documents import Judge
from ablate.store import judgements as kept
from ablate.store.documents import Question, Verdicts
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
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


def judged(plan: Plan, rules: Judge, store: Results, *, confirmed: bool = False) -> Summary:
    """Judge a plan by its ended trials and store the verdicts; of a search's `confirmed` blocks only the count."""
    store.refresh()
    finals = store.finals({trial.id for trial in plan.trials})
    account = account_of(plan, finals, rules=rules, folder=store.folder)
    summary = judge(plan, rules, finals, account)
    if confirmed:
        store.record_judgement(summary.space, None, tuple(_judgements(summary, plan, rules, account, finals)))
    else:
        keep(summary, plan, rules, account, finals, store)
    store.refresh()
    return summary


def keep(summary: Summary, plan: Plan, rules: Judge, account: Account, finals: Finals, store: Results) -> None:
    """Store the verdicts with the judgements of their questions, so that no verdict exists that is not counted."""
    asked = tuple(_judgements(summary, plan, rules, account, finals))
    store.record_judgement(summary.space, document(summary, plan), asked)


def account_of(plan: Plan, finals: Finals, *, rules: Judge, folder: Path, reading: bool = False) -> Account:
    """Return which judgement of its questions a plan's seeds are, by the record in a results folder, and earlier ones.

    Seeds that are in the record, measured in the same way, keep their judgement. Other seeds are the next judgement,
    and so are the same seeds if a trial that had no result then has one now (except with looks, which are gone through
    again). When only `reading`, without storing the judgement, new seeds give no verdicts: else one could look at any
    number of seeds.
    """
    known, told = Snapshot(folder).questions, with_result(plan, finals)
    account: dict[str, NextJudgement] = {}
    for family in families(plan, rules):
        past = known.get(family.id, ())
        now = kept.basis(plan.seeds, plan.looks, how_measured(plan, rules, family.metrics))
        alike = [earlier for earlier in past if kept.basis_of(earlier) == now]
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


def _given(earlier: Sequence[Question], rules: Judge) -> dict[tuple[str, str], EarlierVerdict]:
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


def _judgements(summary: Summary, plan: Plan, rules: Judge, account: Account, finals: Finals) -> Iterator[Question]:
    """Yield the entries of a summary for the record of questions: one for each family in which anything was tested."""
    contrasts, several, seeds = contrasts_of(plan), bool(plan.looks), sorted(plan.seeds[: summary.looked])
    tested = {effect.metric for effect in summary.effects if effect.judged and effect.p is not None}
    for judgement in summary.judgements:
        if judgement.pending or tested.isdisjoint(judgement.metrics) or (several and summary.looked is None):
            continue
        held = account[judgement.metrics[0]]
        yield {
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


def document(summary: Summary, plan: Plan) -> Verdicts:
    """Return the stored form of a summary; `seeds` are those it looked at."""
    verdicts: Verdicts = {
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
    if summary.ladders:
        verdicts["ladders"] = [asdict(one) for one in summary.ladders]
    return verdicts
