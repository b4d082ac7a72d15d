"""A dry run of a repair writes nothing, and what it says it would do is what the repair then does: no more, no less."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import duckdb
import pytest
from attacks import FILES, HARM, OPEN, flip, half_way, harm
from example_counts import examples_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from store_fixtures import VERSIONS, rows_at

from ablate.store import checksummed_lines, mirror, open_trial, requests, sealed
from ablate.store.checksummed_lines import Appender
from ablate.store.repair import repair
from ablate.store.repair.report import Repaired
from ablate.store.requests import Request

KEPT = "damaged"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A place with a folder half-way through a plan, which says how it was asked for."""
    place = tmp_path_factory.mktemp("repair")
    half_way(place / "half")
    for at in (1.0, 2.0):
        requests.record(place / "half", Request(space="small", path="/spaces/small.yaml", at=at))
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
    os.utime(folder / FILES["plans"], ns=(1, 1))
    assert everything(folder) != before and changed(before, everything(folder), folder) == set()
    flip(folder / FILES["plans"], 30)
    assert changed(before, everything(folder), folder) == {folder / FILES["plans"]}


HARMED = st.lists(st.tuples(st.sampled_from([*FILES, "runs"]), HARM), min_size=1, max_size=3)
UNSHRUNK = {"phases": (Phase.explicit, Phase.generate), "deadline": None, "suppress_health_check": list(HealthCheck)}


TAKEN_OUT = {"damaged line", "sealed", "segment", "checkpoint"}
"""What a repair takes out or replaces; a torn line was never finished, and is cut off."""


def survives(place: Path, harms: list, with_database: bool) -> None:
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place / "half", copy)
    if not with_database:
        (copy / FILES["database"]).unlink()
    hit = {}
    for name, how in harms:
        path = copy / FILES.get(name, "runs.jsonl")
        if path.exists() and path.stat().st_size and harm(path, *how):
            hit[path] = path.read_bytes()
    done = does_what_it_says(copy)
    kept = {path.read_bytes() for path in (copy / KEPT).glob("*")}
    for path, content in hit.items():
        if content and {finding.kind for finding in done.findings if finding.where == path} & TAKEN_OUT:
            assert content in kept, "what was damaged is kept as it was"


@pytest.mark.full
@settings(max_examples=examples_of(15), **UNSHRUNK)
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
    appender = Appender(open_trial.path_of(folder, trial_id))
    appender.write(records)
    appender.close()


def _beginning(trial_id: str, attempt: int = 1) -> list:
    return open_trial.begin_record(open_trial.Beginning(trial_id, attempt, 1.8e9, VERSIONS))


def _claim(folder: Path) -> None:
    (folder / "running").mkdir()
    told = {"pid": 1, "host": "elsewhere", "since": "2026-01-01", "step": 7}
    (folder / "running" / OPEN).write_text(json.dumps(told))
    for name in (f"{OPEN}.trace", "a10000.trace", "silent"):
        (folder / "running" / name).write_text("")


def _without_last(path: Path, word: str) -> None:
    """Take the last line of a kind out."""
    written = path.read_bytes().splitlines(keepends=True)
    place = max(place for place, line in enumerate(written) if line[9:].startswith(f'["{word}"'.encode()))
    path.write_bytes(b"".join(written[:place] + written[place + 1 :]))


def _older_tables(folder: Path) -> None:
    with duckdb.connect(folder / FILES["database"]) as connection:
        connection.execute("UPDATE projection SET sql_digest = 'older'")


ATTACKS = {
    "files that were never finished": lambda f: (f / "trials" / "c30001.parquet.new").write_bytes(b"half"),
    "claims of dead workers": _claim,
    "a checkpoint of nobody": lambda f: (f / "checkpoints" / "a10000.20.pt").write_bytes(b"old"),
    "a checkpoint gone": lambda f: (f / FILES["checkpoint"]).unlink(),
    "an empty segment": lambda f: open_trial.path_of(f, "c30001").write_bytes(b""),
    "a segment of a trial that is sealed": lambda f: _segment(f, "a10000", _beginning("a10000")),
    "a segment of another trial": lambda f: _segment(f, "c30001", _beginning("c30000")),
    "a segment that has ended": lambda f: _segment(f, OPEN, ["outcome", "bug", 30, {}, 1.8e9]),
    "doubled rows": lambda f: _segment(f, OPEN, *open_trial.event_records(rows_at(OPEN, 20)[:1])),
    "a sealed file gone": lambda f: (f / FILES["sealed"]).unlink(),
    "all sealed files gone": lambda f: shutil.rmtree(f / sealed.FOLDER),
    "a sealed file of a trial that was not asked for": lambda f: shutil.copy(
        f / FILES["sealed"], f / "trials" / "other.parquet"
    ),
    "the index gone": lambda f: (f / FILES["outcomes"]).unlink(),
    "a line of the index gone": lambda f: _without_last(f / FILES["outcomes"], "ended"),
    "the plans gone": lambda f: (f / FILES["plans"]).unlink(),
    "the last plan gone": lambda f: _without_last(f / FILES["plans"], "plan"),
    "a specification gone": lambda f: _without_last(f / FILES["plans"], "trial"),
    "the runs gone": lambda f: (f / requests.FILE).unlink(),
    "one run gone": lambda f: _without_last(f / requests.FILE, "run"),
    "lines of a newer version": lambda f: (
        (f / FILES["outcomes"]).open("ab").write(checksummed_lines.encode(["newer", 1]))
    ),
    "the database gone": lambda f: (f / FILES["database"]).unlink(),
    "a database of another version": _older_tables,
    "no database at all": lambda f: (f / FILES["database"]).write_bytes(b"garbage" * 999),
    "the journal gone": lambda f: shutil.rmtree(f / open_trial.FOLDER),
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
