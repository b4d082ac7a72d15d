"""The probes that follow released code, against its definitions in NumPy float64, and against the papers' own."""

import itertools

import numpy as np
import pytest
import torch

from ablate.probes.registry import probes

pytestmark = pytest.mark.fast

SHAPES = [(40, 7), (5, 12), (6, 6), (31, 8), (2, 3)]


def sample(n, d):
    """Activations with a common part, so that centring matters."""
    random = np.random.default_rng(0)
    return (random.normal(size=(n, d)) + 1.3 + 0.7 * random.normal(size=d)) * np.exp(random.normal(size=(n, 1)))


def read(name, x):
    return {metric: value.item() for metric, value in probes()[name].measure(torch.from_numpy(x)).items()}


def centred(x):
    return x - x.mean(axis=1)[:, None]


def features(x):
    return centred(x) / (np.sqrt(np.mean(centred(x) ** 2)) + 1e-8)


def kurtosis_as_released(x):
    f = features(x)
    squares = [sum(f[a, j] ** 2 for a in range(len(f))) / len(f) for j in range(f.shape[1])]
    return {"kurtosis_as_released": sum((s - np.mean(squares)) ** 2 for s in squares) / (len(squares) - 1)}


def max_median_ratio_as_released(x):
    sizes = [sorted(abs(value) for value in token) for token in centred(x)]
    return {"max_median_ratio_as_released": np.mean([s[-1] / s[(len(s) - 1) // 2] for s in sizes])}


def token_correlation_as_released(x):
    f = features(x)
    pairs = [f[a] @ f[b] / f.shape[1] for a, b in itertools.permutations(range(len(f)), 2)]
    return {
        "token_correlation_mean_as_released": np.mean(pairs),
        "token_correlation_rms_as_released": np.sqrt(np.mean(np.square(pairs))),
    }


def activation_rms_as_released(x):
    return {"activation_rms_as_released": np.linalg.norm(centred(x)) / np.sqrt(x.size) + 1e-8}


def gram_as_released(x):
    f = features(x)
    pairs = [f[:, i] @ f[:, j] / len(f) for i, j in itertools.permutations(range(f.shape[1]), 2)]
    return {"feature_correlation_rms_as_released": np.sqrt(np.mean(np.square(pairs)))}


RELEASED = {
    f.__name__: f
    for f in (
        kurtosis_as_released,
        max_median_ratio_as_released,
        token_correlation_as_released,
        activation_rms_as_released,
        gram_as_released,
    )
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", RELEASED)
def test_probe_equals_the_released_definition(name, shape):
    x = sample(*shape)
    assert read(name, x) == pytest.approx(RELEASED[name](x), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("name", RELEASED)
def test_it_is_another_number_than_the_papers(name):
    """The test above can fail: the two definitions are told apart by these activations."""
    x = sample(31, 8)
    paper = read(name.removesuffix("_as_released"), x)
    for metric, value in read(name, x).items():
        assert value != pytest.approx(paper[metric.replace("_as_released", "")], rel=1e-3)


def test_kurtosis_is_the_papers_of_centred_activations_less_1_times_d_over_d_less_1():
    x = sample(31, 8)
    paper = read("kurtosis", centred(x))["kurtosis"]
    assert read("kurtosis_as_released", x)["kurtosis_as_released"] == pytest.approx((paper - 1) * 8 / 7, rel=1e-6)
    assert read("kurtosis_as_released", x)["kurtosis_as_released"] != pytest.approx(paper - 1, rel=1e-3)


@pytest.mark.parametrize(("width", "same"), [(7, True), (8, False)])
def test_the_two_medians_differ_at_even_widths_alone(width, same):
    x = sample(31, width)
    ratio = read("max_median_ratio", centred(x))["max_median_ratio"]
    released = read("max_median_ratio_as_released", x)["max_median_ratio_as_released"]
    assert (released == pytest.approx(ratio, rel=1e-12)) == same
    assert released >= ratio * (1 - 1e-12)


def test_what_all_neurons_share_does_not_count():
    """A token of equal entries has nothing left, so tokens that share only that are not correlated."""
    x = sample(31, 8)
    shifted = x + 100 * np.arange(31)[:, None]
    for name in RELEASED:
        assert read(name, shifted) == pytest.approx(read(name, x), rel=1e-9)
    assert read("token_correlation", shifted) != pytest.approx(read("token_correlation", x), rel=1e-2)
