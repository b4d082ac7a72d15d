"""The intervals of what is shown of a stream, in the units of what is shown."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.theory.initial_state import InitialStream, Spread, cosine_ends

pytestmark = pytest.mark.fast


def stream(spread: Spread | None) -> InitialStream:
    return InitialStream(1, 4.0, 0.3, 9.0, 0.0, np.eye(2), spread)


def test_ends_are_two_deviations_of_the_log_of_a_mean_square_and_of_a_cosine():
    found = stream(Spread(mean_square=0.2, correlation=0.05, gradient=0.4)).intervals()
    assert found is not None
    of_size, of_cosine, of_gradient = found
    assert np.log(np.square(of_size)) == pytest.approx([math.log(4) - 0.4, math.log(4) + 0.4])
    assert of_cosine[1] - of_cosine[0] == pytest.approx(4 * 0.05)
    low, middle, high = (math.log((1 + c) / (1 - c)) for c in (of_cosine[0], 0.3, of_cosine[1]))
    assert high - middle == pytest.approx(middle - low)  # of two tokens, whose cosine is between -1 and 1
    assert np.log(np.square(of_gradient)) == pytest.approx([math.log(9) - 0.8, math.log(9) + 0.8])


def test_nine_of_ten_and_more_normal_draws_lie_within_and_fewer_in_half_of_it():
    """The twin: ends half as far away hold 68 %, not 95 %."""
    random = np.random.default_rng(0)
    sizes = np.sqrt(4 * np.exp(0.2 * random.standard_normal(20_000)))
    (low, high), *_ = stream(Spread(0.2, 0.05, 0.4)).intervals() or ()
    assert np.mean((low <= sizes) & (sizes <= high)) == pytest.approx(0.954, abs=0.01)
    (low, high), *_ = stream(Spread(0.1, 0.05, 0.4)).intervals() or ()
    assert np.mean((low <= sizes) & (sizes <= high)) == pytest.approx(0.683, abs=0.02)


@pytest.mark.parametrize("cosine", [1e-3, 0.02, 0.5, 0.98, 0.999])
@pytest.mark.parametrize("sd", [1e-3, 0.02, 0.2])
def test_intervals_of_cosines_stay_within_what_a_mean_cosine_can_be(cosine, sd):
    low, high = cosine_ends(cosine, sd, 100)
    assert -1 / 99 <= low < cosine < high <= 1
    assert high - low == pytest.approx(4 * sd)
    assert (high - cosine > cosine - low) == (cosine < 0.49)


def test_a_cosine_that_cannot_vary_or_may_be_anything_has_the_ends_of_that():
    assert cosine_ends(1.0, 0.0, 8) == (1.0, 1.0)
    assert cosine_ends(0.3, 0.4, 5) == (-0.25, 1.0)


def test_what_was_measured_has_none():
    assert stream(None).intervals() is None
