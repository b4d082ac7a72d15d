"""What is held while attention is computed, forward and backward: every tensor that an operation makes is followed."""

import pytest
import torch
from held import Held

from ablate.kernels import Attend
from ablate.kernels.bias import with_mask

pytestmark = pytest.mark.fast


def drawn(n_tokens, n_batch=1, n_heads=2, width=8):
    generator = torch.Generator().manual_seed(0)
    shape = (n_batch, n_heads, n_tokens, width)
    return [torch.randn(shape, generator=generator).requires_grad_() for _ in range(3)]


def held(compute, n_tokens, large=float("inf"), **sizes):
    inputs = drawn(n_tokens, **sizes)
    with Held(large) as watch:
        compute(*inputs).sum().backward()
    assert all(x.grad.isfinite().all() for x in inputs if x.grad is not None)
    return watch


def shaped(core):
    return lambda q, k, v: 0.5 * v + core(q, k, v) - core.uniform(q, k, v)


def test_shaped_attention_grows_linearly():
    compute = shaped(Attend(causal=True, scale=0.3))
    short, long = (held(compute, n).most_bytes for n in (512, 4096))
    assert short >= 3 * 512 * 2 * 8 * 4  # it does see something: the gradients at least
    assert long <= 8 * 1.1 * short


def test_eager_attention_grows_quadratically():
    compute = shaped(Attend(causal=True, scale=0.3, logits=(torch.tanh,)))  # a map that no fused kernel on CPU takes
    short, long = (held(compute, n).most_bytes for n in (256, 2048))
    assert long > 0.7 * 8**2 * short


class Table:
    """A bias as a component gives it: new at every call, or kept and given as a view, with the mask or without."""

    def __init__(self, n_tokens, heads=1):
        self.kept = torch.randn(1, heads, n_tokens, n_tokens, generator=torch.Generator().manual_seed(1)).tril()

    def new(self, q, k, scale):
        return 1 * self.kept

    def view(self, q, k, scale):
        return self.kept[..., : q.shape[-2], : k.shape[-2]]

    @with_mask
    def masked_view(self, q, k, scale):
        return self.kept[..., : q.shape[-2], : k.shape[-2]]


N = 512
SQUARE = N * N * 4


@pytest.mark.parametrize(("source", "made"), [("new", 1), ("view", 1), ("masked_view", 0)])
def test_a_shared_bias_is_one_square_forward_and_backward(source, made):
    bias = getattr(Table(N), source)
    watch = held(Attend(causal=True, scale=0.3, biases=(bias,)), N, large=SQUARE, n_batch=2)
    assert watch.most_large == made
    assert watch.largest <= max(SQUARE, 2 * 2 * N * 8 * 4)


def test_a_shared_bias_is_one_square_at_zero_query_too():
    core = Attend(causal=True, scale=0.3, biases=(Table(N).new,))
    watch = held(core.uniform, N, large=SQUARE, n_batch=2)
    assert (watch.most_large, watch.largest) == (1, SQUARE)


def test_a_bias_of_each_head_is_a_square_for_each_head():
    watch = held(Attend(causal=True, scale=0.3, biases=(Table(N, heads=2).new,)), N, large=SQUARE, n_batch=2)
    assert (watch.most_large, watch.largest) == (1, 2 * SQUARE)


def test_a_bias_that_learns_is_a_square_for_each_batch_and_head():
    table = Table(N)
    table.kept.requires_grad_()
    watch = held(Attend(causal=True, scale=0.3, biases=(table.view,)), N, large=SQUARE, n_batch=2)
    assert watch.most_large > 1
    assert watch.largest == 2 * 2 * SQUARE


def test_without_a_bias_nothing_is_copied():
    q, k, v = (x.detach() for x in drawn(64))
    with Held() as watch:
        Attend(causal=True, scale=0.3)(q, k, v)
    assert watch.most_bytes == 64 * 2 * (8 + 1) * 4  # the result, and a logarithm for each query
