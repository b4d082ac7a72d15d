"""The doctor looks at the DuckDB file, at MLflow, at what lies about, and at who is in the folder."""

from __future__ import annotations

import json
import os
import shutil
from io import StringIO

import duckdb
import pytest
from attacks import FILES, OPEN, another, flip, half_way, mended, only, tables
from rich.console import Console
from store_fixtures import opened, rows_at, trial

from ablate.errors import RefusedError
from ablate.report.screens.doctor import doctor_screen
from ablate.store import claim, mirror
from ablate.store.durable import Lock
from ablate.store.faults import Finding, Repaired
from ablate.store.repair import repair


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    place = tmp_path_factory.mktemp("doctor") / "half"
    half_way(place)
    return place


@pytest.fixture
def folder(half, tmp_path):
    return shutil.copytree(half, tmp_path / "results")


# The DuckDB file


@pytest.mark.sampled(0, gate=7)
@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            "UPDATE metrics SET value = nextafter(value, 9) WHERE trial_id = 'a10001' AND step = 30",
            "differs from the files in metrics",
        ),
        ("DELETE FROM metrics WHERE trial_id = 'a10001' AND step = 30", "differs from the files in"),
        ("INSERT INTO metrics FROM metrics WHERE trial_id = 'a10001' AND step = 30", "differs from the files in"),
        ("UPDATE summaries SET value = 1 WHERE trial_id = 'b20000'", "differs from the files in summaries"),
        ("DELETE FROM summaries WHERE trial_id = 'b20000' AND name = 'eval_loss'", "differs from the files in"),
        ("INSERT INTO metrics VALUES ('c30001', 0, 'x', '', 1)", "differs from the files in metrics"),
        ("UPDATE plans SET question = 'Was it so?'", "differs from the files in plans"),
        ("UPDATE trials SET lr = 1 WHERE trial_id = 'b20000'", "differs from the files in trials"),
        ("DELETE FROM plan_comparisons", "differs from the files in plan_comparisons"),
        ("UPDATE timings SET seconds = 0 WHERE name = 'began'", "differs from the files in timings"),
        ("DELETE FROM versions", "differs from the files in versions"),
        ("DELETE FROM trials WHERE trial_id = 'b20000'", "behind the files by trial b20000"),
        ("UPDATE projection SET sql_digest = 'older'", "has no tables, or those of another version"),
        ("DROP TABLE metrics", "cannot be read"),
    ],
)
def test_a_database_that_does_not_say_what_the_files_say_is_found_and_filled_anew(folder, change, what):
    before = tables(folder)
    with duckdb.connect(folder / FILES["database"]) as connection:
        connection.execute(change)
    found = repair(folder, dry_run=True).findings
    assert {f.kind for f in found} == {"database"} and what in " ".join(f.what for f in found)
    mended(folder)
    assert tables(folder) == before


@pytest.mark.full
@pytest.mark.parametrize("harm", ["gone", "garbage", "a block", "cut"])
def test_a_database_that_cannot_be_read_is_filled_anew(folder, harm):
    before, path = tables(folder), folder / FILES["database"]
    whole = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        flip(path, whole.index(b"train_loss"))
        changed = path.read_bytes()
        path.write_bytes({"garbage": b"garbage" * 999, "a block": changed, "cut": whole[:-100_000]}[harm])
    found = only(folder)
    assert found.where == path and ("cannot be read" in found.what) == (harm != "gone")
    mended(folder)
    assert tables(folder) == before


def test_tables_of_ones_own_are_no_fault(folder):
    with duckdb.connect(folder / FILES["database"]) as connection:
        connection.execute("CREATE TABLE mine AS SELECT * FROM final")
    assert repair(folder, dry_run=True).findings == ()


# What lies about


@pytest.mark.full
def test_leftovers_of_a_killed_run_are_deleted(folder):
    for name in ("ablate.duckdb.new", "trials/c30001.parquet.new", "journal/c30001.jsonl.new"):
        (folder / name).write_bytes(b"half")
    (folder / "ablate.duckdb.new.tmp").mkdir()
    found = repair(folder, dry_run=True).findings
    assert len(found) == 4 and {(f.kind, f.remedy) for f in found} == {("leftover", "deleted")}
    mended(folder)
    assert repair(folder, dry_run=True).findings == ()


@pytest.mark.full
def test_what_a_dead_worker_left_is_harmless_and_deleted(folder):
    path = folder / "running" / OPEN
    path.parent.mkdir()
    path.write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "2026-01-01", "step": 7}))
    assert only(folder, "harmless").what == "was left by a worker that died (process 1 on elsewhere, at step 7)"
    mended(folder)
    assert not path.exists()


def test_what_is_kept_is_said(folder):
    (folder / "damaged").mkdir()
    (folder / "damaged" / "a.parquet").write_bytes(b"")
    assert only(folder, "harmless").what == "contains 1 damaged file (a.parquet…)"


# A folder in use

CLAIM = """
import sys
from pathlib import Path
from ablate.store.claim import Claim
with Claim(Path(sys.argv[1]), sys.argv[2], step=3):
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.full
def test_a_folder_in_which_a_worker_lives_is_only_looked_at(folder):
    with another(CLAIM, folder, OPEN) as worker:
        findings = repair(folder, dry_run=True)
        assert findings.holder.startswith(f"process {worker.pid} on ") and findings.findings == ()
        assert repair(folder, dry_run=False, say=pytest.fail) == findings
    assert claim.holders(folder)[OPEN].alive is False
    mended(folder)


@pytest.mark.full
def test_what_may_only_be_unfinished_is_passed_over_while_a_run_writes(folder):
    with opened(folder) as results:
        results.begin(trial("c3", 0, id=OPEN))
        results.append(OPEN, rows_at(OPEN, 30))
        with (folder / FILES["segment"]).open("ab") as file:
            file.write(b"half a li")
        (folder / "ablate.duckdb.new").write_bytes(b"half")
        flip(folder / FILES["sealed"], 200)
        findings = repair(folder, dry_run=True)
        assert [f.kind for f in findings.findings] == ["sealed"], "and what cannot be is not"
        assert findings.holder == f"process {os.getpid()}, this one"
        assert repair(folder, dry_run=False, say=pytest.fail) == findings
        with pytest.raises(RefusedError, match="already has it open"), Lock(folder):
            pass


def test_looking_in_its_own_process_does_not_give_the_lock_away(folder):
    with opened(folder):
        repair(folder, dry_run=True)
        with another(f"print('ready', flush=True)\n{TRY}", folder) as other:
            assert other.stdout.readline() == "refused\n"


TRY = """
import sys
from pathlib import Path
from ablate.errors import RefusedError
from ablate.store.durable import Lock
try:
    Lock(Path(sys.argv[1])).acquire()
    print("taken", flush=True)
except RefusedError:
    print("refused", flush=True)
"""


@pytest.mark.full
def test_a_repair_looks_for_itself_and_reports_what_happened_since_a_dry_run(folder):
    assert repair(folder, dry_run=True).findings == ()
    with (folder / FILES["witness"]).open("ab") as file:
        file.write(b"half a li")
    repaired = repair(folder, dry_run=False, say=pytest.fail)
    assert [(f.kind, f.where.name) for f in repaired.findings] == [("torn", "witness.jsonl")] and repaired.left == ()


# MLflow


@pytest.mark.full
def test_the_mirror_is_looked_at_and_filled_anew_when_all_else_is_right(folder):
    (folder / FILES["database"]).unlink()
    rebuilt = []

    def look(place):
        if not (place / FILES["database"]).exists():
            raise RefusedError("cannot read ablate.duckdb\n  = a way out")
        return [] if rebuilt else [Finding("mirror", "repaired", "lacks runs", place / "mlflow.db", "filled anew")]

    findings = repair(folder, dry_run=True, mirror=look)
    assert [(f.kind, f.severity) for f in findings.findings] == [("database", "repaired"), ("mirror", "harmless")]
    findings = repair(folder, dry_run=False, say=pytest.fail, mirror=look, rebuild_mirror=rebuilt.append)
    assert rebuilt == [folder] and findings.left == ()


@pytest.mark.full
def test_a_mirror_beside_a_database_of_another_version_is_looked_at_when_that_is_filled_anew(folder):
    mirror.mirror(folder)
    with duckdb.connect(folder / FILES["database"]) as connection:
        connection.execute("DROP TABLE plans; UPDATE projection SET sql_digest = 'older'")
    looked = repair(folder, dry_run=True, mirror=mirror.examine)
    assert [(f.kind, f.severity) for f in looked.findings] == [("database", "repaired"), ("mirror", "harmless")]
    assert "ablate.duckdb has the tables of another version" in looked.findings[1].what
    done = repair(folder, dry_run=False, say=pytest.fail, mirror=mirror.examine, rebuild_mirror=mirror.rebuild)
    assert (done.findings, done.left, done.exit_code) == (looked.findings, (), 0)
    assert repair(folder, dry_run=True, mirror=mirror.examine).to_repair == ()


@pytest.mark.full
def test_a_mirror_that_cannot_be_filled_is_said_and_left(folder):
    wrong = Finding("mirror", "repaired", "lacks runs", folder / "mlflow.db", "filled anew")

    def refuse(place):
        raise RefusedError("MLflow failed\n  = nothing is lost")

    said = []
    findings = repair(folder, dry_run=True, mirror=lambda _: [wrong])
    findings = repair(folder, dry_run=False, say=said.append, mirror=lambda _: [wrong], rebuild_mirror=refuse)
    assert said == ["MLflow failed\n  = nothing is lost"] and findings.left == (wrong,) and findings.exit_code == 1


# The screen


def shown(findings):
    console = Console(width=200, record=True, file=StringIO())
    console.print(doctor_screen(findings))
    return console.export_text()


@pytest.mark.full
def test_only_what_was_done_reads_as_done(folder):
    (folder / "running").mkdir()
    (folder / "running" / OPEN).write_text(json.dumps({"pid": 1, "host": "h", "since": "2026-01-01", "step": 7}))
    (folder / "ablate.duckdb.new").write_bytes(b"half")
    (folder / "damaged").mkdir()
    (folder / "damaged" / "a.parquet").write_bytes(b"")
    looked = repair(folder, dry_run=True)
    told = shown(looked)
    assert "checked 1 plan, 6 specifications, 4 ended trials," in told
    assert told.count("  = would be: deleted\n") == 2 and "  = delete them when you no longer need them" in told
    told = shown(repair(folder, dry_run=False, say=pytest.fail))
    assert told.count("  = deleted\n") == 2 and "would be" not in told


def test_all_is_well_only_as_far_as_can_be_seen(folder):
    assert shown(repair(folder, dry_run=True)).splitlines()[-1] == "all is well"
    with opened(folder):
        last = shown(repair(folder, dry_run=True)).splitlines()[-1]
    assert last == f"all is well as far as can be seen while process {os.getpid()}, this one is writing there"


@pytest.mark.parametrize(
    ("lost", "last"),
    [
        (["sealed"], "1 thing lost: the next run trains it again"),
        (["damaged line", "damaged line"], "2 things lost, but no result of a trial: see above for the consequences"),
        (
            ["damaged line", "sealed", "verdicts"],
            "3 things lost, of which one is a result that the next run trains again: "
            "see above for the other consequences",
        ),
        (
            ["sealed", "specification", "sealed"],
            "3 things lost, of which 2 are results that the next run trains again: "
            "see above for the other consequences",
        ),
    ],
)
def test_only_a_lost_result_is_said_to_be_trained_again(tmp_path, lost, last):
    found = tuple(Finding(kind, "lost", "is damaged", tmp_path / kind) for kind in lost)
    assert shown(Repaired(tmp_path, found, None, {"row": 1}, done=True)).splitlines()[-1] == last


def test_json_says_the_same(folder):
    flip(folder / FILES["sealed"], 200)
    findings = repair(folder, dry_run=True)
    document = json.loads(json.dumps(findings.document()))
    assert document["found"][0]["where"] == str(folder / FILES["sealed"])
    assert (document["repaired"], document["left"], document["holder"]) == (False, [], None)
