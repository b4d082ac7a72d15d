"""What happens around a results folder: its database, other programs, its place, the clock. All is said and made good.

After everything the same command is given again, and every table must be what an undisturbed run leaves, bit for bit.
"""

from __future__ import annotations

import json
import shutil
import time

import pytest
from attacks import FILES, OPEN, another, ends_well, half_way, make_worlds, one_line, run, tables
from store_fixtures import VERSIONS, rows_at, trial

from ablate.errors import RefusedError
from ablate.store import files, journal, measurements
from ablate.store.durable import Appender
from ablate.store.query import query
from ablate.store.repair import repair


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    return make_worlds(tmp_path_factory.mktemp("attacks"))


@pytest.fixture
def folder(worlds, tmp_path):
    """A folder half-way through the plan, to attack."""
    return shutil.copytree(worlds.half, tmp_path / "results")


# The DuckDB file


@pytest.mark.full
def test_a_database_deleted_or_replaced_by_garbage_is_filled_anew(folder, worlds):
    path = folder / FILES["database"]
    path.unlink()
    assert ends_well(folder, worlds) == []
    garbage = b"this is not a database" * 1000
    path.write_bytes(garbage)
    one_line(ends_well(folder, worlds), str(path), "cannot be used", "filled again")
    (kept,) = (folder / "damaged").iterdir()
    assert kept.read_bytes() == garbage, "nothing of the user's is deleted"


WRITER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
connection.execute("CREATE TABLE mine AS SELECT 1")
print("ready", flush=True)
sys.stdin.readline()
"""
READER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
before = connection.execute("SELECT count(*) FROM metrics").fetchone()
print("ready", flush=True)
sys.stdin.readline()
print(connection.execute("SELECT count(*) FROM metrics").fetchone() == before, flush=True)
"""


@pytest.mark.full
def test_a_database_open_for_writing_elsewhere_is_said_and_never_waited_for(folder, worlds):
    path = folder / FILES["database"]
    with another(WRITER, path) as writer:
        (found,) = repair(folder, dry_run=True).findings
        assert found.severity == "harmless" and f"PID {writer.pid}" in found.what
        one_line(ends_well(folder, worlds), str(path), "open for writing elsewhere", f"PID {writer.pid}")
    assert tables(folder) == worlds.tables, "what the other one writes goes with the file it has"
    assert repair(folder, dry_run=True).to_repair == ()


@pytest.mark.full
def test_a_reader_keeps_what_it_has_and_stops_nothing(folder, worlds):
    with another(READER, folder / FILES["database"]) as reader:
        assert ends_well(folder, worlds) == []
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "True\n"


# Drivers

RUN = """
import sys
from pathlib import Path
from attacks import run
from store_fixtures import course, hear, opened, plan, DOCUMENTS, trial
with opened(Path(sys.argv[1])) as results:
    results.record_plan(plan(), DOCUMENTS)
    results.begin(trial("c3", 0, id="c30000"))
    hear(results, "c30000", course("c30000", after=20)[:5])
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.full
def test_a_second_driver_is_refused_and_works_when_the_first_was_killed(folder, worlds):
    with another(RUN, folder) as first:
        with pytest.raises(RefusedError) as refused:
            run(folder, pytest.fail)
        said = str(refused.value).splitlines()
        assert f"another run is using it (process {first.pid} on " in said[0] and ", since 20" in said[0]
        assert len(said) == 2 and said[1].startswith("  = wait for it or stop it")
        looked = repair(folder, dry_run=True)
        assert str(first.pid) in looked.holder and looked.findings == ()
        assert repair(folder, dry_run=False, say=pytest.fail) == looked, "a folder in use is only looked at"
        first.kill()
        first.wait()
        assert ends_well(folder, worlds) == []


@pytest.mark.full
def test_a_stale_text_in_the_lock_holds_nobody_up(folder, worlds):
    (folder / "lock").write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "2001-01-01T00:00:00+00:00"}))
    (found,) = repair(folder, dry_run=True).findings
    assert (found.kind, found.severity) == ("killed", "harmless") and "process 1 on elsewhere" in found.what
    assert ends_well(folder, worlds) == []
    assert repair(folder, dry_run=True).findings == ()


# The folder


@pytest.mark.full
def test_a_journal_folder_that_is_gone_costs_the_open_trial_its_start_and_is_said(folder, worlds):
    shutil.rmtree(folder / "journal")
    one_line(ends_well(folder, worlds), f"trial {OPEN} has a checkpoint but no journal any more; it starts over")


@pytest.mark.parametrize("name", [files.TRIALS, "checkpoints"])
def test_any_other_folder_that_is_gone_is_made_good(folder, worlds, name):
    shutil.rmtree(folder / name)
    said = ends_well(folder, worlds)
    if name == files.TRIALS:
        assert len(said) == 4 and all("is gone; its rows are sealed again from ablate.duckdb" in one for one in said)
    else:
        one_line(said, f"the checkpoint of trial {OPEN} is damaged or gone; the trial starts over")


def test_a_folder_can_be_moved_while_nothing_runs(folder, worlds, tmp_path):
    moved = tmp_path / "elsewhere" / "results, moved"
    moved.parent.mkdir()
    folder.rename(moved)
    assert repair(moved, dry_run=True).findings == ()
    assert ends_well(moved, worlds) == []


def test_a_segment_of_a_trial_nobody_asked_for_is_kept_and_said(folder, worlds):
    stranger = Appender(journal.path_of(folder, "stranger"))
    beginning = journal.Beginning("stranger", 1, 1.8e9, VERSIONS)
    stranger.write([journal.begin_record(beginning), *journal.event_records(rows_at("stranger", 0)[:1])])
    stranger.close()
    (found,) = [f for f in repair(folder, dry_run=True).findings if f.kind != "database"]
    assert (found.severity, found.what) == ("harmless", "is of a trial that belongs to no plan")
    run(folder, pytest.fail)
    after = tables(folder)
    assert [row for row in after["trials"] if row[0] == "'stranger'"] == [after["trials"][-1]]
    assert after["final"] == worlds.tables["final"] and after["metrics"] == worlds.tables["metrics"]
    assert journal.path_of(folder, "stranger").exists()


def test_a_segment_under_another_name_is_put_aside(folder, worlds):
    shutil.copy(folder / FILES["segment"], journal.path_of(folder, "c30001"))
    one_line(ends_well(folder, worlds), "c30001.jsonl is of another trial, c30000", "kept in damaged")


@pytest.mark.full
def test_doubled_rows_are_never_sealed(folder, worlds):
    path = folder / FILES["segment"]
    row = path.read_bytes().splitlines(keepends=True)[-1]
    with path.open("ab") as file:
        file.write(row)
    assert repair(folder, dry_run=True).to_repair[0].what.endswith("twice")
    one_line(ends_well(folder, worlds), OPEN, "twice; the trial starts over")


# The clock


@pytest.mark.full
def test_nothing_is_ordered_by_a_clock_that_jumps(tmp_path, worlds, monkeypatch):
    jumps = iter([2e9, 1e9, 3.0, 2.5e9, 1.9e9, 7.0] * 100)
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    half_way(tmp_path)
    assert ends_well(tmp_path, worlds) == []
    monkeypatch.undo()
    (found,) = repair(tmp_path, dry_run=True).findings
    assert (found.kind, found.severity) == ("clock", "harmless") and "ended before it began" in found.what
    seconds = measurements.trial_seconds(tmp_path, trial())
    assert seconds is None or seconds > 0
    assert query(tmp_path, "SELECT count(*) FROM final").rows == ((6,),)
