"""A disk that is full, or cannot be written: the run stops with one clear line, and the same command goes on later.

What was acknowledged before is there all the while, and at the end every table is what an undisturbed run leaves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest
from attacks import FILES, OPEN, SEALED, file_of, fill_up, free, half_way, make_room, remount, run, small_disk, tables
from store_fixtures import DOCUMENTS, course, hear, opened, plan, rows_at, trial
from tiny_spaces import rows_of, write_world

from ablate.errors import RefusedError
from ablate.store import journal
from ablate.store.query import query
from ablate.store.repair import repair
from ablate.store.snapshot import Snapshot
from ablate.train.events import Checkpoint, Outcome

FULL = "No space left on device"


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What an undisturbed run leaves, and a folder half-way through."""
    place = tmp_path_factory.mktemp("disk")
    run(place / "undisturbed", pytest.fail)
    half_way(place / "half")
    return place / "half", tables(place / "undisturbed")


@pytest.fixture
def disk(tmp_path, expected):
    """A small disk with a folder half-way through on it."""
    with small_disk(tmp_path / "disk") as place:
        shutil.copytree(expected[0], place / "results")
        yield place


@contextmanager
def refused(*words):
    """What is done is refused in one clear line with these words, and a second one with the way out."""
    with pytest.raises(RefusedError) as error:
        yield
    first, second = str(error.value).splitlines()
    assert first.startswith("cannot write ") and all(str(word) in first for word in words), first
    assert second == "  = free space or permission there, or choose another folder with --results"


def goes_on(disk, expected):
    """With room again, the same command ends with the same rows; nothing unfinished lies about."""
    said = []
    make_room(disk)
    run(disk / "results", said.append)
    assert tables(disk / "results") == expected[1]
    assert repair(disk / "results", dry_run=True).to_repair == ()
    return said


@pytest.mark.full
def test_full_while_rows_are_written(disk, expected):
    folder = disk / "results"
    with opened(folder) as results:
        results.begin(trial("c3", 0, id=OPEN))
        fill_up(disk)
        with refused(folder / FILES["segment"], FULL):
            for step in range(30, 3000):
                hear(results, OPEN, rows_at(OPEN, step))
    assert journal.read(folder / FILES["segment"]).torn == 0, "no half line is left"
    assert set(Snapshot(folder).outcomes()) == SEALED
    assert goes_on(disk, expected) == []


@pytest.mark.full
def test_full_while_a_checkpoint_is_written(disk, expected):
    folder = disk / "results"
    with opened(folder) as results:
        results.begin(trial("c3", 0, id=OPEN))
        fill_up(disk, leave=200_000)
        state = journal.CHECKPOINTS + f"/{OPEN}.30.pt"
        with refused(folder / state, FULL):
            journal.write_checkpoint(folder, OPEN, Checkpoint(30, bytes(300_000)))
        assert free(disk) >= 180_000, "half a state is not kept"
    assert journal.checkpoint_steps(folder, OPEN) == (20,), "the one before is still there"
    assert goes_on(disk, expected) == []


@pytest.mark.full
def test_full_while_a_trial_is_sealed(disk, expected):
    folder = disk / "results"
    with opened(folder) as results:
        start = results.begin(trial("c3", 0, id=OPEN))
        hear(results, OPEN, course(OPEN, after=start.resume.step)[:-1])
        fill_up(disk)
        with refused(folder / "trials" / f"{OPEN}.parquet", FULL):
            results.append(OPEN, [Outcome("finished", 40)])
    with refused("trials", FULL):  # and again, for as long as it is full
        run(folder, pytest.fail)
    assert set(Snapshot(folder).outcomes()) == SEALED
    make_room(disk)
    with opened(folder) as results:
        assert set(results.outcomes()) == SEALED | {OPEN}, "its outcome was written, so that it is sealed now"
    fill_up(disk)
    assert goes_on(disk, expected) == []


@pytest.mark.full
@pytest.mark.parametrize("more", [-1_000_000, 0])
def test_full_while_the_database_is_filled(disk, expected, more):
    """The copy does not fit, or DuckDB's log beside it."""
    folder = disk / "results"
    with opened(folder) as results:
        start = results.begin(trial("c3", 0, id=OPEN))
        hear(results, OPEN, course(OPEN, after=start.resume.step))
        before = tables(folder)
        fill_up(disk, leave=(folder / FILES["database"]).stat().st_size + more)
        with refused(folder / FILES["database"], FULL):
            results.refresh()
    assert [path.name for path in folder.iterdir() if ".new" in path.name] == [], "the copy is not left behind"
    assert tables(folder) == before, "the old one serves as before"
    assert query(folder, f"SELECT status FROM trials WHERE trial_id = '{OPEN}'").rows == (("finished",),)
    assert goes_on(disk, expected) == []


def test_full_before_the_run_begins(disk, expected):
    """The lock is taken without room for its text, so that what a killed run left behind can be cleared away."""
    folder = disk / "results"
    (folder / "ablate.duckdb.new").write_bytes(bytes(2_000_000))
    fill_up(disk)
    with opened(folder) as results:
        assert set(results.outcomes()) == SEALED
    assert free(disk) > 1_900_000
    assert goes_on(disk, expected) == []


def test_the_doctor_says_that_room_is_short(disk):
    (found,) = repair(disk / "results", dry_run=True).findings
    assert (found.kind, found.severity) == ("space", "harmless") and "MiB free" in found.what


LIMITED = """
import resource, sys
from pathlib import Path
from attacks import run
from ablate.errors import RefusedError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    run(Path(sys.argv[1]), print)
except RefusedError as refused:
    print(refused)
    sys.exit(2)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("limit", "file"), [(2500, "journal"), (2000, "plans/"), (5000, "trials"), (1_000_000, "ablate.duckdb")]
)
def test_no_file_can_grow_any_more(tmp_path, expected, limit, file):
    """The same without a disk of its own: the system refuses to make any file longer than so many bytes."""
    folder = tmp_path / "results"
    if file in ("journal", "trials"):  # the plan is known, so that a file of this kind is the first to grow
        with opened(folder) as results:
            results.record_plan(plan(), DOCUMENTS)
    here = [str(path) for path in sys.path if path.endswith("support")]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {here!r}\n{LIMITED}", str(folder), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2, done
    assert done.stdout.startswith(f"cannot write {folder}/{file}"), done.stdout
    assert "File too large" in done.stdout and len(done.stdout.splitlines()) == 2 and done.stderr == ""
    run(folder, pytest.fail)
    assert tables(folder) == expected[1]


@pytest.mark.full
def test_a_folder_that_is_read_only_is_read_and_not_written(disk, expected):
    folder = disk / "results"
    remount(disk, "ro")
    with refused(folder / "lock", "Read-only file system"):
        run(folder, pytest.fail)
    assert query(folder, "SELECT count(*) FROM trials WHERE status = 'finished'").rows == ((4,),)
    looked = repair(folder, dry_run=True)
    assert looked.to_repair == ()
    with refused(folder / "lock", "Read-only file system"):
        repair(folder, dry_run=False, say=pytest.fail)
    remount(disk, "rw")
    fill_up(disk)
    assert goes_on(disk, expected) == []


@pytest.mark.parametrize("kind", ["witness", "segment"])
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path, expected, kind):
    """Root may read everything, so it is a folder of that name that cannot be read as a file."""
    folder = shutil.copytree(expected[0], tmp_path / "results")
    path = file_of(folder, kind)
    path.unlink()
    path.mkdir()
    for attempt in (lambda: run(folder, pytest.fail), lambda: repair(folder, dry_run=True)):
        with pytest.raises(RefusedError) as refusal:
            attempt()
        first, second = str(refusal.value).splitlines()
        assert first == f"cannot read {path}: Is a directory" and second.startswith("  = give permission")


@pytest.mark.full
def test_the_command_stops_where_the_disk_is_full_and_goes_on_when_there_is_room(tmp_path):
    """`ablate run` itself: full at a checkpoint, then at the database, then not; real trials, real workers."""
    space = write_world(tmp_path)
    with small_disk(tmp_path / "small", "300k") as small:
        for room in ("300k", "2m"):
            remount(small, f"size={room}")
            done = _ablate("run", space, "--results", small / "results")
            *_, first, second = done.stderr.splitlines() or done.stdout.splitlines()
            assert done.returncode == 2 and "Traceback" not in done.stdout + done.stderr
            assert first.startswith(f"error: cannot write {small}/results/") and first.endswith(FULL)
            assert second == "  = free space or permission there, or choose another folder with --results"
        remount(small, "size=16m")
        assert _ablate("run", space, "--results", small / "results").returncode == 0
        assert _ablate("run", space, "--results", tmp_path / "roomy").returncode == 0
        assert rows_of(small / "results") == rows_of(tmp_path / "roomy") != []
        assert repair(small / "results", dry_run=True).to_repair == ()


def _ablate(*words):
    command = [sys.executable, "-c", "from ablate.cli import main; main()", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "500"})
