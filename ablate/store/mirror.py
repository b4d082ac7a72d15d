"""The MLflow mirror: `mirror` brings it up to date, `examine` reports what is wrong with it, `rebuild` recreates it.

What is shown, and why, is in `store/mlflow/__init__.py`. MLflow, which takes seconds to import, is not touched when
nothing is new in the results folder's own mirror; a server is always queried, since it may have been emptied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.errors import RefusedError
from ablate.store.mlflow.connection import STORE, Destination, connected
from ablate.store.mlflow.faults import faults, runs
from ablate.store.mlflow.file import in_place, may_be_damaged, new_store, sweep
from ablate.store.mlflow.read import read_pages
from ablate.store.mlflow.sent import (
    Report,
    Sent,
    identity,
    kept_reports,
    page_digest,
    read_sent,
    report_digest,
    write_sent,
)
from ablate.store.mlflow.sync import Done, MlflowExperiment, experiment_of, runs_there, send_ended, synchronise
from ablate.store.mlflow.values import Page
from ablate.store.repair.report import Finding, Severity

__all__ = ["Mirrored", "Report", "check_uri", "examine", "mirror", "mirror_ended", "rebuild"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """What was done, `where` without secrets: runs sent or restored, runs removed, spaces whose page changed."""

    where: str
    sent: int = 0
    removed: int = 0
    spaces: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spaces)


def check_uri(uri: str | None) -> None:
    """Raise InputError for an invalid `uri`, before anything is sent."""
    Destination(Path(), uri)


def mirror(
    folder: Path,
    *,
    uri: str | None = None,
    reports: Mapping[str, Report] | None = None,
    known: Mapping[str, MlflowExperiment] | None = None,
) -> Mirrored:
    """Bring MLflow up to date with the results: `<folder>/mlflow.db`, or the tracking server at `uri`.

    Needs the folder's lock (it is the only writer) and a refreshed `ablate.duckdb`. `reports` has the verdicts of
    spaces, as texts by file name; a space without one keeps what is there. `known` is what `mirror_ended` has found
    there. Repeating it has no effect, also after a crash half-way. Raises RefusedError, which costs no result, where
    MLflow cannot be reached or fails, and InputError for an invalid `uri`.
    """
    destination, pages, reports = Destination(folder, uri), read_pages(folder), reports or {}
    sent = read_sent(folder, destination.key)
    if pages and _needs_new_store(destination, sent):
        return rebuild(folder, reports=reports)
    if destination.embedded:
        pages = [page for page in pages if not _same(page, sent.get(page.space), reports.get(page.space))]
    if not pages:
        return Mirrored(where=destination.shown)
    done = {}
    with in_place(destination), connected(destination) as (mlflow, client):
        for page in pages:
            before, report = sent.get(page.space), reports.get(page.space)
            if before and _same(page, before, report) and _still_there(client, before):
                continue
            there = (known or {}).get(page.space)
            done[page.space] = synchronise(mlflow, client, destination, page, report, known=there)
    for page in pages:
        if page.space in done:
            _note(destination, page, done[page.space], reports.get(page.space), sent.get(page.space))
    return _mirrored(destination, done)


def mirror_ended(
    folder: Path, space: str, trials: Collection[str], known: dict[str, MlflowExperiment], *, uri: str | None = None
) -> int:
    """Send the trials of a space that have ended, while others still run; return how many were sent.

    `known` keeps what is there between calls, and for `mirror`, which does the rest and has the same requirements and
    errors.
    """
    destination = Destination(folder, uri)
    before = read_sent(folder, destination.key)
    if before and _needs_new_store(destination, before):
        return rebuild(folder).sent
    if _needs_new_store(destination, before):
        with new_store(folder):
            pass  # empty, and complete
    pages = [page for page in read_pages(folder, trials) if page.space == space]
    with in_place(destination), connected(destination) as (mlflow, client):
        for page in pages:
            if space not in known:
                known[space] = experiment_of(mlflow, client, destination, space)
            return send_ended(mlflow, client, destination, page, known[space])
    return 0


def _needs_new_store(destination: Destination, sent: Mapping[str, Sent]) -> bool:
    """Return whether the results folder's own store is missing, was left half-written, or was moved."""
    folder = destination.folder
    moved = any(each.folder != str(folder.resolve()) for each in sent.values())
    return destination.embedded and (moved or may_be_damaged(folder) or not (folder / STORE).exists())


def rebuild(folder: Path, uri: str | None = None, *, reports: Mapping[str, Report] | None = None) -> Mirrored:
    """Recreate the mirror from the results, whatever state it is in; what was deleted by hand comes back, too.

    The results folder's own store is made beside the old one and replaces it atomically; `ablate ui` shows it when the
    page is reloaded, another server perhaps only after a restart. On a server at `uri` every run of this results folder
    is replaced; runs of others stay. A space without a report in `reports` keeps its old one. What people added in
    MLflow to what is replaced (tags, notes, files) is lost. Has the requirements and errors of `mirror`.
    """
    destination, pages, reports = Destination(folder, uri), read_pages(folder), reports or {}
    done = {}
    if destination.embedded:
        reports = {**kept_reports(folder), **reports}
        with new_store(folder) as (mlflow, client):
            for page in pages:
                done[page.space] = synchronise(mlflow, client, destination, page, reports.get(page.space))
    else:
        with connected(destination) as (mlflow, client):
            for page in pages:
                report = reports.get(page.space)
                done[page.space] = synchronise(mlflow, client, destination, page, report, anew=True)
    for page in pages:
        _note(destination, page, done[page.space], reports.get(page.space), None)
    if destination.embedded:
        sweep(folder, {each.verdicts for each in done.values()})
    return _mirrored(destination, done)


def examine(folder: Path) -> list[Finding]:
    """Report what is missing, duplicated or stale in `<folder>/mlflow.db`, changing nothing; [] if nothing is.

    What a person deleted by hand is harmless, a folder never mirrored has no faults, and `rebuild` repairs the rest.
    """
    destination, pages = Destination(folder), read_pages(folder)
    if not (folder / STORE).exists():
        lost = sum(len(page.runs) for page in pages if page.space in read_sent(folder, destination.key))
        return [_finding(folder, f"is missing, with {runs(lost)}")] if lost else []
    if may_be_damaged(folder):
        return [_finding(folder, "may be damaged: the machine stopped while it was written")]
    try:
        with connected(destination) as (mlflow, client):
            return [
                _finding(folder, f"{page.space}: {what}", by_hand)
                for page in pages
                for what, by_hand in _faults(mlflow, client, destination, page)
            ]
    except RefusedError as error:
        return [_finding(folder, f"cannot be read: {str(error).splitlines()[0]}")]


def _faults(mlflow: Any, client: Any, destination: Destination, page: Page) -> list[tuple[str, bool]]:
    """Return what is wrong with the experiment of a page, and whether a person did it."""
    experiment = client.get_experiment_by_name(page.space)
    if experiment is None:
        return [(f"the experiment is missing, with {runs(len(page.runs))}", False)]
    if experiment.lifecycle_stage == "deleted":
        return [("the experiment was deleted by hand", True)]
    there = runs_there(mlflow, client, experiment.experiment_id)
    wrong = faults(page, there, identity(destination.folder))
    if experiment.artifact_location != destination.artifacts:
        where = experiment.artifact_location
        wrong.append((f"its files are expected in {where}, from where this folder was moved", False))
    return wrong


def _finding(folder: Path, what: str, by_hand: bool = False) -> Finding:
    severity: Severity = "harmless" if by_hand else "repaired"
    return Finding("mirror", severity, what, folder / STORE, "left as it is" if by_hand else "rebuilt")


def _same(page: Page, known: Sent | None, report: Report | None) -> bool:
    """Return whether a space was last sent as it is now; without a new report the sent one stays."""
    return known is not None and known.page == page_digest(page) and report_digest(report) in ("", known.report)


def _still_there(client: Any, known: Sent) -> bool:
    """Return whether a server still has the experiment, and not a later one of the same name."""
    there = client.get_experiment_by_name(known.space)
    return there is not None and (there.experiment_id, there.creation_time) == (known.experiment, known.created)


def _note(destination: Destination, page: Page, done: Done, report: Report | None, before: Sent | None) -> None:
    write_sent(
        destination.folder,
        Sent(
            destination=destination.key,
            space=page.space,
            experiment=done.experiment,
            created=done.created,
            page=page_digest(page),
            report=report_digest(report) if report else before.report if before and done.verdicts else "",
            verdicts=done.verdicts,
            folder=str(destination.folder.resolve()),
        ),
    )


def _mirrored(destination: Destination, done: Mapping[str, Done]) -> Mirrored:
    return Mirrored(
        where=destination.shown,
        sent=sum(each.sent for each in done.values()),
        removed=sum(each.removed for each in done.values()),
        spaces=tuple(done),
    )
