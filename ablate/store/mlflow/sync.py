"""One experiment brought up to date: what is there is compared with what should be, and only the difference is sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ablate.store.mlflow import notes, views
from ablate.store.mlflow.connection import Destination
from ablate.store.mlflow.naming import TAG_LENGTH, short_lines
from ablate.store.mlflow.read import read_points
from ablate.store.mlflow.sent import Report, identity
from ablate.store.mlflow.values import DIGEST, KIND, NOTE, REMOVED, RESULTS, TRIAL, Page, Point, Run

METRICS_AT_ONCE, PARAMS_AT_ONCE, ENTITIES_AT_ONCE = 1000, 100, 1000
"""What MLflow takes in one batch."""
RUNS_AT_ONCE = 200
"""Runs whose points are in memory at the same time."""
PAGE_NOTE_LENGTH = 5000
"""The longest tag of an experiment that MLflow servers of earlier versions keep, too."""
VERDICTS = "verdicts"


@dataclass(frozen=True, slots=True)
class Difference:
    """What an experiment lacks and has too much of: runs to send, and runs there to bring back or to remove.

    `by_hand` are those that a person has deleted; `verdicts` is the run that holds the report, if there is one.
    """

    send: tuple[Run, ...]
    restore: tuple[Any, ...]
    remove: tuple[Any, ...]
    by_hand: tuple[Any, ...]
    verdicts: Any


@dataclass(frozen=True, slots=True)
class Done:
    """What was done to one experiment; `verdicts` is the id of the run that holds the report, empty for none."""

    experiment: str
    created: int
    sent: int
    removed: int
    verdicts: str


def synchronise(
    mlflow: Any, client: Any, destination: Destination, page: Page, report: Report | None, *, anew: bool = False
) -> Done:
    """Make the experiment of a space show its page; doing it twice is once, also after a crash half-way.

    `anew` replaces every run that this results folder has sent, right or not.
    """
    experiment = _experiment(client, destination, page.space)
    there = list(runs_there(mlflow, client, experiment.experiment_id))
    mine = identity(destination.folder)
    todo = compare(page, there, mine, anew=anew)
    for run in todo.remove:
        client.set_tag(run.info.run_id, REMOVED, "yes")
        client.delete_run(run.info.run_id)
    for run in todo.restore:
        if run.info.lifecycle_stage != "active":
            client.restore_run(run.info.run_id)
        client.delete_tag(run.info.run_id, REMOVED)
    for new, points in _with_points(destination.folder, todo.send):
        _send(mlflow, client, experiment.experiment_id, new, points, mine)
    verdicts = todo.verdicts
    text = verdicts.data.tags.get(NOTE, "") if verdicts else ""
    if report is not None:
        verdicts, text = _verdicts(client, experiment.experiment_id, page, verdicts, report, mine)
    _describe(client, experiment, page, text, verdicts.info.run_id if verdicts else "")
    return Done(
        experiment=experiment.experiment_id,
        created=experiment.creation_time,
        sent=len(todo.send) + len(todo.restore),
        removed=len(todo.remove),
        verdicts=verdicts.info.run_id if verdicts else "",
    )


def runs_there(mlflow: Any, client: Any, experiment: str) -> Iterator[Any]:
    """Every run of an experiment, deleted ones too."""
    token = None
    while True:
        page = client.search_runs(
            [experiment], run_view_type=mlflow.entities.ViewType.ALL, max_results=1000, page_token=token
        )
        yield from page
        if not (token := page.token):
            return


def compare(page: Page, there: Iterable[Any], mine: str, *, anew: bool = False) -> Difference:
    """What is to be done so that each trial of the page has one run, which shows what it should.

    `mine` is the identity of the results folder; runs of others are let be. `anew` takes none of its own for right.
    """
    wanted = page.by_trial
    seen: set[str] = set()
    restore: dict[str, Any] = {}
    by_hand: dict[str, Any] = {}
    remove: list[Any] = []
    verdicts = None
    for run in there:
        tags, active = run.data.tags, run.info.lifecycle_stage == "active"
        trial, own, marked = tags.get(TRIAL, ""), tags.get(RESULTS) == mine, REMOVED in tags
        same = trial in wanted and tags.get(DIGEST) == wanted[trial].digest and run.info.status != "RUNNING"
        right = same and not (anew and own)
        if tags.get(KIND) == VERDICTS and own and active:
            verdicts = run
        elif tags.get(KIND) != "trial" or not (own or (active and right)):
            continue
        elif active and right and trial not in seen and not marked:
            seen.add(trial)
        elif right and marked and trial not in restore:
            restore[trial] = run
        elif active:
            remove.append(run)
        elif right and not marked:
            by_hand[trial] = run
    by_hand = {trial: run for trial, run in by_hand.items() if trial not in seen}
    known = {*seen, *restore, *by_hand}
    for trial in restore.keys() & (seen | by_hand.keys()):
        # A removal that was cut short: marked, and not deleted yet.
        if (run := restore.pop(trial)).info.lifecycle_stage == "active":
            remove.append(run)
    send = (run for trial, run in wanted.items() if trial not in known)
    return Difference(tuple(send), tuple(restore.values()), tuple(remove), tuple(by_hand.values()), verdicts)


def _experiment(client: Any, destination: Destination, space: str) -> Any:
    """The experiment of a space; one deleted by hand is restored, since its name stays taken."""
    found = client.get_experiment_by_name(space)
    if found is None:
        return client.get_experiment(client.create_experiment(space, artifact_location=destination.artifacts))
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found


def _with_points(folder: Path, runs: tuple[Run, ...]) -> Iterator[tuple[Run, list[Point]]]:
    left = iter(runs)
    while batch := list(islice(left, RUNS_AT_ONCE)):
        points = read_points(folder, [run.trial for run in batch])
        yield from ((run, points.get(run.trial, [])) for run in batch)


def _send(mlflow: Any, client: Any, experiment: str, run: Run, points: list[Point], mine: str) -> None:
    """A run is RUNNING until all of it is there: by that a half-sent one is known."""
    tags = {**run.tags, RESULTS: mine}
    created = client.create_run(experiment, start_time=run.began, run_name=run.name, tags=tags)
    params = [mlflow.entities.Param(name, value) for name, value in run.params.items()]
    metrics = [mlflow.entities.Metric(p.name, p.value, run.ended, p.step) for p in points]
    while params or metrics:
        now, params = params[:PARAMS_AT_ONCE], params[PARAMS_AT_ONCE:]
        room = min(METRICS_AT_ONCE, ENTITIES_AT_ONCE - len(now))
        client.log_batch(created.info.run_id, params=now, metrics=metrics[:room])
        metrics = metrics[room:]
    status = "FINISHED" if run.status in ("finished", "diverged") else "FAILED"
    client.set_terminated(created.info.run_id, status=status, end_time=run.ended)


def _verdicts(client: Any, experiment: str, page: Page, there: Any, report: Report, mine: str) -> tuple[Any, str]:
    """Put a report in the place of the one before; its run, and the text to show on the page."""
    text = next((text for name, text in report.items() if name.endswith(".md")), "")
    note = short_lines(text, TAG_LENGTH, "The rest is in the files of this run.")
    ended = max(run.ended for run in page.runs)
    if there is None:
        tags = {KIND: VERDICTS, RESULTS: mine, "order": "000", "status": VERDICTS}
        there = client.create_run(experiment, start_time=ended, run_name=VERDICTS, tags=tags)
    client.set_tag(there.info.run_id, NOTE, note)
    for name, content in report.items():
        client.log_text(there.info.run_id, content, name)
    client.set_terminated(there.info.run_id, status="FINISHED", end_time=ended)
    return there, text


def _describe(client: Any, experiment: Any, page: Page, report: str, verdicts: str) -> None:
    addresses = views.links(experiment.experiment_id, verdicts)
    links = "Open: " + " · ".join(f"[{name}]({address})" for name, address in addresses)
    text = notes.page_note(page, links, report)
    rest = "The rest is in the files of the run `verdicts`."
    tags: Mapping[str, str] = {
        NOTE: short_lines(text, PAGE_NOTE_LENGTH, rest),
        "design": page.design,
        "trials": f"{len(page.runs)} of {page.asked}",
        **views.view_tags(page),
    }
    for name, value in tags.items():
        if experiment.tags.get(name) != value:
            client.set_experiment_tag(experiment.experiment_id, name, value)
