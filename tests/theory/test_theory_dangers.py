"""What a forecast warns of, at the numbers from which it does."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.theory.dangers import collapse_layer, dangers
from ablate.theory.initial_state import InitialModel, InitialStream


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
    assert danger.startswith(words)
    assert dangers(made(gradients=(0.9e4, 1.0, 1.0))) == () == dangers(made(gradients=(1.1e-4, 1.0, 1.0)))


@pytest.mark.parametrize(("last", "word"), [(1.1e6, "grows"), (0.9e-6, "shrinks"), (0.0, "shrinks")])
def test_streams_are_warned_of_from_a_factor_of_a_thousand(last, word):
    (danger,) = dangers(made(sizes=(1.0, 1.0, last)))
    assert danger.startswith(f"the stream {word} by a factor of ")
    assert dangers(made(sizes=(1.0, 1.0, 0.9e6))) == ()


@pytest.mark.parametrize("size", [float("inf"), float("nan")])
def test_a_stream_that_overflows_is_told_by_its_layer(size):
    (danger,) = dangers(made(sizes=(1.0, size, 1.0)))
    assert danger.startswith("numbers are no longer finite at layer 1")
