"""The kept files, verified: what is gone or damaged is recovered from the DuckDB file where that has it, unchanged.

Nothing is used unverified: a document must have the digest that it is named by, and the rows of a trial the digest that
the witness names. A damaged file is moved to `damaged/` first. What cannot be recovered is said to be lost: a trial
until it is trained again, any other file once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import duckdb
import pyarrow

from ablate.errors import RefusedError
from ablate.store import checksummed_lines, earlier, files, sealed
from ablate.store.durable import DAMAGED, copy_aside, set_aside
from ablate.store.files import GONE, TRIALS, WITNESS, Ending, Written, digest_in, digest_of
from ablate.store.pending_rows import Stored, gone_trials
from ablate.store.projection import DATABASE, reading
from ablate.store.repair.report import Fault, Finding, Kind, Severity
from ablate.store.snapshot import Snapshot

REMEDIES: Mapping[str, tuple[Kind, str]] = {
    TRIALS: ("sealed", "the next `ablate run` of its space trains it again"),
    "plans": ("specification", "the next `ablate run` of its space brings it back"),
    "runs": ("request", "how that run was requested is no longer known: run it again with `ablate run`"),
    "verdicts": ("verdicts", "the next `ablate run` of its space, or `ablate judge` of its table, judges it again"),
    "paces": ("paces", "`ablate run` times it again where it needs it"),
    "tables": ("table", "`ablate judge` of the same table keeps it again"),
    "sources": ("source", "the next `ablate run` of its space with the same files brings it back"),
}
"""The kind of a loss, and what follows from it."""

ROWS = """
    SELECT trial_id, 'row' AS kind, step, metric, address, value FROM metrics WHERE trial_id = $1
    UNION ALL
    SELECT trial_id, 'timing', step, name, '', seconds FROM timings
    WHERE trial_id = $1 AND name NOT IN ('began', 'ended')
    ORDER BY kind, step, metric, address
"""


def faults(snapshot: Snapshot, stored: Stored, *, thorough: bool) -> Iterator[Fault]:
    """Find the kept files that are gone or damaged, replaced or unlisted, and a damaged witness.

    `stored` is what the DuckDB file has. Unless `thorough`, only the sealed files that it lacks are read through.
    """
    folder = snapshot.folder
    lost = {**dict(_gone(snapshot, stored)), **snapshot.lost, **dict(_damaged(snapshot, None if thorough else stored))}
    unlisted = [name for name in snapshot.unlisted if name not in lost]
    if unlisted or snapshot.witness.damaged or snapshot.witness.torn:
        yield _of_witness(snapshot, unlisted)  # first, since other cures append to it
    for name, fault in lost.items():
        if "/" not in name:  # a file of lines of an earlier version
            remedy = f"kept in {earlier.FOLDER}; what these lines held is no longer known"
            yield Fault((Finding("damaged line", "lost", fault, folder / name, remedy),))
        else:
            yield _lost(snapshot, name, fault)
    for name in snapshot.replaced:
        path = folder / name
        changes = (path, folder / WITNESS)
        finding = Finding("leftover", "repaired", "was replaced by a later one", path, "deleted", changes=changes)
        # The witness may list it still: its driver was killed between the later file and the line about it.
        yield Fault((finding,), partial(files.withdraw, folder, name))


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
    """Return the fault of a kept file that is gone or damaged; its cure puts back what the DuckDB file has of it."""
    folder, path = snapshot.folder, snapshot.folder / name
    kind, then = REMEDIES[name.partition("/")[0]]
    segment = snapshot.segments.get(files.trial_of(name)) if kind == "sealed" else None
    # That of a whole journal is sealed again by `open_trials`.
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
    rows = rows_of(snapshot.folder, ending) if ending else None
    if ending is None or rows is None:
        return None
    return partial(sealed.put, snapshot.folder, ending, rows, snapshot.plans.specifications.get(ending.trial))


def _put_back_file(folder: Path, name: str) -> Callable[[], None] | None:
    content = content_of(folder, name)
    return None if content is None else partial(files.put_listed, folder, name, content)


def _of_witness(snapshot: Snapshot, unlisted: Collection[str]) -> Fault:
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
            checksummed_lines.cut(path, path.stat().st_size - now.torn)
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


def rows_of(folder: Path, ending: Ending) -> pyarrow.Table | None:
    """Return the rows and timings of an ended trial as they were sealed; None unless they have the recorded digest."""
    try:
        with reading(folder / DATABASE) as connection:
            rows = connection.sql(ROWS, params=[ending.trial]).to_arrow_table().cast(sealed.SCHEMA)
    except (RefusedError, duckdb.Error):
        return None
    return rows if sealed.digest(rows) == ending.digest else None


def content_of(folder: Path, name: str) -> bytes | None:
    """Return the bytes of a document or a source as they were written; None if the DuckDB file does not have them."""
    try:
        with reading(folder / DATABASE) as connection:
            row = connection.execute("SELECT content FROM files WHERE name = ?", [name]).fetchone()
    except (RefusedError, duckdb.Error):
        return None
    content = row[0] if row else None
    return content if content is not None and digest_of(content) == digest_in(name) else None
