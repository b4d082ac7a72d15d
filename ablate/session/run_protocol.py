"""The protocol of a run of a space, and what its three kinds have in common.

fixed_run.py     a plan whose trials are all known beforehand
adaptive_run.py  a plan that depends on its own results: settings that are tuned, seeds that are added
search_run.py    a plan that grows by what a search proposes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from ablate.execute.controller import EndCounts, Work, WorkSource
from ablate.execute.policy import FAILED
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.session.planned import Planned, filled, meanings_in
from ablate.session.run_result import Run
from ablate.source.located import to_python
from ablate.space.fair import Plain, spoken, text_of
from ablate.space.metrics import Definition
from ablate.store.query import query
from ablate.store.results import Results
from ablate.store.serialise import Documents
from ablate.train.definitions import definitions
from ablate.train.events import Outcome


class PlannedRun(WorkSource, Protocol):
    """A run of a planned space: a source of trials that answers the space's question once they have ended."""

    @property
    def total(self) -> int | None:
        """The number of trials to train; None if that is not known beforehand."""

    @property
    def trains(self) -> bool:
        """True if there is anything to do before it answers, for which an executor is needed."""

    def begin(self) -> None:
        """Store what is requested, so that it is known and can be resumed."""

    def answer(self, ended: EndCounts) -> Run:
        """Return the result, once the trials it handed out have ended, or the run was stopped."""


def work_of(plan: Plan, trials: Iterable[Trial]) -> Iterator[Work]:
    """Yield trials of a plan as work, labelled `name · seed 3`, with the settings that are being tuned."""
    names = {variant.id: variant.name for variant in plan.variants}
    values: dict[str, set[Plain]] = {}
    for _, setting in plan.tried:
        for name, value in setting:
            values.setdefault(name, set()).add(value)
    tried = dict(reversed(plan.tried))
    for trial in trials:
        chosen = [(name, value) for name, value in tried.get(trial.id, ()) if len(values[name]) > 1]
        words = [f"{spoken(name)} {text_of(value)}" for name, value in chosen]
        tuned = ", ".join(["", *words, "tuning"]) if trial.split == "tuning" else ""
        yield Work(trial=trial, label=f"{names[trial.variant]} · seed {trial.seed}{tuned}")


def documents(planned: Planned, store: Results, *, train: bool) -> Documents:
    """Return the documents stored with a plan. Definitions come from the trainer if it runs, else from the store."""
    if train:
        space = planned.space
        defined = tuple(
            replace(each, definition=filled(each.definition, space)) for each in definitions(space.grammar.catalogue)
        )
    else:
        rows = query(store.folder, "SELECT DISTINCT metric, definition, source FROM definitions ORDER BY metric").rows
        defined = tuple(Definition(*row) for row in rows)
    space = planned.space
    return Documents(
        source=space.path.read_text(encoding="utf-8"),
        resolved=to_python(space.located),
        definitions=defined,
        corpus=planned.corpus.model_dump(mode="json"),
    )


def meanings(planned: Planned, kept: Documents) -> dict[str, str]:
    """Return what each metric means, by name."""
    return meanings_in(planned.space, {each.metric: each.definition for each in kept.definitions})


def failures(plan: Plan, store: Results) -> tuple[tuple[Trial, Outcome], ...]:
    """Return the trials of a plan that have ended without a result."""
    outcomes = store.outcomes()
    trials = {trial.id: trial for trial in plan.trials}
    return tuple((t, outcomes[id]) for id, t in trials.items() if id in outcomes and outcomes[id].kind in FAILED)
