"""The cosine of tokens within sequences against NumPy float64, pair by pair; and what only it can see."""

import itertools

import numpy as np
import pytest
import torch

from ablate.probes.registry import probes

pytestmark = pytest.mark.fast

SHAPES = [(3, 5, 7), (1, 6, 4), (4, 2, 3), (2, 40, 5), (5, 7, 64)]


def sample(shape):
    """Sequences each with a direction of its own, tokens of very different sizes."""
    random = np.random.default_rng(0)
    sequences, _, width = shape
    common = random.normal(size=(sequences, 1, width))
    return (random.normal(size=shape) + common) * np.exp(2 * random.normal(size=(*shape[:2], 1)))


def read(x):
    return probes()["token_cosine"].measure(torch.from_numpy(x))["token_cosine"].item()


def cosine(x):
    """Mean over sequences of the mean over pairs i ≠ j of one sequence."""
    of_sequences = []
    for sequence in x:
        pairs = itertools.permutations(sequence, 2)
        of_sequences.append(np.mean([a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for a, b in pairs]))
    return np.mean(of_sequences)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_equals_its_definition_to_1e_12(shape):
    x = sample(shape)
    assert abs(read(x) - cosine(x)) < 1e-12


def test_the_definition_above_tells_the_variants_apart():
    """The test above can fail: the batch jointly, inner products and a kept diagonal all give other numbers."""
    x = sample((3, 5, 7))
    assert abs(read(x.reshape(1, 15, 7)) - read(x)) > 0.05
    assert abs(np.mean([a @ b for s in x for a, b in itertools.permutations(s, 2)]) - read(x)) > 0.05
    units = x / np.linalg.norm(x, axis=-1, keepdims=True)
    assert abs(np.mean(units @ units.transpose(0, 2, 1)) - read(x)) > 0.05


def test_extremes():
    random = np.random.default_rng(0)
    assert read(np.tile(np.eye(4), (2, 1, 1))) == 0
    assert read(np.stack([np.eye(4)[:2] - np.eye(4)[2:]] * 2)) == pytest.approx(0, abs=1e-15)
    opposite = random.normal(size=(2, 1, 4)) * np.array([1.0, -1.0])[None, :, None]
    assert read(opposite) == pytest.approx(-1)
    assert np.isnan(read(random.normal(size=(3, 1, 4))))
    assert np.isnan(read(np.zeros((1, 3, 4))))


def test_collapse_within_sequences_is_seen_that_the_joint_correlation_cannot_see():
    """Eight collapsed sequences that differ look healthier to the joint measure than tokens that share a mean."""
    random = np.random.default_rng(0)
    collapsed = np.tile(random.normal(size=(8, 1, 64)), (1, 64, 1)) * np.exp(random.normal(size=(8, 64, 1)) / 2)
    healthy = random.normal(size=(8, 64, 64)) + 1.4 * random.normal(size=64)
    joint = probes()["token_correlation"].measure

    def correlation(x):
        return joint(torch.from_numpy(x.reshape(-1, 64)))["token_correlation_rms"].item()

    assert read(collapsed) == pytest.approx(1, abs=1e-12)
    assert read(healthy) < 0.75
    assert correlation(collapsed) < correlation(healthy)
