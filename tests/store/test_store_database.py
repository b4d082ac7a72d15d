"""The DuckDB file is a projection: what was yielded, filled twice as once, rebuilt from nothing, never in the way."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import duckdb
import pytest
from store_fixtures import DOCUMENTS, VERSIONS, contents, course, diverged, fill, number, opened, plan, trial

from ablate.store import projection
from ablate.train.events import Outcome, Row


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A whole plan of two seeds, of which one trial diverged."""
    place = tmp_path_factory.mktemp("results")
    fill(place)
    return place


def ask(folder, sql, *values):
    with duckdb.connect(folder / "ablate.duckdb", read_only=True) as connection:
        return connection.execute(sql, values).fetchall()


def test_metrics_are_the_rows_bit_for_bit(folder):
    for one in plan().trials:
        events = diverged(one.id) if one.id == "c30001" else course(one.id)
        yielded = {(e.step, e.metric, e.address): e.value for e in events if isinstance(e, Row)}
        stored = ask(folder, "SELECT step, metric, address, value FROM metrics WHERE trial_id = ?", one.id)
        assert {repr((key, value)) for key, value in yielded.items()} == {repr((row[:3], row[3])) for row in stored}
        assert len(stored) == len(yielded)


def test_what_was_asked_is_kept_whole(folder):
    assert ask(folder, "SELECT question, baseline, seeds, source, resolved, corpus FROM spaces") == [
        ("Is it so?", "a1", [0, 1], DOCUMENTS.source, '{"space":"small","seeds":[0,1]}', '{"files":3,"tokens":1000}')
    ]
    assert ask(folder, "SELECT edit, before, after FROM edits ORDER BY position") == [
        ("+qk_norm", "pre_ln", "half"),
        ("residual.gain=0.5", "half", "op"),
    ]
    assert ask(folder, "SELECT metric, definition FROM definitions") == [("kurtosis", "mean s⁴ / (mean s²)²")]
    assert dict(ask(folder, "SELECT name, version FROM versions")) == VERSIONS
    ((lr, specification),) = ask(folder, "SELECT lr, specification FROM trials WHERE trial_id = 'a10000'")
    assert lr == 1e-2
    assert json.loads(specification)["architecture"]["block"].startswith("[residual: {")


@pytest.mark.full
def test_refreshing_twice_is_once(tmp_path):
    fill(tmp_path)
    before, file = contents(tmp_path, but=()), (tmp_path / "ablate.duckdb").stat()
    with opened(tmp_path) as results:
        results.record_plan(plan(), DOCUMENTS)
        assert not results.refresh()
    assert (tmp_path / "ablate.duckdb").stat().st_ino == file.st_ino
    assert contents(tmp_path, but=()) == before
    fill(tmp_path)
    assert contents(tmp_path, but=()) == before


@pytest.mark.full
def test_however_many_files_are_loaded_at_once(tmp_path, monkeypatch):
    fill(tmp_path)
    before = contents(tmp_path, but=())
    (tmp_path / "ablate.duckdb").unlink()
    monkeypatch.setattr(projection, "BYTES_AT_ONCE", 1)
    with opened(tmp_path) as results:
        results.refresh()
    assert contents(tmp_path, but=()) == before


@pytest.mark.full
def test_a_trial_trained_again_replaces_its_rows(tmp_path):
    fill(tmp_path)
    with opened(tmp_path) as results:
        results.begin(trial())
        results.append("a10000", [Row(0, "kurtosis", "layers.1", 9.0), Outcome("finished", 40)])
        results.refresh()
    assert ask(tmp_path, "SELECT step, metric, value FROM metrics WHERE trial_id = 'a10000'") == [(0, "kurtosis", 9.0)]
    assert ask(tmp_path, "SELECT name, value FROM summaries WHERE trial_id = 'a10000' ORDER BY name") == [
        ("kurtosis", 9.0),
        ("mean_kurtosis", 9.0),
        ("peak_kurtosis", 9.0),
    ]
    assert ask(tmp_path, "SELECT count(*) FROM timings WHERE trial_id = 'a10000'") == [(2,)]
    assert ask(tmp_path, "SELECT attempt FROM trials WHERE trial_id = 'a10000'") == [(2,)]


def test_it_can_be_rebuilt_from_the_files(tmp_path):
    fill(tmp_path)
    before = contents(tmp_path, but=())
    (tmp_path / "ablate.duckdb").unlink()
    with opened(tmp_path) as results:
        assert results.refresh()
    assert contents(tmp_path, but=()) == before


@pytest.mark.full
def test_a_damaged_or_foreign_file_is_filled_anew_and_that_is_said(tmp_path):
    fill(tmp_path)
    before, said = contents(tmp_path, but=()), []
    (tmp_path / "ablate.duckdb").write_bytes(b"not a database" * 1000)
    with opened(tmp_path, say=said.append) as results:
        assert results.refresh()
    assert "filled again" in said[0]
    assert contents(tmp_path, but=()) == before


@pytest.mark.full
def test_another_schema_is_filled_anew(tmp_path):
    fill(tmp_path)
    before = contents(tmp_path, but=())
    with duckdb.connect(tmp_path / "ablate.duckdb") as connection:
        connection.execute("UPDATE projection SET sql_digest = 'older'; DELETE FROM metrics; DROP VIEW pairs")
        connection.execute("DROP TABLE summaries; CREATE VIEW summaries AS SELECT 1")
        connection.execute("CREATE TABLE mine AS SELECT 7 AS seven")
    with opened(tmp_path) as results:
        assert results.refresh()
    assert contents(tmp_path, but=("mine",)) == before
    assert ask(tmp_path, "FROM mine") == [(7,)]


def test_a_damaged_sealed_file_costs_its_own_trial_alone(tmp_path):
    fill(tmp_path)
    sealed_file, said = tmp_path / "trials" / "b20000.parquet", []
    whole = sealed_file.read_bytes()
    (tmp_path / "ablate.duckdb").unlink()
    with opened(tmp_path, say=said.append) as results:
        sealed_file.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        assert results.refresh()
        assert len(said) == 1 and "b20000" in said[0] and "ablate doctor" in said[0]
        assert ask(tmp_path, "SELECT count(DISTINCT trial_id) FROM metrics") == [(5,)]
        assert ask(tmp_path, "SELECT status, eval_loss FROM final WHERE trial_id = 'b20000'") == [("damaged", None)]
        assert ask(tmp_path, "SELECT finished, failed FROM leaderboard WHERE variant = 'half'") == [(1, 1)]
        assert not results.refresh() and len(said) == 2, "it is said again, and the file is not copied for it"
        sealed_file.write_bytes(whole)
        assert results.refresh() and len(said) == 2
    assert ask(tmp_path, "SELECT status, eval_loss FROM final WHERE trial_id = 'b20000'") == [
        ("finished", number("b20000", 40, "eval_loss"))
    ]


@pytest.mark.full
def test_more_seeds_and_a_second_space_share_trials(tmp_path):
    fill(tmp_path)
    trained = []
    with opened(tmp_path) as results:
        wider = plan(seeds=(0, 1, 2), space="wider")
        results.record_plan(wider, DOCUMENTS)
        known = results.outcomes()
        for one in wider.trials:
            if one.id not in known:
                trained.append(one.id)
                results.begin(one)
                results.append(one.id, course(one.id))
        results.refresh()
    assert trained == ["a10002", "b20002", "c30002"]
    assert ask(tmp_path, "SELECT space, count(*) FROM final GROUP BY ALL ORDER BY ALL") == [("small", 6), ("wider", 9)]
    assert ask(tmp_path, "SELECT count(*) FROM trials") == [(9,)]


@pytest.mark.full
def test_a_plan_asked_again_differently_replaces_the_space(tmp_path):
    fill(tmp_path)
    with opened(tmp_path) as results:
        results.record_plan(plan(seeds=(0,)), DOCUMENTS)
        results.refresh()
    assert ask(tmp_path, "SELECT count(*), count(DISTINCT seed) FROM final") == [(3, 1)]
    assert ask(tmp_path, "SELECT count(*) FROM trials") == [(6,)], "what was trained is not forgotten"


READER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
print(connection.execute("SELECT count(*) FROM metrics").fetchone()[0], flush=True)
sys.stdin.readline()
print(connection.execute("SELECT count(*) FROM metrics").fetchone()[0], flush=True)
"""


@pytest.mark.full
def test_an_open_reader_neither_stops_a_run_nor_is_disturbed(tmp_path):
    fill(tmp_path)
    command = [sys.executable, "-c", READER, tmp_path / "ablate.duckdb"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        before = int(reader.stdout.readline())
        started = time.monotonic()
        fill(tmp_path, plan(seeds=(0, 1, 2)))
        assert time.monotonic() - started < 10
        ((after,),) = ask(tmp_path, "SELECT count(*) FROM metrics")
        assert reader.poll() is None, "the reader is open all the while"
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert int(reader.stdout.readline()) == before < after


def test_an_open_reader_would_stop_one_that_writes_in_place(tmp_path):  # the test above can fail
    fill(tmp_path)
    command = [sys.executable, "-c", READER, tmp_path / "ablate.duckdb"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        reader.stdout.readline()
        with pytest.raises(duckdb.IOException, match="lock"):
            duckdb.connect(tmp_path / "ablate.duckdb")
        reader.communicate("\n")
