"""The DuckDB file compared with the journal: every row of each of our tables, except for timings.

The rows of a trial are right if they have the digest that was recorded when it was sealed; its summaries if they are
what `summaries.sql` computes from those rows; all other tables if they are what the journal's lines give.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import numpy
import pyarrow

from ablate.store import pending_rows as changed
from ablate.store import projection, questions, sealed, verdicts
from ablate.store.durable import DAMAGED, set_aside
from ablate.store.ending import Ending
from ablate.store.loading import KEYS, SUMMARIES, load
from ablate.store.pending_rows import Changes, Journal, Stored
from ablate.store.projection import DATABASE, LOCKED, SQL_DIGEST
from ablate.store.repair import judgements
from ablate.store.repair.faults import Fault
from ablate.store.repair.report import Finding
from ablate.store.repair.sealed_trials import named
from ablate.store.repair.seen import Seen
from ablate.store.schema import DDL, quoted

ROWS_AT_ONCE = 1_000_000
ANEW = f"rebuilt from the journal; the old file is kept in {DAMAGED}"


def faults(seen: Seen) -> Fault:
    """Find what the DuckDB file lacks, or has in excess, compared with the repaired journal.

    Its cure comes last: it brings the file up to date with all other repairs, even if the file itself was right.
    """
    lost = judgements.verdicts_lost(seen.folder, seen.ledgers, seen.mended, seen.stored)
    judged = [gone.space for gone in lost if gone.certain]
    findings = tuple(_findings(seen.folder, journal(seen), seen.back_trials, seen.stored, judged))
    if any(finding.severity == "harmless" for finding in findings):  # another program has it
        return Fault(findings)
    anew = any(finding.remedy == ANEW for finding in findings)
    return Fault(findings, partial(_bring_up, seen.folder, anew, bool(findings)))


def journal(seen: Seen) -> Journal:
    """Return the content of the folder once it is repaired."""
    live = {
        content.beginning.trial_id: content.beginning.attempt
        for content in seen.segments.values()
        if content and content.beginning.attempt > getattr(seen.known.get(content.beginning.trial_id), "attempt", 0)
    }
    return Journal(seen.mended, seen.endings, live, verdicts.read(seen.folder), questions.by_space(seen.folder))


def _bring_up(folder: Path, anew: bool, reported: bool) -> str:
    path = folder / DATABASE
    if anew and path.exists():
        set_aside(folder, path)
    told: list[str] = []
    projection.refresh(folder, changed.read_journal(folder)[0], told.append)
    return "" if reported else "\n".join(told)


def _findings(
    folder: Path, journal: Journal, excused: Collection[str], stored: Stored, judged: Sequence[str]
) -> Iterator[Finding]:
    """Yield what is wrong with it; `excused` trials have no whole file to compare with.

    `stored` is its content as it records it, and `judged` are spaces of which only it still has some verdicts.
    """
    path = folder / DATABASE
    if not path.exists():
        if journal.kept.plans or journal.endings:
            yield _finding("is missing", path, "filled from the journal")
        return
    try:
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH {quoted(str(path.absolute()))} AS stored (READ_ONLY)")
            yield from _compared(connection, folder, journal, excused, stored, judged)
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        if LOCKED in first:
            what = f"is open for writing in another program ({first}), and was not checked"
            yield Finding("database", "harmless", what, path, "close that program and check again")
        else:
            yield _finding(f"cannot be read ({first})", path, ANEW)


def _compared(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    journal: Journal,
    excused: Collection[str],
    stored: Stored,
    judged: Sequence[str],
) -> Iterator[Finding]:
    path = folder / DATABASE
    if not _is_ours(connection):
        yield _finding("has no tables, or those of another version", path, ANEW)
        return
    behind = changed.changes(folder, journal, stored)
    late_trials = behind.tables["trials"]["trial_id"].to_pylist()
    late_spaces = behind.tables["plans"]["space"].to_pylist()
    if judged:
        spaces = ", ".join(dict.fromkeys(judged))
        yield _finding(f"has verdicts of {spaces} that are no longer in the journal", path, ANEW)
    late_plans = [space for space in late_spaces if space not in judged]
    if late_trials or late_plans:
        what = named(late_trials) if late_trials else f"space {late_plans[0]}"
        yield _finding(f"is behind the journal by {what}", path, "brought up to date")
    nothing = Stored({}, dict.fromkeys(stored.trials, ("", 0, None)))
    everything = changed.changes(folder, journal, nothing)
    passed_over = {"trial_id": [*late_trials, *excused], "space": late_spaces}
    if differ := list(_tables_that_differ(connection, everything, passed_over)):
        yield _finding(f"differs from the journal in {', '.join(differ)}", path, ANEW)
    ended = journal.endings.keys() - journal.unfinished.keys() - {*late_trials}
    wrong = list(_trials_that_differ(connection, {id: journal.endings[id] for id in sorted(ended)}))
    if wrong:
        what = f"has other numbers than were sealed for {named(wrong)}"
        yield _finding(what, path, ANEW)
    if _has_rows_of_others(connection, [*ended, *late_trials]):
        yield _finding("has rows of trials that have not ended", path, ANEW)


def _finding(what: str, path: Path, remedy: str) -> Finding:
    return Finding("database", "repaired", what, path, remedy, changes=(path,))


def _is_ours(connection: duckdb.DuckDBPyConnection) -> bool:
    try:
        return connection.execute("SELECT sql_digest FROM stored.main.projection").fetchone() == (SQL_DIGEST,)
    except duckdb.CatalogException:
        return False


def _tables_that_differ(
    connection: duckdb.DuckDBPyConnection, everything: Changes, passed_over: Mapping[str, list[str]]
) -> Iterator[str]:
    """Yield the tables, except those of rows, that differ from the journal in something that is not passed over."""
    connection.execute("CREATE SCHEMA fresh; SET schema = 'fresh'")
    connection.execute(DDL)
    load(connection, replace(everything, files=()), "fresh")
    connection.execute("SET schema = 'main'")
    for name, (key, _) in KEYS.items():
        if name in ("metrics", "summaries"):
            continue
        clocks = " AND name IN ('began', 'ended')" if name == "timings" else ""
        ours, theirs = (
            f"SELECT * FROM {schema}.{name} WHERE {key} NOT IN (SELECT unnest($1)){clocks}"
            for schema in ("fresh", "stored.main")
        )
        sides = [f"({ours} EXCEPT ALL {theirs})", f"({theirs} EXCEPT ALL {ours})"]
        if name == "versions":
            sides.pop()  # those of trials that were trained again are kept, which is harmless
        if any(connection.execute(f"FROM {side} LIMIT 1", [passed_over.get(key, [])]).fetchone() for side in sides):
            yield name


def _trials_that_differ(connection: duckdb.DuckDBPyConnection, endings: Mapping[str, Ending]) -> Iterator[str]:
    """Yield the ended trials whose rows or summaries are not those that were sealed."""
    connection.execute("CREATE VIEW main.trials AS FROM stored.main.trials")
    for trials in _batches(endings):
        connection.execute(
            """
            CREATE OR REPLACE TEMP TABLE incoming AS
            SELECT trial_id, 'row' AS kind, step, metric, address, value FROM stored.main.metrics
            WHERE trial_id IN (SELECT unnest($1)) ORDER BY trial_id, step, metric, address
            """,
            [trials],
        )
        digests = dict(_digests(connection.sql("FROM incoming").to_arrow_table()))
        nothing = sealed.digest(sealed.SCHEMA.empty_table())
        wrong = {trial_id for trial_id in trials if digests.get(trial_id, nothing) != endings[trial_id].digest}
        connection.execute(f"CREATE OR REPLACE TEMP TABLE computed AS {SUMMARIES}")
        ours = "SELECT trial_id, name, value, step, address FROM computed"
        theirs = (
            "SELECT trial_id, name, value, step, address FROM stored.main.summaries"
            " WHERE trial_id IN (SELECT unnest($1))"
        )
        for left, right in ((ours, theirs), (theirs, ours)):
            rows = connection.execute(f"SELECT DISTINCT trial_id FROM ({left} EXCEPT ALL {right})", [trials]).fetchall()
            wrong |= {trial_id for (trial_id,) in rows}
        yield from sorted(wrong)


def _digests(content: pyarrow.Table) -> Iterator[tuple[str, str]]:
    """Yield the digest of each trial's rows in a table sorted by trial."""
    content = content.combine_chunks()
    codes = content["trial_id"].combine_chunks().dictionary_encode()
    starts = numpy.flatnonzero(numpy.diff(codes.indices.to_numpy(), prepend=-1))
    for start, end in zip(starts, [*starts[1:], content.num_rows], strict=True):
        part = content.slice(start, end - start)
        yield part["trial_id"][0].as_py(), sealed.digest(part)


def _batches(endings: Mapping[str, Ending]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for trial_id, ending in endings.items():
        batch.append(trial_id)
        size += ending.rows
        if size > ROWS_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _has_rows_of_others(connection: duckdb.DuckDBPyConnection, trials: Collection[str]) -> bool:
    for table in ("metrics", "summaries"):
        others = f"SELECT 1 FROM stored.main.{table} WHERE trial_id NOT IN (SELECT unnest($1)) LIMIT 1"
        if connection.execute(others, [list(trials)]).fetchone():
            return True
    return False
