"""What a router does to token kernels, against gains and Jacobians that are computed one token at a time."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.signal.sampled_attention import ROUTING_DRAWS, routing

KERNEL = np.array([[1.0, 0.6, -0.2], [0.6, 0.8, 0.1], [-0.2, 0.1, 2.0]])
EXPERTS, DRAWS, STEP = 6, 500, 1e-5


def gains(r, chosen, *, softmax, normalised):
    """Σ_(e in K) as the equations of the mixture say, for one token."""
    scores = np.exp(r) / np.exp(r).sum() if softmax else 1 / (1 + np.exp(-r))
    g = np.zeros_like(r)
    g[chosen] = scores[chosen]
    return g / g.sum() if normalised else g


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("active", [1, 2, 6])
def test_gains_and_their_slopes(active, softmax, normalised):
    random, root = np.random.default_rng(1), np.linalg.cholesky(KERNEL)
    of = {"softmax": softmax, "normalised": normalised}
    pairs, slopes = [], []
    for _ in range(DRAWS):
        g, jacobians = [], []
        for r in root @ random.normal(size=(3, EXPERTS)):
            chosen = np.argsort(-r)[:active]
            g.append(gains(r, chosen, **of))
            steps = STEP * np.eye(EXPERTS)
            jacobians.append([(gains(r + s, chosen, **of) - gains(r - s, chosen, **of)) / (2 * STEP) for s in steps])
        pairs.append(np.array(g) @ np.array(g).T)
        slopes.append(np.einsum("iem,jem->ij", jacobians, jacobians))
    found = routing(KERNEL, EXPERTS, active, **of)
    for sampled, drawn in ((found.gains, pairs), (found.slopes, slopes)):
        error = np.std(drawn, axis=0) * np.sqrt(1 / DRAWS + 1 / ROUTING_DRAWS)
        assert np.all(np.abs(sampled - np.mean(drawn, axis=0)) <= 4 * error + 1e-9)
        assert error.max() < 0.1 * np.max(np.mean(drawn, axis=0)) + 1e-9


def test_it_is_the_same_each_time_and_sees_who_shares_experts():
    """The twin: tokens whose logits are nearly the same share more of their experts than tokens that are unlike."""
    first, again = (routing(KERNEL, EXPERTS, 2, softmax=True, normalised=True) for _ in range(2))
    assert np.array_equal(first.gains, again.gains)
    alike = routing(np.full((2, 2), 1.0) + 1e-6 * np.eye(2), EXPERTS, 2, softmax=True, normalised=True).gains
    apart = routing(np.eye(2), EXPERTS, 2, softmax=True, normalised=True).gains
    assert alike[0, 1] == pytest.approx(alike[0, 0], rel=0.01)
    assert apart[0, 1] < 0.5 * apart[0, 0]


def test_logits_of_zero_choose_the_same_experts_for_every_token():
    found = routing(np.zeros((3, 3)), EXPERTS, 2, softmax=True, normalised=False)
    assert found.gains == pytest.approx(np.full((3, 3), 2 / EXPERTS**2))
