"""Judging: the answer to a space's question, once its trials have ended, stored beside the numbers and checked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, TypeGuard

from ablate.output.words import plural
from ablate.plan.plan import Plan
from ablate.report.answers import against_baseline
from ablate.session.accounts import account_documents, account_of, judged_design
from ablate.space.judge import Judge, Judged
from ablate.store.documents import JudgedDocument, Question, Verdicts
from ablate.store.durable import compact
from ablate.store.predictions import stamped
from ablate.store.results import Results
from ablate.verdict.contrasts import JudgedDesign, comparison_id
from ablate.verdict.contrasts import contrasts as contrasts_of
from ablate.verdict.experiment import Finals
from ablate.verdict.judge import judge
from ablate.verdict.judgement import Account, effect_documents, families, how_measured
from ablate.verdict.summary import Summary


def judged(plan: Plan, rules: Judge, store: Results, *, confirmed: bool = False) -> Summary:
    """Judge a plan by its ended trials and store the verdicts; of a search's `confirmed` blocks the judgement alone."""
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
    store.record_judgement(summary.space, verdict_document(summary, plan), judged)


def questions_of(
    summary: Summary, design: Plan | JudgedDesign, rules: Judge, account: Account, finals: Finals
) -> Iterator[Question]:
    """The entries of a summary for the record of questions: one for each family in which anything was tested."""
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
            "judged": {name: _judged_document(rules.metrics[name]) for name in judgement.metrics},
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


def _judged_document(judged: Judged) -> JudgedDocument:
    return {"margin": judged.margin, "scale": judged.scale, "better": judged.better}


def verdict_document(summary: Summary, design: Plan | JudgedDesign) -> Verdicts:
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


Answer: TypeAlias = Literal["right", "wrong", "told"]
"""The answer of a check: `told` where it could not be made, or a difference proves nothing."""
CLOSE = 1e-9
"""Relative difference up to which a statistic that is computed anew is the same: libraries differ in last bits."""
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Check:
    space: str
    check: Literal["seals", "cache", "files", "plan", "trials", "verdicts", "page", "retrained"]
    answer: Answer
    what: str


def document_differences(kept: object, anew: object, at: str = "") -> Iterator[str]:
    """The places where two documents differ, and how; statistics may differ in last bits."""
    if isinstance(kept, Mapping) and isinstance(anew, Mapping):
        for key in {**kept, **anew}:
            name = f" of {kept.get('change', '')} {kept.get('metric', '')}".rstrip() if "verdict" in kept else ""
            yield from document_differences(kept.get(key), anew.get(key), f"{at}.{key}{name}".lstrip("."))
    elif _is_sequence(kept) and _is_sequence(anew) and len(kept) == len(anew):
        for place, (one, other) in enumerate(zip(kept, anew, strict=True)):
            yield from document_differences(one, other, f"{at}[{place}]")
    elif not _same(kept, anew):
        yield f"{at}: kept {_short(kept)}, computed {_short(anew)}"


def check_verdicts(space: str, kept: Verdicts | None, anew: Summary, design: Plan | JudgedDesign) -> Check:
    if differ := list(document_differences(kept, verdict_document(anew, design))):
        return Check(space, "verdicts", "wrong", f"computed anew they are others: {name_some(differ)}")
    effects = sum(effect.judged for effect in anew.effects)
    return Check(space, "verdicts", "right", f"{plural(effects, 'judged effect')} computed anew, all as kept")


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _same(kept: object, anew: object) -> bool:
    before, after = _number(kept), _number(anew)
    if before is None or after is None:
        return kept == anew
    return math.isclose(before, after, rel_tol=CLOSE, abs_tol=CLOSE) or (math.isnan(before) and math.isnan(after))


def _number(value: object) -> float | None:
    """A number; those that are not finite stand in JSON as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return float(value) if not isinstance(value, str) or value in ("NaN", "Infinity", "-Infinity") else None


def _short(value: object) -> str:
    text = compact(value)
    return text if len(text) < 60 else f"{text[:57]}…"


def name_some(items: Sequence[str]) -> str:
    more = f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return "; ".join(items[:MOST_NAMED]) + more
