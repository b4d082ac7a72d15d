"""Client of MLflow: the connection to a destination of runs, and one experiment there that is brought up to date.

MLflow is imported late, without its messages or its telemetry. Only this file knows how a destination is written (a
URI) and which part of it may be shown.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from ablate.errors import InputError, RefusedError
from ablate.store import mlflow_pages, mlflow_texts
from ablate.store.durable import UNFINISHED, put_in_place, write_whole, writing
from ablate.store.mlflow_pages import DIGEST, KIND, NOTE, TRIAL, Point, read_points
from ablate.store.mlflow_texts import TAG_LENGTH, MlflowRun, Page, is_answer, short_lines

STORE, ARTIFACTS = "mlflow.db", "mlruns"
MARK = f"{STORE}.unsynced"  # the file that is beside a store while it is written in place
BOOT = Path("/proc/sys/kernel/random/boot_id")
SIDECARS = ("-journal", "-wal", "-shm")
"""The files that SQLite keeps beside another; leftovers must not be applied to the one that replaces it."""
POOL = "MLFLOW_SQLALCHEMYSTORE_POOLCLASS"
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_AGENT_HINT": "true",
    # A new connection for each transaction: a kept one would continue to write to a file that has been replaced.
    POOL: "NullPool",
    # A server that is down costs seconds, not a quarter of an hour (MLflow's default of seven tries of two minutes).
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}


@dataclass(frozen=True, slots=True)
class Destination:
    """Where runs go: a results folder's own SQLite file (`uri` None), or any URI that MLflow knows."""

    folder: Path
    uri: str | None = None

    def __post_init__(self) -> None:
        if self.uri is not None and not re.match(r"[a-z][a-z0-9+.-]*://|databricks|file:", self.uri):
            raise InputError(
                f"{without_secrets(self.uri)!r} is not an MLflow tracking URI\n"
                "  = give one such as http://127.0.0.1:5000, or none for the results folder's own"
            )

    @property
    def embedded(self) -> bool:
        return self.uri is None

    @property
    def tracking(self) -> str:
        """The URI for MLflow, with its secrets."""
        return self.uri or sqlite_uri(self.folder / STORE)

    @property
    def shown(self) -> str:
        return str(self.folder / STORE) if self.uri is None else without_secrets(self.uri)

    @property
    def artifacts(self) -> str | None:
        """The URI for files of runs; None where a tracking server decides that."""
        if urlsplit(self.tracking).scheme in ("http", "https", "databricks"):
            return None
        return (self.folder / ARTIFACTS).resolve().as_uri()


def sqlite_uri(path: Path) -> str:
    """Return the URI of a SQLite file; SQLAlchemy decodes %20 in it, and takes all other characters literally."""
    return f"sqlite:///{str(path.resolve()).replace('%', '%25')}"


def without_secrets(uri: str) -> str:
    """Return a URI without user, password and query.

    >>> without_secrets("https://me:secret@host:5000/x?token=1")
    'https://host:5000/x'
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "the URI"
    if "://" not in uri:
        return uri.rpartition("@")[2].partition("?")[0]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")).rstrip("/")


@contextmanager
def connected(destination: Destination) -> Iterator[Any]:
    """Yield MLflow's client of a destination; any failure there is a RefusedError of one line without secrets."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic", "urllib3"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import mlflow
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        if destination.embedded:
            _check_database(destination.folder / STORE)
        yield mlflow.MlflowClient(tracking_uri=destination.tracking)
    except (MlflowException, RequestException, SQLAlchemyError, sqlite3.Error, OSError, ImportError) as error:
        way_out = "check that the server runs and can be reached from here"
        if destination.embedded:
            way_out = f"if it happens again, delete {destination.shown}: it is rebuilt from the results"
        if isinstance(error, ImportError):
            way_out = "install the driver for that kind of database"
        raise RefusedError(
            f"MLflow at {destination.shown} was not brought up to date: {_reason(error, destination)}\n"
            f"  = {way_out}; the results are safe, and what is missing is sent the next time"
        ) from error


def _check_database(path: Path) -> None:
    """Raise sqlite3.DatabaseError for a file that is no database, which MLflow would try to open for 100 seconds. One
    that is locked may be free again when MLflow opens it, and is left to it."""
    if path.exists():
        with closing(sqlite3.connect(path)) as connection:
            try:
                connection.execute("SELECT count(*) FROM sqlite_master")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise


def _reason(error: Exception, destination: Destination) -> str:
    """Return the first line of an error, short, and without user and password wherever they occur."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = (lines[0] if lines else type(error).__name__).partition(" Response body:")[0]
    if destination.uri is not None:
        parts = urlsplit(destination.uri)
        text = text.replace(destination.uri, without_secrets(destination.uri))
        text = text.replace(f"{parts.netloc.rpartition('@')[0]}@", "") if "@" in parts.netloc else text
        for secret in (parts.password, parts.query):
            text = text.replace(secret, "…") if secret else text
    if "Connection refused" in text:
        return "nothing answers there (connection refused)"
    if "timed out" in text:
        return "it does not answer (timed out)"
    return text if len(text) <= 300 else text[:299] + "…"


@contextmanager
def new_store(folder: Path) -> Iterator[Any]:
    """Yield MLflow's client of an empty store, which replaces `mlflow.db` on success.

    MLflow creates its tables in many steps; a process killed between them leaves a file that it cannot open again.
    """
    for left in folder.glob(f"{STORE}.*{UNFINISHED}*"):
        left.unlink()
    # A unique name: MLflow remembers by name that the tables exist.
    path = folder / f"{STORE}.{uuid4().hex[:8]}{UNFINISHED}"
    with unsynced(), connected(Destination(folder, sqlite_uri(path))) as client:
        client.search_experiments(max_results=1)
        yield client
    with writing(folder / STORE):
        with path.open("rb") as whole:
            os.fsync(whole.fileno())
        for suffix in SIDECARS:
            (folder / (STORE + suffix)).unlink(missing_ok=True)
        put_in_place(path, folder / STORE)
        (folder / MARK).unlink(missing_ok=True)


@contextmanager
def unsynced() -> Iterator[None]:
    """Keep SQLite from waiting for the disk at each of the six transactions per run.

    A killed process loses nothing: the system has what it wrote. Only if the machine itself stops may the file be
    damaged: it is not in place yet, or `in_place` keeps a mark beside it.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def relax(connection: sqlite3.Connection, record: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", relax)
    try:
        yield
    finally:
        event.remove(Engine, "connect", relax)


@contextmanager
def in_place(destination: Destination) -> Iterator[None]:
    """Write to the existing store; the results folder's own is synced once, at the end.

    Until then a mark beside it identifies the boot of the machine, to detect that the machine stopped in between.
    """
    if not destination.embedded:
        yield
        return
    mark = destination.folder / MARK
    with writing(mark):
        write_whole(mark, _machine_start().encode())
    with unsynced():
        yield
    store = destination.folder / STORE
    if store.exists():  # unless somebody has deleted it meanwhile
        with writing(store), store.open("rb") as whole:
            os.fsync(whole.fileno())
    mark.unlink(missing_ok=True)


def may_be_damaged(folder: Path) -> bool:
    """Return whether the machine stopped while the store was written and not synced."""
    try:
        return (folder / MARK).read_text(encoding="utf-8") != _machine_start()
    except FileNotFoundError:
        return False


def _machine_start() -> str:
    """Return a text that differs after each boot of the machine or, where that is unknown, for each process."""
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return f"unknown to process {os.getpid()}"


# One experiment brought up to date: what is there is compared with what should be, and only the difference is sent

RESULTS, REMOVED, ANSWER = "ablate.results", "ablate.removed", "ablate.answer"
"""Further tags of a run: the results folder it is from, whether the mirror deleted it, a hash of the answer shown."""
RUN_NAME = "mlflow.runName"
VERDICTS = "verdicts"  # the kind, and the name, of the run that holds a report
METRICS_AT_ONCE, PARAMS_AT_ONCE, ENTITIES_AT_ONCE = 1000, 100, 1000
RUNS_AT_ONCE = 200  # number of runs whose points are in memory at the same time
PAGE_NOTE_LENGTH = 5000  # the longest tag of an experiment that also MLflow servers of earlier versions keep


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowRunState:
    """The state of a run in MLflow; `results` is the results folder it is from, `note` the description of verdicts.

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
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)

    def lacks(self, wanted: MlflowRun) -> bool:
        return bool(self.stale_tags(wanted)) or not wanted.params.keys() <= self.params.keys()

    def stale_tags(self, wanted: MlflowRun) -> dict[str, str]:
        return {name: tag for name, tag in _shown_tags(wanted).items() if self.tags.get(name) != tag}

    def contradicts(self, wanted: MlflowRun) -> bool:
        """Return whether it has another value of a parameter, which MLflow cannot change; a forecast is no reason."""
        known = {name: value for name, value in wanted.params.items() if not name.startswith("forecast.")}
        return any(self.params.get(name, value) != value for name, value in known.items())


def _shown_tags(run: MlflowRun) -> dict[str, str]:
    return {**run.tags, RUN_NAME: run.name}


def _run_state(
    id: str,
    tags: Mapping[str, str],
    metrics: Iterable[str],
    *,
    params: Mapping[str, str] | None = None,
    active: bool = True,
    running: bool = False,
) -> MlflowRunState:
    return MlflowRunState(
        id=id,
        kind=tags.get(KIND, ""),
        trial=tags.get(TRIAL, ""),
        digest=tags.get(DIGEST, ""),
        results=tags.get(RESULTS, ""),
        answer=tags.get(ANSWER, ""),
        answers=frozenset(filter(is_answer, (*metrics, *tags))),
        note=tags.get(NOTE, "") if tags.get(KIND) == VERDICTS else "",
        active=active,
        running=running,
        removed=REMOVED in tags,
        tags=tags,
        params=params or {},
    )


def runs_there(client: Any, experiment: str) -> Iterator[MlflowRunState]:
    """Yield every run of an experiment, deleted ones included."""
    from mlflow.entities import ViewType

    token = None
    while True:
        batch = client.search_runs([experiment], run_view_type=ViewType.ALL, max_results=1000, page_token=token)
        for run in batch:
            active, running = run.info.lifecycle_stage == "active", run.info.status == "RUNNING"
            data, state = run.data, {"active": active, "running": running}
            yield _run_state(run.info.run_id, data.tags, data.metrics, params=data.params, **state)
        if not (token := batch.token):
            return


@dataclass(frozen=True, slots=True)
class MirrorDifference:
    """The difference between an experiment and its page: runs to send, and existing runs to restore or to remove.

    `answer` has the runs that are right except for texts and their answer, `by_hand` those that a person has deleted.
    """

    send: tuple[MlflowRun, ...]
    restore: tuple[MlflowRunState, ...]
    answer: tuple[tuple[MlflowRunState, MlflowRun], ...]
    remove: tuple[MlflowRunState, ...]
    by_hand: tuple[MlflowRunState, ...]
    verdicts: MlflowRunState | None


def compare_runs(page: Page, there: Iterable[MlflowRunState], mine: str) -> MirrorDifference:
    """Return the changes after which each trial of the page has one run; runs of other folders than `mine` stay."""
    wanted, there, best = page.by_trial, list(there), dict[str, MlflowRunState]()
    for run in there:
        if run.kind == "trial" and (run.active or run.results == mine) and _shows(run, wanted.get(run.trial), mine):
            # One that is visible comes before one that a person has deleted, and that before one that the mirror has;
            # a copy without all that the first one shows comes behind it.
            known, new = best.get(run.trial, run), wanted[run.trial]
            best[run.trial] = min(known, run, key=lambda run: (run.removed, not run.active, run.lacks(new)))
    own = [run for run in there if run.active and run.results == mine]
    visible = [(run, wanted[trial]) for trial, run in best.items() if run.active or run.removed]
    return MirrorDifference(
        send=tuple(run for trial, run in wanted.items() if trial not in best),
        restore=tuple(run for run in best.values() if run.removed),
        answer=tuple(
            (run, new)
            for run, new in visible
            if run.results == mine and (run.answer != new.answer.digest or run.lacks(new))
        ),
        remove=tuple(run for run in own if run.kind == "trial" and best.get(run.trial) != run),
        by_hand=tuple(run for run in best.values() if not (run.active or run.removed)),
        verdicts=next((run for run in own if run.kind == VERDICTS), None),
    )


def _shows(run: MlflowRunState, wanted: MlflowRun | None, mine: str) -> bool:
    """Return whether a run shows its trial and nothing outdated; an answer of another folder's run is left to that."""
    if wanted is None or run.digest != wanted.tags[DIGEST] or run.running or run.contradicts(wanted):
        return False
    return run.results != mine or run.answers <= wanted.answer.names


@dataclass(slots=True)
class MlflowExperiment:
    """One space in MLflow, queried once: while the results folder `mine` is locked, nobody else sends its runs."""

    client: Any
    folder: Path
    mine: str
    id: str
    created: int
    tags: dict[str, str]
    runs: dict[str, MlflowRunState]

    def send(self, page: Page, *, whole: bool = True) -> MirrorDifference:
        """Remove, restore, send and complete runs; of a page that is not `whole`, other runs stay. Repeating it has no
        effect, also after a crash half-way."""
        trials = page.by_trial
        todo = compare_runs(page, (run for run in self.runs.values() if whole or run.trial in trials), self.mine)
        for run in todo.remove:
            self.client.set_tag(run.id, REMOVED, "yes")
            self.client.delete_run(run.id)
            self.runs[run.id] = replace(run, active=False, removed=True)
        for run in todo.restore:
            if not run.active:
                self.client.restore_run(run.id)
            self.client.delete_tag(run.id, REMOVED)
            self.runs[run.id] = replace(run, active=True, removed=False)
        for first in range(0, len(todo.send), RUNS_AT_ONCE):
            batch = todo.send[first : first + RUNS_AT_ONCE]
            points = read_points(self.folder, [new.trial for new in batch])
            for new in batch:
                self._send(new, points.get(new.trial, []))
        for run, shown in todo.answer:
            now = max(round(1000 * time.time()), shown.ended + 1)
            known = self.runs[run.id]
            params = {name: value for name, value in shown.params.items() if name not in known.params}
            self._log(run.id, params, {**known.stale_tags(shown), **_answer_tags(shown)}, _answer_points(shown), now)
            tags = {**known.tags, **_shown_tags(shown), **_answer_tags(shown)}
            self.runs[run.id] = replace(
                known,
                answer=shown.answer.digest,
                answers=shown.answer.names,
                tags=tags,
                params={**known.params, **params},
            )
        return todo

    def _send(self, run: MlflowRun, points: list[Point]) -> None:
        """Send a run, which is RUNNING until all of it is there, so that a half-sent one is recognised."""
        tags = {**run.tags, **_answer_tags(run), RESULTS: self.mine}
        id = self.client.create_run(self.id, start_time=run.began, run_name=run.name, tags=tags).info.run_id
        self._log(id, run.params, {}, [*points, *_answer_points(run)], run.ended)
        status = "FINISHED" if run.status in ("finished", "diverged") else "FAILED"
        self.client.set_terminated(id, status=status, end_time=run.ended)
        self.runs[id] = _run_state(id, {**tags, RUN_NAME: run.name}, run.answer.metrics, params=run.params)

    def _log(
        self, id: str, params: Mapping[str, str], tags: Mapping[str, str], points: Iterable[Point], at: int
    ) -> None:
        """Add to a run in batches; of several numbers at one step MLflow shows the latest."""
        from mlflow.entities import Metric, Param, RunTag

        left, marks = [Param(*each) for each in params.items()], [RunTag(*each) for each in tags.items()]
        numbers = [Metric(point.name, point.value, at, point.step) for point in points]
        while left or numbers or marks:
            now, left = left[:PARAMS_AT_ONCE], left[PARAMS_AT_ONCE:]
            room = min(METRICS_AT_ONCE, ENTITIES_AT_ONCE - len(now) - len(marks))
            self.client.log_batch(id, params=now, tags=marks, metrics=numbers[:room])
            numbers, marks = numbers[room:], []

    def describe(self, page: Page, verdicts: MlflowRunState | None, report: Mapping[str, str] | None) -> str:
        """Complete the page; return the id of the run with the report: that of `verdicts` without a new one."""
        shown = verdicts.note if verdicts else ""
        if report is not None:
            verdicts, shown = self._report(page, verdicts, report)
        id = verdicts.id if verdicts else ""
        links = "Open: " + " · ".join(f"[{name}]({address})" for name, address in mlflow_pages.view_links(self.id, id))
        rest = "The rest is in the files of the run `verdicts`."
        tags: Mapping[str, str] = {
            NOTE: short_lines(mlflow_texts.page_note(page, links, shown), PAGE_NOTE_LENGTH, rest),
            "design": page.design,
            "trials": f"{len(page.runs)} of {page.requested}",
            **mlflow_pages.view_tags(page),
        }
        for name, value in tags.items():
            if self.tags.get(name) != value:
                self.client.set_experiment_tag(self.id, name, value)
                self.tags[name] = value
        return id

    def _report(
        self, page: Page, there: MlflowRunState | None, report: Mapping[str, str]
    ) -> tuple[MlflowRunState, str]:
        text = next((text for name, text in report.items() if name.endswith(".md")), "")
        note = short_lines(text, TAG_LENGTH, "The rest is in the files of this run.")
        ended = max(run.ended for run in page.runs)
        if there is None:
            tags = {KIND: VERDICTS, RESULTS: self.mine, "order": "000", "status": VERDICTS}
            created = self.client.create_run(self.id, start_time=ended, run_name=VERDICTS, tags=tags)
            there = _run_state(created.info.run_id, tags, ())
        self.client.set_tag(there.id, NOTE, note)
        for name, content in report.items():
            self.client.log_text(there.id, content, name)
        self.client.set_terminated(there.id, status="FINISHED", end_time=ended)
        self.runs[there.id] = replace(there, note=note, running=False)
        return self.runs[there.id], text


def experiment_of(client: Any, destination: Destination, space: str, mine: str) -> MlflowExperiment:
    """Return a space's experiment, created if needed; one deleted by hand is restored: its name is taken."""
    there = client.get_experiment_by_name(space)
    if there is None:
        there = client.get_experiment(client.create_experiment(space, artifact_location=destination.artifacts))
    elif there.lifecycle_stage == "deleted":
        client.restore_experiment(there.experiment_id)
    runs = {run.id: run for run in runs_there(client, there.experiment_id)}
    created, tags = there.creation_time, dict(there.tags)
    return MlflowExperiment(client, destination.folder, mine, there.experiment_id, created, tags, runs)


def _answer_tags(run: MlflowRun) -> dict[str, str]:
    return {**run.answer.tags, ANSWER: run.answer.digest} if run.answer.digest else dict(run.answer.tags)


def _answer_points(run: MlflowRun) -> list[Point]:
    return [Point(name, 0, value) for name, value in run.answer.metrics.items()]
