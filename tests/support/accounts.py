"""Questions asked of a folder one after another: judged as a run judges, with numbers that are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from designed_fixtures import ends, rules
from numpy.typing import NDArray

from ablate.plan.plan import Plan
from ablate.session.accounts import account_of
from ablate.session.judging import questions_of
from ablate.space.judge import Judge
from ablate.store import records
from ablate.verdict.experiment import Final
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

Values = Mapping[str, NDArray[np.float64]]
"""Losses of every seed that may be trained, by the id of a variant."""


class Folder:
    """A results folder in which questions are judged; `values` are the losses that its trainings come to."""

    def __init__(self, path: Path, values: Values):
        self.path, self.values = path, values

    def finals(self, plan: Plan) -> dict[str, Final]:
        table = np.array([self.values[variant.id][list(plan.seeds)] for variant in plan.variants])
        return ends(plan, {"eval_loss": table, "perplexity": np.exp(table), "other": table[:, ::-1]})

    def ask(self, plan: Plan, judged: Judge | None = None) -> Summary:
        """Judge a plan and keep that it was."""
        ruled, finals = judged or rules(), self.finals(plan)
        account = account_of(plan, finals, rules=ruled, folder=self.path)
        summary = judge(plan, ruled, finals, account)
        asked = tuple(questions_of(summary, plan, ruled, account, finals))
        records.record_judgement(self.path, plan.space, plan.space, {}, verdicts=None, judged=asked)
        return summary


def at(plan: Plan, seeds: Sequence[int]) -> Plan:
    """The plan at other seeds, of those that it has."""
    return replace(plan, seeds=tuple(seeds), trials=tuple(trial for trial in plan.trials if trial.seed in seeds))


def of(plan: Plan, arms: Sequence[str]) -> Plan:
    """The plan with some of its arms (names) beside the baseline, in that order."""
    by_name = {variant.name: variant.id for variant in plan.variants}
    order = [plan.baseline, *(by_name[name] for name in arms)]
    return replace(
        plan,
        variants=tuple(sorted((v for v in plan.variants if v.id in order), key=lambda v: order.index(v.id))),
        comparisons=tuple(
            sorted((c for c in plan.comparisons if {c.before, c.after} <= {*order}), key=lambda c: order.index(c.after))
        ),
        trials=tuple(trial for trial in plan.trials if trial.variant in order),
    )


def renamed(plan: Plan) -> Plan:
    """The plan under other names of its variants and changes, asked by another space."""
    return replace(
        plan,
        space=f"{plan.space}_again",
        variants=tuple(replace(v, names=(f"{v.name}_again",)) for v in plan.variants),
        comparisons=tuple(replace(c, change=f"{c.change}_again") for c in plan.comparisons),
    )


def compared(plan: Plan) -> Plan:
    """The plan with the comparisons of its arms with the baseline alone."""
    return replace(plan, comparisons=tuple(c for c in plan.comparisons if c.kind == "baseline"))


def between(plan: Plan, before: str, after: str) -> Plan:
    """Two arms of the plan (names), the first as the baseline, asked by a space of their own."""
    first, second = (variant for name in (before, after) for variant in plan.variants if variant.name == name)
    (like, *_) = plan.comparisons
    return replace(
        plan,
        space=f"{before}_{after}",
        baseline=first.id,
        variants=(first, second),
        comparisons=(replace(like, change=after, before=first.id, after=second.id),),
        trials=tuple(trial for trial in plan.trials if trial.variant in (first.id, second.id)),
    )
