"""What MLflow should show, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.store.mlflow.answers import VariantAnswer, is_answer

TRIAL = "ablate.trial"
ATTEMPT = "ablate.attempt"
KIND = "ablate.kind"
DIGEST = "ablate.digest"
RESULTS = "ablate.results"
REMOVED = "ablate.removed"
ANSWER = "ablate.answer"
"""Tags by which the mirror recognises its own runs: the trial, its attempt, `trial` or `verdicts`, a hash of all that
is shown, the results folder it is from, whether the mirror deleted it, and a hash of the answer that it shows."""

VERDICTS = "verdicts"
"""The kind, and the name, of the run that holds a report."""

NOTE = "mlflow.note.content"
COLOUR = "mlflow.runColor"
"""Tags that MLflow's pages read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowVariant:
    """One variant of a space; `position` is its place in the plan, from 1, and `forecast` the parameters of its runs
    that say what was forecast of its model.
    """

    name: str
    position: int
    edits: tuple[str, ...]
    parameters: int
    flops: int
    block: str
    terms: tuple[str, ...] = ()
    forecast: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowRun:
    """One ended trial of a space. `began` and `ended` are milliseconds since 1970."""

    trial: str
    name: str
    status: str
    began: int
    ended: int
    params: Mapping[str, str]
    tags: Mapping[str, str]
    answer: VariantAnswer

    @property
    def digest(self) -> str:
        """The hash of all that the run shows, except for the answer."""
        return self.tags[DIGEST]


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowRunState:
    """What MLflow has of a run, as far as it matters for the update.

    `id` is MLflow's. `results` is the results folder it is from, `note` its description, for a run with verdicts only.
    `answers` are the names of the numbers and verdicts of its answer, whose hash is `answer`.
    """

    id: str
    kind: str
    trial: str
    digest: str
    results: str
    answer: str
    answers: frozenset[str]
    note: str
    active: bool
    running: bool
    removed: bool

    @staticmethod
    def of(run: Any) -> MlflowRunState:
        """Return the state of a run of MLflow's."""
        tags = run.data.tags
        return MlflowRunState(
            id=run.info.run_id,
            kind=tags.get(KIND, ""),
            trial=tags.get(TRIAL, ""),
            digest=tags.get(DIGEST, ""),
            results=tags.get(RESULTS, ""),
            answer=tags.get(ANSWER, ""),
            answers=frozenset(filter(is_answer, (*run.data.metrics, *tags))),
            note=tags.get(NOTE, "") if tags.get(KIND) == VERDICTS else "",
            active=run.info.lifecycle_stage == "active",
            running=run.info.status == "RUNNING",
            removed=REMOVED in tags,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """One number of a run."""

    name: str
    step: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One space: an experiment. `requested` counts its trials, ended or not; `keys` names the parameter of each edit,
    and `judged` the metrics that have verdicts.
    """

    space: str
    question: str
    design: str
    baseline: str
    requested: int
    variants: tuple[MlflowVariant, ...]
    details: Mapping[str, str]
    keys: Mapping[str, str]
    runs: tuple[MlflowRun, ...]
    judged: tuple[str, ...] = ()

    @property
    def by_trial(self) -> Mapping[str, MlflowRun]:
        """The run of each trial."""
        return {run.trial: run for run in self.runs}
