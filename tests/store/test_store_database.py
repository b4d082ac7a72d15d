"""The DuckDB file is a projection: what was yielded, filled twice as once, rebuilt from nothing, never in the way."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import duckdb
import numpy
import pytest
from store_worlds import (
    ADDRESSES,
    DOCUMENTS,
    RECIPE,
    STEPS,
    VERSIONS,
    contents,
    course,
    diverged,
    fill,
    number,
    opened,
    plan,
    trial,
)

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


def peak(trial_id, steps=STEPS):
    """Largest kurtosis with its place, from the rows as they were yielded."""
    found = [(number(trial_id, s, "kurtosis", a), -s, a) for s in steps for a in ADDRESSES]
    value, step, address = max(found)
    return value, address, -step


def test_metrics_are_the_rows_bit_for_bit(folder):
    for one in plan().trials:
        events = diverged(one.id) if one.id == "c30001" else course(one.id)
        yielded = {(e.step, e.metric, e.address): e.value for e in events if isinstance(e, Row)}
        stored = ask(folder, "SELECT step, metric, address, value FROM metrics WHERE trial_id = ?", one.id)
        assert {repr((key, value)) for key, value in yielded.items()} == {repr((row[:3], row[3])) for row in stored}
        assert len(stored) == len(yielded)


def test_final_of_a_finished_trial(folder):
    (row,) = ask(
        folder,
        "SELECT status, diverged_step, eval_loss, peak_kurtosis, peak_kurtosis_address, peak_kurtosis_step,"
        " token_correlation, parameters, flops, tokens FROM final WHERE variant = 'half' AND seed = 1",
    )
    correlations = [number("b20001", s, "token_correlation_rms", a) for s in STEPS for a in ADDRESSES]
    tokens = RECIPE.steps * RECIPE.batch * trial().architecture.sizes.seq_len
    assert row == (
        "finished",
        None,
        number("b20001", 40, "eval_loss"),
        *peak("b20001"),
        max(correlations),
        1000,
        2000,
        tokens,
    )


def test_final_of_a_diverged_trial_stays_and_is_no_number(folder):
    ((status, step, loss, *found),) = ask(
        folder,
        "SELECT status, diverged_step, eval_loss, peak_kurtosis, peak_kurtosis_address, peak_kurtosis_step"
        " FROM final WHERE trial_id = 'c30001'",
    )
    assert (status, step, loss) == ("diverged", 20, None)
    assert tuple(found) == peak("c30001", steps=(0, 10)), "the infinite kurtosis at step 20 is not a peak"
    ((address, detail),) = ask(folder, "SELECT address, detail FROM divergences")
    assert address == "layers.2.mlp" and json.loads(detail)["last"] == {"train_loss": "NaN"}


def test_equal_peaks_are_placed_at_the_earliest_step_and_first_address(tmp_path):
    with opened(tmp_path) as results:
        results.begin(trial())
        same = [Row(step, "kurtosis", address, 3.0) for step in (10, 20) for address in ("layers.2", "layers.1")]
        results.append("a10000", [Row(0, "kurtosis", "layers.1", 1.0), *same, Outcome("finished", 40)])
        results.refresh()
    assert ask(tmp_path, "SELECT step, address FROM summaries WHERE name = 'peak_kurtosis'") == [(10, "layers.1")]


def test_leaderboard_counts_everyone_and_averages_who_finished(folder):
    board = {
        row[0]: row[1:]
        for row in ask(
            folder,
            "SELECT variant, n, finished, diverged, failed, unfinished, eval_loss_mean, eval_loss_sd,"
            " log_peak_kurtosis_mean, log_peak_kurtosis_sd, peak_kurtosis FROM leaderboard",
        )
    }
    assert board["pre_ln"][:5] == (2, 2, 0, 0, 0)
    losses = numpy.array([number(id, 40, "eval_loss") for id in ("a10000", "a10001")])
    peaks = numpy.log([peak(id)[0] for id in ("a10000", "a10001")])
    expected = [losses.mean(), losses.std(ddof=1), peaks.mean(), peaks.std(ddof=1), numpy.exp(peaks.mean())]
    numpy.testing.assert_allclose(board["pre_ln"][5:], expected, rtol=1e-12)
    assert board["op"][:5] == (2, 1, 1, 0, 0)
    assert board["op"][5:7] == (number("c30000", 40, "eval_loss"), None)


def test_curves_are_over_seeds(folder):
    (row,) = ask(
        folder,
        "SELECT n, n_not_finite, mean, sd, min, max FROM curves"
        " WHERE variant = 'half' AND metric = 'kurtosis' AND address = 'head' AND step = 30",
    )
    values = numpy.array([number(id, 30, "kurtosis", "head") for id in ("b20000", "b20001")])
    assert row[:2] == (2, 0)
    numpy.testing.assert_allclose(row[2:], [values.mean(), values.std(ddof=1), values.min(), values.max()], rtol=1e-14)
    lost = "SELECT n, n_not_finite, mean FROM curves WHERE variant = 'op' AND metric = 'train_loss' AND step = 20"
    assert ask(folder, lost) == [(1, 1, number("c30000", 20, "train_loss"))]


def test_pairs_are_by_seed(folder):
    pairs = ask(folder, "SELECT variant, seed, baseline, eval_loss_difference, same_versions FROM pairs ORDER BY ALL")
    loss = {id: number(id, 40, "eval_loss") for id in ("a10000", "a10001", "b20000", "b20001", "c30000")}
    assert pairs == [
        ("half", 0, "pre_ln", loss["b20000"] - loss["a10000"], True),
        ("half", 1, "pre_ln", loss["b20001"] - loss["a10001"], True),
        ("op", 0, "pre_ln", loss["c30000"] - loss["a10000"], True),
        ("op", 1, "pre_ln", None, True),
    ]


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


def test_finals_are_what_the_report_takes(folder):
    with opened(folder) as results:
        finals = results.finals(["a10000", "c30001", "unknown"])
    assert set(finals) == {"a10000", "c30001"}
    assert finals["a10000"]["status"] == "finished" and finals["a10000"]["step"] == 40
    assert finals["a10000"]["metrics"]["eval_loss"] == number("a10000", 40, "eval_loss")
    assert finals["a10000"]["metrics"]["peak_kurtosis"] == peak("a10000")[0]
    assert finals["c30001"]["status"] == "diverged" and "eval_loss" not in finals["c30001"]["metrics"]


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


def test_it_can_be_rebuilt_from_the_journal(tmp_path):
    fill(tmp_path)
    before = contents(tmp_path, but=())
    (tmp_path / "ablate.duckdb").unlink()
    with opened(tmp_path) as results:
        assert results.refresh()
    assert contents(tmp_path, but=()) == before


def test_a_damaged_or_foreign_file_is_filled_anew_and_that_is_said(tmp_path):
    fill(tmp_path)
    before, said = contents(tmp_path, but=()), []
    (tmp_path / "ablate.duckdb").write_bytes(b"not a database" * 1000)
    with opened(tmp_path, say=said.append) as results:
        assert results.refresh()
    assert "filled anew from the journal" in said[0]
    assert contents(tmp_path, but=()) == before


def test_another_schema_is_filled_anew(tmp_path):
    fill(tmp_path)
    before = contents(tmp_path, but=())
    with duckdb.connect(tmp_path / "ablate.duckdb") as connection:
        connection.execute("UPDATE projection SET sql_digest = 'older'; DELETE FROM metrics; DROP VIEW pairs")
    with opened(tmp_path) as results:
        assert results.refresh()
    assert contents(tmp_path, but=()) == before


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


def test_a_plan_asked_again_differently_replaces_the_space(tmp_path):
    fill(tmp_path)
    with opened(tmp_path) as results:
        results.record_plan(plan(seeds=(0,)), DOCUMENTS)
        results.refresh()
    assert ask(tmp_path, "SELECT count(*), count(DISTINCT seed) FROM final") == [(3, 1)]
    assert ask(tmp_path, "SELECT count(*) FROM trials") == [(6,)], "what was trained is not forgotten"


def test_every_table_view_and_column_has_a_comment(folder):
    tables = ask(
        folder,
        "SELECT table_name, comment FROM duckdb_tables()"
        " UNION ALL SELECT view_name, comment FROM duckdb_views() WHERE NOT internal",
    )
    columns = ask(folder, "SELECT table_name || '.' || column_name, comment FROM duckdb_columns() WHERE NOT internal")
    assert {name for name, _ in tables} >= {
        "trials", "variants", "memberships", "spaces", "comparisons", "metrics", "timings", "definitions", "versions",
        "edits", "final", "leaderboard", "curves", "divergences", "pairs", "summaries",
    }  # fmt: skip
    assert len(columns) > 100
    assert [name for name, comment in (*tables, *columns) if not comment] == []


def test_a_column_without_a_comment_would_be_found():  # the test above can fail
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a INT); COMMENT ON TABLE t IS 'a table'")
        assert connection.execute("SELECT comment FROM duckdb_columns() WHERE table_name = 't'").fetchall() == [(None,)]


READER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
print(connection.execute("SELECT count(*) FROM metrics").fetchone()[0], flush=True)
sys.stdin.readline()
print(connection.execute("SELECT count(*) FROM metrics").fetchone()[0], flush=True)
"""


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
