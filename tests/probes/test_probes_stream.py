"""Every stream probe against its definition in NumPy float64, written out with loops over pairs where it has pairs."""

import itertools

import numpy as np
import pytest
import torch

from ablate.probes.registry import probes

SHAPES = [(40, 7), (5, 12), (6, 6), (31, 8), (2, 3)]


def sample(n, d, seed=0):
    """Activations as they are in models: neurons of different sizes, tokens with a common part, none of it centred."""
    random = np.random.default_rng(seed)
    sizes = np.exp(random.normal(size=d))
    return (random.normal(size=(n, d)) + 0.7 * random.normal(size=d)) * sizes * np.exp(random.normal(size=(n, 1)))


def read(name, x):
    return {metric: value.item() for metric, value in probes()[name].measure(torch.from_numpy(x)).items()}


def unit(x):
    return x / np.sqrt(np.mean(x**2))


def off_diagonal(matrix):
    return np.array([matrix[i, j] for i, j in itertools.permutations(range(len(matrix)), 2)])


def kurtosis(x):
    s = np.sqrt(np.mean(x**2, axis=0))
    return {"kurtosis": np.mean(s**4) / np.mean(s**2) ** 2}


def max_median_ratio(x):
    ratios = np.max(np.abs(x), axis=1) / np.median(np.abs(x), axis=1)
    return {
        "max_median_ratio": np.mean(ratios),
        "max_median_ratio_median": np.median(ratios),
        "max_median_ratio_max": np.max(ratios),
    }


def centred(x):
    return x - np.mean(x, axis=1)[:, None]


def kurtosis_centred(x):
    return {"kurtosis_centred": kurtosis(centred(x))["kurtosis"]}


def max_median_ratio_centred(x):
    of = max_median_ratio(centred(x))
    return {metric.replace("ratio", "ratio_centred"): value for metric, value in of.items()}


def activation_rms(x):
    return {"activation_rms": np.linalg.norm(x) / np.sqrt(x.size)}


def token_correlation(x):
    entries = off_diagonal(unit(x) @ unit(x).T / x.shape[1])
    return {"token_correlation_mean": np.mean(entries), "token_correlation_rms": np.sqrt(np.mean(entries**2))}


def gram(x):
    entries = off_diagonal(unit(x).T @ unit(x) / x.shape[0])
    norms = np.linalg.norm(unit(x), axis=1)
    return {
        "feature_correlation_rms": np.sqrt(np.mean(entries**2)),
        "token_norm_kurtosis": np.mean(norms**4) / x.shape[1] ** 2,
    }


DEFINITIONS = {
    f.__name__: f
    for f in (
        kurtosis,
        max_median_ratio,
        activation_rms,
        token_correlation,
        gram,
        kurtosis_centred,
        max_median_ratio_centred,
    )
}


@pytest.mark.fast
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", DEFINITIONS)
def test_probe_equals_its_definition(name, shape):
    x = sample(*shape)
    assert read(name, x) == pytest.approx(DEFINITIONS[name](x), rel=1e-12, abs=1e-13)


@pytest.mark.fast
def test_the_definitions_above_tell_the_variants_apart():
    """The test above can fail: centring, the lower median, cosines and a kept diagonal all give other numbers."""
    x = sample(31, 8)
    assert read("kurtosis", x - x.mean(axis=1, keepdims=True)) != pytest.approx(kurtosis(x), rel=1e-3)
    lower = np.sort(np.abs(x), axis=1)[:, 3]
    assert np.mean(np.max(np.abs(x), axis=1) / lower) != pytest.approx(read("max_median_ratio", x)["max_median_ratio"])
    cosines = unit(x) / np.linalg.norm(unit(x), axis=1, keepdims=True)
    assert np.mean(off_diagonal(cosines @ cosines.T)) != pytest.approx(
        read("token_correlation", x)["token_correlation_mean"], rel=1e-3
    )
    assert np.mean(unit(x) @ unit(x).T / 8) != pytest.approx(
        read("token_correlation", x)["token_correlation_mean"], rel=1e-3
    )


@pytest.mark.fast
def test_aggregations_over_tokens_and_centring_are_told_apart():
    """`test_probe_equals_its_definition` can fail: of these activations each is another number."""
    x = sample(31, 8)
    values = [*read("max_median_ratio", x).values(), *read("max_median_ratio_centred", x).values()]
    assert len({f"{value:.3g}" for value in values}) == 6
    mean, median, largest = values[:3]
    assert median < mean < largest
    assert read("kurtosis_centred", x)["kurtosis_centred"] != pytest.approx(read("kurtosis", x)["kurtosis"], rel=1e-3)
    broken = np.vstack([x, np.zeros((1, 8))])  # a token of zeros has no ratio, and that is not passed over
    assert all(np.isnan(value) for value in read("max_median_ratio", broken).values())


@pytest.mark.fast
def test_extremes():
    equal = np.random.default_rng(0).choice([-1.0, 1.0], size=(50, 6))
    outlier = np.zeros((50, 6))
    outlier[:, 2] = 3.0
    assert read("kurtosis", equal)["kurtosis"] == pytest.approx(1)
    assert read("kurtosis", outlier)["kurtosis"] == pytest.approx(6)
    assert read("max_median_ratio", equal)["max_median_ratio"] == 1
    assert read("max_median_ratio", outlier)["max_median_ratio"] == np.inf
    collapsed = np.tile(np.random.default_rng(0).normal(size=6), (50, 1))
    assert read("token_correlation", collapsed)["token_correlation_mean"] == pytest.approx(1)
    assert read("token_correlation", collapsed)["token_correlation_rms"] == pytest.approx(1)
    orthogonal = np.eye(6)
    assert read("token_correlation", orthogonal)["token_correlation_mean"] == pytest.approx(0, abs=1e-15)
    assert read("token_correlation", orthogonal)["token_correlation_rms"] == pytest.approx(0, abs=1e-15)
    assert np.isnan(read("token_correlation", sample(1, 6))["token_correlation_mean"])
    assert np.isnan(read("kurtosis", np.zeros((4, 6)))["kurtosis"])


@pytest.mark.fast
@pytest.mark.parametrize("name", sorted(set(DEFINITIONS) - {"activation_rms"}))
def test_scale_does_not_matter(name):
    x = sample(31, 8)
    assert read(name, 1e3 * x) == pytest.approx(read(name, x), rel=1e-12)


@pytest.mark.fast
def test_scale_matters_to_activation_rms():  # the test above can fail
    x = sample(31, 8)
    assert read("activation_rms", 1e3 * x)["activation_rms"] == pytest.approx(1e3 * activation_rms(x)["activation_rms"])


def balance(x, read_from):
    """Left and right side of Eq. 4 of arXiv:2405.19279, from the numbers that the probes give."""
    n, d = x.shape
    terms = {
        metric: value for name in ("kurtosis", "gram", "token_correlation") for metric, value in read_from(name).items()
    }
    left = n**2 * d * terms["kurtosis"] + n**2 * d * (d - 1) * terms["feature_correlation_rms"] ** 2
    right = n * d**2 * terms["token_norm_kurtosis"] + n * (n - 1) * d**2 * terms["token_correlation_rms"] ** 2
    return left, right


@pytest.mark.fast
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_four_terms_of_equation_4_balance(shape):
    x = sample(*shape)
    left, right = balance(x, lambda name: read(name, x))
    assert left == pytest.approx(right, rel=1e-12)
    assert left == pytest.approx(np.sum((unit(x) @ unit(x).T) ** 2), rel=1e-12)


@pytest.mark.fast
@pytest.mark.parametrize(
    "metric", ["kurtosis", "feature_correlation_rms", "token_norm_kurtosis", "token_correlation_rms"]
)
def test_a_wrong_term_upsets_the_balance(metric):  # the test above can fail
    x = sample(31, 8)
    left, right = balance(x, lambda name: {m: v * (1.01 if m == metric else 1) for m, v in read(name, x).items()})
    assert left != pytest.approx(right, rel=1e-4)
