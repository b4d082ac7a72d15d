"""A space and what came of it as frozen values: what was asked, what was trained, and what the numbers say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ablate.plan.plan import Plan, Variant
from ablate.space.documents import Judge
from ablate.statistics import Floor
from ablate.verdict.fairness_audit import Unequal
from ablate.verdict.summary import Arm, Metric, Summary

if TYPE_CHECKING:
    from ablate.store.differences import DifferenceCurve
    from ablate.store.pages import Kernel, LayerCurve, MetricCurve, TrialEnd

ENDS = ("finished", "diverged")
"""States of a trial that are results."""
WAITING = ("planned", "unfinished")
"""States of a trial that may yet become a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVariant:
    """A variant's block in YAML, and its edits from the baseline, each with what it changes."""

    variant: str
    block: str
    edits: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRecord:
    """A space at its end, or as far as it has come.

    `blocks` are the variants' in the plan's order. `curves`, `layers`, `gains` and `endings` are as the store has them,
    of the trials that verdicts are made of; `endings` of the others of the plan, too. `versions` are what trials ran
    with, by id. `corpus` says in lines what the text was. `floors` are the noise under this plan's conditions,
    `unequal` what was not equal. `again` are the commands that repeat it, `source` the text of the space's file and
    `resolved` the whole of what it meant. `beside` are notes on the page as a whole, `kernels` snapshots by position,
    `differences` those from the baseline over training. `commit` is that of the repository which the space is in.
    """

    plan: Plan
    summary: Summary
    rules: Judge
    definitions: Mapping[str, str]
    blocks: tuple[ShownVariant, ...]
    curves: tuple[MetricCurve, ...]
    layers: tuple[LayerCurve, ...]
    gains: tuple[MetricCurve, ...]
    endings: tuple[TrialEnd, ...]
    versions: Mapping[str, Mapping[str, str]]
    corpus: tuple[str, ...]
    floors: tuple[Floor, ...]
    unequal: tuple[Unequal, ...]
    again: tuple[str, ...]
    source: str
    resolved: str
    beside: tuple[str, ...] = field(default=())
    kernels: tuple[Kernel, ...] = field(default=())
    differences: tuple[DifferenceCurve, ...] = field(default=())
    commit: str | None = None

    @property
    def title(self) -> str:
        """The question, or the space's name where it asks none."""
        return self.plan.question.strip() or self.plan.space

    @property
    def states(self) -> Mapping[str, int]:
        """How many trials of the plan stand how; those that the results never heard of are planned."""
        counted = Counter(one.status for one in self.endings)
        unknown = len(self.plan.trials) - sum(counted.values())
        return counted + Counter({"planned": unknown}) if unknown else counted

    @property
    def partial(self) -> bool:
        """Whether more results may follow."""
        return self.plan.open or any(self.states.get(state, 0) for state in WAITING)

    @property
    def baseline(self) -> Arm:
        """What the others are judged against."""
        return self.summary.arm(self.plan.baseline)

    @property
    def log_metrics(self) -> frozenset[str]:
        """Judged metrics whose differences are ratios."""
        return frozenset(metric.name for metric in self.summary.metrics if metric.log)

    def variant(self, id: str) -> Variant:
        """The variant of that id; KeyError if the plan has none."""
        return self.plan.variant(id)

    def seen(self) -> tuple[Metric, ...]:
        """The judged metrics that any variant has a value of."""
        return tuple(m for m in self.summary.metrics if any(m.name in arm.levels for arm in self.summary.arms))
