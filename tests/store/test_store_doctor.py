"""The doctor finds what was done to the journal, changes nothing by looking, and puts right what can be put right."""

from __future__ import annotations

import shutil

import duckdb
import pyarrow.parquet
import pytest
from attacks import FILES, OPEN, flip, half_way, mended, only, run, tables
from store_fixtures import VERSIONS, course, fill, hear, opened, trial

from ablate.errors import InputError
from ablate.store import checksummed_lines, ledger, open_trial, projection, sealed
from ablate.store.checksummed_lines import Appender
from ablate.store.repair import repair


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


# Lines


@pytest.mark.full
@pytest.mark.parametrize("name", ["outcomes", "plans"])
def test_a_damaged_line_is_named_taken_out_and_made_good(folder, name):
    path, before = folder / FILES[name], tables(folder)
    flip(path, 300)
    damaged = path.read_bytes()
    found = repair(folder, dry_run=True).findings[0]
    assert (found.kind, found.where, found.line, found.severity) == ("damaged line", path, 1, "repaired")
    mended(folder)
    assert checksummed_lines.read(path).damaged == () and tables(folder) == before
    (kept,) = (folder / "damaged").iterdir()
    assert kept.read_bytes().startswith(damaged)
    shutil.rmtree(folder / "damaged")
    assert repair(folder, dry_run=True).findings == ()


@pytest.mark.full
def test_a_damaged_specification_is_lost_without_the_database(folder):
    (folder / FILES["database"]).unlink()
    flip(folder / FILES["plans"], 300)
    findings = repair(folder, dry_run=True)
    assert findings.exit_code == 1
    assert {(f.kind, f.severity) for f in findings.findings} == {
        ("damaged line", "lost"),
        ("specification", "lost"),
        ("database", "repaired"),
    }
    findings = repair(folder, dry_run=False, say=lambda said: None)
    assert [(f.kind, f.severity) for f in findings.left] == [("specification", "lost")], "it is still not there"
    run(folder, pytest.fail)
    assert repair(folder, dry_run=True).to_repair == ()


@pytest.mark.full
def test_a_line_of_a_later_version_is_left_as_it_is(folder):
    appender = Appender(folder / "outcomes.jsonl")
    appender.write([["verdict", 1], ["verdict", 2]])
    appender.close()
    found = only(folder, "harmless")
    assert found.what == "has 2 lines of a kind that this version does not know"
    mended(folder)
    assert only(folder, "harmless") == found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["outcomes.jsonl", "plans.jsonl", "runs.jsonl"])
def test_a_torn_line_is_cut_off(folder, name):
    with (folder / name).open("ab") as file:
        file.write(b'0123abcd ["half a l')
    found = only(folder)
    assert (found.kind, found.what) == ("torn", "ends in the middle of a line (19 bytes)")
    mended(folder)
    assert repair(folder, dry_run=True).findings == ()


@pytest.mark.full
@pytest.mark.parametrize("name", ["outcomes", "plans", "segment"])
@pytest.mark.parametrize("place", ["last", "middle"])
def test_a_line_that_has_lost_its_newline_loses_nothing_else(folder, name, place):
    path, before = folder / FILES[name], tables(folder)
    written, whole = path.read_bytes(), checksummed_lines.read(path)
    end = whole.ends[-1 if place == "last" else 1]
    path.write_bytes(written[: end - 1] + written[end:])
    (folder / FILES["database"]).unlink()
    findings = repair(folder, dry_run=True).findings
    assert [(f.kind, f.severity, f.line, f.what) for f in findings if f.kind != "database"] == [
        ("torn", "repaired", len(whole.bodies) if place == "last" else 2, "is complete except for its newline")
    ]
    mended(folder)
    assert path.read_bytes() == written and tables(folder) == before
    assert (folder / "damaged").exists() == (place == "middle")


# Sealed files


@pytest.mark.full
def test_a_damaged_file_whose_rows_the_database_has_is_sealed_anew(folder):
    path, digest = folder / FILES["sealed"], known(folder)["b20001"].digest
    flip(path, 200)
    found = only(folder)
    assert found.what == "is not as it was sealed: some of its bytes have changed"
    assert "kept in damaged; its rows are sealed again from ablate.duckdb" in found.remedy
    mended(folder)
    assert known(folder)["b20001"].digest == digest
    assert sealed.digest(pyarrow.parquet.read_table(path)) == digest
    assert (folder / "damaged" / "b20001.parquet").exists()


def known(folder):
    return ledger.endings(checksummed_lines.read(folder / "outcomes.jsonl"))


@pytest.mark.full
def test_a_damaged_file_whose_rows_the_database_has_otherwise_is_lost(folder):
    flip(folder / FILES["sealed"], 200)
    with duckdb.connect(folder / FILES["database"]) as connection:
        connection.execute("UPDATE metrics SET value = nextafter(value, 9) WHERE trial_id = 'b20001' AND step = 10")
    lost = [f for f in repair(folder, dry_run=True).findings if f.severity == "lost"]
    assert [(f.where, f.remedy) for f in lost] == [
        (folder / FILES["sealed"], "kept in damaged; the trial is trained again by the next run that needs it")
    ]
    mended(folder, code=1)
    assert "b20001" not in ledger.known_outcomes(folder)
    said = []
    run(folder, said.append)
    assert said == [], "what is lost is said once, and not at each start"
    assert "b20001" in ledger.known_outcomes(folder)


@pytest.mark.full
@pytest.mark.parametrize("harm", ["another trial", "other rows", "other columns", "empty"])
def test_a_file_that_the_index_does_not_list_has_to_prove_itself(folder, harm):
    path = folder / FILES["sealed"]
    (folder / "outcomes.jsonl").unlink()
    (folder / FILES["database"]).unlink()
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
    assert len(known(folder)) == (4 if harm == "another trial" else 3)


@pytest.mark.full
def test_a_file_that_the_index_does_not_list_is_listed(folder):
    path = folder / "outcomes.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[1:]))
    found = only(folder)
    assert (found.kind, found.what) == ("unlisted", "is not listed in outcomes.jsonl")
    mended(folder)
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines()), "the very same line"


@pytest.mark.full
def test_a_lost_line_of_a_later_attempt_does_not_bring_the_earlier_one_back(folder):
    with opened(folder) as results:
        results.begin_anew([trial()])
        results.begin(trial())
        hear(results, "a10000", course("a10000"))
    path = folder / "outcomes.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    found = repair(folder, dry_run=True).findings[0]
    assert (found.kind, found.where.stem) == ("unlisted", "a10000")
    mended(folder)
    assert known(folder)["a10000"].attempt == 2


# Segments and checkpoints


@pytest.mark.full
def test_a_damaged_segment_goes_on_from_the_checkpoint_above_the_damage(folder):
    path = folder / FILES["segment"]
    flip(path, path.stat().st_size - 100)
    found = only(folder)
    assert (found.kind, found.remedy) == ("damaged line", "the trial continues from step 20")
    assert found.line == path.read_bytes()[: path.stat().st_size - 100].count(b"\n") + 1
    mended(folder)
    assert open_trial.read(path).marks[-1].end == path.stat().st_size
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
    assert ledger.known_outcomes(folder)[OPEN].kind == "bug"


@pytest.mark.full
@pytest.mark.parametrize("harm", ["headless", "already sealed"])
def test_a_segment_that_says_nothing_new_is_put_away(folder, harm):
    path = folder / FILES["segment"]
    if harm == "headless":
        flip(path, 20)
        assert repair(folder, dry_run=True).findings[0].what == "has lost its first line"
    else:
        beginning = open_trial.Beginning("a10000", 1, 1.8e9, VERSIONS)
        path = open_trial.path_of(folder, "a10000")
        path.write_bytes(checksummed_lines.encode(open_trial.begin_record(beginning)))
        assert only(folder).what == "is of a trial that is already sealed"
    mended(folder)
    assert not path.exists()


@pytest.mark.full
def test_files_that_an_older_version_sealed_without_a_sum_are_read_through(tmp_path):
    fill(tmp_path)
    path = tmp_path / "outcomes.jsonl"
    without = [
        ["ended", {k: v for k, v in record[1].items() if k != "file"}]
        for record in checksummed_lines.read(path).records
    ]
    path.write_bytes(b"".join(map(checksummed_lines.encode, without)))
    assert repair(tmp_path, dry_run=True).findings == ()
    flip(sealed.path_of(tmp_path, "a10000"), 200)
    assert only(tmp_path).kind == "sealed"
    (tmp_path / projection.DATABASE).unlink()
    said = []
    with opened(tmp_path, say=said.append) as results:
        assert "a10000" not in results.outcomes() and len(results.outcomes()) == 5
    assert "the trial is no longer known" in said[0]
