"""A dry run of a repair writes nothing, and what it says it would do is what the repair then does: no more, no less."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import duckdb
import pytest
from attacks import FILES, HARM, OPEN, file_of, flip, half_way, harm
from example_counts import examples_of
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from store_fixtures import VERSIONS, rows_at

from ablate.store import files, journal, mirror
from ablate.store.durable import Appender
from ablate.store.faults import Repaired
from ablate.store.repair import repair

KEPT = "damaged"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A place with a folder half-way through a plan."""
    place = tmp_path_factory.mktemp("repair")
    half_way(place / "half")
    return place


@pytest.fixture
def folder(place, tmp_path):
    return shutil.copytree(place / "half", tmp_path / "results")


def everything(folder: Path) -> dict[Path, tuple[bytes, int, int]]:
    """Every file and folder: what is in it, when it was changed, and its mode."""
    paths = [folder, *sorted(folder.rglob("*"))]
    return {path: (_content(path), (stat := path.stat()).st_mtime_ns, stat.st_mode) for path in paths}


def _content(path: Path) -> bytes:
    return "\n".join(sorted(os.listdir(path))).encode() if path.is_dir() else path.read_bytes()  # noqa: PTH208


def changed(before: dict, after: dict, folder: Path) -> set[Path]:
    """The files that are new, gone, or of another content; what is kept in `damaged/`, and the lock, apart."""
    paths = {path for path in before.keys() | after.keys() if not path.is_dir() and path.name != "lock"}
    apart = {path for path in paths if path.parent == folder / KEPT}
    return {path for path in paths - apart if before.get(path, (None,))[0] != after.get(path, (None,))[0]}


def does_what_it_says(folder: Path) -> Repaired:
    """Look, then repair: the one writes nothing, the other what the one has said."""
    before = everything(folder)
    looked = repair(folder, dry_run=True)
    assert everything(folder) == before, "a dry run writes nothing"
    done = repair(folder, dry_run=False, say=pytest.fail)
    assert done.findings == looked.findings and (looked.done, done.done) == (False, True)
    after = everything(folder)
    differ = changed(before, after, folder)
    named = {path for finding in looked.findings for path in finding.changes}
    brought_up = {folder / FILES["database"]} if looked.to_repair else set()
    assert differ <= named | brought_up, "nothing is changed that was not said"
    for finding in looked.findings:
        assert not finding.changes or differ & {*finding.changes}, f"{finding.what}: {finding.remedy}, and it was not"
    return done


def test_a_sound_folder_is_left_as_it_is(folder):
    before = everything(folder)
    assert does_what_it_says(folder).findings == ()
    assert changed(before, everything(folder), folder) == set()


def test_what_these_tests_compare_sees_a_touch_and_a_flipped_bit(folder):  # they can fail
    before = everything(folder)
    path = file_of(folder, "plans")
    os.utime(path, ns=(1, 1))
    assert everything(folder) != before and changed(before, everything(folder), folder) == set()
    flip(path, 30)
    assert changed(before, everything(folder), folder) == {path}


HARMED = st.lists(st.tuples(st.sampled_from([*FILES]), HARM), min_size=1, max_size=3)
UNSHRUNK = {"phases": (Phase.explicit, Phase.generate), "deadline": None, "suppress_health_check": list(HealthCheck)}


CUT_OFF = {"torn", "leftover"}
"""What a repair deletes without keeping it: it was never finished."""


def survives(place: Path, harms: list, with_database: bool) -> None:
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place / "half", copy)
    if not with_database:
        (copy / FILES["database"]).unlink()
    hit = {}
    for name, how in harms:
        path = next(iter(sorted(copy.glob(FILES[name]))), None)
        if path and path.stat().st_size and harm(path, *how):
            hit[path] = path.read_bytes()
    done = does_what_it_says(copy)
    kept = {path.read_bytes() for path in (copy / KEPT).glob("*")}
    for path, content in hit.items():
        found = [finding for finding in done.findings if finding.where == path]
        if found and all(finding.remedy == "brought up to date" for finding in found):
            whole = (place / "half" / path.name).read_bytes()
            assert rows_in(content, place) == rows_in(whole, place), "what is only brought up to date is not damaged"
        elif content and {finding.kind for finding in found} - CUT_OFF:
            assert content in kept, "what was damaged is kept as it was"


def rows_in(database: bytes, place: Path) -> dict[str, list]:
    """All rows of a database, by table: which byte of a page is used, DuckDB alone knows."""
    (place / "read.duckdb").write_bytes(database)
    with duckdb.connect(place / "read.duckdb", read_only=True) as connection:
        names = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        rows = {name: connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for (name,) in names}
    return {name: list(map(repr, of_table)) for name, of_table in rows.items()}


@pytest.mark.full
@settings(max_examples=examples_of(15), **UNSHRUNK)
@example(harms=[("database", ("flip", 0.3, 2)), ("segment", ("cut", 0.25, 0))], with_database=True)
@given(harms=HARMED, with_database=st.booleans())
def test_of_changed_bytes_what_is_said_is_done(place, harms, with_database):
    survives(place, harms, with_database)


@pytest.mark.fuzz
@settings(max_examples=300, **UNSHRUNK)
@given(harms=HARMED, with_database=st.booleans())
def test_of_many_changed_bytes_what_is_said_is_done(place, harms, with_database):
    survives(place, harms, with_database)


# What lies about, one by one


def _segment(folder: Path, trial_id: str, *records: list) -> None:
    appender = Appender(journal.path_of(folder, trial_id))
    appender.write(records)
    appender.close()


def _beginning(trial_id: str, attempt: int = 1) -> list:
    return journal.begin_record(journal.Beginning(trial_id, attempt, 1.8e9, VERSIONS))


def _claim(folder: Path) -> None:
    (folder / "running").mkdir()
    told = {"pid": 1, "host": "elsewhere", "since": "2026-01-01", "step": 7}
    (folder / "running" / OPEN).write_text(json.dumps(told))
    for name in (f"{OPEN}.trace", "a10000.trace", "silent"):
        (folder / "running" / name).write_text("")


def _older_tables(folder: Path) -> None:
    with duckdb.connect(folder / FILES["database"]) as connection:
        connection.execute("UPDATE projection SET sql_digest = 'older'")


def _older_plan(folder: Path) -> None:
    """The same plan with another number, and so under another name, as a run leaves it that is killed before it is
    deleted."""
    now = json.loads(file_of(folder, "plans").read_bytes())
    content = files.encoded({key: value for key, value in now.items() if key not in ("format", "number")}, 0)
    (folder / "plans" / f"{now['plan']}.{files.digest_of(content)}.json").write_bytes(content)


def _without_last_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


ATTACKS = {
    "files that were never finished": lambda f: (f / "trials" / "c30001.parquet.new").write_bytes(b"half"),
    "claims of dead workers": _claim,
    "a checkpoint of nobody": lambda f: (f / "checkpoints" / "a10000.20.pt").write_bytes(b"old"),
    "a checkpoint gone": lambda f: (f / FILES["checkpoint"]).unlink(),
    "an empty segment": lambda f: journal.path_of(f, "c30001").write_bytes(b""),
    "a segment of a trial that is sealed": lambda f: _segment(f, "a10000", _beginning("a10000")),
    "a segment of another trial": lambda f: _segment(f, "c30001", _beginning("c30000")),
    "a segment that has ended": lambda f: _segment(f, OPEN, ["outcome", "bug", 30, {}, 1.8e9]),
    "doubled rows": lambda f: _segment(f, OPEN, *journal.event_records(rows_at(OPEN, 20)[:1])),
    "a sealed file gone": lambda f: (f / FILES["sealed"]).unlink(),
    "all sealed files gone": lambda f: shutil.rmtree(f / files.TRIALS),
    "a sealed file under a document's name": lambda f: shutil.copy(f / FILES["sealed"], file_of(f, "runs")),
    "a sealed file of a trial that was not asked for": lambda f: shutil.copy(
        f / FILES["sealed"], f / "trials" / "other.parquet"
    ),
    **{f"{kind} gone": lambda f, kind=kind: shutil.rmtree(f / kind) for kind in (*files.DOCUMENTS, files.SOURCES)},
    "a plan that was replaced": lambda f: _older_plan(f),
    "the witness gone": lambda f: (f / FILES["witness"]).unlink(),
    "a line of the witness gone": lambda f: _without_last_line(f / FILES["witness"]),
    "the database gone": lambda f: (f / FILES["database"]).unlink(),
    "a database of another version": _older_tables,
    "no database at all": lambda f: (f / FILES["database"]).write_bytes(b"garbage" * 999),
    "the journal gone": lambda f: shutil.rmtree(f / journal.JOURNAL),
}


@pytest.mark.sampled(0, gate=10)
@pytest.mark.parametrize("attack", ATTACKS)
def test_of_every_attack_what_is_said_is_done(folder, attack):
    ATTACKS[attack](folder)
    assert does_what_it_says(folder).findings
    again = repair(folder, dry_run=True)
    assert not [finding for finding in again.to_repair if finding.severity == "repaired"]


@pytest.mark.full
def test_all_attacks_at_once(folder):
    for attack, do in ATTACKS.items():
        if "gone" not in attack and "database" not in attack:
            do(folder)
    assert len(does_what_it_says(folder).findings) > 8


def test_a_damaged_state_and_the_rows_behind_it_are_kept(folder):
    flip(folder / FILES["checkpoint"], 3)
    state, rows = ((folder / FILES[name]).read_bytes() for name in ("checkpoint", "segment"))
    does_what_it_says(folder)
    assert {path.read_bytes() for path in (folder / KEPT).iterdir()} == {state, rows}


@pytest.mark.full
def test_looking_at_mlflow_writes_nothing(folder):
    mirror.mirror(folder)
    repair(folder, dry_run=True, mirror=mirror.examine)
    before = everything(folder)
    assert repair(folder, dry_run=True, mirror=mirror.examine).findings == ()
    (folder / FILES["database"]).unlink()
    del before[folder / FILES["database"]]
    repair(folder, dry_run=True, mirror=mirror.examine)
    after = everything(folder)
    assert {path for path in after if path != folder and after[path] != before[path]} == set()
