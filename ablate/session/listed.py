"""A run of a plan whose trials are all known beforehand: handed out, and judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.plan.plan import Plan
from ablate.session.answer import Begun, Run
from ablate.session.planning import Planned
from ablate.source.located import to_python
from ablate.space.fair import EQUAL_STEPS, SETTINGS
from ablate.space.metrics import JUDGED, Definition

if TYPE_CHECKING:
    from ablate.execute.controller import Ended, Work
    from ablate.plan.trial import Trial
    from ablate.report.page import PageRecord
    from ablate.store.describe import Documents
    from ablate.store.requests import Request
    from ablate.store.results import Results
    from ablate.train.events import Outcome


def begin(planned: Planned, store: Results, request: Request, *, fresh: bool) -> Begun:
    """Keep the plan; hand out what is not known."""
    from ablate.execute.controller import Listed

    trials, plan = planned.to_run, planned.plan
    kept = documents(planned, store, train=bool(trials))
    store.record_plan(plan, kept)
    if not trials:
        return Begun(None, 0, lambda ended: answered(planned, ended, store, kept, request))
    source = Listed(work_of(plan, trials), anew=store if fresh else None)
    return Begun(source, len(trials), lambda ended: answered(planned, ended, store, kept, request))


def work_of(plan: Plan, trials: Iterable[Trial]) -> Iterator[Work]:
    """Trials of a plan as work: `name · seed 3`, and what they are tried for where that is to be chosen."""
    from ablate.execute.controller import Work

    names = {variant.id: variant.name for variant in plan.variants}
    chosen = _chosen(plan)
    for trial in trials:
        tried = [f"{name.replace('_', ' ')} {getattr(trial.recipe.optimizer.adamw, name):g}" for name in chosen]
        tuned = ", ".join(["", *tried, "tuning"]) if trial.split == "tuning" else ""
        yield Work(trial=trial, label=f"{names[trial.variant]} · seed {trial.seed}{tuned}")


def _chosen(plan: Plan) -> tuple[str, ...]:
    """The settings of which tuning has several to choose from."""
    tried = [trial.recipe.optimizer.adamw for trial in plan.trials if trial.split == "tuning"]
    return tuple(name for name in SETTINGS if len({getattr(adamw, name) for adamw in tried}) > 1)


def answered(planned: Planned, ended: Ended, store: Results, kept: Documents, request: Request) -> Run:
    """What a plan has come to, judged."""
    from ablate.session.judging import judged
    from ablate.session.reporting import unequal_of

    plan = planned.plan
    summary = judged(plan, planned.space.judge, store)
    gathered = partial(_gathered, planned, store.folder, request)
    unequal = unequal_of(planned) if planned.space.fair != EQUAL_STEPS else ()
    failed, folder = failures(plan, store), store.folder.absolute()
    return Run(plan, ended, failed, summary, meanings(kept), folder, gathered=gathered, unequal=unequal)


def _gathered(planned: Planned, folder: Path, request: Request) -> PageRecord:
    """What the page of a plan shows, with the noise that its own trials have shown."""
    from ablate.session.reporting import gather
    from ablate.store.noise import noise_of

    noise = noise_of(folder, planned.plan, planned.space.judge)
    return gather(replace(planned, noise=noise), folder, request=request)


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
