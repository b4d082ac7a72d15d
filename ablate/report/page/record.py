"""A space and its results as frozen values: the question, the trials, and the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ablate.plan.plan import Plan
from ablate.space.judge import Judge
from ablate.statistics import Floor
from ablate.verdict.fairness_audit import Unequal
from ablate.verdict.summary import Metric, Summary

if TYPE_CHECKING:
    from ablate.store.pages import DifferenceCurve, Kernel, LayerCurve, MetricCurve, StreamReading, TrialEnd

ENDS = ("finished", "diverged")  # states of a trial that count as results
LOST = ("missing", "damaged")  # states of trials that have ended and whose file is gone or has changed
WAITING = ("planned", "unfinished", *LOST)  # states of a trial that may yet become a result


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVariant:
    variant: str
    block: str
    edits: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRecord:
    """A space at its end, or in its current state.

    `blocks` are in the plan's order. `curves`, `layers`, `gains` and `endings` are as in the store, of the trials
    behind the verdicts; `endings` also of the plan's other trials. `versions` are those of trials, by id. `corpus`
    describes the text, in lines. `floors` are the noise floors under this plan's conditions. `again` are the commands
    that repeat it, `source` is the text of the space's file and `resolved` the space with nothing left out. `beside`
    are notes on the whole page, `kernels` snapshots by position, `differences` those from the baseline over training,
    `streams` measurements before the first step and at the last. `commit` is that of the space's repository. `mixed`
    are the versions in which trials differ, in lines, and `head` is the last hash of the chain of records.
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
    streams: tuple[StreamReading, ...] = field(default=())
    commit: str | None = None
    mixed: tuple[str, ...] = ()
    head: str = ""

    @property
    def title(self) -> str:
        return self.plan.question.strip() or self.plan.space

    @property
    def states(self) -> Mapping[str, int]:
        """The number of the plan's trials by state; those unknown to the results are planned."""
        counted = Counter(ending.status for ending in self.endings)
        unknown = len(self.plan.trials) - sum(counted.values())
        return counted + Counter({"planned": unknown}) if unknown else counted

    @property
    def partial(self) -> bool:
        return self.plan.open or any(self.states.get(state, 0) for state in WAITING)

    @property
    def log_metrics(self) -> frozenset[str]:
        return frozenset(metric.name for metric in self.summary.metrics if metric.log)

    def seen(self) -> tuple[Metric, ...]:
        return tuple(m for m in self.summary.metrics if any(m.name in arm.levels for arm in self.summary.arms))
