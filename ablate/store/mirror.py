"""Mirror of the results in MLflow: an experiment for each space's current plan, a run for each of its ended trials.

`mlflow.jsonl` has a line for each update of an experiment, to know when nothing is new: then MLflow, which takes
seconds to import, is not touched. A server is always queried, since it may have been emptied. Decisions:

- *A divergence is a result*: its run is FINISHED, found by its name (`op seed 1 diverged`), its tag `status` and the
  metric `diverged`. MLflow's red FAILED is kept for trials without a result: bug, out_of_memory, timeout, lost.
- *Means must be those of the verdicts*, also geometric ones: so each run of a variant has the variant's own numbers,
  whose average is the number itself (`mean.…`, `difference.…`). `eval_loss` is a curve, `final_eval_loss` is judged.
- *Verdicts name the group*: MLflow's groups show no text except the tag that they are grouped by.
- *Per-layer series stay in DuckDB*: they are too many for MLflow's pages. Their extreme over all parts at each step is
  shown (`max.kurtosis`).
- *Nothing is remembered that can be queried*: each run carries a digest of what it shows, and `mlflow.jsonl` may be
  lost. A process killed half-way leaves a run that is still RUNNING, which the next one removes.
- *What a person deletes by hand stays deleted* until its trial changes. The mirror deletes in MLflow's own way, so a
  space that returns to an earlier plan gets its old runs back.
- *A tracking server may be shared*: runs sent from another results folder are never touched, and a run that is
  already there is not sent again.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from ablate.errors import RefusedError
from ablate.output.words import plural
from ablate.store import durable, snapshot
from ablate.store.durable import Appender, compact
from ablate.store.faults import Finding
from ablate.store.mlflow_client import (
    ARTIFACTS,
    QUIET,
    STORE,
    Destination,
    MlflowExperiment,
    compare_runs,
    connected,
    experiment_of,
    in_place,
    may_be_damaged,
    new_store,
    runs_there,
    sqlite_uri,
)
from ablate.store.mlflow_pages import read_pages, view_links
from ablate.store.mlflow_texts import Page
from ablate.store.snapshot import Snapshot

FILE = "mlflow.jsonl"

Report: TypeAlias = Mapping[str, str]
"""The verdicts of a space as texts by file name: `verdicts.md` is shown on its page, all are kept as files."""
Reports: TypeAlias = Mapping[str, Report]  # by space
Experiments: TypeAlias = dict[str, MlflowExperiment]  # what MLflow has, by space


@dataclass(frozen=True)
class Texts(Mapping[str, str]):
    """A report whose texts of `drawn`, which follow from those `told` and the trials, are made when they are sent."""

    told: Mapping[str, str]
    drawn: Callable[[], Mapping[str, str]]

    @cached_property
    def _all(self) -> Mapping[str, str]:
        return {**self.told, **self.drawn()}

    def __getitem__(self, name: str) -> str:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __reduce__(self) -> tuple[type[Texts], tuple[Mapping[str, str], Callable[[], Mapping[str, str]]]]:
        return Texts, (self.told, partial(dict, self.drawn()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A line of `mlflow.jsonl`: the last state sent of a space.

    `created` tells the experiment from a later one of the same name. `page` and `report` are digests, `verdicts` is the
    id of the run with the report; `folder` is where the results folder was, since paths depend on it.
    """

    destination: str
    space: str
    experiment: str
    created: int
    page: str
    report: str
    verdicts: str
    folder: str


LINE = TypeAdapter(Sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """The outcome of an update: `where` without secrets, `pages` with the addresses of spaces on a tracking server."""

    where: str
    sent: int = 0
    spaces: tuple[str, ...] = ()
    pages: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spaces)


def check_uri(uri: str | None) -> None:
    Destination(Path(), uri)


def mirror(
    folder: Path, *, uri: str | None = None, reports: Reports | None = None, known: Experiments | None = None
) -> Mirrored:
    """Bring MLflow up to date with the results: `<folder>/mlflow.db`, or the tracking server at `uri`.

    Needs the folder's lock (it is the only writer) and a refreshed `ablate.duckdb`. `reports` has the verdicts of
    spaces, as texts by file name; a space without one keeps what is there. `known` is what `mirror_ended` has found
    there. Repeating it has no effect, also after a crash half-way. RefusedError, which costs no result, where MLflow
    cannot be reached or fails; InputError for an invalid `uri`.
    """
    update = _Update(folder, uri, reports, read_pages(folder), {} if known is None else known)
    if update.pages and update.needs_new_store():
        return rebuild(folder, reports=reports, known=known)
    new = [page for page in update.pages if not update.is_known(page)]
    if pages := new if update.destination.embedded else update.pages:
        with in_place(update.destination), connected(update.destination) as client:
            for page in pages:
                if page in new or not _still_there(client, update.before[page.space]):
                    update.send(client, page)
    return update.done()


def mirror_ended(
    folder: Path, space: str, trials: Collection[str], *, uri: str | None = None, known: Experiments
) -> Mirrored:
    """Send the ended trials of a space while others run; `known` keeps what is there between calls."""
    update = _Update(folder, uri, None, read_pages(folder, trials), known)
    if update.needs_new_store():
        if update.before:
            return rebuild(folder, known=known)
        with new_store(folder):
            pass  # empty, and complete
    with in_place(update.destination), connected(update.destination) as client:
        for page in update.pages:
            if page.space == space:
                todo = update.experiment(client, space).send(page, whole=False)
                return Mirrored(where=update.destination.shown, sent=len(todo.send) + len(todo.restore))
    return Mirrored(where=update.destination.shown)


def rebuild(folder: Path, *, reports: Reports | None = None, known: Experiments | None = None) -> Mirrored:
    """Recreate the results folder's own store, whatever state it is in; what was deleted by hand comes back, too.

    It is made beside the old one and replaces it atomically. A space without a report keeps its old one. What people
    added in MLflow (tags, notes, files) is lost. Has the requirements and errors of `mirror`; `known` is forgotten.
    """
    update, files = _Update(folder, None, reports, read_pages(folder), {}), folder / ARTIFACTS
    for space, sent in update.before.items():  # the store need not be readable, but the files of its reports are there
        report = files / sent.verdicts / "artifacts"
        if sent.verdicts and space not in update.reports and report.is_dir():
            update.reports[space] = {file.name: file.read_text(encoding="utf-8") for file in sorted(report.iterdir())}
    with new_store(folder) as client:
        for page in update.pages:
            update.send(client, page)
    (known or {}).clear()
    done, kept = update.done(), {line.verdicts for line in update.lines}
    for run in files.glob("*"):
        if run.is_dir() and run.name not in kept:
            shutil.rmtree(run)
    return done


class _Update:
    """An update of a destination: what should be there (`pages`, `reports`), and what was sent `before`."""

    def __init__(self, folder: Path, uri: str | None, reports: Reports | None, pages: list[Page], known: Experiments):
        self.destination, self.pages = Destination(folder, uri), pages
        self._name = "" if self.destination.embedded else self.destination.shown  # a folder may be moved
        self.reports, self.before = dict(reports or {}), read_sent(folder, self._name)
        self.lines: list[Sent] = []
        self._known = known
        self._sent = 0

    def needs_new_store(self) -> bool:
        folder = self.destination.folder
        moved = any(each.folder != str(folder.resolve()) for each in self.before.values())
        return self.destination.embedded and (moved or may_be_damaged(folder) or not (folder / STORE).exists())

    def is_known(self, page: Page) -> bool:
        """Return whether a space was last sent as it is now; without a new report the sent one stays."""
        before, report = self.before.get(page.space), _digest(self.reports.get(page.space))
        return before is not None and before.page == page.digest and report in ("", before.report)

    def experiment(self, client: Any, space: str) -> MlflowExperiment:
        if space not in self._known:
            self._known[space] = experiment_of(client, self.destination, space, identity(self.destination.folder))
        return self._known[space]

    def send(self, client: Any, page: Page) -> None:
        experiment, report = self.experiment(client, page.space), self.reports.get(page.space)
        before = self.before.get(page.space)
        todo = experiment.send(page)
        verdicts = experiment.describe(page, todo.verdicts, report)
        self._sent += len(todo.send) + len(todo.restore)
        self.lines.append(
            Sent(
                destination=self._name,
                space=page.space,
                experiment=experiment.id,
                created=experiment.created,
                page=page.digest,
                report=_digest(report) or (before.report if before and verdicts else ""),
                verdicts=verdicts,
                folder=str(self.destination.folder.resolve()),
            )
        )

    def done(self) -> Mirrored:
        """Append the lines, durably, once everything is in its place."""
        if self.lines:
            with closing(Appender(self.destination.folder / FILE)) as appender:
                appender.write([asdict(line) for line in self.lines])
        spaces = tuple(line.space for line in self.lines)
        there = {**self.before, **{line.space: line for line in self.lines}}
        own = {page.space: there[page.space] for page in self.pages if page.space in there}
        pages = () if self.destination.embedded else tuple((space, address(sent)) for space, sent in own.items())
        return Mirrored(where=self.destination.shown, sent=self._sent, spaces=spaces, pages=pages)


def address(sent: Sent) -> str:
    return view_links(sent.experiment, root=f"{sent.destination}/")[0][1]


def sent_elsewhere(folder: Path) -> dict[tuple[str, str], Sent]:
    """Return the last line sent to each tracking server, by server and space."""
    return {(line.destination, line.space): line for line in _lines_sent(folder) if line.destination}


def read_sent(folder: Path, destination: str) -> dict[str, Sent]:
    """Read, for each space, what was last sent to a destination; records of another form count as never sent."""
    return {line.space: line for line in _lines_sent(folder) if line.destination == destination}


def _lines_sent(folder: Path) -> Iterator[Sent]:
    for record in durable.read_lines(folder / FILE).records:
        with suppress(ValidationError):
            yield LINE.validate_python(record)


def identity(folder: Path) -> str:
    """The identity of a results folder's runs where several folders send theirs: a hash of its first plan, or of its
    first outcome in earlier versions. It stays when the folder is moved, is used in another container, or loses
    `mlflow.jsonl`."""
    for begun in (folder / snapshot.EARLIER / snapshot.EARLIER_OUTCOMES, folder / snapshot.EARLIER_OUTCOMES):
        if begun.exists():
            with begun.open("rb") as file:
                return sha256(file.readline()).hexdigest()[:12]
    plans = (plan for plans in Snapshot(folder).plans.of_space.values() for plan in plans)
    first = min((plan.first_seen or 0.0, plan.id) for plan in plans)
    return sha256(compact(first).encode()).hexdigest()[:12]


def _digest(report: Report | None) -> str:
    told = report.told if isinstance(report, Texts) else report
    return sha256(compact(sorted(told.items())).encode()).hexdigest()[:16] if told else ""


def _still_there(client: Any, known: Sent) -> bool:
    """Return whether a server still has the experiment, and not a later one of the same name."""
    there = client.get_experiment_by_name(known.space)
    return there is not None and (there.experiment_id, there.creation_time) == (known.experiment, known.created)


def examine(folder: Path) -> list[Finding]:
    """Report what is missing, doubled or stale in `<folder>/mlflow.db`; what a person deleted by hand is harmless."""
    update = _Update(folder, None, None, read_pages(folder), {})
    if not (folder / STORE).exists():
        lost = sum(len(page.runs) for page in update.pages if page.space in update.before)
        return [_finding(folder, f"is missing, with {plural(lost, 'run')}")] if lost else []
    if may_be_damaged(folder):
        return [_finding(folder, "may be damaged: the machine stopped while it was written")]
    try:
        with connected(update.destination) as client:
            return [finding for page in update.pages for finding in _faults(client, update.destination, page)]
    except RefusedError as error:
        return [_finding(folder, f"cannot be read: {str(error).splitlines()[0]}")]


def _finding(folder: Path, what: str, *, by_hand: bool = False) -> Finding:
    action = "left as it is" if by_hand else "rebuilt"
    return Finding("mirror", "harmless" if by_hand else "repaired", what, folder / STORE, action)


def _faults(client: Any, destination: Destination, page: Page) -> Iterator[Finding]:
    finding = partial(_finding, destination.folder)
    there = client.get_experiment_by_name(page.space)
    if there is None:
        yield finding(f"{page.space}: the experiment is missing, with {plural(len(page.runs), 'run')}")
        return
    if there.lifecycle_stage == "deleted":
        yield finding(f"{page.space}: the experiment was deleted by hand", by_hand=True)
        return
    todo = compare_runs(page, runs_there(client, there.experiment_id), identity(destination.folder))
    wanted, sent = set(page.by_trial), {run.trial for run in todo.send}
    removed = [run.trial for run in todo.remove if not run.running]
    wrong = len({run.trial for run in todo.remove} & sent)
    kinds = (
        (len(todo.send) + len(todo.restore) - wrong, "missing"),
        (len(todo.remove) - len(removed), "half-sent"),
        (sum(trial in sent for trial in removed), "stale: the trial or its space has changed since"),
        (sum(trial in wanted - sent for trial in removed), "there twice"),
        (sum(trial not in wanted for trial in removed), "no longer requested"),
        (len(todo.answer), "without the current verdicts"),
    )
    for count, kind in kinds:
        if count:
            yield finding(f"{page.space}: {plural(count, 'run')} {kind}")
    if todo.by_hand:
        yield finding(f"{page.space}: {plural(len(todo.by_hand), 'run')} deleted by hand", by_hand=True)
    if there.artifact_location != destination.artifacts:
        where = f"{there.artifact_location}, from where this folder was moved"
        yield finding(f"{page.space}: its files are expected in {where}")


# `ablate ui`: MLflow's own server over a results folder's mirror, for this machine alone, until Ctrl-C
#
# It binds 127.0.0.1 and nothing else; job runners, uploads and telemetry stay off. The server has a process group of
# its own, so that Ctrl-C reaches us first; on Linux it also ends when we are killed.

HOST, PORT = "127.0.0.1", 5000
HOST_NAMES = (HOST, "localhost")
"""The host names a browser may use: a page under another name can neither read nor write, whatever it resolves to."""
SERVER_CLOSED = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE": "false"}
START_WITHIN, STOP_WITHIN = 90.0, 5.0  # seconds that a server has to answer for the first time, and to stop by itself
PR_SET_PDEATHSIG = 1

Say = Callable[[str], None]


def serve(folder: Path, *, port: int = PORT, browse: bool = False, say: Say = print) -> None:
    """Serve `<folder>/mlflow.db` until Ctrl-C or SIGTERM; RefusedError without runs or if the server does not start.

    A `port` that is taken (or 0) is replaced by a free one, which `say` is told. `browse` opens a browser.
    """
    elsewhere = [(f"{space} on {where}", address(sent)) for (where, space), sent in sent_elsewhere(folder).items()]
    if not (folder / STORE).exists():
        if elsewhere:
            listed = "".join(f"\n  = {name}: {page}" for name, page in elsewhere)
            raise RefusedError(
                f"there is nothing to show here: the runs of {folder} went to a tracking server{listed}\n"
                f"  = `ablate mlflow --results {folder}` sends them here, too"
            )
        raise RefusedError(
            f"there is nothing to show: {folder} has no {STORE}\n"
            "  = `ablate run` fills it when trials have ended; name the folder with --results"
        )
    chosen = _free_port(port)
    if chosen != port and port:
        say(f"port {port} is in use; {chosen} is used instead")
    try:
        with _server(folder, chosen) as server:
            root = f"http://{HOST}:{chosen}/"
            spaces = sorted(read_sent(folder, "").items())
            addresses = [(space, view_links(sent.experiment, root=root)[0][1]) for space, sent in spaces]
            addresses += elsewhere
            addresses.append(("all" if spaces else "MLflow", f"{root}#/experiments?workflowType=machine_learning"))
            say("\n".join([*(f"{name}: {address}" for name, address in addresses), "Ctrl-C stops it"]))
            if browse:
                webbrowser.open(addresses[0][1])
            server.wait()
    except KeyboardInterrupt:
        return
    raise RefusedError("the MLflow server stopped by itself\n  = start it again; the results are safe")


def _free_port(port: int) -> int:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except (OSError, OverflowError):
            trial.bind((HOST, 0))
        return int(trial.getsockname()[1])


@contextmanager
def _server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server and wait until it answers; when the block ends, in whatever way, stop all of its processes."""
    root = folder.resolve()
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", sqlite_uri(root / STORE), "--no-serve-artifacts"]
    command += ["--default-artifact-root", (root / ARTIFACTS).as_uri(), "--uvicorn-opts", "--log-level warning"]
    command += ["--allowed-hosts", ",".join(f"{name}:{port}" for name in HOST_NAMES)]
    command += ["--cors-allowed-origins", ",".join(f"http://{name}:{port}" for name in HOST_NAMES)]
    environment = {**os.environ, **QUIET, **SERVER_CLOSED, "PYTHONSAFEPATH": "1"}
    linux = sys.platform == "linux"
    # SIGINT too: a process started in the background by a shell ignores it.
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.default_int_handler) for number in signals}
    # Python and uvicorn import modules from the working directory: use an empty folder, not the results, which may be
    # somebody else's.
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory(prefix="ablate-ui-") as empty:
        server = subprocess.Popen(
            command,
            cwd=empty,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, signal.SIGTERM) if linux else None,
        )
        try:
            _wait_until_it_answers(server, port, log)
            yield server
        finally:
            for number in before:
                signal.signal(number, signal.SIG_IGN)
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(STOP_WITHIN)
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # with whatever it has started
            server.wait()
            for number, handler in before.items():
                signal.signal(number, handler)


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_WITHIN
    while server.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2):
            return
        time.sleep(0.1)
    log.seek(0)
    lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    raise RefusedError(
        f"the MLflow server did not start: {lines[-1] if lines else 'it printed nothing'}\n"
        f"  = choose another port with --port; if it happens again, delete {STORE}: it is rebuilt from the results"
    )
