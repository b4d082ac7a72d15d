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
from attacks import FILES, HARM, OPEN, SEALED, ends_well, flip, harm, make_worlds, one_line, tables
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from store_fixtures import DOCUMENTS, course, hear, opened, plan, trial

from ablate.errors import RefusedError
from ablate.store import checksummed_lines, ledger
from ablate.store.lock import Lock
from ablate.store.repair import open_trials, repair, text_lines
from ablate.store.repair.faults import put_right
from ablate.store.repair.opening import make_ready


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
    before = (copy / FILES[name]).read_bytes() if (copy / FILES[name]).exists() else b""
    if not before or not harm(copy / FILES[name], *damage):
        return
    found = repair(copy, dry_run=True)
    if damage[0] == "flip" and name != "database":
        assert [f for f in found.to_repair if f.where == copy / FILES[name]], "a changed bit is always noticed"
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
    for name in ("segment", "outcomes", "plans", "sealed", "checkpoint"):
        flip(folder / FILES[name], (folder / FILES[name]).stat().st_size // 2)
    mended = repair(folder, dry_run=False, say=lambda said: None)
    assert mended.exit_code == 0 and {f.kind for f in mended.findings} >= {"damaged line", "sealed"}
    assert repair(folder, dry_run=True).to_repair == ()
    assert ends_well(folder, worlds) == []


# Torn tails


@pytest.mark.full
def test_a_tail_of_the_index_torn_at_any_byte_is_cut_off_and_nothing_is_lost(folder):
    (folder / FILES["database"]).unlink()
    path = folder / FILES["outcomes"]
    whole = path.read_bytes()
    last = len(whole) - whole[:-1].rfind(b"\n") - 1
    for bytes_left in range(last - 1):
        said = []
        path.write_bytes(whole[: len(whole) - last + bytes_left])
        with Lock(folder):
            _, endings = make_ready(folder, said.append)
        assert set(endings) == SEALED
        torn = [f"{path} ends in the middle of a line; {bytes_left} bytes are cut off"] if bytes_left else []
        assert said == [*torn, f"{path} did not list trial b20001; listed again from the sealed files"]
        assert set(ledger.known_outcomes(folder)) == SEALED


@pytest.mark.full
@pytest.mark.parametrize("name", ["outcomes", "plans", "segment"])
def test_a_last_line_that_lacks_its_newline_alone_is_kept_and_nothing_is_said_of_it(folder, worlds, name):
    (folder / FILES["database"]).unlink()
    path = folder / FILES[name]
    path.write_bytes(path.read_bytes()[:-1])
    assert ends_well(folder, worlds) == []
    assert repair(folder, dry_run=True).findings == ()


@pytest.mark.full
def test_a_tail_of_the_plans_torn_at_any_byte_is_cut_off(folder, worlds):
    path = folder / FILES["plans"]
    whole = path.read_bytes()
    last = len(whole) - whole[:-1].rfind(b"\n") - 1
    for bytes_left in range(1, last - 1):
        said = []
        path.write_bytes(whole[: len(whole) - last + bytes_left])
        put_right(text_lines.torn(path, checksummed_lines.read(path)), said.append)
        known = ledger.kept_plans(checksummed_lines.read(path))
        one_line(said, str(path), f"ends in the middle of a line; {bytes_left} bytes are cut off")
        assert len(known.trials) == 6 and known.plans == {}
    one_line(ends_well(folder, worlds), str(path), "lacked 1 plan; recovered from ablate.duckdb")


def test_a_tail_of_a_segment_torn_at_any_byte_is_cut_off(folder):
    path = folder / FILES["segment"]
    whole = path.read_bytes()
    last = len(whole) - whole[:-1].rfind(b"\n") - 1
    for bytes_left in range(1, last - 1):
        said = []
        path.write_bytes(whole[: len(whole) - last + bytes_left])
        assert open_trials.go_on(folder, OPEN, said.append).resume.step == 20
        one_line(said, OPEN, f"ends in the middle of a line; {bytes_left} bytes are cut off")


# Damaged lines


def test_specifications_and_plans_come_again_with_the_next_run_without_the_database(folder, worlds):
    (folder / FILES["database"]).unlink()
    path = folder / FILES["plans"]
    flip(path, 100)
    flip(path, path.stat().st_size - 100)
    before = len(ledger.kept_plans(checksummed_lines.read(path)).trials)
    one_line(ends_well(folder, worlds), str(path), "is damaged in line 1, 8", "`ablate doctor` removes it")
    after = ledger.kept_plans(checksummed_lines.read(path))
    assert (before, len(after.trials), set(after.plans)) == (5, 6, {"small"})


def test_a_newer_plan_in_a_damaged_line_is_got_back_and_not_the_older_one(folder):
    with opened(folder) as results:
        results.record_plan(plan(seeds=(0,)), DOCUMENTS)
        results.refresh()
    path, said = folder / FILES["plans"], []
    flip(path, path.stat().st_size - 100)
    with opened(folder, say=said.append) as results:
        assert results._kept.plans["small"][1]["seeds"] == [0]
    assert "lacked 1 plan; recovered" in said[-1]


def test_an_older_plan_in_the_database_does_not_come_back(folder):
    with opened(folder) as results:
        results.record_plan(plan(seeds=(0,)), DOCUMENTS)  # and the database is not brought up to it
    with opened(folder) as results:
        assert results._kept.plans["small"][1]["seeds"] == [0]


def test_a_line_damaged_while_its_trial_runs_is_not_sealed_over(folder, worlds):
    with opened(folder) as results:
        start = results.begin(trial("c3", 0, id=OPEN))
        hear(results, OPEN, course(OPEN, after=start.resume.step)[:-1])
        flip(folder / FILES["segment"], (folder / FILES["segment"]).stat().st_size - 300)
        with pytest.raises(RefusedError, match="was damaged while it was being written, in line"):
            results.append(OPEN, course(OPEN)[-1:])
    assert f"the journal of trial {OPEN} is damaged in line" in ends_well(folder, worlds)[0]
