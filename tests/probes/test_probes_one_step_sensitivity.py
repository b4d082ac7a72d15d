"""The relative change of the stream by a step, in NumPy float64."""

import numpy as np
import pytest
import torch

from ablate.probes.registry import probes
from ablate.probes.update import changes, streams
from ablate.testing import ProbeContract

pytestmark = pytest.mark.fast


class TestOneStepSensitivity(ProbeContract):
    probe = "one_step_sensitivity"


def read(x, after):
    found = probes()["one_step_sensitivity"].measure(torch.from_numpy(x), torch.from_numpy(after))
    return found["one_step_sensitivity"].item()


def sample():
    random = np.random.default_rng(0)
    return random.normal(size=(7, 5)) * np.exp(random.normal(size=5)), random.normal(size=(7, 5))


def test_it_is_the_squared_relative_change():
    x, change = sample()
    exact = sum(change[a, j] ** 2 for a in range(7) for j in range(5)) / sum(v**2 for v in x.ravel())
    assert read(x, x + change) == pytest.approx(exact, rel=1e-12)
    assert read(3 * x, 3 * (x + change)) == pytest.approx(exact, rel=1e-12)
    assert read(x, x + 0.1 * change) == pytest.approx(0.01 * exact, rel=1e-9)
    assert read(x, x) == 0


def test_it_is_the_second_order_of_moment_update_relative_to_the_moment():
    x, change = sample()
    of_moment = probes()["moment_update"].measure(torch.from_numpy(x), torch.from_numpy(x + change))
    assert read(x, x + change) == pytest.approx(of_moment["moment_update_2_2"].item() / np.mean(x**2), rel=1e-12)


def test_it_grows_as_the_square_of_the_rate(build, tokens):
    """Of a step along the gradient, at every place that lies behind something that was trained."""
    read_at = {}
    for rate in (1e-5, 2e-5):
        model = build().double()
        before = streams(model, lambda model=model: model(tokens))
        torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        torch.optim.SGD(model.parameters(), lr=rate).step()
        after = streams(model, lambda model=model: model(tokens))
        found = changes([probes()["one_step_sensitivity"]], before, after)
        read_at[rate] = {reading.address: reading.value.item() for reading in found}
    assert set(read_at[1e-5]) == {"layers.1", "layers.2", "head"}
    for address, value in read_at[1e-5].items():
        assert value > 0 and read_at[2e-5][address] == pytest.approx(4 * value, rel=1e-2)
