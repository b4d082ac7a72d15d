"""Dropout on the softmax's weights: a share of them dropped, the mean kept, off in evaluation."""

import math

import pytest
import torch

from ablate.kernels import Attend, attend

N, P = 512, 0.3


def weights(kernel, dropout, *, causal=False, biased=False):
    """Even attention with dropout, read off by values that are the identity: [B, H, T, S]."""
    torch.manual_seed(0)
    q = torch.zeros(1, 2, N, N, dtype=torch.float64)
    v = torch.eye(N, dtype=torch.float64).expand(1, 2, N, N)
    bias = torch.zeros(1, 1, N, N, dtype=torch.float64) if biased else None
    return attend(q, q, v, causal=causal, scale=1.0, dropout=dropout, bias=bias, kernel=kernel)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("biased", [True, False])
def test_the_share_is_dropped_and_the_mean_kept(kernel, causal, biased):
    whole = weights(kernel, 0.0, causal=causal, biased=biased)
    assert torch.equal(whole != 0, torch.ones(N, N).tril().bool().expand_as(whole) if causal else whole == whole)
    dropped = weights(kernel, P, causal=causal, biased=biased)
    seen = whole != 0
    kept = dropped[seen] != 0
    share = 1 - kept.double().mean().item()
    assert abs(share - P) < 5 * math.sqrt(P * (1 - P) / kept.numel())
    torch.testing.assert_close(dropped[seen][kept], whole[seen][kept] / (1 - P), rtol=1e-12, atol=0)
    assert not dropped[~seen].any()
    # A row of n even weights sums to 1 on average, with variance P / ((1 - P) n).
    counts = seen.sum(-1).double()
    off = (dropped.sum(-1) - 1) / (P / (1 - P) / counts).sqrt()
    assert abs(off.mean().item()) < 5 / math.sqrt(off.numel())
    assert not torch.equal(dropped[:, 0] != 0, dropped[:, 1] != 0)  # each head draws for itself


@pytest.mark.fast
def test_another_share_is_told_apart():
    kept = (weights("sdpa", P + 0.02) != 0).double()
    assert abs(1 - kept.mean().item() - P) > 5 * math.sqrt(P * (1 - P) / kept.numel())


@pytest.mark.fast
def test_it_is_off_in_evaluation_and_follows_the_seed_in_training():
    q, k, v = torch.randn(3, 1, 2, 9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    core = Attend(causal=True, scale=0.5, dropout=P)
    without = Attend(causal=True, scale=0.5)(q, k, v)

    def seeded(seed):
        torch.manual_seed(seed)
        return core(q, k, v)

    assert torch.equal(seeded(0), seeded(0))
    assert not torch.equal(seeded(0), seeded(1))
    assert not torch.allclose(seeded(0), without)
    core.eval()
    assert torch.equal(seeded(0), without)
