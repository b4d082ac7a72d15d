"""What a forecast warns of, at the numbers from which it does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_theory_models import CATALOGUE, model

from ablate.errors import InputError
from ablate.signal.attention_kernel import LARGEST, ScoresOverflow
from ablate.signal.sampled_attention import AttentionStart, random_attention
from ablate.theory.diagnostics import collapse_layer, danger_of_refusal, dangers, silence
from ablate.theory.initial_state import InitialModel, InitialStream
from ablate.theory.models import forecast


def made(*, correlations=(0.1, 0.2, 0.3), sizes=(1.0, 1.0, 1.0), gradients=(1.0, 1.0, 1.0)):
    streams = tuple(
        InitialStream(n, size, correlation, gradient, 0.0, np.eye(2))
        for n, (correlation, size, gradient) in enumerate(zip(correlations, sizes, gradients, strict=True))
    )
    return InitialModel(streams, logits=1.0, repetition=0.0, computed=frozenset(range(len(streams))))


def test_a_model_without_a_danger_has_none():
    assert dangers(made()) == ()


@pytest.mark.parametrize(
    ("correlations", "layer"),
    [
        ((0.1, 0.995, 0.999), 1),
        ((0.995, 0.995, 0.995), 0),
        ((0.1, 0.2, 0.9901), 2),
        ((0.1, 0.2, 0.99), None),
        ((0.1, 0.999, 0.5), None),
        ((0.999, 0.5, 0.999), 2),
    ],
)
def test_tokens_collapse_from_the_layer_on_behind_which_they_stay_together(correlations, layer):
    forecast = made(correlations=correlations)
    assert collapse_layer(forecast) == layer
    assert bool(dangers(forecast)) == (layer is not None)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(1.01e4, "exploding gradient: 100 times as large"), (0.99e-4, "vanishing gradient: 101 times smaller")],
)
def test_gradients_are_warned_of_from_a_factor_of_a_hundred(ratio, words):
    (danger,) = dangers(made(gradients=(ratio, 1.0, 1.0)))
    assert str(danger) == danger.sentence and str(danger).startswith(words)
    assert danger.kind == words.partition(":")[0]
    assert dangers(made(gradients=(0.9e4, 1.0, 1.0))) == () == dangers(made(gradients=(1.1e-4, 1.0, 1.0)))


def test_a_gradient_of_which_nothing_is_left_vanishes_without_a_factor():
    (danger,) = dangers(made(gradients=(0.0, 0.0, 1.0)))
    assert danger.kind == "vanishing gradient"
    assert str(danger) == "vanishing gradient: zero in front of the first layer, and not behind the last"


@pytest.mark.parametrize(
    ("last", "word", "how"),
    [
        (1.1e6, "grows", "by a factor of 1,050 "),
        (0.9e-6, "shrinks", "by a factor of 1,050 "),
        (0.0, "shrinks", "to zero "),
    ],
)
def test_streams_are_warned_of_from_a_factor_of_a_thousand(last, word, how):
    (danger,) = dangers(made(sizes=(1.0, 1.0, last)))
    assert danger.kind == f"the stream {word}"
    assert str(danger) == f"the stream {word} {how}through the layers"
    assert dangers(made(sizes=(1.0, 1.0, 0.9e6))) == ()


@pytest.mark.parametrize("size", [float("inf"), float("nan")])
def test_a_stream_that_overflows_is_told_by_its_layer(size):
    (danger,) = dangers(made(sizes=(1.0, size, 1.0)))
    assert danger.kind == "numbers are no longer finite"
    assert str(danger).startswith("numbers are no longer finite at layer 1")


def test_a_stream_that_begins_at_zero_has_no_growth():
    model = made(sizes=(0.0, 1.0, 1.0))
    assert np.isnan(model.growth) and dangers(model) == ()


def test_two_dangers_are_two_kinds():
    model = made(correlations=(0.1, 0.995, 0.999), sizes=(1.0, 1.0, 1e8), gradients=(1e5, 1.0, 1.0))
    assert [each.kind for each in dangers(model)] == ["rank collapse", "the stream grows", "exploding gradient"]


def test_attention_is_nearly_one_hot_from_scores_of_a_standard_deviation_of_four():
    def of(*variances):
        kernels = [
            random_attention(np.eye(2), variance * np.eye(2), np.eye(2), np.eye(2), 1.0) for variance in variances
        ]
        layers = tuple(AttentionStart((head,), layer) for layer, head in enumerate(kernels, 1))
        return dangers(replace(made(), attention=layers))

    assert of(1.0, LARGEST) == ()
    (danger,) = of(1.0, 17.0, 25.0, 2.0)
    assert danger.kind == "attention nearly one-hot"
    assert str(danger) == (
        "attention nearly one-hot, first in layer 2: its scores have a standard deviation of up to 5, above 4"
    )


@pytest.mark.parametrize("variance", [float("inf"), float("nan")])
def test_attention_that_cannot_be_forecast_is_in_danger(variance):
    kind, words = "numbers are no longer finite", "attention whose scores overflow"
    with pytest.raises(ScoresOverflow, match=words) as refused:
        random_attention(np.eye(2), variance * np.ones((2, 2)), np.ones((2, 2)), np.eye(2), 1.0)
    assert "\n  = " in str(refused.value) and "nan" not in str(refused.value)
    danger = danger_of_refusal(refused.value)
    assert danger.kind == kind and words in danger.sentence and "\n" not in danger.sentence


def test_what_is_not_forecast_for_another_reason_is_in_no_danger():
    assert danger_of_refusal(InputError("a mask is not forecast\n  = choose another")) is None


ZERO = "residual: {gain: {init: 0, trainable: true}, branch: [layer_norm"


@pytest.mark.parametrize(
    ("block", "silent"),
    [
        (f"[{ZERO}, attention]}}, {ZERO}, mlp]}}]", True),
        (f"[{ZERO}, attention]}}, residual: [layer_norm, mlp]]", False),
        ("[residual: [layer_norm, attention: {projection: {dense: {init: zero}}}], "
         "residual: [layer_norm, mlp: {down: {dense: {init: zero}}}]]", True),
        ("[residual: [layer_norm, attention], residual: [layer_norm, mlp]]", False),
    ],
    ids=["rezero", "one branch", "projections of zeros", "pre_ln"],
)  # fmt: skip
def test_a_start_at_which_no_layer_writes_anything_says_nothing_of_the_block(block, silent):
    found = forecast(model(block, 2, width=64), CATALOGUE, 0.05)
    assert bool(silence(found)) == silent
    assert silent <= (dangers(found) == ())
