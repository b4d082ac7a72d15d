"""Forecasts that cannot be made: a reason with its way out, whatever is raised, and no work before it."""

from __future__ import annotations

import pytest
from tiny_spaces import write_world

import ablate
from ablate.errors import InputError
from ablate.execute import forecaster as room
from ablate.plan.plan import FORECAST_KINDS
from ablate.session.planning import plan_space
from ablate.theory import models as theory
from ablate.theory import sequences


def planned(folder, *settings: str):
    return plan_space(ablate.load_space(write_world(folder), settings=settings), results=folder / "r")


def test_whatever_a_component_raises_is_a_reason_and_planning_goes_on(tmp_path, monkeypatch):
    def fails(*given):
        raise ZeroDivisionError("division by\nzero")

    monkeypatch.setattr(sequences, "forecast", fails)
    plan = planned(tmp_path).plan
    assert {made.refused for _, made in plan.forecasts} == {"its forecast failed: ZeroDivisionError: division by zero"}


def test_a_reason_has_the_way_out(tmp_path, monkeypatch):
    def refuses(*given):
        raise InputError("mine has no closed form\n  = give its Config a method propagate")

    monkeypatch.setattr(sequences, "forecast", refuses)
    plan = planned(tmp_path).plan
    assert {made.refused for _, made in plan.forecasts} == {
        "mine has no closed form; give its Config a method propagate"
    }


def test_a_kind_that_is_never_forecast_reads_no_text(tmp_path, monkeypatch):
    """The reason is that of the theory, which is not asked."""
    assert room.FORECAST_KINDS is theory.FORECAST_KINDS is FORECAST_KINDS
    space = planned(tmp_path)
    model = space.models.architecture(space.plan.variants[0].block)
    object.__setattr__(model, "kind", "retriever")
    with pytest.raises(InputError) as error:
        theory.forecast(model, space.space.grammar.catalogue, None)
    assert room.reason(error.value) == room.not_forecast("retriever")
    monkeypatch.setattr(room, "FORECAST_KINDS", ())
    monkeypatch.setattr(room, "measure_model_inputs", lambda *given: pytest.fail("the text was read"))
    monkeypatch.setattr(sequences, "forecast", lambda *given: pytest.fail("a forecast was made"))
    (reason,) = {made.refused for _, made in planned(tmp_path).plan.forecasts}
    assert reason.startswith("a model of kind decoder is not forecast")


def test_only_forecasts_that_take_long_are_announced(tmp_path, monkeypatch):
    space, said = ablate.load_space(write_world(tmp_path), settings=("noise={seeds: 2}",)), []

    def plan():
        return plan_space(space, results=tmp_path / "r", forecasts="kept", say=said.append).plan

    models = len({variant.block for variant in plan().variants})
    assert said == []
    monkeypatch.setattr(room, "LONG", room.LONG * 1e-6)
    plan()
    assert said == [f"forecasting {models} models before the first step"]
