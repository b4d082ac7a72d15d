"""Whatever happens to a results folder is noticed, said in one clear line, and made good; no number is ever wrong.

After every attack the same command is given again, and every table must be what an undisturbed run leaves, bit for bit.
"""

from __future__ import annotations

import shutil
from contextlib import suppress

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from attacks import FILES, HARM, OPEN, SEALED, ends_well, file_of, flip, harm, make_worlds, one_line, tables
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from store_fixtures import DOCUMENTS, course, hear, opened, plan, trial

from ablate.errors import RefusedError
from ablate.store.durable import Lock
from ablate.store.repair import continue_trial, make_ready, repair
from ablate.store.snapshot import Snapshot


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    return make_worlds(tmp_path_factory.mktemp("attacks"))


@pytest.fixture
def folder(worlds, tmp_path):
    """A folder half-way through the plan, to attack."""
    return shutil.copytree(worlds.half, tmp_path / "results")


@pytest.mark.full
def test_nothing_happened(folder, worlds):  # every test below can fail: without an attack nothing is said
    assert repair(folder, dry_run=True).findings == ()
    assert ends_well(folder, worlds) == []
    assert repair(folder, dry_run=True).findings == ()


# Bytes that change

UNSHRUNK = {"phases": (Phase.explicit, Phase.generate), "deadline": None, "suppress_health_check": list(HealthCheck)}
QUICK = settings(max_examples=6, **UNSHRUNK)
THOROUGH = settings(max_examples=150, **UNSHRUNK)


def survives(worlds, name, damage, with_database):
    half, copy = worlds.half, worlds.copy
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(half, copy)
    if not with_database:
        (copy / FILES["database"]).unlink(missing_ok=True)
    if not list(copy.glob(FILES[name])) or not harm(path := file_of(copy, name), *damage):
        return
    found = repair(copy, dry_run=True)
    if damage[0] == "flip" and name != "database":
        assert [f for f in found.findings if f.where == path], "a changed bit is always noticed"
    lost = {f.where.stem for f in found.findings if f.kind == "sealed" and f.severity == "lost"}
    assert lost <= ({"b20001"} if name == "sealed" and not with_database else set())
    with opened(copy, say=lambda said: None) as results:
        assert set(results.outcomes()) >= SEALED - lost, "what was sealed is known, but for what was hit"
    if name == "database":
        with suppress(duckdb.Error):  # a block that no table of this run needed: reading it is refused, not wrong
            ends_well(copy, worlds)
    else:
        ends_well(copy, worlds)
    mended = repair(copy, dry_run=False, say=lambda said: None)
    assert mended.left == () and repair(copy, dry_run=True).to_repair == ()
    assert tables(copy) == worlds.tables


@pytest.mark.sampled(0, gate=3)
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


@pytest.mark.full
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


@pytest.mark.full
def test_doctor_repairs_before_the_next_run_too(worlds, folder):
    for name in FILES.keys() - {"database"}:
        flip(file_of(folder, name), file_of(folder, name).stat().st_size // 2)
    mended = repair(folder, dry_run=False, say=lambda said: None)
    assert mended.exit_code == 0 and {f.kind for f in mended.findings} >= {
        "damaged line",
        "sealed",
        "verdicts",
        "paces",
    }
    assert repair(folder, dry_run=True).to_repair == ()
    assert ends_well(folder, worlds) == []


# Torn tails


@pytest.mark.full
def test_a_tail_of_the_witness_torn_at_any_byte_is_cut_off_and_nothing_is_lost(folder):
    (folder / FILES["database"]).unlink()
    path = folder / FILES["witness"]
    whole = path.read_bytes()
    last = len(whole) - whole[:-1].rfind(b"\n") - 1
    for bytes_left in range(last):
        path.write_bytes(whole[: len(whole) - last + bytes_left])
        with Lock(folder):
            make_ready(folder, pytest.fail)
        now = Snapshot(folder)
        assert set(now.endings) == SEALED and now.lost == {} and now.unlisted == ()
        assert path.read_bytes() == whole, "the very same line"


def test_a_tail_of_a_segment_torn_at_any_byte_is_cut_off(folder):
    path = folder / FILES["segment"]
    whole = path.read_bytes()
    last = len(whole) - whole[:-1].rfind(b"\n") - 1
    for bytes_left in range(1, last - 1):
        said = []
        path.write_bytes(whole[: len(whole) - last + bytes_left])
        assert continue_trial(folder, OPEN, said.append).resume.step == 20
        one_line(said, OPEN, f"ends in the middle of a line; {bytes_left} bytes are cut off")


# Damaged files and lines


def test_a_plan_comes_again_with_the_next_run_without_the_database(folder, worlds):
    (folder / FILES["database"]).unlink()
    flip(file_of(folder, "plans"), 100)
    one_line(ends_well(folder, worlds), "lost: plans/", "changed; it is kept as ", "`ablate run` of its space")
    now = Snapshot(folder)
    assert len(now.plans.specifications) == 6 and now.plans.current("small") and now.lost == {}


def test_a_newer_plan_that_is_damaged_is_got_back_and_not_the_older_one(folder):
    with opened(folder) as results:
        results.record_plan(plan(seeds=(0,)), DOCUMENTS)
        results.refresh()
    said = []
    flip(file_of(folder, "plans"), 100)
    with opened(folder, say=said.append) as results:
        assert results.plan("small")["seeds"] == [0]
    one_line(said, "plans/", "recovered from ablate.duckdb")


def test_an_older_plan_in_the_database_does_not_come_back(folder):
    with opened(folder) as results:
        results.record_plan(plan(seeds=(0,)), DOCUMENTS)  # and the database is not brought up to it
    with opened(folder) as results:
        assert results.plan("small")["seeds"] == [0]
    assert len(list((folder / "plans").iterdir())) == 1


def test_a_line_damaged_while_its_trial_runs_is_not_sealed_over(folder, worlds):
    with opened(folder) as results:
        start = results.begin(trial("c3", 0, id=OPEN))
        hear(results, OPEN, course(OPEN, after=start.resume.step)[:-1])
        flip(folder / FILES["segment"], (folder / FILES["segment"]).stat().st_size - 300)
        with pytest.raises(RefusedError, match="was damaged while it was being written, in line"):
            results.append(OPEN, course(OPEN)[-1:])
    assert f"the journal of trial {OPEN} is damaged in line" in ends_well(folder, worlds)[0]
