"""What MLflow is to show, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TRIAL = "ablate.trial"
ATTEMPT = "ablate.attempt"
KIND = "ablate.kind"
DIGEST = "ablate.digest"
RESULTS = "ablate.results"
REMOVED = "ablate.removed"
"""Tags by which the mirror knows its own: the trial, its attempt, `trial` or `verdicts`, a hash of all that is shown,
the results folder it is from, and whether it was the mirror that deleted it."""

NOTE = "mlflow.note.content"
COLOUR = "mlflow.runColor"
"""Tags that MLflow's pages read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One variant of a space; `position` is its place in the plan, from 1."""

    name: str
    position: int
    edits: tuple[str, ...]
    parameters: int
    flops: int
    block: str
    terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One ended trial of a space. `began` and `ended` are milliseconds since 1970."""

    trial: str
    name: str
    status: str
    began: int
    ended: int
    params: Mapping[str, str]
    tags: Mapping[str, str]

    @property
    def digest(self) -> str:
        """The hash of all that the run shows."""
        return self.tags[DIGEST]


@dataclass(frozen=True, slots=True)
class Point:
    """One number of a run."""

    name: str
    step: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One space: an experiment. `asked` counts its trials, ended or not; `keys` names the parameter of each edit."""

    space: str
    question: str
    design: str
    baseline: str
    asked: int
    variants: tuple[Variant, ...]
    details: Mapping[str, str]
    keys: Mapping[str, str]
    runs: tuple[Run, ...]

    @property
    def by_trial(self) -> Mapping[str, Run]:
        """The run of each trial."""
        return {run.trial: run for run in self.runs}
