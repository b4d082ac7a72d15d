"""One experiment brought up to date: what is there is compared with what should be, and only the difference is sent."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ablate.store.mlflow import notes, views
from ablate.store.mlflow.connection import Destination
from ablate.store.mlflow.naming import TAG_LENGTH, short_lines
from ablate.store.mlflow.read import read_points
from ablate.store.mlflow.sent import Report, identity
from ablate.store.mlflow.values import (
    ANSWER,
    KIND,
    NOTE,
    REMOVED,
    RESULTS,
    VERDICTS,
    MlflowRun,
    MlflowRunState,
    Page,
    Point,
)

METRICS_AT_ONCE, PARAMS_AT_ONCE, ENTITIES_AT_ONCE = 1000, 100, 1000
"""The limits of one batch in MLflow."""
RUNS_AT_ONCE = 200
"""Number of runs whose points are in memory at the same time."""
PAGE_NOTE_LENGTH = 5000
"""The longest tag of an experiment that also MLflow servers of earlier versions keep."""


@dataclass(frozen=True, slots=True)
class MirrorDifference:
    """What an experiment lacks and has too much of: runs to send, and existing runs to restore or to remove.

    `answer` has the runs that are right except for the answer they show, `by_hand` those that a person has deleted;
    `verdicts` is the run that holds the report, if there is one.
    """

    send: tuple[MlflowRun, ...]
    restore: tuple[MlflowRunState, ...]
    answer: tuple[tuple[MlflowRunState, MlflowRun], ...]
    remove: tuple[MlflowRunState, ...]
    by_hand: tuple[MlflowRunState, ...]
    verdicts: MlflowRunState | None


@dataclass(slots=True)
class MlflowExperiment:
    """What MLflow has of one space: the experiment, and its runs by their ids, kept up to date as they are sent.

    Queried once: while the results folder is locked nobody else sends its runs.
    """

    id: str
    created: int
    tags: dict[str, str]
    runs: dict[str, MlflowRunState]


@dataclass(frozen=True, slots=True)
class Done:
    """What was done to one experiment; `verdicts` is the id of the run that holds the report, empty for none."""

    experiment: str
    created: int
    sent: int
    removed: int
    verdicts: str


def synchronise(
    mlflow: Any,
    client: Any,
    destination: Destination,
    page: Page,
    report: Report | None,
    *,
    known: MlflowExperiment | None = None,
    anew: bool = False,
) -> Done:
    """Make the experiment of a space show its page; repeating it has no effect, also after a crash half-way.

    `known` is what is there, where that was queried before; `anew` replaces every run that this results folder has
    sent, right or not.
    """
    there = known or experiment_of(mlflow, client, destination, page.space)
    todo = compare(page, there.runs.values(), identity(destination.folder), anew=anew)
    _carry_out(mlflow, client, destination, there, todo)
    verdicts = todo.verdicts
    text = verdicts.note if verdicts else ""
    if report is not None:
        verdicts, text = _verdicts(client, there.id, page, verdicts, report, identity(destination.folder))
        there.runs[verdicts.id] = verdicts
    _describe(client, there, page, text, verdicts.id if verdicts else "")
    return Done(
        experiment=there.id,
        created=there.created,
        sent=len(todo.send) + len(todo.restore),
        removed=len(todo.remove),
        verdicts=verdicts.id if verdicts else "",
    )


def send_ended(mlflow: Any, client: Any, destination: Destination, page: Page, there: MlflowExperiment) -> int:
    """Send the runs of a page that has only some of a space's trials; return how many. All else stays as it is."""
    about = [run for run in there.runs.values() if run.trial in page.by_trial]
    todo = compare(page, about, identity(destination.folder))
    _carry_out(mlflow, client, destination, there, todo)
    return len(todo.send) + len(todo.restore)


def experiment_of(mlflow: Any, client: Any, destination: Destination, space: str) -> MlflowExperiment:
    """Return the experiment of a space with its runs, created if needed; one deleted by hand is restored, since its
    name stays taken.
    """
    there = client.get_experiment_by_name(space)
    if there is None:
        there = client.get_experiment(client.create_experiment(space, artifact_location=destination.artifacts))
        return MlflowExperiment(there.experiment_id, there.creation_time, dict(there.tags), {})
    if there.lifecycle_stage == "deleted":
        client.restore_experiment(there.experiment_id)
    runs = {run.id: run for run in runs_there(mlflow, client, there.experiment_id)}
    return MlflowExperiment(there.experiment_id, there.creation_time, dict(there.tags), runs)


def runs_there(mlflow: Any, client: Any, experiment: str) -> Iterator[MlflowRunState]:
    """Yield every run of an experiment, deleted ones included."""
    token = None
    while True:
        page = client.search_runs(
            [experiment], run_view_type=mlflow.entities.ViewType.ALL, max_results=1000, page_token=token
        )
        yield from map(MlflowRunState.of, page)
        if not (token := page.token):
            return


def compare(page: Page, there: Iterable[MlflowRunState], mine: str, *, anew: bool = False) -> MirrorDifference:
    """Return what must be done so that each trial of the page has one run, which shows what it should.

    `mine` is the identity of the results folder; runs of others are left alone. `anew` treats all its own as wrong.
    """
    wanted = page.by_trial
    seen: dict[str, MlflowRunState] = {}
    restore: dict[str, MlflowRunState] = {}
    by_hand: dict[str, MlflowRunState] = {}
    remove: list[MlflowRunState] = []
    verdicts = None
    for run in there:
        own, active = run.results == mine, run.active
        same = run.trial in wanted and _is_right(run, wanted[run.trial], own=own)
        right = same and not (anew and own)
        if run.kind == VERDICTS and own and active:
            verdicts = run
        elif run.kind != "trial" or not (own or (active and right)):
            continue
        elif active and right and run.trial not in seen and not run.removed:
            seen[run.trial] = run
        elif right and run.removed and run.trial not in restore:
            restore[run.trial] = run
        elif active:
            remove.append(run)
        elif right and not run.removed:
            by_hand[run.trial] = run
    by_hand = {trial: run for trial, run in by_hand.items() if trial not in seen}
    known = {*seen, *restore, *by_hand}
    for trial in restore.keys() & (seen | by_hand).keys():
        # An interrupted removal: marked, and not deleted yet.
        if (run := restore.pop(trial)).active:
            remove.append(run)
    send = tuple(run for trial, run in wanted.items() if trial not in known)
    shown = {trial: run for trial, run in (seen | restore).items() if run.results == mine}
    answer = tuple((run, wanted[t]) for t, run in shown.items() if run.answer != wanted[t].answer.digest)
    return MirrorDifference(send, tuple(restore.values()), answer, tuple(remove), tuple(by_hand.values()), verdicts)


def _is_right(run: MlflowRunState, wanted: MlflowRun, *, own: bool) -> bool:
    """Return whether a run shows its trial and nothing of an outdated answer, since MLflow cannot delete a number.

    Answers in runs sent from another results folder belong to that folder.
    """
    same = run.digest == wanted.digest and not run.running
    return same and (not own or run.answers <= wanted.answer.names)


def _carry_out(
    mlflow: Any, client: Any, destination: Destination, there: MlflowExperiment, todo: MirrorDifference
) -> None:
    """Remove, restore, send and complete runs, and record that in `there`."""
    mine = identity(destination.folder)
    for run in todo.remove:
        client.set_tag(run.id, REMOVED, "yes")
        client.delete_run(run.id)
        there.runs[run.id] = replace(run, active=False, removed=True)
    for run in todo.restore:
        if not run.active:
            client.restore_run(run.id)
        client.delete_tag(run.id, REMOVED)
        there.runs[run.id] = replace(run, active=True, removed=False)
    for new, points in _with_points(destination.folder, todo.send):
        sent = _send(mlflow, client, there.id, new, points, mine)
        there.runs[sent.id] = sent
    for run, shown in todo.answer:
        tags = [mlflow.entities.RunTag(name, text) for name, text in _answer_tags(shown).items()]
        client.log_batch(run.id, metrics=_answer_metrics(mlflow, shown), tags=tags)
        there.runs[run.id] = replace(there.runs[run.id], answer=shown.answer.digest, answers=shown.answer.names)


def _with_points(folder: Path, runs: tuple[MlflowRun, ...]) -> Iterator[tuple[MlflowRun, list[Point]]]:
    left = iter(runs)
    while batch := list(islice(left, RUNS_AT_ONCE)):
        points = read_points(folder, [run.trial for run in batch])
        yield from ((run, points.get(run.trial, [])) for run in batch)


def _send(mlflow: Any, client: Any, experiment: str, run: MlflowRun, points: list[Point], mine: str) -> MlflowRunState:
    """Send a run, which is RUNNING until all of it is there, so that a half-sent one is recognised."""
    tags = {**run.tags, **_answer_tags(run), RESULTS: mine}
    created = client.create_run(experiment, start_time=run.began, run_name=run.name, tags=tags)
    params = [mlflow.entities.Param(name, value) for name, value in run.params.items()]
    metrics = [mlflow.entities.Metric(p.name, p.value, run.ended, p.step) for p in points]
    metrics += _answer_metrics(mlflow, run)
    while params or metrics:
        now, params = params[:PARAMS_AT_ONCE], params[PARAMS_AT_ONCE:]
        room = min(METRICS_AT_ONCE, ENTITIES_AT_ONCE - len(now))
        client.log_batch(created.info.run_id, params=now, metrics=metrics[:room])
        metrics = metrics[room:]
    status = "FINISHED" if run.status in ("finished", "diverged") else "FAILED"
    client.set_terminated(created.info.run_id, status=status, end_time=run.ended)
    return MlflowRunState(
        id=created.info.run_id,
        kind="trial",
        trial=run.trial,
        digest=run.digest,
        results=mine,
        answer=run.answer.digest,
        answers=run.answer.names,
        note="",
        active=True,
        running=False,
        removed=False,
    )


def _answer_tags(run: MlflowRun) -> dict[str, str]:
    """Return the texts of a run's answer, with the tag that identifies it; no tag while there is no answer."""
    mark = {ANSWER: run.answer.digest} if run.answer.digest else {}
    return {name: text for name, text in {**run.answer.tags, **mark}.items() if text}


def _answer_metrics(mlflow: Any, run: MlflowRun) -> list[Any]:
    """Return the numbers of a run's answer; of several at one step MLflow shows the latest."""
    now = round(1000 * time.time())
    return [mlflow.entities.Metric(name, number, now, 0) for name, number in run.answer.metrics.items()]


def _verdicts(
    client: Any, experiment: str, page: Page, there: MlflowRunState | None, report: Report, mine: str
) -> tuple[MlflowRunState, str]:
    """Replace the earlier report; return its run, and the text to show on the page."""
    text = next((text for name, text in report.items() if name.endswith(".md")), "")
    note = short_lines(text, TAG_LENGTH, "The rest is in the files of this run.")
    ended = max(run.ended for run in page.runs)
    if there is None:
        tags = {KIND: VERDICTS, RESULTS: mine, "order": "000", "status": VERDICTS}
        created = client.create_run(experiment, start_time=ended, run_name=VERDICTS, tags=tags)
        there = MlflowRunState.of(created)
    client.set_tag(there.id, NOTE, note)
    for name, content in report.items():
        client.log_text(there.id, content, name)
    client.set_terminated(there.id, status="FINISHED", end_time=ended)
    return replace(there, note=note, running=False), text


def _describe(client: Any, experiment: MlflowExperiment, page: Page, report: str, verdicts: str) -> None:
    addresses = views.links(experiment.id, verdicts)
    links = "Open: " + " · ".join(f"[{name}]({address})" for name, address in addresses)
    text = notes.page_note(page, links, report)
    rest = "The rest is in the files of the run `verdicts`."
    tags: Mapping[str, str] = {
        NOTE: short_lines(text, PAGE_NOTE_LENGTH, rest),
        "design": page.design,
        "trials": f"{len(page.runs)} of {page.requested}",
        **views.view_tags(page),
    }
    for name, value in tags.items():
        if experiment.tags.get(name) != value:
            client.set_experiment_tag(experiment.id, name, value)
            experiment.tags[name] = value
