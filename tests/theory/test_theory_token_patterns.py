"""Random sequences: tokens that are the same as often as is asked, and apart for forecasts and for samples."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.theory.sequences import FORECAST, SAMPLED, draw_tokens, patterns, probabilities

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("repetition", [0.01, 0.05, 0.3, 0.5, 0.7, 0.99, 1.0])
def test_two_tokens_are_the_same_as_often_as_is_asked(repetition):
    p = probabilities(repetition, 50_257)
    assert p.sum() == pytest.approx(1) and (p >= 0).all()
    assert (p**2).sum() == pytest.approx(repetition)
    drawn = draw_tokens(repetition, 50_257, 200, 50, FORECAST)
    same = (drawn[:, :, None] == drawn[:, None]).sum((1, 2)) - 200
    assert same.mean() / (200 * 199) == pytest.approx(repetition, abs=0.02)


@pytest.mark.parametrize("repetition", [None, 0.0, 1e-9])
def test_without_one_all_kinds_are_equally_likely(repetition):
    assert probabilities(repetition, 8) == pytest.approx(np.full(8, 1 / 8))


def test_those_of_a_forecast_are_not_those_of_any_sample_and_come_again():
    ahead = draw_tokens(0.05, 100, 32, 4, FORECAST)
    assert (ahead == draw_tokens(0.05, 100, 32, 4, FORECAST)).all()
    for seed in range(3):
        assert (ahead != draw_tokens(0.05, 100, 32, 4, SAMPLED, seed)).any()


def test_of_a_deep_model_they_are_fewer():
    assert patterns(4) > patterns(48) > 1
