"""The answer to a space's question, once what was asked for has ended: judged, and kept beside the numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ablate.plan.plan import Plan

if TYPE_CHECKING:
    from ablate.report.summary import Summary
    from ablate.space.documents import Judge
    from ablate.store.results import Results


def judged(plan: Plan, rules: Judge, store: Results) -> Summary:
    """Judge a plan by what has ended, and keep the verdicts."""
    from ablate.report.verdicts import judge

    store.refresh()
    summary = judge(plan, rules, store.finals({trial.id for trial in plan.trials}))  # type: ignore[arg-type]
    store.record_verdicts(document(summary, plan))
    store.refresh()
    return summary


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
