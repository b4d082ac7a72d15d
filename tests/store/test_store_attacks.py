"""Whatever happens to a results folder is noticed, said in one clear line, and made good; no number is ever wrong.

After every attack the same command is given again, and every table must be what an undisturbed run leaves, bit for bit.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from attacks import FILES, OPEN, another, flip, half_way, run, tables
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from store_worlds import DOCUMENTS, VERSIONS, course, hear, opened, plan, rows_at, trial

from ablate.errors import RefusedError
from ablate.store import doctor, ledger, pace, recovery, restore, sealed, segment
from ablate.store.changes import Stored
from ablate.store.lines import Appender
from ablate.store.lock import Lock
from ablate.store.query import query

SEALED = {"a10000", "a10001", "b20000", "b20001"}


@dataclass(frozen=True)
class Worlds:
    half: Path
    copy: Path
    tables: dict = field(repr=False)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """A folder half-way through the plan, a place for copies of it, and what an undisturbed run leaves."""
    place = tmp_path_factory.mktemp("attacks")
    half_way(place / "half")
    run(place / "undisturbed", pytest.fail)
    return Worlds(place / "half", place / "copy", tables(place / "undisturbed"))


@pytest.fixture
def folder(worlds, tmp_path):
    """A copy to attack."""
    shutil.copytree(worlds.half, tmp_path / "results")
    return tmp_path / "results"


def ends_well(folder, worlds):
    """Give the same command again; what was said on the way."""
    said = []
    run(folder, said.append)
    assert tables(folder) == worlds.tables
    return said


def one_line(said, *words):
    """Exactly one thing was said, on one line, with these words in it."""
    assert len(said) == 1 and "\n" not in said[0], said
    assert all(word in said[0] for word in words), said[0]


def test_nothing_happened(folder, worlds):  # every test below can fail: without an attack nothing is said
    assert doctor.examine(folder).found == ()
    assert ends_well(folder, worlds) == []
    assert doctor.examine(folder).found == ()


# Bytes that change

UNSHRUNK = {"phases": (Phase.explicit, Phase.generate), "deadline": None, "suppress_health_check": list(HealthCheck)}
QUICK = settings(max_examples=6, **UNSHRUNK)
THOROUGH = settings(max_examples=150, **UNSHRUNK)
HARM = st.one_of(
    st.tuples(st.just("flip"), st.floats(0, 1, exclude_max=True), st.integers(0, 7)),
    st.tuples(st.just("cut"), st.floats(0, 1, exclude_max=True), st.just(0)),
    st.tuples(st.just("zeros"), st.floats(0, 1, exclude_max=True), st.integers(1, 600)),
)


def harm(path, how, where, much):
    """Change a bit, cut the file off, or put zeros in it; False where that changes nothing."""
    before = path.read_bytes()
    place = int(where * len(before))
    if how == "flip":
        flip(path, place, much)
    elif how == "cut":
        path.write_bytes(before[:place])
    else:
        path.write_bytes(before[:place] + bytes(len(before[place : place + much])) + before[place + much :])
    return path.read_bytes() != before


def survives(worlds, name, damage, with_database):
    half, copy = worlds.half, worlds.copy
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(half, copy)
    if not with_database:
        (copy / FILES["database"]).unlink(missing_ok=True)
    before = (copy / FILES[name]).read_bytes() if (copy / FILES[name]).exists() else b""
    if not before or not harm(copy / FILES[name], *damage):
        return
    found = doctor.examine(copy)
    if damage[0] == "flip" and name != "database":
        assert [f for f in found.to_repair if f.where == copy / FILES[name]], "a changed bit is always noticed"
    lost = {f.where.stem for f in found.found if f.kind == "sealed" and f.severity == "lost"}
    assert lost <= ({"b20001"} if name == "sealed" and not with_database else set())
    with opened(copy, say=lambda said: None) as results:
        assert set(results.outcomes()) >= SEALED - lost, "what was sealed is known, but for what was hit"
    if name == "database":
        with suppress(duckdb.Error):  # a block that no table of this run needed: reading it is refused, not wrong
            ends_well(copy, worlds)
    else:
        ends_well(copy, worlds)
    mended = doctor.repair(copy, doctor.examine(copy), say=lambda said: None)
    assert mended.left == () and doctor.examine(copy).to_repair == ()
    assert tables(copy) == worlds.tables


@pytest.mark.parametrize("name", FILES)
@QUICK
@given(damage=HARM, with_database=st.booleans())
def test_changed_bytes_are_noticed_and_never_become_numbers(worlds, name, damage, with_database):
    survives(worlds, name, damage, with_database)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", FILES)
@THOROUGH
@given(damage=HARM, with_database=st.booleans())
def test_many_changed_bytes_are_noticed_and_never_become_numbers(worlds, name, damage, with_database):
    survives(worlds, name, damage, with_database)


def test_a_reader_that_does_not_look_would_believe_a_changed_byte(folder):  # the tests above can fail
    path = folder / FILES["sealed"]
    whole, believed = path.read_bytes(), 0
    good = pyarrow.parquet.read_table(path)
    for place in range(0, len(whole), 7):
        flip(path, place, 3)
        try:
            believed += not pyarrow.parquet.read_table(path).equals(good)
        except (pyarrow.ArrowException, OSError, ValueError):
            continue
        finally:
            path.write_bytes(whole)
    assert believed, "no checksum of the format itself notices them all"


def test_doctor_repairs_before_the_next_run_too(worlds, folder):
    for name in ("segment", "outcomes", "plans", "sealed", "checkpoint"):
        flip(folder / FILES[name], (folder / FILES[name]).stat().st_size // 2)
    mended = doctor.repair(folder, doctor.examine(folder), say=lambda said: None)
    assert mended.exit_code == 0 and {f.kind for f in mended.found} >= {"damaged line", "sealed"}
    assert doctor.examine(folder).to_repair == ()
    assert ends_well(folder, worlds) == []


# Torn tails


def test_a_tail_of_the_index_torn_at_any_byte_is_cut_off_and_nothing_is_lost(folder):
    (folder / FILES["database"]).unlink()
    path = folder / FILES["outcomes"]
    whole = path.read_bytes()
    last = len(whole) - whole[:-1].rfind(b"\n") - 1
    for bytes_left in range(last):
        said = []
        path.write_bytes(whole[: len(whole) - last + bytes_left])
        with Lock(folder):
            _, endings = recovery.recover(folder, said.append)
        assert set(endings) == SEALED
        torn = [f"{path} ends in the middle of a line; {bytes_left} bytes are cut off"] if bytes_left else []
        assert said == [*torn, f"{path} did not list trial b20001; listed anew from what was sealed"]
        assert set(ledger.known_outcomes(folder)) == SEALED


def test_a_tail_of_the_plans_torn_at_any_byte_is_cut_off(folder, worlds):
    path = folder / FILES["plans"]
    whole = path.read_bytes()
    last = len(whole) - whole[:-1].rfind(b"\n") - 1
    for bytes_left in range(1, last):
        said = []
        path.write_bytes(whole[: len(whole) - last + bytes_left])
        known = restore.asked(folder, Stored({}, {}), said.append)
        one_line(said, str(path), f"ends in the middle of a line; {bytes_left} bytes are cut off")
        assert len(known.trials) == 6 and known.plans == {}
    one_line(ends_well(folder, worlds), str(path), "lacked 1 plan; got back from ablate.duckdb")


def test_a_tail_of_a_segment_torn_at_any_byte_is_cut_off(folder):
    path = folder / FILES["segment"]
    whole = path.read_bytes()
    last = len(whole) - whole[:-1].rfind(b"\n") - 1
    for bytes_left in range(1, last):
        said = []
        path.write_bytes(whole[: len(whole) - last + bytes_left])
        assert recovery.go_on(folder, OPEN, said.append).resume.step == 20
        one_line(said, OPEN, f"ends in the middle of a line; {bytes_left} bytes are cut off")


# Damaged lines


def test_specifications_and_plans_come_again_with_the_next_run_without_the_database(folder, worlds):
    (folder / FILES["database"]).unlink()
    path = folder / FILES["plans"]
    flip(path, 100)
    flip(path, path.stat().st_size - 100)
    before = len(ledger.asked(restore.lines.read(path)).trials)
    one_line(ends_well(folder, worlds), str(path), "is damaged in line 1, 7", "`ablate doctor` takes it out")
    after = ledger.asked(restore.lines.read(path))
    assert (before, len(after.trials), set(after.plans)) == (5, 6, {"small"})


def test_a_newer_plan_in_a_damaged_line_is_got_back_and_not_the_older_one(folder):
    with opened(folder) as results:
        results.record_plan(plan(seeds=(0,)), DOCUMENTS)
        results.refresh()
    path, said = folder / FILES["plans"], []
    flip(path, path.stat().st_size - 100)
    with opened(folder, say=said.append) as results:
        assert results._asked.plans["small"][1]["seeds"] == [0]
    assert "lacked 1 plan; got back" in said[-1]


def test_an_older_plan_in_the_database_does_not_come_back(folder):
    with opened(folder) as results:
        results.record_plan(plan(seeds=(0,)), DOCUMENTS)  # and the database is not brought up to it
    with opened(folder) as results:
        assert results._asked.plans["small"][1]["seeds"] == [0]


# The DuckDB file


def test_a_database_deleted_or_replaced_by_garbage_is_filled_anew(folder, worlds):
    path = folder / FILES["database"]
    path.unlink()
    assert ends_well(folder, worlds) == []
    garbage = b"this is not a database" * 1000
    path.write_bytes(garbage)
    one_line(ends_well(folder, worlds), str(path), "cannot be used", "filled anew")
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


def test_a_database_open_for_writing_elsewhere_is_said_and_never_waited_for(folder, worlds):
    path = folder / FILES["database"]
    with another(WRITER, path) as writer:
        (found,) = doctor.examine(folder).found
        assert found.severity == "harmless" and f"PID {writer.pid}" in found.what
        one_line(ends_well(folder, worlds), str(path), "open for writing elsewhere", f"PID {writer.pid}")
    assert tables(folder) == worlds.tables, "what the other one writes goes with the file it has"
    assert doctor.examine(folder).to_repair == ()


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
from store_worlds import course, hear, opened, plan, DOCUMENTS, trial
with opened(Path(sys.argv[1])) as results:
    results.record_plan(plan(), DOCUMENTS)
    results.begin(trial("c3", 0, id="c30000"))
    hear(results, "c30000", course("c30000", after=20)[:5])
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_a_second_driver_is_refused_and_works_when_the_first_was_killed(folder, worlds):
    with another(RUN, folder) as first:
        with pytest.raises(RefusedError) as refused:
            run(folder, pytest.fail)
        said = str(refused.value).splitlines()
        assert f"another run is using it (process {first.pid} on " in said[0] and ", since 20" in said[0]
        assert len(said) == 2 and said[1].startswith("  = wait for it or stop it")
        looked = doctor.examine(folder)
        assert str(first.pid) in looked.holder and looked.found == ()
        assert doctor.repair(folder, looked, say=pytest.fail) == looked, "a folder in use is only looked at"
        first.kill()
        first.wait()
        assert ends_well(folder, worlds) == []


def test_a_stale_text_in_the_lock_holds_nobody_up(folder, worlds):
    (folder / "lock").write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "2001-01-01T00:00:00+00:00"}))
    (found,) = doctor.examine(folder).found
    assert (found.kind, found.severity) == ("killed", "harmless") and "process 1 on elsewhere" in found.what
    assert ends_well(folder, worlds) == []
    assert doctor.examine(folder).found == ()


# The folder


def test_a_journal_folder_that_is_gone_costs_the_open_trial_its_start_and_is_said(folder, worlds):
    shutil.rmtree(folder / "journal")
    one_line(ends_well(folder, worlds), f"trial {OPEN} has a checkpoint and no journal any more; it starts over")


@pytest.mark.parametrize("name", [sealed.FOLDER, "checkpoints"])
def test_any_other_folder_that_is_gone_is_made_good(folder, worlds, name):
    shutil.rmtree(folder / name)
    said = ends_well(folder, worlds)
    if name == sealed.FOLDER:
        assert len(said) == 4 and all("is gone; its rows are sealed anew from ablate.duckdb" in one for one in said)
    else:
        one_line(said, f"the checkpoint of trial {OPEN} is damaged or gone; the trial starts over")


def test_a_folder_can_be_moved_while_nothing_runs(folder, worlds, tmp_path):
    moved = tmp_path / "elsewhere" / "results, moved"
    moved.parent.mkdir()
    folder.rename(moved)
    assert doctor.examine(moved).found == ()
    assert ends_well(moved, worlds) == []


def test_a_segment_of_a_trial_nobody_asked_for_is_kept_and_said(folder, worlds):
    stranger = Appender(segment.path_of(folder, "stranger"))
    beginning = segment.Beginning("stranger", 1, 1.8e9, VERSIONS)
    stranger.write([segment.begin_record(beginning), *segment.event_records(rows_at("stranger", 0)[:1])])
    stranger.close()
    (found,) = [f for f in doctor.examine(folder).found if f.kind != "database"]
    assert (found.severity, found.what) == ("harmless", "is of a trial that no plan asks for")
    run(folder, pytest.fail)
    after = tables(folder)
    assert [row for row in after["trials"] if row[0] == "'stranger'"] == [after["trials"][-1]]
    assert after["final"] == worlds.tables["final"] and after["metrics"] == worlds.tables["metrics"]
    assert segment.path_of(folder, "stranger").exists()


def test_a_segment_under_another_name_is_put_aside(folder, worlds):
    shutil.copy(folder / FILES["segment"], segment.path_of(folder, "c30001"))
    one_line(ends_well(folder, worlds), "c30001.jsonl is of another trial, c30000", "kept in damaged")


def test_doubled_rows_are_never_sealed(folder, worlds):
    path = folder / FILES["segment"]
    row = path.read_bytes().splitlines(keepends=True)[-1]
    with path.open("ab") as file:
        file.write(row)
    assert doctor.examine(folder).to_repair[0].what.endswith("twice")
    one_line(ends_well(folder, worlds), OPEN, "twice; the trial starts over")


# The clock


def test_nothing_is_ordered_by_a_clock_that_jumps(tmp_path, worlds, monkeypatch):
    jumps = iter([2e9, 1e9, 3.0, 2.5e9, 1.9e9, 7.0] * 100)
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    half_way(tmp_path)
    assert ends_well(tmp_path, worlds) == []
    monkeypatch.undo()
    (found,) = doctor.examine(tmp_path).found
    assert (found.kind, found.severity) == ("clock", "harmless") and "ended before it began" in found.what
    seconds = pace.trial_seconds(tmp_path, trial())
    assert seconds is None or seconds > 0
    assert query(tmp_path, "SELECT count(*) FROM final").rows == ((6,),)


def test_a_line_damaged_while_its_trial_runs_is_not_sealed_over(folder, worlds):
    with opened(folder) as results:
        start = results.begin(trial("c3", 0, id=OPEN))
        hear(results, OPEN, course(OPEN, after=start.resume.step)[:-1])
        flip(folder / FILES["segment"], (folder / FILES["segment"]).stat().st_size - 300)
        with pytest.raises(RefusedError, match="was damaged while it was being written, in line"):
            results.append(OPEN, course(OPEN)[-1:])
    assert f"the journal of trial {OPEN} is damaged in line" in ends_well(folder, worlds)[0]
