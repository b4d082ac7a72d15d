"""A run of a plan whose trials are all known beforehand: handed out, and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ablate.plan.plan import Plan
from ablate.session.answer import Begun, Run
from ablate.session.planning import Planned
from ablate.source.located import to_python
from ablate.space.metrics import JUDGED, Definition

if TYPE_CHECKING:
    from ablate.execute.controller import Ended
    from ablate.plan.trial import Trial
    from ablate.store.describe import Documents
    from ablate.store.results import Results
    from ablate.train.events import Outcome


def begin(planned: Planned, store: Results, *, fresh: bool) -> Begun:
    """Keep the plan; hand out what is not known."""
    from ablate.execute.controller import Listed, Work

    trials, plan = planned.to_run, planned.plan
    kept = documents(planned, store, train=bool(trials))
    store.record_plan(plan, kept)
    if not trials:
        return Begun(None, 0, lambda ended: _judged(planned, ended, store, kept))
    work = (Work(trial=t, label=f"{plan.variant(t.variant).name} · seed {t.seed}") for t in trials)
    source = Listed(work, anew=store if fresh else None)
    return Begun(source, len(trials), lambda ended: _judged(planned, ended, store, kept))


def _judged(planned: Planned, ended: Ended, store: Results, kept: Documents) -> Run:
    from ablate.report.verdicts import judge

    store.refresh()
    ids = {trial.id for trial in planned.plan.trials}
    summary = judge(planned.plan, planned.space.judge, store.finals(ids))  # type: ignore[arg-type]
    return Run(planned.plan, ended, failures(planned.plan, store), summary, meanings(kept))


def failures(plan: Plan, store: Results) -> tuple[tuple[Trial, Outcome], ...]:
    """The trials of a plan that have ended without a result."""
    from ablate.execute.policy import FAILED

    outcomes = store.outcomes()
    trials = {trial.id: trial for trial in plan.trials}
    return tuple((t, outcomes[id]) for id, t in trials.items() if id in outcomes and outcomes[id].kind in FAILED)


def meanings(kept: Documents) -> dict[str, str]:
    """What each metric means, by name."""
    return {d.metric: d.definition for d in (*kept.definitions, *JUDGED.values())}


def documents(planned: Planned, store: Results, *, train: bool) -> Documents:
    """What is kept with a plan. Definitions come from the trainer when it runs, else from the store that it filled."""
    from ablate.store.describe import Documents

    if train:
        from ablate.train.definitions import definitions

        found = definitions()
    else:
        from ablate.store.query import query as ask

        rows = ask(store.folder, "SELECT DISTINCT metric, definition, source FROM definitions ORDER BY metric").rows
        found = tuple(Definition(*row) for row in rows)
    space = planned.space
    return Documents(
        source=space.path.read_text(encoding="utf-8"),
        resolved=to_python(space.located),
        definitions=found,
        corpus=planned.corpus.model_dump(mode="json"),
    )
