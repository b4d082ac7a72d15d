"""Forecasts that were kept: read by the page, by MLflow and by the next run, and never made a second time."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from tiny_spaces import write_world

import ablate
from ablate.execute.forecaster import SEQUENCES
from ablate.plan import plan as forecast_room
from ablate.plan.plan import STREAM_PROBES, THEORY, Forecast
from ablate.report.document import Fold
from ablate.report.forecasts import ends_in_words
from ablate.report.page.sections import _forecast
from ablate.session.planning import plan_space
from ablate.session.reporting import report
from ablate.store import files
from ablate.store import predictions as kept_room
from ablate.store.mlflow_pages import read_pages
from ablate.store.predictions import NOT_KEPT, kept_forecasts
from ablate.store.results import Results
from ablate.theory import models as theory
from ablate.theory import sequences

SETTINGS = (
    "design={compare: [pre_ln, op, post_ln]}",
    "measure.probes=[activation_rms, token_cosine, stream_gradient, kurtosis]",
    "model.layers=3",
    "recipe.steps=2",
    "noise={seeds: 2}",
)


def run_in(folder, *settings: str, **options: object):
    space = ablate.load_space(write_world(folder, seeds=2), settings=(*SETTINGS, *settings))
    return space, ablate.run(space, results=folder / "results", executor="inline", mirror=False, **options)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    return *run_in(folder), folder / "results"


def none_is_made(monkeypatch):
    monkeypatch.setattr(sequences, "forecast", lambda *given: pytest.fail("a forecast was made"))


def test_the_arm_of_an_aa_test_has_no_errors_of_its_own(world):
    _, run, results = world
    rows = ablate.query("FROM forecast_errors", results=results).to_dict("records")
    salted = [variant.name for variant in run.plan.variants if variant.setting.salt]
    assert len(salted) == 1 and {row["variant"] for row in rows} == {"pre_ln", "op", "post_ln"}
    assert {row["n"] for row in rows} == {2}


def test_errors_are_relative_for_sizes_and_gradients_and_differences_for_cosines(world):
    _, _, results = world
    rows = ablate.query("FROM forecast_errors", results=results).to_dict("records")
    assert {row["quantity"] for row in rows} == set(STREAM_PROBES)
    for row in rows:
        ahead, seen = row["forecast"], row["measured"]
        assert row["error"] == pytest.approx(
            ahead - seen if row["quantity"] == "cosine" else ahead / seen - 1, abs=1e-12
        )


def test_the_view_reads_the_probe_of_each_quantity_that_is_forecast():
    from importlib.resources import files

    view = (files("ablate.store") / "views.sql").read_text(encoding="utf-8")
    pairs = ", ".join(f"('{quantity}', '{probe}')" for quantity, probe in STREAM_PROBES.items())
    assert f"WITH probes (quantity, probe) AS (VALUES {pairs})" in view
    for quantity in STREAM_PROBES:
        assert f"{{'quantity': '{quantity}', 'forecast': l.{quantity}, 'low': l.{quantity}_low, 'high': " in view


def test_what_is_read_in_training_with_dropout_goes_before_what_is_read_at_evaluations(tmp_path):
    probes = "measure.probes=[activation_rms, token_cosine, token_cosine_in_training, kurtosis]"
    space, run = run_in(tmp_path, probes, "block.attention.dropout=0.5")
    results = tmp_path / "results"
    read = {
        (each["metric"], each["address"]): each["mean"]
        for each in ablate.query(
            "SELECT metric, address, avg(value) AS mean FROM metrics JOIN counted USING (trial_id) "
            "JOIN variants USING (plan, variant_id) WHERE step = 0 AND variant = 'op' GROUP BY ALL",
            results=results,
        ).to_dict("records")
    }
    shown = {
        (each.quantity, each.address): each.mean
        for each in report(space, results=results).record.streams
        if each.step == 0 and each.variant == next(variant.id for variant in run.plan.variants if variant.name == "op")
    }
    errors = ablate.query("FROM forecast_errors WHERE variant = 'op'", results=results).to_dict("records")
    assert len(errors) == 3 * 3
    for row in errors:
        if row["quantity"] == "gradient":
            assert row["n"] == 0  # it is not asked for
            continue
        metric, other = (
            ("activation_rms",) * 2 if row["quantity"] == "size" else ("token_cosine_in_training", "token_cosine")
        )
        here = row["address"]
        assert row["measured"] == pytest.approx(read[metric, here], rel=1e-12)
        assert shown[row["quantity"], here] == pytest.approx(read[metric, here], rel=1e-12)
        assert row["quantity"] == "size" or read[other, here] != pytest.approx(read[metric, here], rel=1e-6)


def test_the_page_reads_the_forecasts_that_were_kept(world, monkeypatch):
    space, run, results = world
    none_is_made(monkeypatch)
    reported = report(space, results=results)
    assert reported.record.plan.forecasts == run.plan.forecasts != ()
    text = reported.markdown.read_text(encoding="utf-8")
    row = ablate.query("FROM forecast_errors WHERE variant = 'op' AND quantity = 'cosine'", results=results).iloc[-1]
    shown = [line for line in text.splitlines() if line.startswith(f"| op | {row['layer'] + 1} | cosine |")]
    assert f"| {row['forecast']:.3g} {ends_in_words(row['low'], row['high'])} |" in shown[0]
    assert f"| {row['error']:+.3f} | {row['within']:.0f} of 2 | 2 |" in shown[0]


def test_what_was_measured_last_stands_beside_it_of_trials_that_finished(world):
    space, run, results = world
    rows = ablate.query("FROM forecast_errors WHERE variant = 'op' ORDER BY quantity, layer", results=results)
    values = ablate.query("SELECT * FROM metrics", results=results)
    (id,) = (variant.id for variant in run.plan.variants if variant.name == "op")
    trials = [trial.id for trial in run.plan.trials if trial.variant == id]
    text = report(space, results=results).markdown.read_text(encoding="utf-8")
    for row in rows.to_dict("records"):
        read = values[(values["metric"] == STREAM_PROBES[row["quantity"]]) & values["trial_id"].isin(trials)]
        read = read[read["step"] == read["step"].max()]
        assert row["trained_step"] == read["step"].max() > 0 and row["trained_n"] == 2
        by_trial = read.pivot(index="trial_id", columns="address", values="value")
        last = by_trial[row["address"]]
        if row["quantity"] == "gradient":
            last = last / by_trial["layers.end"]
        assert row["trained"] == pytest.approx(last.mean(), rel=1e-12) != row["measured"]
        error = row["forecast"] - last.mean() if row["quantity"] == "cosine" else row["forecast"] / last.mean() - 1
        assert row["trained_error"] == pytest.approx(error, abs=1e-12)
        shown = next(
            line for line in text.splitlines() if line.startswith(f"| op | {row['layer'] + 1} | {row['quantity']} |")
        )
        error = f"{error:+.3f}" if row["quantity"] == "cosine" else f"{100 * error:+.1f} %"
        assert shown.endswith(f"({row['trained_step']:,}) | {error} |")


def test_the_next_run_makes_none_and_keeps_the_same_plan(world, monkeypatch):
    space, run, results = world
    before = files.names(results, "plans")
    none_is_made(monkeypatch)
    again = ablate.run(space, results=results, executor="inline", mirror=False)
    assert again.plan.forecasts == run.plan.forecasts
    assert files.names(results, "plans") == before


def test_what_another_version_of_the_theory_made_is_not_reused_but_stays_with_its_plan(world, monkeypatch):
    """The same plan keeps what was forecast when it was run; a plan of the same trials that asks otherwise does not."""
    space, run, results = world
    kept = {id: made.theory for id, made in run.plan.forecasts}
    assert set(kept.values()) == {THEORY}
    asked_otherwise = ablate.load_space(space.path, settings=(*SETTINGS, "question=Which?"))

    def made_by(of, version):
        for room in (kept_room, forecast_room):
            monkeypatch.setattr(room, "THEORY", version)
        made = []
        forecast = theory.forecast
        with monkeypatch.context() as patched:
            patched.setattr(sequences, "forecast", lambda *given: made.append(given) or forecast(*given))
            plan = plan_space(of, results=results, forecasts="kept").plan
        assert {trial.id for trial in plan.trials} == {trial.id for trial in run.plan.trials}
        return len(made), plan.forecasts

    assert made_by(space, THEORY + 1) == (0, run.plan.forecasts)
    assert made_by(asked_otherwise, THEORY + 1)[0] == 3 * SEQUENCES
    assert made_by(asked_otherwise, THEORY) == (0, run.plan.forecasts)  # the twin


def test_rows_say_which_theory_and_whether_trials_lie_within(world):
    _, run, results = world
    rows = ablate.query("FROM forecasts", results=results).to_dict("records")
    assert {row["theory"] for row in rows} == {THEORY}
    made = dict(run.plan.forecasts)
    for row in rows:
        ahead = made[row["variant_id"]]
        for name in ("growth", "cosine", "gradient"):
            assert (row[f"{name}_low"], row[f"{name}_high"]) == getattr(ahead, f"{name}_interval")
    errors = ablate.query("FROM forecast_errors", results=results).to_dict("records")
    values = ablate.query("SELECT * FROM metrics WHERE step = 0", results=results)
    for row in errors:
        trials = [trial.id for trial in run.plan.trials if trial.variant == row["variant_id"]]
        read = values[(values["metric"] == STREAM_PROBES[row["quantity"]]) & values["trial_id"].isin(trials)]
        by_trial = read.pivot(index="trial_id", columns="address", values="value")
        here = by_trial[row["address"]]
        if row["quantity"] == "gradient":
            assert not (by_trial["layers.end"] == 1).any(), "else the ratio were the reading"
            here = here / by_trial["layers.end"]
        assert row["measured"] == pytest.approx(here.mean(), rel=1e-12)
        assert row["within"] == sum(row["low"] <= value <= row["high"] for value in here) and len(here) == row["n"] == 2
    assert all(row["low"] < row["forecast"] < row["high"] for row in errors)


def test_other_models_of_the_space_are_forecast(world, tmp_path):
    """The twin: what is kept is reused only where a variant's trial is the same."""
    space, _, results = world
    smaller = ablate.load_space(space.path, settings=(*SETTINGS, "model.layers=2"))
    other = plan_space(smaller, results=results).plan
    kept = kept_forecasts(results, space.name)
    assert kept and not any((trial.id, trial.variant) in kept for trial in other.trials)
    assert all((trial.id, trial.variant) in kept for trial in plan_space(space, results=results).plan.trials)


def test_a_refusal_is_tried_again(tmp_path, monkeypatch):
    forecast = theory.forecast
    monkeypatch.setattr(sequences, "forecast", lambda *given: 1 / 0)
    _, run = run_in(tmp_path, "recipe.steps=1")
    assert all(made.refused for _, made in run.plan.forecasts)
    monkeypatch.setattr(sequences, "forecast", forecast)
    _, again = run_in(tmp_path, "recipe.steps=1")
    assert not any(made.refused for _, made in again.plan.forecasts)


def without_forecasts(results, to):
    """Copy a results folder as an earlier version would have written it: its plan has no forecasts."""
    shutil.copytree(results, to)
    (to / "ablate.duckdb").unlink()
    for kept in files.documents(to, "plans")[0]:
        for variant in kept.content["document"]["variants"]:
            del variant["forecast"]
        content = {name: kept.content[name] for name in ("plan", "first_seen", "document", "specifications")}
        files.keep(to, "plans", content, kept.number, stem=kept.content["plan"])
    with Results(to) as store:
        store.refresh()
    return to


def test_mlflow_keeps_a_run_whose_forecast_changes(world, tmp_path):
    (page,) = read_pages(world[2])
    assert all("forecast.cosine" in run.params for run in page.runs)
    (other,) = read_pages(without_forecasts(world[2], tmp_path / "old"))
    assert [run.tags for run in other.runs] == [run.tags for run in page.runs]  # the digest is among them
    assert not any(name.startswith("forecast") for run in other.runs for name in run.params)


def test_a_plan_that_was_kept_without_says_so_on_its_page_and_in_its_rows(world, tmp_path):
    space, _, results = world
    old = without_forecasts(results, tmp_path / "old")
    text = report(space, results=old).markdown.read_text(encoding="utf-8")
    assert f"not forecast: {NOT_KEPT}" in text
    rows = ablate.query("FROM forecasts", results=old)
    assert set(rows["refused"]) == {NOT_KEPT}


def test_every_layer_is_on_the_page_whatever_number_of_variants_is_refused(world):
    """With two refused of three, the rows of the ends are as many as those of every layer."""
    space, _, results = world
    record = report(space, results=results).record
    (first, made), *others = record.plan.forecasts
    some = ((first, made), *((id, Forecast(refused="no closed form")) for id, _ in others))
    shown = list(_forecast(replace(record, plan=replace(record.plan, forecasts=some))))
    assert any(isinstance(part, Fold) for part in shown)
    short = ((first, replace(made, streams=made.streams[-3:])), *some[1:])
    shown = list(_forecast(replace(record, plan=replace(record.plan, forecasts=short))))
    assert not any(isinstance(part, Fold) for part in shown)  # the twin: two layers are all there are
