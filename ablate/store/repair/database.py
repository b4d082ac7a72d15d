"""The DuckDB file compared with the kept files, by filling another from them."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

import duckdb
import pyarrow

from ablate.store import files, projection
from ablate.store.durable import DAMAGED, set_aside
from ablate.store.pending_rows import Stored, changes
from ablate.store.projection import DATABASE, KEYS, LOCKED
from ablate.store.repair.report import Fault, Finding, named
from ablate.store.schema import TABLES, quoted
from ablate.store.snapshot import DAMAGED as DAMAGED_TRIAL
from ablate.store.snapshot import Snapshot

ANEW = f"filled again from the files; the old one is kept in {DAMAGED}"


def faults(snapshot: Snapshot) -> Fault:
    """Find what the DuckDB file lacks or has in excess. Its cure comes last: it follows all other repairs."""
    findings = tuple(_findings(snapshot))
    if any(finding.severity == "harmless" for finding in findings):  # another program has it
        return Fault(findings)
    anew = any(finding.remedy == ANEW for finding in findings)
    return Fault(findings, partial(_bring_up, snapshot.folder, anew, bool(findings)))


def _bring_up(folder: Path, anew: bool, reported: bool) -> str:
    path = folder / DATABASE
    if anew and path.exists():
        set_aside(folder, path)
    told: list[str] = []
    projection.refresh(folder, told.append)
    return "" if reported else "\n".join(told)


def _findings(snapshot: Snapshot) -> Iterator[Finding]:
    path = snapshot.folder / DATABASE
    if not path.exists():
        if snapshot.plans.of_space or snapshot.endings:
            yield _finding("is missing", path, "filled from the files")
        return
    try:
        with tempfile.TemporaryDirectory() as aside, duckdb.connect(Path(aside) / DATABASE) as connection:
            connection.execute(f"ATTACH {quoted(str(path.absolute()))} AS stored (READ_ONLY)")
            yield from _compared(connection, snapshot)
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        if LOCKED in first:
            what = f"is open for writing in another program ({first}), and was not checked"
            yield Finding("database", "harmless", what, path, "close that program and check again")
        else:
            yield _finding(f"cannot be read ({first})", path, ANEW)


def _compared(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> Iterator[Finding]:
    path = snapshot.folder / DATABASE
    if not projection.is_ours(connection, "stored.main"):
        yield _finding("has no tables, or those of another version", path, ANEW)
        return
    stored = projection.stored_at(path)
    behind = changes(snapshot, stored)
    lost = {files.trial_of(name) for name in {**snapshot.lost, **behind.lost}}
    trials = [trial for trial in behind.trials if trial not in lost]
    if trials or (behind.spaces and not snapshot.lost):
        what = named(trials) if trials else f"space {behind.spaces[0] or '(sources)'}"
        remedy = ANEW if stored.mark == snapshot.mark else "brought up to date"  # it says that it has all of them
        yield _finding(f"is behind the files by {what}", path, remedy)
    connection.execute("".join(table.bare for table in TABLES.values()))
    projection.load(connection, changes(snapshot, Stored()))
    damaged = connection.execute("SELECT trial_id FROM main.trials WHERE status = $1", [DAMAGED_TRIAL]).fetchall()
    trials = [*behind.trials, *lost, *(trial for (trial,) in damaged)]
    passed_over = {"space": behind.spaces, "trial_id": trials, "versions_id": ()}
    differ = [name for name, key in KEYS.items() if _differs(connection, name, key, passed_over[key])]
    if differ:
        yield _finding(f"differs from the files in {', '.join(differ)}", path, ANEW)


def _differs(connection: duckdb.DuckDBPyConnection, name: str, key: str, passed_over: Collection[str]) -> bool:
    """Return whether a table differs in rows that are not passed over."""
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


def _finding(what: str, path: Path, remedy: str) -> Finding:
    return Finding("database", "repaired", what, path, remedy, changes=(path,))
