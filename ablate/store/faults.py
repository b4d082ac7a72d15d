"""Faults of a results folder: findings with their cures, those of the files that own results and of the DuckDB file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import duckdb
import pyarrow

from ablate.errors import RefusedError
from ablate.store import durable, files, projection, sealed
from ablate.store.durable import DAMAGED, JsonObject, copy_aside, set_aside
from ablate.store.files import GONE, TRIALS, WITNESS, Ending, Written, digest_in, digest_of
from ablate.store.pending_rows import Stored, changes, gone_trials
from ablate.store.projection import DATABASE, KEYS, LOCKED, reading
from ablate.store.schema import TABLES, quoted
from ablate.store.snapshot import DAMAGED as DAMAGED_TRIAL
from ablate.store.snapshot import EARLIER, Snapshot

# Findings, each fault with its repair, and the report of what was, or would be, done

Severity: TypeAlias = Literal["harmless", "repaired", "lost"]
Kind: TypeAlias = Literal[
    "torn", "damaged line", "segment", "outcome", "sealed", "unlisted", "checkpoint", "specification", "leftover",
    "database", "worker", "killed", "clock", "space", "kept", "mirror", "request", "verdicts", "corpus", "paces",
    "source", "table", "earlier",
]  # fmt: skip

UNDER_WAY: tuple[Kind, ...] = ("torn", "outcome", "unlisted", "checkpoint", "leftover", "database", "mirror", "corpus")
"""Kinds of findings that may only be unfinished work while a run is writing."""

TRAINED_AGAIN: tuple[Kind, ...] = ("sealed",)
"""Kinds of losses that the next run that needs them trains again; every other loss is of a record about trials."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: what and where, how severe, and what is done about it.

    `harmless` needs no action; `repaired` can be repaired without loss; `lost` cannot be recovered; `remedy` says what
    follows. `line` counts from 1. `changes` are the files that the repair may write, move to `damaged/` or delete; the
    DuckDB file is also brought up to date.
    """

    kind: Kind
    severity: Severity
    what: str
    where: Path
    remedy: str = ""
    line: int | None = None
    changes: tuple[Path, ...] = ()

    def document(self) -> JsonObject:
        return {**asdict(self), "where": str(self.where), "changes": list(map(str, self.changes))}


Cure = Callable[[], str | None]
"""Repairs a fault in a locked folder, and returns what a run reports of it, if anything."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it was written: its findings, and its cure; None where nothing is done."""

    findings: tuple[Finding, ...]
    cure: Cure | None = None

    @classmethod
    def of(cls, kind: Kind, what: str, where: Path, remedy: str, cure: Cure, changes: Iterable[Path] = ()) -> Fault:
        """Return the fault of one finding that can be repaired without loss."""
        return cls((Finding(kind, "repaired", what, where, remedy, changes=tuple(changes)),), cure)


def put_right(faults: Iterable[Fault], say: Callable[[str], None]) -> None:
    """Cure all of these, in order; `say` gets what a run reports of it."""
    for fault in tuple(faults):  # all are found before the first is cured
        if fault.cure and (message := fault.cure()):
            say(message)


def named(trial_ids: Sequence[str]) -> str:
    return f"trial {trial_ids[0]}" if len(trial_ids) == 1 else f"{len(trial_ids)} trials ({trial_ids[0]}, …)"


@dataclass(frozen=True, slots=True)
class Repaired:
    """All findings in a results folder, and whether they were repaired.

    `holder` writes there now (then nothing is changed); `looked_at` counts what was read, by noun (plan, row, …).
    `done` says whether the repair was allowed to write; `left` are the findings of a second check.
    """

    folder: Path
    findings: tuple[Finding, ...]
    holder: str | None
    looked_at: Mapping[str, int]
    done: bool = False
    left: tuple[Finding, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0 if nothing is wrong or all was repaired without loss; 1 if something is lost, or remains to be repaired."""
        left = self.left if self.done else self.to_repair
        return 1 if left or self.lost else 0

    @property
    def to_repair(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "repaired")

    @property
    def lost(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "lost")

    def document(self) -> JsonObject:
        return {
            "folder": str(self.folder),
            "holder": self.holder,
            "repaired": self.done,
            "looked_at": dict(self.looked_at),
            "found": [finding.document() for finding in self.findings],
            "left": [finding.document() for finding in self.left],
        }


# The kept files, verified: what is gone or damaged is recovered from the DuckDB file where that has it, unchanged
#
# Nothing is used unverified: a document must have the digest that it is named by, and the rows of a trial that which
# the witness names. What cannot be recovered is said to be lost: a trial until it is trained again, any other file
# once.

REMEDIES: Mapping[str, tuple[Kind, str]] = {
    TRIALS: ("sealed", "the next `ablate run` of its space trains it again"),
    "plans": ("specification", "the next `ablate run` of its space brings it back"),
    "runs": ("request", "how that run was requested is no longer known: run it again with `ablate run`"),
    "verdicts": ("verdicts", "the next `ablate run` of its space, or `ablate judge` of its table, judges it again"),
    "paces": ("paces", "`ablate run` times it again where it needs it"),
    "tables": ("table", "`ablate judge` of the same table keeps it again"),
    "sources": ("source", "the next `ablate run` of its space with the same files brings it back"),
}

ROWS_SQL = """
    SELECT trial_id, 'row' AS kind, step, metric, address, value FROM metrics WHERE trial_id = $1
    UNION ALL
    SELECT trial_id, 'timing', step, name, '', seconds FROM timings
    WHERE trial_id = $1 AND name NOT IN ('began', 'ended')
    ORDER BY kind, step, metric, address
"""


def file_faults(snapshot: Snapshot, stored: Stored, *, thorough: bool) -> Iterator[Fault]:
    """Find the kept files that are gone or damaged, replaced or unlisted, and a damaged witness.

    Unless `thorough`, only the sealed files that the DuckDB file (`stored`) lacks are read through.
    """
    folder = snapshot.folder
    lost = {**dict(_gone(snapshot, stored)), **snapshot.lost, **dict(_damaged(snapshot, None if thorough else stored))}
    unlisted = [name for name in snapshot.unlisted if name not in lost]
    if unlisted or snapshot.witness.damaged or snapshot.witness.torn:
        yield _witness_fault(snapshot, unlisted)  # first, since other cures append to it
    for name, fault in lost.items():
        if "/" not in name:  # a file of lines of an earlier version
            remedy = f"kept in {EARLIER}; what these lines held is no longer known"
            yield Fault((Finding("damaged line", "lost", fault, folder / name, remedy),))
        else:
            yield _lost(snapshot, name, fault)
    for name in snapshot.replaced:
        path = folder / name
        # The witness may list it still: its driver was killed between the later file and the line about it.
        cure = partial(files.withdraw, folder, name)
        yield Fault.of("leftover", "was replaced by a later one", path, "deleted", cure, (path, folder / WITNESS))


def _gone(snapshot: Snapshot, stored: Stored) -> Iterator[tuple[str, str]]:
    """Yield the files that the DuckDB file knows of, and that the folder and a damaged witness have lost."""
    yield from ((files.name_of(trial), GONE) for trial in gone_trials(snapshot, stored))
    names = {name for of_space in stored.names.values() for name in of_space}
    for name in names - snapshot.listing.keys() - snapshot.witness.written.keys() - snapshot.witness.dropped:
        # A plan that is not there may have been replaced by what it grew to.
        if not name.startswith("plans/") and not (snapshot.folder / name).exists():
            yield name, GONE


def _damaged(snapshot: Snapshot, stored: Stored | None) -> Iterator[tuple[str, str]]:
    """Yield the files of the right size that are not as they were written, and what is wrong with each."""
    trials = [
        trial
        for trial, end in snapshot.endings.items()
        if stored is None or stored.trials.get(trial, ("", 0, None))[1:] != (end.attempt, end.digest)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        examine = partial(sealed.examine, snapshot.folder)
        for trial, examined in zip(trials, pool.map(examine, trials, map(snapshot.sealed, trials)), strict=True):
            if examined.written is None:
                yield files.name_of(trial), examined.fault
    for name in files.names(snapshot.folder, files.SOURCES) if stored is None else ():
        content, fault = files.whole(snapshot.folder, name)
        if content is None:
            yield name, fault


def _lost(snapshot: Snapshot, name: str, fault: str) -> Fault:
    """The fault of a kept file that is gone or damaged; its cure puts back what the DuckDB file has of it."""
    folder, path = snapshot.folder, snapshot.folder / name
    kind, then = REMEDIES[name.partition("/")[0]]
    segment = snapshot.segments.get(files.trial_of(name)) if kind == "sealed" else None
    # That of a whole journal is sealed again by `repair.open_trial_faults`.
    ended = segment is not None and segment.outcome is not None and not segment.damaged
    put_back = _put_back_trial(snapshot, name) if kind == "sealed" else _put_back_file(folder, name)
    if put_back is not None:
        then = f"its rows are sealed again from {DATABASE}" if kind == "sealed" else f"recovered from {DATABASE}"
    elif ended:
        then = "sealed again from its journal"

    def cure() -> str:
        aside = f"; it is kept as {set_aside(folder, path)}" if path.exists() else ""
        if put_back is not None:
            put_back()
            return f"{name} {fault}{aside}; {then}"
        if kind != "sealed":
            files.bear_witness(folder, [], replaced=[name])  # it is told once
        return "" if files.trial_of(name) in snapshot.open else f"lost: {name} {fault}{aside}; {then}"

    kept = "" if fault == GONE else f"kept in {DAMAGED}; "
    severity: Severity = "lost" if put_back is None and not ended else "repaired"
    return Fault((Finding(kind, severity, fault, path, kept + then, changes=(path, folder / WITNESS)),), cure)


def _put_back_trial(snapshot: Snapshot, name: str) -> Callable[[], None] | None:
    listed = snapshot.witness.written.get(name)
    ending = listed.ending if listed else None
    rows = stored_rows(snapshot.folder, ending) if ending else None
    if ending is None or rows is None:
        return None
    return partial(sealed.put, snapshot.folder, ending, rows, snapshot.plans.specifications.get(ending.trial))


def _put_back_file(folder: Path, name: str) -> Callable[[], None] | None:
    content = stored_content(folder, name)
    return None if content is None else partial(files.put_listed, folder, name, content)


def _witness_fault(snapshot: Snapshot, unlisted: Collection[str]) -> Fault:
    folder, witness = snapshot.folder, snapshot.witness
    path = folder / WITNESS
    findings = [
        Finding("unlisted", "repaired", f"is not listed in {WITNESS}", folder / name, "listed", changes=(path,))
        for name in unlisted
    ]
    remedy = f"written again from the files; the old one is kept in {DAMAGED}"
    findings += [
        Finding("damaged line", "repaired", "is damaged", path, remedy, line, (path,)) for line in witness.damaged
    ]
    if witness.torn:
        what = f"ends in the middle of a line ({witness.torn} bytes)"
        findings.append(Finding("torn", "repaired", what, path, "cut off", changes=(path,)))

    def cure() -> str:
        written = [_as_written(snapshot, name) for name in unlisted]
        now = files.read_witness(folder)
        if now.torn and not now.damaged:
            durable.truncate(path, path.stat().st_size - now.torn)
        if now.damaged:
            copy_aside(folder, path)
            files.rewrite_witness(folder, [*now.written.values(), *written])
        else:
            files.bear_witness(folder, written)
        # One that was written just before its driver was killed is no fault of anything.
        unheard = [name for name in unlisted if files.trial_of(name) not in snapshot.open]
        if not witness.damaged and len(unheard) < 2:
            return ""
        return f"{path} did not list {len(unheard)} of the files that are there; they are listed again"

    return Fault(tuple(findings), cure)


def _as_written(snapshot: Snapshot, name: str) -> Written:
    known = snapshot.sealed(files.trial_of(name)) if name.startswith(f"{TRIALS}/") else None
    content = (snapshot.folder / name).read_bytes()
    return known or Written(name, len(content), digest_of(content))


def stored_rows(folder: Path, ending: Ending) -> pyarrow.Table | None:
    """The rows and timings of an ended trial as they were sealed; None unless they have the recorded digest."""
    try:
        with reading(folder / DATABASE) as connection:
            rows = connection.sql(ROWS_SQL, params=[ending.trial]).to_arrow_table().cast(sealed.SCHEMA)
    except (RefusedError, duckdb.Error):
        return None
    return rows if sealed.digest(rows) == ending.digest else None


def stored_content(folder: Path, name: str) -> bytes | None:
    """The bytes of a document or a source as they were written; None if the DuckDB file does not have them."""
    try:
        with reading(folder / DATABASE) as connection:
            row = connection.execute("SELECT content FROM files WHERE name = ?", [name]).fetchone()
    except (RefusedError, duckdb.Error):
        return None
    content = row[0] if row else None
    return content if content is not None and digest_of(content) == digest_in(name) else None


# The DuckDB file compared with the kept files, by filling another from them

ANEW = f"filled again from the files; the old one is kept in {DAMAGED}"


def database_fault(snapshot: Snapshot) -> Fault:
    """Find the differences of the DuckDB file. Its cure comes last: it follows all other repairs."""
    findings = tuple(_database_findings(snapshot))
    if any(finding.severity == "harmless" for finding in findings):  # another program has it
        return Fault(findings)
    anew = any(finding.remedy == ANEW for finding in findings)
    return Fault(findings, partial(_bring_up, snapshot.folder, anew, bool(findings)))


def _bring_up(folder: Path, anew: bool, reported: bool) -> str:
    path = folder / DATABASE
    if anew and path.exists():
        set_aside(folder, path)
    messages: list[str] = []
    projection.refresh(folder, messages.append)
    return "" if reported else "\n".join(messages)


def _database_findings(snapshot: Snapshot) -> Iterator[Finding]:
    path = snapshot.folder / DATABASE
    if not path.exists():
        if snapshot.plans.of_space or snapshot.endings:
            yield _database_finding("is missing", path, "filled from the files")
        return
    try:
        with tempfile.TemporaryDirectory() as aside, duckdb.connect(Path(aside) / DATABASE) as connection:
            connection.execute(f"ATTACH {quoted(str(path.absolute()))} AS stored (READ_ONLY)")
            yield from _compared_tables(connection, snapshot)
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        if LOCKED in first:
            what = f"is open for writing in another program ({first}), and was not checked"
            yield Finding("database", "harmless", what, path, "close that program and check again")
        else:
            yield _database_finding(f"cannot be read ({first})", path, ANEW)


def _compared_tables(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> Iterator[Finding]:
    path = snapshot.folder / DATABASE
    if not projection.is_ours(connection, "stored.main"):
        yield _database_finding("has no tables, or those of another version", path, ANEW)
        return
    stored = projection.stored_at(path)
    behind = changes(snapshot, stored)
    lost = {files.trial_of(name) for name in {**snapshot.lost, **behind.lost}}
    trials = [trial for trial in behind.trials if trial not in lost]
    if trials or (behind.spaces and not snapshot.lost):
        what = named(trials) if trials else f"space {behind.spaces[0] or '(sources)'}"
        remedy = ANEW if stored.mark == snapshot.mark else "brought up to date"  # it says that it has all of them
        yield _database_finding(f"is behind the files by {what}", path, remedy)
    connection.execute("".join(table.bare for table in TABLES.values()))
    projection.load(connection, changes(snapshot, Stored()))
    damaged = connection.execute("SELECT trial_id FROM main.trials WHERE status = $1", [DAMAGED_TRIAL]).fetchall()
    trials = [*behind.trials, *lost, *(trial for (trial,) in damaged)]
    passed_over = {"space": behind.spaces, "trial_id": trials, "versions_id": ()}
    differ = [name for name, key in KEYS.items() if _differs(connection, name, key, passed_over[key])]
    if differ:
        yield _database_finding(f"differs from the files in {', '.join(differ)}", path, ANEW)


def _differs(connection: duckdb.DuckDBPyConnection, name: str, key: str, passed_over: Collection[str]) -> bool:
    if name == "versions":  # those of trials that were trained again are kept, which is harmless
        return bool(connection.execute("FROM main.versions EXCEPT FROM stored.main.versions").fetchall())
    connection.register("passed_over", pyarrow.table({key: pyarrow.array(list(passed_over), pyarrow.string())}))
    sums = [
        connection.execute(
            f"SELECT count(*), bit_xor(hash(t)) FROM (FROM {schema}.{name} ANTI JOIN passed_over USING ({key})) AS t"
        ).fetchall()
        for schema in ("main", "stored.main")
    ]
    return sums[0] != sums[1]


def _database_finding(what: str, path: Path, remedy: str) -> Finding:
    return Finding("database", "repaired", what, path, remedy, changes=(path,))
