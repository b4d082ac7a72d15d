"""A bias: what varies, the mask within it, and how much of it survives a narrower type and autocast."""

import pytest
import torch
from attention_cases import Case, close

from ablate.kernels import Attend
from ablate.kernels.bias import ROWS, is_own, kind_of, masked, narrowed, summed
from ablate.kernels.eager import attend_eager

pytestmark = pytest.mark.fast


def drawn(*shape, far=1.0):
    return far * torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("shape", "kind"), [((1, 1), "shared"), ((1, 3), "head"), ((2, 1), "batch"), ((2, 3), "batch"), (None, "none")]
)
def test_along_what_it_varies(shape, kind):
    assert kind_of(None if shape is None else drawn(*shape, 4, 4)) == kind


@pytest.mark.parametrize("n_queries", [1, 5, ROWS, ROWS + 1, 2 * ROWS + 3])
@pytest.mark.parametrize("n_keys", [1, 5, ROWS + 1, 2 * ROWS + 3])
@pytest.mark.parametrize("way", ["in place", "copied", "with a gradient"])
def test_the_mask_hides_the_future_and_nothing_else(n_queries, n_keys, way):
    bias = drawn(1, 2, n_queries, n_keys)
    hidden = torch.arange(n_keys) > torch.arange(n_queries)[:, None]
    expected = torch.where(hidden, -torch.inf, bias)
    given = bias.clone().requires_grad_(way == "with a gradient")
    result = masked(given, overwrite=way != "copied")
    assert torch.equal(result, expected)
    assert (result.data_ptr() == given.data_ptr()) == (way == "in place")
    assert way == "in place" or torch.equal(given, bias)


def test_what_is_ours_to_write_over():
    bias = drawn(1, 2, 4, 4)
    assert is_own(bias)
    assert not is_own(bias[..., :4, :4])
    assert not is_own(bias.requires_grad_())
    assert not is_own(torch.ones(1, 1, 4, 1).expand(1, 1, 4, 4))


def test_the_sum_of_sources():
    q = k = drawn(2, 3, 5, 4)
    one, other = drawn(1, 1, 5, 5), drawn(1, 3, 5, 5)
    assert summed((), q, k, 0.5) is None
    sources = (lambda q, k, scale: one, lambda q, k, scale: scale * other)
    torch.testing.assert_close(summed(sources, q, k, 0.5), one + 0.5 * other)


def test_what_matters_of_a_large_bias_survives_a_narrow_type():
    bias = masked(drawn(1, 1, 64, 64) + 300)
    exact = bias.softmax(-1)
    assert (narrowed(bias, torch.bfloat16).float().softmax(-1) - exact).abs().max() < 0.02
    assert (bias.bfloat16().float().softmax(-1) - exact).abs().max() > 0.2  # as it would not, unshifted
    assert narrowed(bias, torch.float32) is bias
    assert torch.equal(narrowed(bias, torch.float64), bias.double())


@pytest.mark.parametrize("maps", ["none", "softcap"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_takes_queries_down_and_leaves_scores_and_bias_wide(maps, dtype):
    case = Case((2, 2, 33, 33, 16), maps=maps, bias="shared", far=300.0)
    (q, k, v), bias = case.draw()
    low = [(3 * x).detach().to(dtype) for x in (q, k)] + [v.detach().to(dtype)]
    core = Attend(
        causal=True, scale=0.3, logits=case.asked()["logits"], biases=(lambda q, k, scale: bias.float() + 300,)
    )
    with torch.autocast("cpu", torch.bfloat16):
        result = core(*low)
        at_zero = core.uniform(*low)
    assert result.dtype == torch.bfloat16
    high = [x.bfloat16().double() for x in low]
    expected = attend_eager(*high, causal=True, scale=0.3, logits=core.logits, bias=bias)
    close(result, expected, 8e-3)
    close(at_zero, attend_eager(0 * high[0], *high[1:], causal=True, scale=0.3, bias=bias), 8e-3)
    rounded = attend_eager(*high, causal=True, scale=0.3, logits=core.logits, bias=(bias.float() + 300).bfloat16())
    assert (rounded - expected).abs().max() > 0.1  # the bias in bfloat16 would show


def test_autocast_leaves_float64_alone():
    (q, k, v), _ = Case((1, 2, 5, 5, 4)).draw()
    core = Attend(causal=True, scale=0.5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(core(q, k, v), core(q, k, v).double())
        assert core(q, k, v).dtype == torch.float64
