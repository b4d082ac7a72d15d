"""A results folder that an earlier version wrote is healed by today's doctor, or it says what it cannot get back.

How `folders/510446e` was written stands in `folders/README.md`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attacks import flip, state
from typer.testing import CliRunner

from ablate.cli import app
from ablate.store import checksummed_lines, ledger
from ablate.store.query import query
from ablate.store.repair import repair
from ablate.store.repair.report import Finding, Repaired
from ablate.store.trial_status import standings

FOLDERS = Path(__file__).parent / "folders"
ENDED = ("0826c3b86c942510", "d7359feb327b3291")
OPEN = "8527958ee18b4ed7"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(FOLDERS / "510446e", tmp_path / "results")


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
    ("repaired", "ablate.duckdb", "is missing"),
    ("repaired", f"{OPEN}.50.pt", "is gone or has changed since it was written"),
}
"""What is found because it was left out of the folder."""


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
    assert {one.state for one in standings(folder)} == {"finished"}


@pytest.mark.full
def test_its_index_with_a_torn_last_line_is_made_good_from_what_was_sealed(folder):
    path = folder / ledger.OUTCOMES
    whole = path.read_bytes()
    last = checksummed_lines.read(path).records[-1][1]["trial"]
    path.write_bytes(whole[:-20])
    done = healed(folder)
    assert {told(finding) for finding in done.findings} - LEFT_OUT == {
        ("repaired", "outcomes.jsonl", f"ends in the middle of a line ({len(whole.splitlines()[-1]) - 19} bytes)"),
        ("repaired", f"{last}.parquet", "is not listed in outcomes.jsonl"),
    }
    assert done.exit_code == 0 and path.read_bytes() == whole


@pytest.mark.full
def test_of_a_sealed_file_with_a_flipped_bit_it_says_what_is_lost(folder):
    path = folder / "trials" / f"{ENDED[0]}.parquet"
    flip(path, 200, 2)
    damaged = path.read_bytes()
    done = healed(folder)
    (lost,) = (finding for finding in done.findings if finding.severity == "lost")
    assert told(lost)[1:] == (path.name, "is not as it was sealed: some of its bytes have changed")
    assert lost.remedy == "kept in damaged; the trial is trained again by the next run that needs it"
    assert (folder / "damaged" / path.name).read_bytes() == damaged and done.exit_code == 1
    assert set(ledger.known_outcomes(folder)) == {ENDED[1]}


@pytest.mark.full
def test_its_rows_are_sealed_anew_where_its_database_has_them(folder):
    healed(folder)
    path = folder / "trials" / f"{ENDED[0]}.parquet"
    flip(path, 200, 2)
    done = healed(folder)
    (found,) = done.to_repair
    assert found.remedy == "kept in damaged; its rows are sealed again from ablate.duckdb" and done.exit_code == 0
    assert set(ledger.known_outcomes(folder)) == set(ENDED)


def test_its_lost_plan_is_said_to_be_lost(folder):
    path = folder / ledger.PLANS
    number = 1 + next(n for n, body in enumerate(checksummed_lines.read(path).bodies) if body.startswith(b'["plan"'))
    flip(path, path.read_bytes().index(b'["plan"') + 40)
    done = healed(folder)
    (lost,) = (finding for finding in done.findings if finding.severity == "lost")
    assert (lost.where, lost.line) == (path, number) and lost.remedy.endswith("it comes back when its space is run")
    assert done.exit_code == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("harm", "code", "last"), [
    (None, 0, "2 things repaired"),
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
