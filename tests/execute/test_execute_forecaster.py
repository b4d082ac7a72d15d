"""Forecasts of a plan's variants: the numbers of `theory`, each model once, over a bounded context, or a reason."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import pytest
from tiny_spaces import write_world

import ablate
from ablate.data import streams
from ablate.data.corpus_statistics import typical_windows
from ablate.execute import forecaster as room
from ablate.report.forecasts import definitions
from ablate.session.planning import check, plan_space
from ablate.theory import models as theory
from ablate.theory import sequences
from ablate.theory.diagnostics import dangers

ALIKE = "blocks={alike: [residual: [layer_norm, attention: {query: identity, key: identity}]]}"
"""A block that is not forecast."""


@pytest.fixture
def hurried(monkeypatch):
    """Plans whose forecasts would take too long, so that they are quick."""
    monkeypatch.setattr(room, "QUICKLY", 0.0)


def planned(folder, *settings: str, **options: object):
    return plan_space(ablate.load_space(write_world(folder), settings=settings), results=folder / "r", **options)


def same(window):
    """Which tokens of a window are the same, [T, T]."""
    return (window[:, None] == window).astype(float)


def test_the_files_of_a_corpus_are_not_looked_at_again_for_forecasts(tmp_path, monkeypatch):
    planned(tmp_path)
    looked, stamp = [], streams._stamp
    monkeypatch.setattr(streams, "_stamp", lambda *given: looked.append(given) or stamp(*given))
    planned(tmp_path, forecasts="none")
    alone = len(looked)
    planned(tmp_path, forecasts="quick", fresh=True)
    assert alone and len(looked) == 2 * alone


LOADED = """
import sys, ablate
from ablate.plan.models import Models
from ablate.session.planning import check
from ablate.theory.models import forecast
space = ablate.load_space("masked_words")
variant = check(space, files=False).variants[0]
model = Models(space, 4096, "", None).architecture(variant.block, variant.setting)
print(forecast(model, space.grammar.catalogue, 0.1).growth > 1, sorted({"torch", "scipy", "ray"} & set(sys.modules)))
"""


@pytest.mark.full
def test_a_forecast_with_gelu_loads_neither_torch_nor_scipy():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True []"


def test_each_variant_has_what_theory_forecasts_of_its_model(tmp_path, hurried):
    plan = planned(tmp_path)
    space, catalogue = plan.space, plan.space.grammar.catalogue
    (window,) = typical_windows(space.data, space.folder, tmp_path / "r" / "cache", 16, 1, catalogue)
    forecasts = dict(plan.plan.forecasts)
    assert list(forecasts) == [variant.id for variant in plan.plan.variants]
    for variant in plan.plan.variants:
        made = forecasts[variant.id]
        model = theory.forecast(plan.models.architecture(variant.block, variant.setting), catalogue, same(window))
        assert made.cosine == pytest.approx(model.streams[-1].correlation, rel=1e-5)
        assert made.gradient == pytest.approx(math.sqrt(model.gradient_ratio), rel=1e-5)
        assert made.growth == pytest.approx(math.sqrt(model.growth), rel=1e-5)
        assert made.logits == pytest.approx(math.sqrt(model.logits), rel=1e-5)
        assert made.dangers == tuple(map(str, dangers(model))) and made.whole and made.context == 16
        sizes = [math.sqrt(stream.mean_square) for stream in model.streams]
        assert [stream.size for stream in made.streams] == pytest.approx(sizes, rel=1e-5)
    assert len({made.cosine for made in forecasts.values()}) > 1


def test_one_model_is_computed_once(tmp_path, monkeypatch, hurried):
    computed, forecast = [], theory.forecast
    monkeypatch.setattr(sequences, "forecast", lambda *given: computed.append(given) or forecast(*given))
    plan = planned(tmp_path, "design={compare: [pre_ln, op]}", "noise={seeds: 2}")
    assert len(plan.plan.variants) == 3 and len(computed) == 2  # the A/A arm is the baseline's model
    first, _, again = (made for _, made in plan.plan.forecasts)
    assert first == again


def test_of_a_long_sequence_fewer_tokens_are_forecast_and_it_is_known(tmp_path, monkeypatch, hurried):
    monkeypatch.setattr(room, "QUICK", {1: 16, 2: 8})
    plan = planned(tmp_path)
    assert {(made.context, made.whole) for _, made in plan.plan.forecasts} == {(8, False)}
    variant = plan.plan.variants[0]
    model = plan.models.architecture(variant.block)
    shorter = replace(model, sizes=replace(model.sizes, seq_len=8))
    made = dict(plan.plan.forecasts)[variant.id]
    catalogue = plan.space.grammar.catalogue
    (window,) = typical_windows(plan.space.data, plan.space.folder, tmp_path / "r" / "cache", 8, 1, catalogue)
    expected = theory.forecast(shorter, catalogue, same(window))
    assert made.cosine == pytest.approx(expected.streams[-1].correlation, rel=1e-4)


def test_a_deep_model_is_forecast_over_fewer_tokens_still(tmp_path, monkeypatch, hurried):
    monkeypatch.setattr(room, "QUICK", {2: 8, 4: 4})
    assert {made.context for _, made in planned(tmp_path).plan.forecasts} == {8}
    assert {made.context for _, made in planned(tmp_path, "model.layers=3").plan.forecasts} == {4}


def test_what_is_kept_is_forecast_over_more_tokens_than_what_is_quick(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "QUICK", {2: 4})
    monkeypatch.setattr(room, "KEPT", 12)
    assert {made.context for _, made in planned(tmp_path, forecasts="kept").plan.forecasts} == {12}


def numbers(plan):
    return [(made.cosine, made.gradient, made.streams) for _, made in plan.plan.forecasts]


def test_a_plan_has_the_forecasts_that_a_run_keeps_where_they_take_no_time(tmp_path):
    plan = planned(tmp_path)
    assert numbers(plan) == numbers(planned(tmp_path, forecasts="kept"))
    assert not any(made.quick for _, made in plan.plan.forecasts)
    assert "stays quick" not in " ".join(definitions(plan.plan))


def test_else_it_says_that_a_run_will_make_others_and_has_those_after_it(tmp_path, hurried):
    before = planned(tmp_path)
    assert all(made.quick for _, made in before.plan.forecasts)
    assert "over one window of the text, so that planning stays quick: `ablate run` makes" in " ".join(
        definitions(before.plan)
    )
    ablate.run(before.space, results=tmp_path / "r", executor="inline", mirror=False)
    kept, after = planned(tmp_path, forecasts="kept"), planned(tmp_path)
    assert numbers(before) != numbers(kept) == numbers(after)
    assert "stays quick" not in " ".join(definitions(after.plan))


def test_a_variant_without_a_forecast_has_its_reason(tmp_path):
    plan = planned(tmp_path, "design={compare: [pre_ln, alike]}", ALIKE)
    made, refused = (each for _, each in plan.plan.forecasts)
    assert not made.refused and made.cosine is not None
    assert refused.refused.startswith("attention whose queries and keys both start as its input")
    assert refused.cosine is refused.gradient is None and refused.streams == () == refused.dangers


def test_planning_without_them_and_checking_make_none(tmp_path, monkeypatch):
    monkeypatch.setattr(sequences, "forecast", lambda *given: pytest.fail("a forecast was made"))
    assert planned(tmp_path, forecasts="none").plan.forecasts == ()
    assert check(ablate.load_space(tmp_path / "tiny.yaml")).forecasts == ()
