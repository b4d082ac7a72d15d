"""The answer to a space's question, once what was asked for has ended: judged, and kept beside the numbers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.plan.plan import Plan

if TYPE_CHECKING:
    from ablate.report.judgement import Account
    from ablate.report.summary import Summary
    from ablate.space.documents import Judge
    from ablate.store.results import Results


def judged(plan: Plan, rules: Judge, store: Results) -> Summary:
    """Judge a plan by what has ended, and keep the verdicts."""
    from ablate.report.verdicts import judge

    store.refresh()
    account = account_of(plan, rules, store.folder)
    summary = judge(plan, rules, store.finals({trial.id for trial in plan.trials}), account)  # type: ignore[arg-type]
    keep(summary, plan, rules, account, store)
    store.refresh()
    return summary


def keep(summary: Summary, plan: Plan, rules: Judge, account: Account, store: Results) -> None:
    """Keep the verdicts; first that the questions were judged, so that no verdict is known which does not count."""
    store.record_questions(judgements(summary, plan, rules, account))
    store.record_verdicts(document(summary, plan))


def account_of(plan: Plan, rules: Judge, folder: Path, *, reading: bool = False) -> Account:
    """Which judgement of its questions a plan's seeds are by the record in a results folder, and what others found.

    Seeds that the record has are the judgement that they were; others are the next one. Who is only `reading`, and
    cannot put them there, gives no verdicts by these: else one could look at as many seeds as one likes.
    """
    from ablate.report.judgement import FOUND, Given, Held, effect_of, families
    from ablate.store import questions

    known = questions.read(folder)
    account: dict[str, Held] = {}
    for family in families(plan, rules):
        past, key = known.get(family.id, ()), questions.key_of(family.id, plan.seeds, plan.looks)
        same = [one for one in past if questions.key_of(family.id, one["seeds"], one["looks"]) == key]
        number = same[0]["number"] if same else 1 + max((one["number"] for one in past), default=0)
        earlier = [one for one in past if one["number"] < number]
        seen = {one["number"]: len(one["seeds"]) for one in earlier}
        # The last of them has what those before it found, but for what its own numbers spoke against.
        found = [(one, effect_of(one)) for one in (earlier[-1]["effects"] if earlier else ())]
        held = Held(
            question=family.id,
            number=number,
            left=same[0]["before"] if same else min((one["left"] for one in past), default=1.0),
            given={
                (effect.metric, one["comparison"]): Given(
                    effect=effect, seeds=seen.get(effect.judgement or 0, effect.n)
                )
                for one, effect in found
                if effect.verdict in FOUND
            },
            counted=bool(same) or not reading,
        )
        account |= dict.fromkeys(family.metrics, held)
    return account


def judgements(summary: Summary, plan: Plan, rules: Judge, account: Account) -> list[dict[str, Any]]:
    """What the record of questions is to have of a summary: each family that anything was tested of."""
    from ablate.report.asked import questions
    from ablate.report.judgement import effect_documents

    found: list[dict[str, Any]] = []
    asked, several = questions(plan), bool(plan.looks)
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
                "seeds": sorted(plan.seeds[: summary.looked]),
                "looks": list(plan.looks),
                "alpha": 1 - summary.confidence,
                "level": one.level,
                "before": held.left,
                "left": held.left - held.share(looks=several),
                "effects": effect_documents(summary.effects, asked, one.metrics),
            }
        )
    return found


def document(summary: Summary, plan: Plan) -> dict[str, Any]:
    """What is kept of a summary: what was judged and how, and every effect; `seeds` are those it looked at."""
    return {
        "space": summary.space,
        "seeds": list(plan.seeds[: summary.looked]),
        "looked": summary.looked,
        "confidence": summary.confidence,
        "metrics": [asdict(metric) for metric in summary.metrics],
        "effects": [asdict(effect) for effect in summary.effects],
        "anova": [asdict(line) for line in summary.anova],
        "front": list(summary.front),
    }
