"""The answer to a space's question, once its trials have ended: judged, and stored beside the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ablate.plan.plan import Plan
from ablate.report.answers import against_baseline
from ablate.session.accounts import account_documents, account_of, judged_design
from ablate.space.documents import Judge
from ablate.store.documents import Question, Verdicts
from ablate.store.results import Results
from ablate.store.stamps import stamped
from ablate.verdict.account import Account
from ablate.verdict.comparison_key import comparison_id
from ablate.verdict.contrasts import contrasts as contrasts_of
from ablate.verdict.finals import Finals
from ablate.verdict.judge import judge
from ablate.verdict.judged_design import JudgedDesign
from ablate.verdict.judgement import effect_documents, families, how_measured
from ablate.verdict.summary import Summary


def judged(plan: Plan, rules: Judge, store: Results, *, confirmed: bool = False) -> Summary:
    """Judge a plan by its ended trials and store the verdicts; of a search's `confirmed` blocks only the count."""
    store.refresh()
    finals = store.finals({trial.id for trial in plan.trials})
    account = account_of(plan, finals, rules=rules, folder=store.folder)
    summary = stamped(judge(plan, rules, finals, account), store.plan(plan.space), store.folder)
    if confirmed:
        store.record_judgement(summary.space, None, tuple(questions_of(summary, plan, rules, account, finals)))
    else:
        keep(summary, plan, rules, account, finals, store)
    store.refresh()
    return summary


def keep(summary: Summary, plan: Plan, rules: Judge, account: Account, finals: Finals, store: Results) -> None:
    """Store the verdicts with the judgements of their questions, so that no verdict exists that is not counted."""
    judged = tuple(questions_of(summary, plan, rules, account, finals))
    store.record_judgement(summary.space, document(summary, plan), judged)


def questions_of(
    summary: Summary, design: Plan | JudgedDesign, rules: Judge, account: Account, finals: Finals
) -> Iterator[Question]:
    """Yield the entries of a summary for the record of questions: one for each family in which anything was tested."""
    design = judged_design(design)
    contrasts, several, seeds = contrasts_of(design), bool(design.looks), sorted(design.seeds[: summary.looked])
    tested = {effect.metric for effect in summary.effects if effect.judged and effect.p is not None}
    keys = {comparison_id(contrast): compared.key for contrast, compared in design.compared.items()}
    of = {family.metrics: family for family in families(design, rules)}
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
            "baseline": design.baseline,
            "family": summary.family,
            "metrics": list(judgement.metrics),
            "judged": {name: rules.metrics[name].model_dump() for name in judgement.metrics},
            "seeds": seeds,
            "looks": list(design.looks),
            "measured": how_measured(design, rules, judgement.metrics),
            "without": [list(lost) for lost in design.without_result(finals, seeds)],
            "alpha": 1 - summary.confidence,
            "level": judgement.level,
            "before": held.before,
            "left": held.after(looks=several),
            "so_far": judgement.so_far,
            "questions_asked": judgement.questions,
            "among": judgement.among,
            "accounts": account_documents(design, rules, finals, of[judgement.metrics], held),
            "effects": effect_documents(summary.effects, contrasts, judgement.metrics, keys),
        }


def document(summary: Summary, design: Plan | JudgedDesign) -> Verdicts:
    """Return the stored form of a summary; `seeds` are those it looked at."""
    verdicts: Verdicts = {
        "space": summary.space,
        "seeds": list(design.seeds[: summary.looked]),
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
    if claimed := [asdict(each.correlation) for each in summary.expectations if each.correlation is not None]:
        verdicts["correlations"] = claimed
    return verdicts
