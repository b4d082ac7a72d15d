"""The trials that follow those a plan lists now: the verdict after tuning, further interim analyses."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.output.words import plural
from ablate.plan.plan import Plan


def to_come(plan: Plan) -> str:
    """Return in words what a plan will train beyond what it lists; empty if that is all."""
    return "; ".join(_to_come(plan))


def _to_come(plan: Plan) -> Iterator[str]:
    trained = [variant for variant in plan.variants if not variant.setting.salt]
    tuning = sum(trial.split == "tuning" for trial in plan.trials)
    seeds = plan.looks[-1] if plan.looks else len(plan.seeds)
    verdict = {(trial.variant, trial.seed) for trial in plan.trials if trial.split == "verdict"}
    verdict |= {(variant.id, seed) for variant in trained for seed in (range(seeds) if plan.looks else plan.seeds)}
    arm = any(variant.setting.salt for variant in plan.variants)
    unlisted = arm and not any(plan.variant(trial.variant).setting.salt for trial in plan.trials)
    beside = ", and those of the A/A arm" * unlisted
    if plan.open and tuning and not any(trial.split == "verdict" for trial in plan.trials):
        first = len(trained) * len(plan.seeds)
        yield f"{tuning} for tuning, then {'' if not plan.looks else 'at first '}{first} for the verdict{beside}"
    if plan.looks:
        looks = ", ".join(map(str, plan.looks))
        yield f"analyses at {looks} seeds; at most {plural(len(verdict) + tuning, 'trial')}{beside}"
