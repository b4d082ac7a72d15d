"""Every shipped space is forecast, or each of its models says why it is not."""

from __future__ import annotations

import warnings

import pytest
from reading import SPACES

from ablate.api import load_space
from ablate.session.forecasting import forecast_space
from ablate.theory.initial_state import InitialModel

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.mark.sampled(4, gate=10)
@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_a_space_is_forecast_or_says_why_not(path, results):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        forecasts = forecast_space(load_space(path), results=results)
    assert forecasts.models or forecasts.refused
    assert all(reason and "\n" not in reason for reason in forecasts.refused.values())
    for model in forecasts.models.values():
        assert isinstance(model, InitialModel)
        assert all(stream.gradient >= 0 for stream in model.streams)
        several = [stream.correlation for stream in model.streams if len(stream.kernel) > 1]  # one token has no cosine
        assert all(-1 <= correlation <= 1 + 1e-9 for correlation in several)
