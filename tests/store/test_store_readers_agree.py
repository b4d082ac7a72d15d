"""Whatever a killed driver left and whatever was lost of it, every reader agrees with the sealed files that are there,
or says what is missing; and the doctor alone brings back what the DuckDB file has.

How folders are left, harmed and read stands in `harmed_folders`, which recomputes everything from the files.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import duckdb
import pyarrow.parquet
import pytest
from example_counts import examples_of
from harmed_folders import ANY, HARMS, READERS, Left, Silent, agrees, harmed, left_behind
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ablate.store import files
from ablate.store.files import digest_of
from ablate.store.repair import repair
from ablate.store.snapshot import Snapshot

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def left(tmp_path_factory) -> list[Left]:
    return left_behind(tmp_path_factory.mktemp("left"))


Case = tuple[str, str, str, str]
"""A durable step, a kind of file, a harm, and a reader."""
CHEAP = ("status", "python")
"""Readers that need no database."""


def pairwise(left: list[Left]) -> list[Case]:
    """Cases in which every two of steps, kinds, harms and readers that can come together do; few of slow readers."""
    there = dict.fromkeys((one.step, kind) for one in left for kind in ANY if one.files(kind))
    every = [(*place, harm, reader) for place in there for harm in HARMS for reader in READERS]
    open = {pair for case in every for pair in pairs_of(case)}
    cases = []
    while open:
        case = max(every, key=lambda case: (len(open & pairs_of(case)), case[3] in CHEAP))
        cases.append(case)
        open -= pairs_of(case)
    return cases


def pairs_of(case: Case) -> set[tuple[str, str]]:
    return set(itertools.combinations(case, 2))


def hold(left: list[Left], place: Path, case: Case, turn: int) -> None:
    """Try one case, in one of the folders that such a step has left."""
    step, kind, harm, reader = case
    those = [one for one in left if one.step == step and one.files(kind)]
    with harmed(those[turn % len(those)], place / "copy", kind, harm, turn) as (folder, path):
        agrees(reader, folder, path)


@pytest.mark.sampled(1, gate="all")
@pytest.mark.parametrize("kind", ANY)
def test_every_reader_agrees_with_the_sealed_files_or_says_what_is_missing(left, tmp_path, kind):
    for turn, case in enumerate(case for case in pairwise(left) if case[1] == kind):
        hold(left, tmp_path, case, turn)


@pytest.mark.full
def test_every_reader_agrees_with_what_a_killed_driver_left(left):
    last = {one.step: one for one in left}
    for turn, one in enumerate(last.values()):
        for reader in (*CHEAP, [*READERS.keys() - CHEAP][turn % 3]):
            agrees(reader, one.folder)


@pytest.mark.crash
@pytest.mark.parametrize("kind", ANY)
@pytest.mark.parametrize("harm", HARMS)
def test_every_reader_agrees_at_every_moment(left, tmp_path, kind, harm):
    for turn, (one, reader) in enumerate(itertools.product(left, READERS)):
        if one.files(kind):
            with harmed(one, tmp_path / "copy", kind, harm, turn) as (folder, path):
                agrees(reader, folder, path)


@pytest.mark.crash
@settings(
    max_examples=examples_of(300), deadline=None, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.data())
def test_every_reader_agrees_at_any_moment(left, tmp_path, data):
    one = data.draw(st.sampled_from(left))
    kind = data.draw(st.sampled_from([kind for kind in ANY if one.files(kind)] or ["none"]))
    if kind != "none":
        harm, which = data.draw(st.sampled_from([*HARMS])), data.draw(st.integers(0, 9))
        with harmed(one, tmp_path / "copy", kind, harm, which) as (folder, path):
            agrees(data.draw(st.sampled_from([*READERS])), folder, path)


# Twins: the tests above can fail


def believed(now: Snapshot) -> dict[str, object]:
    return {files.trial_of(name): each.ending for name, each in now.witness.written.items() if each.ending}


@pytest.mark.parametrize("reader", CHEAP)
def test_a_reader_that_trusts_the_witness_alone_is_caught(left, tmp_path, monkeypatch, reader):
    with harmed(left[-1], tmp_path / "copy", "sealed", "gone") as (folder, path):
        agrees(reader, folder, path)
        monkeypatch.setattr(Snapshot, "endings", property(believed))
        with pytest.raises(AssertionError):
            agrees(reader, folder, path)


def test_a_reader_that_keeps_a_loss_to_itself_is_caught(left, tmp_path, monkeypatch):
    with harmed(left[-1], tmp_path / "copy", "verdicts", "gone", -1) as (folder, path):
        agrees("python", folder, path)
        monkeypatch.setattr(Snapshot, "lost", {})
        with pytest.raises(Silent, match=f"does not say that verdicts/{path.name} is lost"):
            agrees("python", folder, path)


# The doctor


def brings_back(one: Left, place: Path, kind: str, harm: str, which: int) -> None:
    """Repair a harmed folder, and nothing else: it is whole again, or it is said what is lost and what follows."""
    with harmed(one, place, kind, harm, which) as (folder, path):
        name, listed = str(path.relative_to(folder)), Snapshot(folder).witness.written
        whole = (one.folder / name).read_bytes()
        held = kind == "database" or _has(folder / "ablate.duckdb", name, whole)
        done = repair(folder, dry_run=False, say=lambda said: None)
        lost = [found for found in done.findings if found.severity == "lost"]
        assert done.left == ()
        back = path.exists() and (
            _same_rows(path, one.folder / name) if kind == "sealed" else path.read_bytes() == whole
        )
        replaced = name in Snapshot(one.folder).replaced  # by a later file of the same plan: it is of no use
        known = name in listed or harm != "gone"  # of a file that no witness lists only its name says that it was there
        back |= kind == "sealed" and _ended_again(one.folder, path)  # it is sealed with the rows of that
        owns = kind in (*files.DOCUMENTS, files.SOURCES, "sealed") and not replaced
        assert [found.where for found in lost] == ([path] if owns and known and not back else [])
        assert all("ablate run" in found.remedy for found in lost)
        assert back or replaced or not held or kind == "database"
        for reader in READERS:
            agrees(reader, folder, path if path.exists() and not back and kind == "sealed" else None)


def _same_rows(one: Path, other: Path) -> bool:
    """Return whether two sealed files have the same rows; those of a diverged trial have NaN, which equals nothing."""
    return repr(pyarrow.parquet.read_table(one).to_pylist()) == repr(pyarrow.parquet.read_table(other).to_pylist())


def _ended_again(folder: Path, sealed: Path) -> bool:
    """Return whether the journal of a trial has the end of another attempt than the one that is sealed."""
    journal = folder / "journal" / f"{sealed.stem}.jsonl"
    attempt = json.loads(pyarrow.parquet.read_schema(folder / "trials" / sealed.name).metadata[b"ablate"])["attempt"]
    lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
    records = [json.loads(line.partition(" ")[2]) for line in lines if line.endswith("\n")]
    began = [record[1]["attempt"] for record in records if record[0] == "begin"]
    return began[-1:] > [attempt] and any(record[0] == "outcome" for record in records)


def _has(database: Path, name: str, whole: bytes) -> bool:
    """Return whether a DuckDB file has the very content of a file."""
    if not database.exists():
        return False
    with duckdb.connect(database, read_only=True) as connection:
        if name.startswith("trials/"):
            ending = json.loads(pyarrow.parquet.read_schema(pyarrow.BufferReader(whole)).metadata[b"ablate"])
            found = connection.execute("SELECT digest FROM trials WHERE trial_id = ?", [ending["trial"]]).fetchone()
            return found == (ending["digest"],)
        found = connection.execute("SELECT content FROM files WHERE name = ?", [name]).fetchone()
        return found is not None and digest_of(found[0]) == digest_of(whole)


@pytest.mark.sampled(1, gate="all")
@pytest.mark.parametrize(("kind", "harm"), [*zip(ANY, itertools.cycle(HARMS)), ("sealed", "gone"), ("verdicts", "cut")])
def test_the_doctor_alone_brings_back_what_the_database_has(left, tmp_path, kind, harm):
    whole = next(one for one in reversed(left) if one.files(kind))
    brings_back(whole, tmp_path / "copy", kind, harm, 0)


@pytest.mark.sampled(1, gate="all")
@pytest.mark.parametrize("kind", ["sealed", "verdicts", "plans"])
def test_of_what_the_database_has_not_yet_the_doctor_says_what_is_lost(left, tmp_path, kind):
    behind = [one for one in left if one.step == "put database" and one.files(kind)]
    for which, one in enumerate(behind[:2]):
        brings_back(one, tmp_path / "copy", kind, "gone", which - 1)


@pytest.mark.full
@pytest.mark.parametrize("harm", HARMS)
def test_what_a_crash_left_twice_is_not_lost(left, tmp_path, harm):
    """A trial that is sealed and still in its journal; a plan beside what it grew to. One of the two is harmed."""
    sealed = next(one for one in left if one.step == "append to witness" and one.files("sealed"))
    grown = {one.step: one for one in left if len(one.files("plans")) > 1}
    assert {"append to witness", "delete plans"} <= grown.keys()
    for one, kind in ((sealed, "sealed"), *((one, "plans") for one in grown.values())):
        for which in range(len(one.files(kind))):
            brings_back(one, tmp_path / "copy", kind, harm, which)


@pytest.mark.crash
@pytest.mark.parametrize("kind", ANY)
def test_the_doctor_brings_back_what_the_database_has_at_every_moment(left, tmp_path, kind):
    for turn, (one, harm) in enumerate(itertools.product(left, HARMS)):
        if one.files(kind):
            brings_back(one, tmp_path / "copy", kind, harm, turn % len(one.files(kind)))
