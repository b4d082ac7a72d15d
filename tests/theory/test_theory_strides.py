"""Strides: sums of smooth increments from few of them, and deep models against the same layer by layer."""

from __future__ import annotations

import numpy as np
import pytest
from reading import transformer
from test_theory_models import model

from ablate.theory import through_layers
from ablate.theory.models import forecast
from ablate.theory.through_layers import strides

CATALOGUE = transformer().catalogue
LAYERS = 400

MAPS = {
    "a sum of 1/l": (lambda layer, y: y + 1 / (layer + 1), 1.0),
    "a constant rate": (lambda layer, y: y - 0.3, 0.0),
    "a slow exponential": (lambda layer, y: y + 0.01 * (3 - y), 0.0),
    "what is forgotten at once, and a drift": (lambda layer, y: 0.1 * y + np.log(layer + 2), 5.0),
}


def one_by_one(step, start):
    values = [np.array([start])]
    for layer in range(LAYERS):
        values.append(step(layer, values[-1]))
    return np.array(values)


@pytest.mark.parametrize("name", MAPS)
def test_states_are_those_of_going_layer_by_layer(name):
    step, start = MAPS[name]
    through = strides(step, np.array([start]), LAYERS)
    assert through.states == pytest.approx(one_by_one(step, start), abs=0.01)
    assert len(through.computed) < LAYERS / (2 if "forgotten" in name else 5)
    assert {0, 1, LAYERS} <= through.computed


def test_what_jumps_at_one_layer_may_be_missed_so_patterns_go_layer_by_layer():
    def step(layer, y):
        return y + (5.0 if layer == 200 else 0.0)

    assert strides(step, np.zeros(1), LAYERS).states[-1] != pytest.approx(one_by_one(step, 0.0)[-1])
    alternating = model(
        "[{cycle: [{residual: [layer_norm, attention]}, {residual: [layer_norm, mlp]}]}]", 130, length=4
    )
    assert forecast(alternating, CATALOGUE, 0.05).computed == frozenset(range(131))


def test_what_swings_from_layer_to_layer_is_computed_layer_by_layer():
    def step(layer, y):
        return y + np.sin(2.0 * layer)

    through = strides(step, np.zeros(1), LAYERS)
    assert through.states == pytest.approx(one_by_one(step, 0.0), abs=0.01)


def test_what_comes_to_rest_is_left_by_strides_that_do_not_sway():
    """Numbers of one state that are forgotten at 0.75 a layer: strides of more than ten would sway about their rest."""

    def step(layer, y):
        return np.array([0.75 * y[0] + 0.2 * y[1], 0.75 * y[1] + 1, y[2] - 0.3])

    start = np.array([5.0, -3.0, 0.0])
    through = strides(step, start, LAYERS)
    exact = [start]
    for layer in range(LAYERS):
        exact.append(step(layer, exact[-1]))
    assert through.states == pytest.approx(np.array(exact), abs=0.01)
    assert len(through.computed) < 130
    assert through.states[-1] == pytest.approx(exact[-1], abs=1e-6)


def test_strides_end_where_steps_are_cheap():
    step, start = MAPS["a sum of 1/l"]
    some = set(range(0, LAYERS, 10)) | set(range(1, LAYERS, 10))
    through = strides(step, np.array([start]), LAYERS, cheap=some)
    alone = strides(step, np.array([start]), LAYERS)
    ends = {layer for layer in alone.computed if layer > 50}, {layer for layer in through.computed if layer > 50}
    dear = [{layer - 1 for layer in each} - some for each in ends]  # the step that gives a layer has the number before
    assert len(dear[1]) < len(dear[0]) / 2
    assert through.states == pytest.approx(one_by_one(step, start), abs=0.01)


@pytest.mark.parametrize("block", ["pre_ln", "post_ln", "dslm_pre_ln", "u_spa", "e_spa", "skipless", "gated_attention"])
def test_a_deep_model_is_that_of_going_layer_by_layer(block, monkeypatch):
    whole = model(block, 150, length=12)
    by_strides = forecast(whole, CATALOGUE, 0.05)
    monkeypatch.setattr(through_layers, "FEWEST", 1_000)
    exact = forecast(whole, CATALOGUE, 0.05)
    assert len(exact.computed) == 151
    assert len(by_strides.computed) < 151
    for quick, slow in zip(by_strides.streams, exact.streams, strict=True):
        assert quick.mean_square == pytest.approx(slow.mean_square, rel=0.01)
        assert quick.correlation == pytest.approx(slow.correlation, abs=0.003)
        assert quick.gradient == pytest.approx(slow.gradient, rel=0.02)
        assert quick.gradient_correlation == pytest.approx(slow.gradient_correlation, abs=0.01)
    assert by_strides.logits == pytest.approx(exact.logits, rel=0.01)


def test_a_tied_head_meets_what_is_kept_of_its_token(monkeypatch):
    around = {"tied": True, "logit_scale": 0.1}
    whole = model("[{residual: {skip: 0.999, gain: 0.05, branch: [layer_norm, attention]}}]", 150, length=12, **around)
    by_strides = forecast(whole, CATALOGUE, 0.05).logits
    monkeypatch.setattr(through_layers, "FEWEST", 1_000)
    assert by_strides == pytest.approx(forecast(whole, CATALOGUE, 0.05).logits, rel=0.01)
