"""Normality against SciPy's quantiles and NumPy's residuals; and gradients against those that autograd is asked for."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

from ablate.probes.normality import MOST, stride
from ablate.probes.registry import probes, select
from ablate.probes.watch import watching
from ablate.testing import ProbeContract

pytestmark = pytest.mark.fast


class TestNormality(ProbeContract):
    probe = "normality"


class TestGradientNormality(ProbeContract):
    probe = "gradient_normality"


def read(x):
    return probes()["normality"].measure(torch.from_numpy(x))["normality"].item()


def straight(entries):
    """R² of a least-squares line through the quantile-quantile plot: of its residuals, not of a correlation."""
    found = np.sort(entries.ravel())
    quantiles = stats.norm.ppf((np.arange(len(found)) + 0.5) / len(found))
    slope, intercept = np.polyfit(quantiles, found, 1)
    residuals = found - slope * quantiles - intercept
    return 1 - np.sum(residuals**2) / np.sum((found - found.mean()) ** 2)


def sample(shape, seed=0):
    return np.random.default_rng(seed).standard_t(3, size=shape) * 0.3 + 2


@pytest.mark.parametrize("shape", [(5, 3), (40, 8), (700, 64)], ids=str)
def test_it_equals_its_definition(shape):
    x = sample(shape)
    assert read(x) == pytest.approx(straight(x), rel=1e-10)
    assert read(x) != pytest.approx(straight(x**3), rel=1e-3), "else this could not fail"


def test_it_is_near_one_for_normal_entries_alone_whatever_their_mean_and_size():
    random = np.random.default_rng(1)
    assert 0.999 < read(random.normal(3, 0.01, size=(400, 32))) <= 1
    assert read(random.uniform(size=(400, 32))) < 0.97
    assert read(random.lognormal(size=(400, 32))) < 0.7
    exact = stats.norm.ppf((np.arange(64) + 0.5) / 64).reshape(8, 8)
    assert read(random.permutation(exact)) == pytest.approx(1, abs=1e-12)
    assert np.isnan(read(np.ones((4, 4))))


@pytest.mark.parametrize(("tokens", "width"), [(1024, 128), (3000, 96), (257, 256)])
def test_of_many_entries_some_of_each_neuron_are_read(tokens, width):
    x, step = sample((tokens, width), 2), stride(tokens, width)
    assert tokens * width / step <= MOST < tokens * width
    assert len(set(np.arange(0, tokens * width, step) % width)) == width
    assert read(x) == pytest.approx(straight(x.ravel()[::step]), rel=1e-10)
    assert read(x) != pytest.approx(straight(x), rel=1e-9), "else this could not fail"


def test_the_gradients_are_those_of_the_loss_by_the_inputs_of_blocks_and_head(build, tokens):
    model, inputs = build(), {}
    places = {f"layers.{name}": block for name, block in model.layers.items()} | {"head": model.head}
    for address, module in places.items():
        module.register_forward_pre_hook(lambda _, given, address=address: inputs.update({address: given[0]}))
    loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    gradients = dict(zip(inputs, torch.autograd.grad(loss, list(inputs.values())), strict=True))
    with watching(model, select(["gradient_normality"])) as readings:
        functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    read_there = {r.address: r.value.item() for r in readings if r.metric == "gradient_normality"}
    assert set(read_there) == set(places)
    for address, gradient in gradients.items():
        assert read_there[address] == pytest.approx(straight(gradient.numpy()), rel=1e-10)
        stream = inputs[address].detach().numpy()
        assert read_there[address] != pytest.approx(straight(stream), rel=1e-3), "else this could not fail"


def test_without_gradients_there_is_nothing_to_read(build, tokens):
    with torch.no_grad(), watching(build(), select(["gradient_normality"])) as readings:
        build()(tokens)
    assert not [r for r in readings if r.metric == "gradient_normality"]
