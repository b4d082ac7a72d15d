"""The views: final numbers, means over seeds, pairs and costs, each worked out here from what was yielded."""

from __future__ import annotations

import json
import math

import duckdb
import numpy
import pytest
from store_fixtures import (
    ADDRESSES,
    DOCUMENTS,
    RECIPE,
    STEPS,
    VARIANTS,
    contents,
    course,
    diverged,
    fill,
    number,
    opened,
    plan,
    trial,
)

from ablate.session import run_result
from ablate.store import projection
from ablate.store.pending_rows import OF_SPACES
from ablate.store.query import query
from ablate.store.snapshot import Snapshot
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


def test_final_of_a_finished_trial(folder):
    (row,) = ask(
        folder,
        "SELECT status, diverged_step, eval_loss, peak_kurtosis, peak_kurtosis_address, peak_kurtosis_step,"
        " token_correlation, parameters, flops, tokens FROM final WHERE variant = 'half' AND seed = 1",
    )
    correlations = [number("b20001", s, "token_correlation_rms", a) for s in STEPS for a in ADDRESSES]
    tokens = RECIPE.steps * RECIPE.batch * trial().work.architecture.sizes.seq_len
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


def test_bits_per_byte_stand_beside_nats_and_say_under_which_tokenizer(folder):
    bits = {id: number(id, 40, "eval_bits_per_byte") for id in ("a10000", "a10001", "b20000", "b20001")}
    board = "SELECT tokenizer, eval_bits_per_byte_mean, eval_bits_per_byte_sd FROM leaderboard WHERE variant = 'pre_ln'"
    ((tokenizer, mean, sd),) = ask(folder, board)
    both = numpy.array([bits["a10000"], bits["a10001"]])
    numpy.testing.assert_allclose([mean, sd], [both.mean(), both.std(ddof=1)], rtol=1e-12)
    assert tokenizer == "bytes"
    differences = [bits["b20000"] - bits["a10000"], bits["b20001"] - bits["a10001"]]
    for view, named in (("pairs", "variant = 'half'"), ("edit_pairs", "edit = '+qk_norm'")):
        found = ask(folder, f"SELECT eval_bits_per_byte_difference FROM {view} WHERE {named} ORDER BY seed")
        assert [row[0] for row in found] == differences
    assert ask(folder, "SELECT eval_bits_per_byte FROM final WHERE trial_id = 'c30001'") == [(None,)], "it diverged"


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


def test_the_frame_of_curves_counts_what_is_not_finite_as_the_view_does(folder):
    keys = ["variant", "metric", "address", "step"]
    rows = ask(folder, f"SELECT {', '.join(keys)}, n, n_not_finite FROM curves")
    frame = run_result.curve_frame(plan(), folder)[[*keys, "n", "n_not_finite"]]
    assert sorted(frame.itertuples(index=False, name=None)) == sorted(rows)
    assert {row[:2]: row[5] for row in rows if row[5]} == {("op", "train_loss"): 1, ("op", "kurtosis"): 1}


def test_bands_are_a_deviation_to_either_side(folder):
    rows = ask(folder, "SELECT n, mean, sd, low, high FROM curves")
    assert {n for n, *_ in rows} == {1, 2}
    for n, mean, sd, low, high in rows:
        assert (low, high) == ((mean - sd, mean + sd) if n == 2 else (None, None))


def test_edit_pairs_are_by_seed_in_every_space(folder):
    found = ask(
        folder,
        "SELECT edit, seed, before, after, before_status, after_status, before_eval_loss, after_eval_loss,"
        " eval_loss_difference, log_peak_kurtosis_ratio, token_correlation_difference FROM edit_pairs ORDER BY ALL",
    )
    expected = []
    for edit, before, after in (("+qk_norm", "a1", "b2"), ("residual.gain=0.5", "b2", "c3")):
        for seed in (0, 1):
            ids = [f"{before}{seed:04x}", f"{after}{seed:04x}"]
            ended = ["diverged" if id == "c30001" else "finished" for id in ids]
            losses = [number(id, 40, "eval_loss") if end == "finished" else None for id, end in zip(ids, ended)]
            tops = [max(number(id, s, "token_correlation_rms", a) for s in STEPS for a in ADDRESSES) for id in ids]
            both = "diverged" not in ended
            ratio = pytest.approx(numpy.log(peak(ids[1])[0] / peak(ids[0])[0]), rel=1e-12)
            differences = (losses[1] - losses[0], ratio, tops[1] - tops[0]) if both else (None, None, None)
            expected.append((edit, seed, VARIANTS[before], VARIANTS[after], *ended, *losses, *differences))
    assert found == expected


def test_costs_and_standings_count_everyone(folder):
    seq_len = trial().work.architecture.sizes.seq_len
    tokens = {"pre_ln": 80, "half": 80, "op": 60}
    found = ask(folder, "SELECT variant, trials, ended, shared, tokens, training_flops FROM costs ORDER BY variant")
    assert found == [
        (name, 2, 2, 0, steps * RECIPE.batch * seq_len, (3 * 2000 - 200 * (name == "op")) * steps * RECIPE.batch)
        for name, steps in sorted(tokens.items())
    ]
    spent = {
        name: sum(
            ending.ended - ending.began for id, ending in Snapshot(folder).endings.items() if VARIANTS[id[:2]] == name
        )
        for name in tokens
    }
    assert dict(ask(folder, "SELECT variant, seconds FROM costs")) == pytest.approx(spent, rel=1e-9)
    assert ask(folder, "SELECT * EXCLUDE plan FROM standings") == [("small", True, 3, 6, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0)]


def test_proposals_are_kept_in_order_whatever_their_number(folder):
    assert ask(folder, "SELECT * EXCLUDE plan FROM proposals ORDER BY k") == [
        ("small", 0, str(2**70), "b2", False, 3, 3),
        ("small", 1, "5", "b2", True, 2, 0),
    ]
    assert ask(folder, "SELECT open FROM spaces") == [(False,)]


def test_pairs_are_by_seed(folder):
    pairs = ask(folder, "SELECT variant, seed, baseline, eval_loss_difference, same_versions FROM pairs ORDER BY ALL")
    loss = {id: number(id, 40, "eval_loss") for id in ("a10000", "a10001", "b20000", "b20001", "c30000")}
    assert pairs == [
        ("half", 0, "pre_ln", loss["b20000"] - loss["a10000"], True),
        ("half", 1, "pre_ln", loss["b20001"] - loss["a10001"], True),
        ("op", 0, "pre_ln", loss["c30000"] - loss["a10000"], True),
        ("op", 1, "pre_ln", None, True),
    ]


def test_finals_are_what_the_report_takes(folder):
    with opened(folder) as results:
        finals = results.finals(["a10000", "c30001", "unknown"])
    assert set(finals) == {"a10000", "c30001"}
    assert finals["a10000"]["status"] == "finished" and finals["a10000"]["step"] == 40
    assert finals["a10000"]["metrics"]["eval_loss"] == number("a10000", 40, "eval_loss")
    assert finals["a10000"]["metrics"]["peak_kurtosis"] == peak("a10000")[0]
    assert finals["c30001"]["status"] == "diverged" and "eval_loss" not in finals["c30001"]["metrics"]


def test_summaries_are_what_the_rows_come_to(folder):
    expected = []
    for one in plan().trials:
        rows = [e for e in (diverged(one.id) if one.id == "c30001" else course(one.id)) if isinstance(e, Row)]
        finite = [row for row in rows if numpy.isfinite(row.value)]
        for metric in {row.metric for row in finite}:
            top = min((row for row in finite if row.metric == metric), key=lambda r: (-r.value, r.step, r.address))
            names = [f"peak_{metric}"] + ["token_correlation"] * (metric == "token_correlation_rms")
            expected += [(one.id, name, top.value, top.step, top.address) for name in names]
            if one.id != "c30001":
                step = max(row.step for row in rows if row.metric == metric)
                last = sorted((r.address, r.value) for r in finite if (r.metric, r.step) == (metric, step))
                whole = [value for address, value in last if address == ""]
                value = whole[0] if whole else sum(value for _, value in last) / len(last)
                expected.append((one.id, metric, pytest.approx(value, rel=1e-14), step, "" if whole else None))
                values = [row.value for row in finite if row.metric == metric]
                last_finite = max(row.step for row in finite if row.metric == metric)
                mean = pytest.approx(math.fsum(values) / len(values), rel=1e-12)
                expected.append((one.id, f"mean_{metric}", mean, last_finite, None))
                if metric == "eval_loss":
                    expected.append((one.id, "perplexity", pytest.approx(math.exp(value), rel=1e-12), step, ""))
    found = ask(folder, "SELECT trial_id, name, value, step, address FROM summaries")
    assert len(found) == len(expected)
    assert sorted(found, key=lambda row: row[:2]) == sorted(expected, key=lambda row: row[:2])


def test_final_numbers_are_had_without_reading_a_row(tmp_path):
    fill(tmp_path)
    names = ("final", "leaderboard", "pairs", "edit_pairs", "costs", "standings", "summaries")
    before = contents(tmp_path, but=())
    with duckdb.connect(tmp_path / "ablate.duckdb") as connection:
        connection.execute("DELETE FROM metrics")
    after = contents(tmp_path, but=())
    assert {name: after[name] for name in names} == {name: before[name] for name in names}
    assert before["curves"] and not after["curves"]


def test_every_table_view_and_column_has_a_comment(folder):
    tables = ask(
        folder,
        "SELECT table_name, comment FROM duckdb_tables()"
        " UNION ALL SELECT view_name, comment FROM duckdb_views() WHERE NOT internal",
    )
    columns = ask(folder, "SELECT table_name || '.' || column_name, comment FROM duckdb_columns() WHERE NOT internal")
    assert {name for name, _ in tables} >= {
        "trials", "variants", "memberships", "spaces", "comparisons", "metrics", "timings", "definitions", "versions",
        "proposals", "edits", "final", "leaderboard", "curves", "divergences", "pairs", "summaries", "edit_pairs",
        "costs", "standings",
    }  # fmt: skip
    assert len(columns) > 100
    assert [name for name, comment in (*tables, *columns) if not comment] == []


def test_a_column_without_a_comment_would_be_found():  # the test above can fail
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a INT); COMMENT ON TABLE t IS 'a table'")
        assert connection.execute("SELECT comment FROM duckdb_columns() WHERE table_name = 't'").fetchall() == [(None,)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 4])
def test_the_order_of_rows_and_the_number_of_threads_change_no_bit(folder, threads):
    before = contents(folder)
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{folder / 'ablate.duckdb'}' AS stored (READ_ONLY); SET threads = {threads}")
        for name in (*OF_SPACES, "trials", "metrics", "timings", "versions"):
            connection.execute(f"CREATE TABLE {name} AS FROM stored.{name} ORDER BY hash({name}::VARCHAR)")
        connection.execute("CREATE TABLE incoming AS SELECT *, 'row' AS kind FROM metrics")
        connection.execute(f"CREATE TABLE summaries AS {projection.SUMMARIES}")
        connection.execute(projection.VIEWS)
        for name in ("summaries", "final", "leaderboard", "curves", "pairs", "edit_pairs", "costs"):
            rows = connection.execute(f"FROM {name} ORDER BY ALL").fetchall()
            assert [tuple(map(repr, row)) for row in rows] == before[name], name


def test_streams_are_those_before_the_first_step_and_of_trials_that_finished_when_last_measured(tmp_path):
    """A trial that diverged has a start, and no stream that training has brought it to."""
    ends = {"a10000": Outcome("finished", 40), "b20000": Outcome("diverged", 30, {"cause": "loss"})}
    with opened(tmp_path) as results:
        results.record_plan(the := plan(), DOCUMENTS)
        for each in the.trials:
            if (end := ends.get(each.id)) is not None:
                results.begin(each)
                rows = [Row(step, "activation_rms", "layers.0", 1.0 + step) for step in (0, 10, 30)]
                results.append(each.id, [*rows, Row(30, "token_cosine", "layers.0", math.nan), end])
        results.refresh()
    read = query(tmp_path, "SELECT trial_id, quantity, step, value FROM streams ORDER BY ALL").rows
    assert read == (("a10000", "size", 0, 1.0), ("a10000", "size", 30, 31.0), ("b20000", "size", 0, 1.0))
