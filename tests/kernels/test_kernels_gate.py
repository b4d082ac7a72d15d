"""The gate: a backend is used where it computes what attention is, forward and backward, and passed over where not."""

import pytest
import torch
from torch import nn

from ablate.errors import RefusedError
from ablate.kernels import Attend, gate
from ablate.kernels.attend import BACKENDS
from ablate.kernels.eager import attend_eager
from ablate.kernels.gate import Gate, check, sites

pytestmark = pytest.mark.fast

LEARNED = nn.Parameter(torch.zeros(1, 2, 33, 33))
RIGHT = dict(BACKENDS)


def softcap(scores):
    return 3 * torch.tanh(scores / 3)


def learned(q, k, scale):
    return LEARNED[..., : q.shape[-2], : k.shape[-2]] * 1.0


def fixed(q, k, scale):
    return -torch.rand(1, q.shape[1], q.shape[-2], k.shape[-2], generator=torch.Generator().manual_seed(1)) * 10


class Model(nn.Module):
    """One attention, and nothing else."""

    def __init__(self, **asked):
        super().__init__()
        self.attend = Attend(**{"causal": True, "scale": 0.35, **asked})

    def forward(self, x):
        return self.attend(x, x, x)


def site(dtype=torch.float32, *, heads=2, tokens=33, d_head=8, **asked):
    model = Model(**asked)
    x = torch.zeros(2, heads, tokens, d_head, dtype=dtype, requires_grad=True)
    (found,) = sites(model, lambda: model(x)).values()
    return found


def replaced(monkeypatch, name, backend):
    """Put another backend in the table, and forget what was found."""
    monkeypatch.setitem(BACKENDS, name, backend)
    return Gate()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"causal": False},
        {"biases": (learned,)},
        {"biases": (fixed,)},
        {"dropout": 0.1},
        {"scale": 0.0},
        {"scale": -2.0},
        {"tokens": 1},
    ],
    # A function's own text names its place in memory, which differs between the processes that share the tests out.
    ids=("plain", "both ways", "learned bias", "fixed bias", "dropout", "zero scale", "negative scale", "one token"),
)
def test_a_backend_that_is_right_passes(dtype, asked):
    assert check("sdpa", site(dtype, **asked)) == ("", "")
    assert check("eager", site(dtype, **asked)) == ("", "")


def test_maps_on_the_scores_are_part_of_what_is_checked(monkeypatch):
    without = lambda q, k, v, *, logits=(), **asked: attend_eager(q, k, v, **asked)  # noqa: E731
    monkeypatch.setitem(BACKENDS, "eager", without)
    refusal, _ = check("eager", site(logits=(softcap,)))
    assert refusal.startswith("eager gives wrong numbers here (its output is off by ")
    assert check("eager", site()) == ("", "")


def nudged(x, by):
    return x + by


def one_row(x, by):
    moved = x.clone()
    moved[..., -1, :] += by
    return moved


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (1 + ctx.by), None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda y: nudged(y, 1e-2), "its output is off by"),
        (lambda y: nudged(y, 1e-3), "its output is off by"),
        (lambda y: one_row(y, 1e-2), "its output is off by"),
        (lambda y: y * float("nan"), "its output is not finite"),
        (lambda y: _Doubled.apply(y, 1e-2), "the gradient of q is off by"),
    ],
)
def test_a_broken_backend_is_refused_with_what_is_off(monkeypatch, wrong, said):
    monkeypatch.setitem(BACKENDS, "sdpa", lambda *args, **asked: wrong(RIGHT["sdpa"](*args, **asked)))
    refusal, _ = check("sdpa", site())
    assert refusal.startswith(f"sdpa gives wrong numbers here ({said}"), refusal


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_bias_that_is_left_out_is_seen_in_every_type(monkeypatch, dtype):
    without = lambda q, k, v, *, bias=None, **asked: RIGHT["sdpa"](q, k, v, **asked)  # noqa: E731
    monkeypatch.setitem(BACKENDS, "sdpa", without)
    assert "its output is off by" in check("sdpa", site(dtype, biases=(learned,)))[0]  # though it begins at 0


def test_a_mask_that_is_left_out_is_seen(monkeypatch):
    future = lambda *args, causal, **asked: RIGHT["sdpa"](*args, causal=False, **asked)  # noqa: E731
    monkeypatch.setitem(BACKENDS, "sdpa", future)
    assert "its output is off by" in check("sdpa", site())[0]


def test_the_next_backend_is_taken_and_both_reasons_are_said(monkeypatch):
    def refuse(*args, **asked):
        raise NotImplementedError("no kernel image is available for execution on the device\nmore")

    opened = replaced(monkeypatch, "sdpa", refuse)
    found = opened.choose(site())
    assert found.name == "eager"
    assert found.reason == (
        "sdpa fails here (NotImplementedError: no kernel image is available for execution on the device); "
        "eager holds all scores"
    )


def test_what_was_found_is_found_once_for_each_shape(monkeypatch):
    calls = []
    opened = replaced(monkeypatch, "sdpa", lambda *args, **asked: calls.append(1) or RIGHT["sdpa"](*args, **asked))
    for _ in range(3):
        assert opened.choose(site()).name == "sdpa"
    assert len(calls) == 1
    opened.choose(site(d_head=16))
    assert len(calls) == 2


def test_a_lack_of_memory_is_no_fault_of_the_backend(monkeypatch):
    def lacking(*args, **asked):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with pytest.raises(torch.OutOfMemoryError):
        replaced(monkeypatch, "sdpa", lacking).choose(site())


def test_a_device_that_is_lost_stops_the_run(monkeypatch):
    from dataclasses import replace

    def lost(*args, **asked):
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be …")

    monkeypatch.setitem(BACKENDS, "sdpa", lost)
    monkeypatch.setattr(gate, "_draw", lambda site: gate._Case(*[torch.zeros(1, 1, 1, 1)] * 4, None))
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: __import__("contextlib").nullcontext())
    on_gpu = replace(site(), device=torch.device("cuda"))
    with pytest.raises(
        RefusedError, match=r"lost while the attention backend sdpa was tested on it: RuntimeError: CUDA"
    ):
        check("sdpa", on_gpu)


def test_nothing_of_the_callers_changes():
    module = Model(biases=(learned,), dropout=0.1)
    module.train()
    x = torch.randn(2, 2, 33, 8, requires_grad=True)
    before, state = LEARNED.detach().clone(), torch.get_rng_state()
    (found,) = sites(module, lambda: module(x)).values()
    check("sdpa", found)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(before, LEARNED)
    assert LEARNED.grad is None and x.grad is None
    assert module.training and module.attend.training
    assert module.attend.observer is None


def test_heads_and_queries_are_as_many_as_there_is_room_for(monkeypatch):
    whole = check("sdpa", site(heads=4))
    assert whole == ("", "")
    shapes = []
    monkeypatch.setattr(gate, "ROOM", 8 * 8 * 33 * 33 * 2)
    monkeypatch.setitem(
        BACKENDS, "sdpa", lambda q, *a, **asked: shapes.append(q.shape) or RIGHT["sdpa"](q, *a, **asked)
    )
    assert check("sdpa", site(heads=4, biases=(learned,)))[0] == ""
    assert shapes == [(1, 2, 33, 8)]
    monkeypatch.setattr(gate, "ROOM", 8 * 8 * 33 * 5)  # not one head: some queries at a time
    assert check("sdpa", site(heads=4)) == ("", "")
    monkeypatch.setitem(BACKENDS, "sdpa", lambda *args, **asked: one_row(RIGHT["sdpa"](*args, **asked), 1e-2))
    assert "its output is off by" in check("sdpa", site(heads=4))[0]


def test_a_model_without_attention_has_no_sites_and_is_not_run():
    assert sites(nn.Linear(2, 2), lambda: pytest.fail("it was run")) == {}
