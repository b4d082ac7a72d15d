"""A results folder sent to MLflow by itself, without a run: each trial once, with the verdicts as they are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ablate.errors import AblateError
from ablate.report.searched import json_form as searched_form
from ablate.session.kept_question import as_run, page_of
from ablate.session.planning import plan_space
from ablate.session.reporting import gather, texts_of_search, texts_of_verdicts
from ablate.store import files
from ablate.store.mirror import Mirrored, Report, check_uri, mirror
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot


def export(results: Path, *, uri: str | None, say: Callable[[str], None]) -> Mirrored:
    """Send what MLflow lacks of a folder: to its own store, or to the tracking server at `uri`. Repeating it has no
    effect. InputError for a folder without results; RefusedError where it is in use, or MLflow cannot be reached.

    `say` is told of spaces whose verdicts cannot be made: their trials are sent without.
    """
    check_uri(uri)
    files.check_results(results)
    with Results(results, say=say) as store:
        store.refresh()
        now = Snapshot(results)
        reports: dict[str, Report] = {}
        for space in now.plans.of_space:
            try:
                report = _report(space, now)
            except AblateError as error:
                say(f"{space} is sent without its verdicts: {str(error).splitlines()[0]}")
                continue
            if report:
                reports[space] = report
        return mirror(results, uri=uri, reports=reports)


def _report(space: str, now: Snapshot) -> Report:
    """Return the verdicts of a space and its page, as a run sends them; nothing of one without an ended trial."""
    plan, request = now.plans.current(space), now.requests.get(space)
    assert plan is not None
    trials = {str(trial) for trial, *_ in plan.document["trials"]}
    if request is None or trials.isdisjoint(now.endings):
        return {}
    if plan.document["design"] == "search":
        kept = page_of(now.folder, space, plan.document["resolved"]).with_suffix(".json")
        return texts_of_search(searched_form.from_json(kept.read_text(encoding="utf-8"))) if kept.exists() else {}
    run = as_run(now.folder, request)
    planned = plan_space(run.space, results=now.folder, forecasts="none", texts=run.texts)
    record = gather(planned, now.folder, request=request)
    return texts_of_verdicts(record.summary, record.definitions, lambda: record, record.mixed)
