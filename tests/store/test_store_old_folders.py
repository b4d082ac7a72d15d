"""A results folder that an earlier version wrote is read as that version read it, and healed by today's doctor.

How the folders were written stands in `folders/README.md`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from attacks import flip, state
from old_folders import FOLDERS, all_of, old_folder
from typer.testing import CliRunner

from ablate.cli import app
from ablate.store import durable, snapshot
from ablate.store.faults import Finding, Repaired
from ablate.store.query import query
from ablate.store.repair import repair
from ablate.store.snapshot import Snapshot, standings

ENDED = ("0826c3b86c942510", "d7359feb327b3291")
OPEN = "8527958ee18b4ed7"


@pytest.fixture
def folder(tmp_path):
    return old_folder("510446e", tmp_path / "results")


@pytest.mark.parametrize("commit", ["510446e", "1f4285fd"])
def test_all_of_a_folder_is_read_as_the_version_of_1f4285fd_read_it(commit, tmp_path):
    folder = old_folder(commit, tmp_path / "results")
    before = state(folder)
    assert all_of(folder).splitlines() == (FOLDERS / f"{commit}.json").read_text(encoding="utf-8").splitlines()
    assert state(folder) == before


def healed(folder: Path) -> Repaired:
    """Look, repair, and look again: what was done is what was said, and nothing is left to do."""
    before = state(folder)
    looked = repair(folder, dry_run=True)
    assert state(folder) == before
    done = repair(folder, dry_run=False, say=pytest.fail)
    assert (done.findings, done.left) == (looked.findings, ())
    assert repair(folder, dry_run=True).to_repair == ()
    return done


def told(finding: Finding) -> tuple[str, str, str]:
    return finding.severity, finding.where.name, finding.what


LEFT_OUT = {
    (
        "repaired",
        "results",
        "is of an earlier version, with lines in verdicts.jsonl, runs.jsonl, outcomes.jsonl, plans.jsonl",
    ),
    ("repaired", "ablate.duckdb", "is missing"),
    ("repaired", f"{OPEN}.50.pt", "is gone or has changed since it was written"),
}
"""What is found because the folder is of an earlier version, or because it was left out."""


def test_a_folder_of_510446e_is_whole_and_its_tables_are_filled(folder):
    done = healed(folder)
    assert {told(finding) for finding in done.findings} == LEFT_OUT and done.exit_code == 0
    assert done.looked_at == {
        "plan": 1, "specification": 3, "ended trial": 2, "row": 24, "open trial": 1, "checkpoint": 0,
    }  # fmt: skip
    rows = query(folder, "SELECT trial_id, status FROM trials ORDER BY ALL").rows
    assert rows == ((ENDED[0], "finished"), (OPEN, "planned"), (ENDED[1], "finished"))
    assert query(folder, "SELECT count(*) FROM metrics").rows == ((24,),)
    assert query(folder, "SELECT count(*) > 0 FROM verdicts").rows == ((True,),)
    assert {one.state for one in standings(Snapshot(folder))} == {"finished"}


@pytest.mark.full
def test_a_folder_of_1f4285fd_lacks_its_database_alone_and_is_read_the_same_once_it_is_filled(tmp_path):
    folder = old_folder("1f4285fd", tmp_path / "results")
    done = healed(folder)
    assert [finding.kind for finding in done.findings if finding.severity != "harmless"] == ["earlier", "database"]
    assert done.looked_at == {
        "plan": 13, "specification": 50, "ended trial": 46, "row": 644, "open trial": 2, "checkpoint": 2,
    }  # fmt: skip
    kept = (FOLDERS / "1f4285fd.json").read_text(encoding="utf-8")
    assert kept.count('"state": "dead"') == 1  # the claim of its worker has been deleted
    assert all_of(folder).splitlines() == kept.replace('"state": "dead"', '"state": "paused"').splitlines()


@pytest.mark.full
def test_its_index_with_a_torn_last_line_is_made_good_from_what_was_sealed(folder):
    path = folder / snapshot.EARLIER_OUTCOMES
    whole = path.read_bytes()
    last = durable.read_lines(path).records[-1][1]["trial"]
    path.write_bytes(whole[:-20])
    done = healed(folder)
    assert {told(finding) for finding in done.findings} - LEFT_OUT == {
        ("repaired", f"{last}.parquet", "is not listed in witness.jsonl"),
    }
    assert done.exit_code == 0 and set(Snapshot(folder).endings) == set(ENDED)


@pytest.mark.full
def test_of_a_sealed_file_with_a_flipped_bit_it_says_what_is_lost(folder):
    path = folder / "trials" / f"{ENDED[0]}.parquet"
    flip(path, 200, 2)
    damaged = path.read_bytes()
    done = healed(folder)
    (lost,) = (finding for finding in done.findings if finding.severity == "lost")
    assert told(lost)[1:] == (path.name, "is not as it was sealed: some of its bytes have changed")
    assert lost.remedy == "kept in damaged; the next `ablate run` of its space trains it again"
    assert (folder / "damaged" / path.name).read_bytes() == damaged and done.exit_code == 1
    assert set(Snapshot(folder).endings) == {ENDED[1]}


@pytest.mark.full
def test_its_rows_are_sealed_anew_where_its_database_has_them(folder):
    healed(folder)
    path = folder / "trials" / f"{ENDED[0]}.parquet"
    flip(path, 200, 2)
    done = healed(folder)
    (found,) = done.to_repair
    assert found.remedy == "kept in damaged; its rows are sealed again from ablate.duckdb" and done.exit_code == 0
    assert set(Snapshot(folder).endings) == set(ENDED)


def test_its_lost_plan_is_said_to_be_lost(folder):
    path = folder / "plans.jsonl"
    number = 1 + next(n for n, body in enumerate(durable.read_lines(path).bodies) if body.startswith(b'["plan"'))
    flip(path, path.read_bytes().index(b'["plan"') + 40)
    done = healed(folder)
    (lost,) = (finding for finding in done.findings if finding.severity == "lost")
    assert (lost.where, lost.what) == (path, f"is damaged in line {number}") and done.exit_code == 1
    assert lost.remedy == "kept in earlier; what these lines held is no longer known"
    assert set(Snapshot(folder).endings) == set(ENDED), "the results of its trials are theirs"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("harm", "code", "last"), [
    (None, 0, "3 things repaired"),
    ("flip", 1, "1 thing lost: the next run trains it again"),
])  # fmt: skip
def test_the_command_says_so_and_exits_so(folder, harm, code, last):
    if harm:
        flip(folder / "trials" / f"{ENDED[0]}.parquet", 200, 2)
    runner = CliRunner(env={"COLUMNS": "300"})
    looked = runner.invoke(app, ["doctor", "--results", str(folder), "--look"])
    assert looked.exit_code == 1 and "nothing was changed (--look)" in looked.output
    done = runner.invoke(app, ["doctor", "--results", str(folder)])
    assert done.exit_code == code and last in done.output, done.output
