"""More or fewer keys than queries, and keys that fill up: every backend on this machine against NumPy in float64."""

import numpy as np
import pytest
import torch

from ablate.kernels import Attend, attend, attend_lse, attention_entropy
from ablate.kernels.choose import Needs, objection
from ablate.kernels.gate import BACKENDS
from ablate.kernels.scale import largest_logits

UNFUSED = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
LENGTHS = pytest.mark.parametrize(("n_queries", "n_keys"), [(3, 8), (8, 3), (1, 5), (5, 5)])
PADDED = pytest.mark.parametrize("padded", [False, True])
SCALE = 0.4
B, H, K = 2, 3, 16


def drawn(n_queries, n_keys):
    generator = torch.Generator().manual_seed(n_queries + 10 * n_keys)
    lengths = (n_queries, n_keys, n_keys)
    q, k, v = (torch.randn(B, H, n, K, generator=generator, dtype=torch.float64) for n in lengths)
    real = torch.ones(B, n_keys, dtype=torch.bool)
    real[1, n_keys - n_keys // 2 :] = False
    return q, k, v, real


def by_numpy(q, k, v, real, sink=None):
    """Return the output, the log-sum-exp, and the weights of the keys."""
    q, k, v, real = (x.numpy() for x in (q, k, v, real))
    scores = np.exp(SCALE * np.einsum("bhtk,bhsk->bhts", q, k)) * real[:, None, None]
    sums = scores.sum(-1, keepdims=True)
    whole = sums if sink is None else sums + np.exp(sink.numpy())[:, None, None]
    return np.einsum("bhts,bhsk->bhtk", scores / whole, v), np.log(sums[..., 0]), scores / sums


@UNFUSED
@PADDED
@LENGTHS
@pytest.mark.parametrize("kernel", ["eager", "sdpa", "flex", None])
def test_every_backend(kernel, n_queries, n_keys, padded):
    q, k, v, real = drawn(n_queries, n_keys)
    padding = real if padded else None
    expected = by_numpy(q, k, v, real if padded else torch.ones_like(real))[0]
    with torch.no_grad():
        found = attend(q, k, v, causal=False, scale=SCALE, kernel=kernel, padding=padding)
    assert np.abs(found.numpy() - expected).max() < 1e-12
    if padded:  # the twin: what fills up would be read
        whole = attend(q, k, v, causal=False, scale=SCALE, kernel="eager")
        assert np.abs(whole.numpy() - expected).max() > 1e-3


@UNFUSED
@PADDED
@LENGTHS
def test_gradients_of_the_backends_agree(n_queries, n_keys, padded):
    of_kernel = {}
    for kernel in ("eager", "sdpa"):
        q, k, v, real = drawn(n_queries, n_keys)
        inputs = [x.requires_grad_() for x in (q, k, v)]
        y = attend(*inputs, causal=False, scale=SCALE, kernel=kernel, padding=real if padded else None)
        of_kernel[kernel] = torch.autograd.grad(y.square().sum(), inputs)
    for eager, sdpa in zip(*of_kernel.values(), strict=True):
        assert torch.allclose(eager, sdpa, rtol=0, atol=1e-12)
    if padded:
        hidden = ~real[:, None, :, None].expand_as(of_kernel["eager"][1])
        assert of_kernel["eager"][1][hidden].abs().max() == 0 == of_kernel["eager"][2][hidden].abs().max()


@UNFUSED
@PADDED
@LENGTHS
@pytest.mark.parametrize("kernel", ["eager", "flex"])
def test_the_log_sum_exp(kernel, n_queries, n_keys, padded):
    q, k, v, real = drawn(n_queries, n_keys)
    _, expected, _ = by_numpy(q, k, v, real if padded else torch.ones_like(real))
    with torch.no_grad():
        _, found = attend_lse(q, k, v, causal=False, scale=SCALE, kernel=kernel, padding=real if padded else None)
    assert np.abs(found.numpy() - expected).max() < 1e-12


@PADDED
@LENGTHS
def test_a_sink_the_mean_the_largest_logit_and_the_entropy(n_queries, n_keys, padded):
    q, k, v, real = drawn(n_queries, n_keys)
    sink = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)
    core = Attend(causal=False, scale=SCALE, sink=lambda: sink, elsewhere=True)
    seen = real if padded else torch.ones_like(real)
    if padded:
        core.padding = lambda: real
    expected, _, weights = by_numpy(q, k, v, seen, sink)
    assert np.abs(core(q, k, v).numpy() - expected).max() < 1e-12
    shares = seen.numpy() / seen.numpy().sum(-1, keepdims=True)
    mean = np.einsum("bs,bhsk->bhk", shares, v.numpy())
    assert np.abs(core.uniform(q, k, v).numpy() - mean[:, :, None]).max() < 1e-12
    products = SCALE * np.einsum("bhtk,bhsk->bhts", q.numpy(), k.numpy())
    largest = np.where(seen.numpy()[:, None, None], products, -np.inf).max((0, 2, 3))
    padding = real if padded else None
    assert (
        np.abs(largest_logits(q, k, causal=False, scale=SCALE, padding=padding, rows=2).numpy() - largest).max() < 1e-12
    )
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    found = attention_entropy(q, k, causal=False, scale=SCALE, padding=padding)
    assert np.abs(found.numpy() + (weights * logs).sum(-1)).max() < 1e-12


def test_xformers_takes_it_where_there_is_a_gpu():
    plain = Needs(causal=False, dtype="bfloat16")
    assert objection("xformers", plain, "cuda") == ""
    assert "padding" in objection("xformers", Needs(causal=False, dtype="bfloat16", padding=True), "cuda")
    assert "xformers" in BACKENDS
