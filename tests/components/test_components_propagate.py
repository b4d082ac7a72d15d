"""What components say of token kernels, against what they compute."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import SIZES
from scipy.integrate import quad
from scipy.stats import norm

from ablate.components.entropy import clamp, softcap
from ablate.components.gates import sigmoid_gate
from ablate.components.inits import deep_scale, fan_in, normal, orthogonal, xavier, zero
from ablate.components.masks import causal, full, window
from ablate.components.positions import rope
from ablate.signal.propagation import Signal

MASKS = [(causal.Config(), causal.Causal), (full.Config(), full.Full)]
WINDOWS = [(window.Config(size=size), window.Window) for size in (1.0, 3.0, 4.5, 12.0, 40.0)]


@pytest.mark.fast
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize(("config", "built"), MASKS + WINDOWS)
def test_a_mask_shows_what_it_shows_when_it_runs(config, built, is_causal):
    sizes = replace(SIZES, causal=is_causal)
    queries = torch.arange(SIZES.seq_len)
    seen = built(config, sizes).mask.sees(torch.tensor(0), queries[:, None], queries[None])
    assert np.array_equal(config.propagate(sizes), np.broadcast_to(seen.numpy(), (SIZES.seq_len,) * 2))


@pytest.mark.fast
@pytest.mark.parametrize("variance", [0.01, 0.7, 5.0])
@pytest.mark.parametrize(
    ("config", "built"),
    [
        (clamp.Config(bound=1.0), clamp.Clamp),
        (clamp.Config(bound=2.5), clamp.Clamp),
        (softcap.Config(cap=1.0), softcap.Softcap),
        (softcap.Config(cap=4.0), softcap.Softcap),
    ],
)
def test_what_bounds_scores_keeps_its_mean_slope_of_their_covariances(config, built, variance):
    """By Stein's lemma E[f(s) s] = Var(s) E[f'(s)], with f as it runs; by quadrature in float64."""
    bound = built(config, SIZES, 8)

    def integrand(s):
        f = bound.on_logits(torch.tensor([s], dtype=torch.float64)).item()
        return f * s * norm.pdf(s, scale=math.sqrt(variance))

    slope = quad(integrand, 0, 12 * math.sqrt(variance), limit=200)[0] * 2 / variance
    assert config.propagate(variance, SIZES) == pytest.approx(slope, rel=1e-5)


@pytest.mark.fast
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_positions_turn_kernels_as_they_turn_vectors(share):
    """Σ ⊙ R with R_ij = tr(R_iᵀ R_j) / width, from the matrices that the module multiplies by."""
    width, config = 16, rope.Config(base=100.0, share=share)
    each = torch.eye(width, dtype=torch.float64)[None, :, None].expand(1, width, SIZES.seq_len, width)
    turned = rope.RoPE(config, SIZES, width)(each, each)[0][0].numpy()  # [channel, place, width]
    expected = np.einsum("ciw,cjw->ij", turned, turned) / width
    alike = 0.3 + 0.7 * np.eye(SIZES.seq_len)
    x = config.propagate(Signal.root(alike), SIZES, width)
    assert x.kernel == pytest.approx(alike * expected, abs=1e-6)
    assert x.backward(alike) == pytest.approx(alike * expected, abs=1e-6)
    assert not np.allclose(x.kernel, alike, atol=0.01)


LAYER = replace(SIZES, layer=2)
INITS = [
    (fan_in.Config(gain=1.5), fan_in.FanIn),
    (normal.Config(std=0.02), normal.Normal),
    (xavier.Config(gain=0.8, distribution="uniform", per_head=False), xavier.Xavier),
    (xavier.Config(gain=0.8, distribution="normal", per_head=True), xavier.Xavier),
    (orthogonal.Config(gain=1.5), orthogonal.Orthogonal),
    (deep_scale.Config(correlation=0.2, dropout=0.1, skip=0.9, gain=0.4), deep_scale.DeepScale),
    (zero.Config(), zero.Zero),
]


@pytest.mark.parametrize(("d_in", "d_out"), [(384, 384), (256, 768), (768, 256)])
@pytest.mark.parametrize(("config", "built"), INITS)
def test_an_init_scales_kernels_and_gradients_as_its_matrices_do(config, built, d_in, d_out):
    """Of one matrix: mean squares forwards and back, and the largest singular value."""
    weight = torch.empty(d_out, d_in, dtype=torch.float64)
    built(config, LAYER).fill(weight, d_in, d_out, torch.Generator().manual_seed(0))
    w = weight.numpy()
    x = config.propagate(Signal.root(np.eye(3)), LAYER, d_in, d_out)
    assert x.kernel[0, 0] == pytest.approx((w**2).sum() / d_out, rel=0.02)
    assert x.backward(np.eye(3))[0, 0] == pytest.approx((w**2).sum() / d_in, rel=0.02)
    assert x.largest == pytest.approx(np.linalg.norm(w, 2), rel=0.03)
    assert x.transfer is None


@pytest.mark.parametrize("inputs", [256, 64])
@pytest.mark.parametrize("per", ["channel", "head"])
def test_a_gate_multiplies_what_it_is_on_and_gives_a_gradient_to_what_it_reads(per, inputs):
    """Kernels of y ⊙ 2 σ(x W), and of the gradient of x through the gate alone, over 200 matrices in NumPy."""
    width, heads, length, random = 256, 4, 5, np.random.default_rng(0)
    alike, other, back = (share * np.ones((length, length)) + (1 - share) * np.eye(length) for share in (0.6, 0.2, 0.4))
    factors = width if per == "channel" else heads
    kernels, gradients = [], []
    for _ in range(200):
        x, y, g = (np.linalg.cholesky(each) @ random.normal(size=(length, width)) for each in (alike, other, back))
        w = random.normal(size=(inputs, factors)) / math.sqrt(inputs)
        opened = np.repeat(2 / (1 + np.exp(-x[:, :inputs] @ w)), width // factors, axis=1)
        into = (g * y * opened * (2 - opened) / 2).reshape(length, factors, -1).sum(2) @ w.T
        kernels.append((y * opened) @ (y * opened).T / width)
        gradients.append(into @ into.T / width)
    weight = lambda x, d_in, d_out: x.through_weights(1.0, d_out / d_in)  # noqa: E731
    gate = sigmoid_gate.Config(weight=weight, per=per, inputs=inputs, factor=2.0)
    sizes = replace(SIZES, d_model=width, n_heads=heads)
    still = replace(Signal.root(other), backward=lambda gradient: 0 * gradient)
    z = gate.propagate(Signal.root(alike), sizes, still, width, heads)
    for forecast, sampled in ((z.kernel, kernels), (z.backward(back), gradients)):
        own, crossed = own_and_crossed(np.mean(sampled, axis=0))
        assert own_and_crossed(forecast) == pytest.approx((own, crossed), abs=0.06 * own)


def own_and_crossed(kernel):
    """The mean of the diagonal and that beside it: tokens here are all alike."""
    own = float(np.diag(kernel).mean())
    return own, float((kernel.sum() - len(kernel) * own) / (len(kernel) * (len(kernel) - 1)))
