"""The doctor finds what was done to the journal, changes nothing by looking, and puts right what can be put right."""

from __future__ import annotations

import shutil

import duckdb
import pyarrow.parquet
import pytest
from attacks import FILES, OPEN, file_of, flip, half_way, mended, only, run, tables
from store_fixtures import VERSIONS, course, hear, opened, trial

from ablate.errors import InputError
from ablate.store import durable, files, journal, sealed
from ablate.store.durable import Appender
from ablate.store.repair import repair
from ablate.store.snapshot import Snapshot


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    place = tmp_path_factory.mktemp("doctor") / "half"
    half_way(place)
    return place


@pytest.fixture
def folder(half, tmp_path):
    return shutil.copytree(half, tmp_path / "results")


def test_a_sound_folder_has_nothing_and_repairing_it_changes_nothing(folder):
    findings = repair(folder, dry_run=True)
    assert (findings.findings, findings.holder, findings.exit_code) == ((), None, 0)
    assert findings.looked_at == {
        "plan": 1,
        "specification": 6,
        "ended trial": 4,
        "row": 4 * sum(type(event).__name__ == "Row" for event in course("a10000")),
        "open trial": 1,
        "checkpoint": 1,
    }
    before = tables(folder), (folder / FILES["database"]).stat().st_ino, sorted(map(str, folder.rglob("*")))
    assert repair(folder, dry_run=False, say=pytest.fail).findings == ()
    assert before == (tables(folder), (folder / FILES["database"]).stat().st_ino, sorted(map(str, folder.rglob("*"))))


def test_a_folder_without_results_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"no results in .*\n  = run a space first"):
        repair(tmp_path, dry_run=True)


# Documents, sources and the witness


@pytest.mark.sampled(1, gate="all")
@pytest.mark.parametrize("kind", [*files.DOCUMENTS, files.SOURCES])
@pytest.mark.parametrize("database", [True, False])
def test_a_damaged_file_is_named_and_comes_back_from_the_database_alone(folder, kind, database):
    path, before = file_of(folder, kind), tables(folder)
    whole = path.read_bytes()
    if not database:
        (folder / FILES["database"]).unlink()
    flip(path, len(whole) // 2)
    damaged = path.read_bytes()
    found = next(found for found in repair(folder, dry_run=True).findings if found.kind != "database")
    assert (found.where, found.severity) == (path, "repaired" if database else "lost")
    assert found.what == "is not as it was written: some of its bytes have changed"
    again = "judge" if kind == "tables" else "run"
    assert ("recovered from ablate.duckdb" if database else again) in found.remedy
    mended(folder, code=0 if database else 1)
    assert (folder / "damaged" / path.name).read_bytes() == damaged
    assert (path.read_bytes() == whole and tables(folder) == before) if database else not path.exists()
    shutil.rmtree(folder / "damaged")
    assert repair(folder, dry_run=True).findings == (), "what is lost is said once"


@pytest.mark.full
def test_a_lost_plan_comes_back_with_the_next_run(folder):
    (folder / FILES["database"]).unlink()
    file_of(folder, "plans").unlink()
    findings = repair(folder, dry_run=False, say=lambda said: None)
    assert findings.exit_code == 1 and [f.kind for f in findings.findings if f.severity == "lost"] == ["specification"]
    run(folder, pytest.fail)
    assert repair(folder, dry_run=True).findings == ()


def test_a_torn_line_of_the_witness_is_cut_off(folder):
    with (folder / FILES["witness"]).open("ab") as file:
        file.write(b'0123abcd ["half a l')
    found = only(folder)
    assert (found.kind, found.what) == ("torn", "ends in the middle of a line (19 bytes)")
    mended(folder)
    assert repair(folder, dry_run=True).findings == ()


@pytest.mark.full
def test_a_damaged_line_of_the_witness_is_written_again_from_the_file(folder):
    path, before = folder / FILES["witness"], Snapshot(folder).witness.written
    flip(path, 30)
    found = repair(folder, dry_run=True).to_repair
    assert [(f.kind, f.line) for f in found if f.where == path] == [("damaged line", 1)]
    mended(folder)
    now = Snapshot(folder).witness
    assert now.written == before and now.damaged == () and len(list((folder / "damaged").iterdir())) == 1


@pytest.mark.full
def test_lines_of_a_later_version_in_the_witness_are_passed_over(folder):
    appender = Appender(folder / FILES["witness"])
    appender.write([["verdict", 1], ["verdict", 2]])
    appender.close()
    assert repair(folder, dry_run=True).findings == ()


# Sealed files


@pytest.mark.full
def test_a_damaged_file_whose_rows_the_database_has_is_sealed_anew(folder):
    path, digest = folder / FILES["sealed"], Snapshot(folder).endings["b20001"].digest
    flip(path, 200)
    found = only(folder)
    assert found.what == "is not as it was sealed: some of its bytes have changed"
    assert "kept in damaged; its rows are sealed again from ablate.duckdb" in found.remedy
    mended(folder)
    assert Snapshot(folder).endings["b20001"].digest == digest
    assert sealed.digest(pyarrow.parquet.read_table(path)) == digest
    assert (folder / "damaged" / "b20001.parquet").exists()


@pytest.mark.full
def test_a_damaged_file_whose_rows_the_database_has_otherwise_is_lost(folder):
    flip(folder / FILES["sealed"], 200)
    with duckdb.connect(folder / FILES["database"]) as connection:
        connection.execute("UPDATE metrics SET value = nextafter(value, 9) WHERE trial_id = 'b20001' AND step = 10")
    lost = [f for f in repair(folder, dry_run=True).findings if f.severity == "lost"]
    assert [(f.where, f.remedy) for f in lost] == [
        (folder / FILES["sealed"], "kept in damaged; the next `ablate run` of its space trains it again")
    ]
    mended(folder, code=1)
    assert "b20001" not in Snapshot(folder).outcomes()
    assert repair(folder, dry_run=True).exit_code == 1, "it stays lost until it is trained again"
    run(folder, lambda said: None)
    assert "b20001" in Snapshot(folder).outcomes() and repair(folder, dry_run=True).to_repair == ()
    assert repair(folder, dry_run=True).exit_code == 0


@pytest.mark.full
@pytest.mark.parametrize("harm", ["another trial", "other rows", "other columns", "empty"])
def test_a_file_that_the_witness_does_not_list_has_to_prove_itself(folder, harm):
    path = folder / FILES["sealed"]
    (folder / FILES["witness"]).unlink()
    (folder / FILES["database"]).unlink()
    file_of(folder, "verdicts").unlink()
    content = pyarrow.parquet.read_table(path)
    if harm == "another trial":
        shutil.copy(path, folder / "trials" / "c30001.parquet")
    elif harm == "other rows":
        pyarrow.parquet.write_table(content.slice(1), path)
    elif harm == "other columns":
        pyarrow.parquet.write_table(content.drop_columns(["step"]), path)
    else:
        path.write_bytes(b"")
    (found,) = [f for f in repair(folder, dry_run=True).findings if f.severity == "lost"]
    assert {
        "another trial": "is of another trial, b20001",
        "other rows": "has other numbers than were sealed",
        "other columns": "has other columns than a sealed trial",
        "empty": "is empty",
    }[harm] == found.what
    mended(folder, code=1)
    assert len(Snapshot(folder).endings) == (4 if harm == "another trial" else 3)


@pytest.mark.full
def test_files_that_the_witness_does_not_list_are_listed(folder):
    path = folder / FILES["witness"]
    whole = path.read_bytes()
    path.unlink()
    found = repair(folder, dry_run=True).findings
    assert {(f.kind, f.what) for f in found} == {("unlisted", "is not listed in witness.jsonl")}
    mended(folder)
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines()), "the very same lines"


@pytest.mark.full
def test_a_lost_line_of_a_later_attempt_does_not_bring_the_earlier_one_back(folder):
    with opened(folder) as results:
        results.begin_anew([trial()])
        results.begin(trial())
        hear(results, "a10000", course("a10000")[3:])
    path = folder / FILES["witness"]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    found = repair(folder, dry_run=True).findings[0]
    assert (found.kind, found.where.stem) == ("unlisted", "a10000")
    mended(folder)
    assert Snapshot(folder).endings["a10000"].attempt == 2


# Segments and checkpoints


@pytest.mark.full
def test_a_damaged_segment_goes_on_from_the_checkpoint_above_the_damage(folder):
    path = folder / FILES["segment"]
    flip(path, path.stat().st_size - 100)
    found = only(folder)
    assert (found.kind, found.remedy) == ("damaged line", "the trial continues from step 20")
    assert found.line == path.read_bytes()[: path.stat().st_size - 100].count(b"\n") + 1
    mended(folder)
    assert journal.read(path).marks[-1].end == path.stat().st_size
    assert (folder / "damaged" / path.name).exists()


@pytest.mark.full
def test_a_damaged_checkpoint_costs_its_trial_the_start(folder):
    flip(folder / FILES["checkpoint"], 3)
    found = only(folder)
    assert (found.where, found.what, found.remedy) == (
        folder / FILES["checkpoint"],
        "is gone or has changed since it was written",
        "the trial starts over",
    )
    mended(folder)


@pytest.mark.full
def test_a_checkpoint_of_nobody_is_deleted(folder):
    (folder / "checkpoints" / "a10000.20.pt").write_bytes(b"old")
    assert only(folder).what == "is of a trial that is not being trained"
    mended(folder)


def test_an_outcome_that_is_not_sealed_is_sealed(folder):
    appender = Appender(folder / FILES["segment"])
    appender.write([["outcome", "bug", 30, {"error": "ValueError"}, 1.8e9]])
    appender.close()
    found = only(folder)
    assert (found.kind, found.what) == ("outcome", "has ended (bug) but is not sealed")
    mended(folder)
    assert Snapshot(folder).outcomes()[OPEN].kind == "bug"


@pytest.mark.full
@pytest.mark.parametrize("harm", ["headless", "already sealed"])
def test_a_segment_that_says_nothing_new_is_put_away(folder, harm):
    path = folder / FILES["segment"]
    if harm == "headless":
        flip(path, 20)
        assert repair(folder, dry_run=True).findings[0].what == "has lost its first line"
    else:
        beginning = journal.Beginning("a10000", 1, 1.8e9, VERSIONS)
        path = journal.path_of(folder, "a10000")
        path.write_bytes(durable.encoded_line(journal.begin_record(beginning)))
        assert only(folder).what == "is of a trial that is already sealed"
    mended(folder)
    assert not path.exists()
