"""What a run keeps of its forecasts: rows beside what step 0 measured, parameters in MLflow, a table on the page."""

from __future__ import annotations

import math
import re
from statistics import fmean, stdev

import pytest
from scipy import stats
from tiny_spaces import write_world

import ablate
from ablate.api import ask
from ablate.report.forecasts import ends_in_words
from ablate.session.reporting import report
from ablate.store import files
from ablate.store.mlflow_pages import read_pages
from ablate.store.pending_rows import Stored, changes
from ablate.store.predictions import NOT_KEPT
from ablate.store.snapshot import Snapshot

SETTINGS = (
    "design={compare: [pre_ln, op, alike]}",
    "blocks={alike: [residual: [layer_norm, attention: {query: identity, key: identity}]]}",
    "measure.probes=[activation_rms, token_cosine, kurtosis]",
    "recipe.steps=2",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forecasts")
    space = ablate.load_space(write_world(folder, seeds=3), settings=SETTINGS)
    run = ablate.run(space, results=folder / "results", executor="inline", mirror=False)
    return space, run, folder / "results"


def test_every_variant_has_a_row_with_its_numbers_or_its_reason(world):
    _, run, results = world
    (answer,) = ask("FROM forecasts ORDER BY position", results=results)
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    forecasts = dict(run.plan.forecasts)
    assert [row["variant"] for row in rows] == ["pre_ln", "op", "alike"] and len(forecasts) == 3
    for row in rows[:2]:
        made = forecasts[row["variant_id"]]
        for name in ("growth", "cosine", "gradient", "logits", "context", "whole", "repetition"):
            assert row[name] == getattr(made, name), name
        assert tuple(row["dangers"]) == made.dangers and row["refused"] is None
    assert rows[2]["refused"].startswith("attention whose queries and keys both start") and rows[2]["dangers"] is None
    assert rows[2]["cosine"] is rows[2]["whole"] is None


def test_the_layers_are_those_of_the_forecast(world):
    _, run, results = world
    for id, made in run.plan.forecasts:
        statement = f"SELECT layer, address, size, cosine, gradient FROM plan_forecast_layers WHERE variant_id = '{id}'"
        rows = [tuple(row) for row in ask(statement + " ORDER BY layer", results=results)[0].rows]
        places = ["layers.1", "layers.2", None]  # behind the last layer probes read behind the final norm
        assert rows == [
            (each.layer, place, each.size, each.cosine, each.gradient)
            for each, place in zip(made.streams, places, strict=False)
        ]


@pytest.mark.parametrize(("quantity", "metric"), [("size", "activation_rms"), ("cosine", "token_cosine")])
def test_errors_are_of_the_means_over_seeds_before_the_first_step(world, quantity, metric):
    _, run, results = world
    names = {variant.id: variant.name for variant in run.plan.variants}
    forecasts = {names[id]: made for id, made in run.plan.forecasts}
    rows = ablate.query(f"FROM forecast_errors WHERE quantity = '{quantity}'", results=results).to_dict("records")
    assert {row["variant"] for row in rows} == {"pre_ln", "op"} and len(rows) == 4
    every = ablate.query(
        f"SELECT trial_id, step, address, value FROM metrics WHERE metric = '{metric}'", results=results
    )
    for row in rows:
        trials = [trial.id for trial in run.plan.trials if names[trial.variant] == row["variant"]]
        here = every[(every["step"] == 0) & (every["address"] == f"layers.{row['layer'] + 1}")]
        values = [value for trial, value in zip(here["trial_id"], here["value"], strict=True) if trial in trials]
        assert len(values) == row["n"] == 3
        assert row["measured"] == pytest.approx(fmean(values)) and row["sd"] == pytest.approx(stdev(values))
        ahead = getattr(forecasts[row["variant"]].streams[row["layer"]], quantity)
        assert row["forecast"] == ahead
        expected = ahead / fmean(values) - 1 if quantity == "size" else ahead - fmean(values)
        assert row["error"] == pytest.approx(expected) and abs(row["error"]) < 0.5


def test_the_page_has_both_beside_each_other_with_n_and_interval(world):
    space, _, results = world
    text = report(space, results=results).markdown.read_text(encoding="utf-8")
    section = text[text.index("## Forecast") : text.index("## Blocks")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:2] == "| "]
    assert any(row[0] == "alike" and row[2].startswith("not forecast: attention whose") for row in rows)
    (row,) = [row for row in rows if row[:3] == ["op", "2", "cosine"]]
    seen = ablate.query(
        "FROM forecast_errors WHERE variant = 'op' AND quantity = 'cosine' AND layer = 1", results=results
    ).to_dict("records")[0]
    half = stats.t.ppf(0.975, 2) * seen["sd"] / math.sqrt(3)
    low, high = seen["measured"] - half, seen["measured"] + half
    assert row[3:8] == [
        f"{seen['forecast']:.3g} {ends_in_words(seen['low'], seen['high'])}",
        f"{seen['measured']:.3g} [{low:.3g}, {high:.3g}]",
        f"{seen['error']:+.3f}",
        f"{seen['within']:.0f} of 3",
        "3",
    ]
    for word in (
        "size: root mean square",
        "cosine: mean cosine",
        "95 % interval by t",
        "gradient: root mean square",
    ):
        assert word in section


def test_what_no_probe_has_measured_is_said_not_to_be(world):
    space, _, results = world
    without = ablate.load_space(
        space.path, settings=(*SETTINGS[:2], SETTINGS[3], "measure.probes=[kurtosis]", "seeds=1")
    )
    ablate.run(without, results=results.parent / "unmeasured", executor="inline", mirror=False)
    text = report(without, results=results.parent / "unmeasured").markdown.read_text(encoding="utf-8")
    assert re.search(r"\| op \| 1 \| size \| 1 ± \d+% \| not measured \|  \|  \| 0 \|", text)
    rows = ablate.query("SELECT n, measured FROM forecast_errors", results=results.parent / "unmeasured")
    assert set(rows["n"]) == {0} and rows["measured"].isna().all()


def test_mlflow_runs_have_them_as_parameters(world):
    _, run, results = world
    (page,) = read_pages(results)
    names = {variant.id: variant.name for variant in run.plan.variants}
    made = {names[id]: each for id, each in run.plan.forecasts}
    assert len(page.runs) == 9
    for each in page.runs:
        given = {key: value for key, value in each.params.items() if key.startswith("forecast.")}
        ahead = made[each.params["variant"]]
        if ahead.refused:
            assert given == {"forecast.refused": ahead.refused}
        else:
            assert float(given["forecast.cosine"]) == ahead.cosine and given["forecast.dangers"] == "none"
            assert given["forecast.context"] == "16" and "forecast.refused" not in given


def test_a_plan_of_an_earlier_version_says_that_it_made_none(world):
    """Its document has no forecasts: the rows of its variants have the reason."""
    _, _, results = world
    now = Snapshot(results)
    document = now.plans.current("tiny").document
    assert "forecast" in document["variants"][0]
    for variant in document["variants"]:
        del variant["forecast"]
    tables = changes(now, Stored()).tables
    assert tables["plan_forecasts"]["refused"].to_pylist() == [NOT_KEPT] * 3
    assert tables["plan_forecasts"]["cosine"].null_count == 3 and tables["plan_forecast_layers"].num_rows == 0


def test_the_same_plan_is_kept_once(world):
    space, _, results = world
    before = files.names(results, "plans")
    ablate.run(space, results=results, executor="inline", mirror=False)
    assert files.names(results, "plans") == before
