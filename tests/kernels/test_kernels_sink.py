"""A sink in every backend on this machine: softmax over the scores and one logit more, written out in float64."""

import math
import sys

import pytest
import torch
from attention_cases import KINDS, MAPS

from ablate.components.masks.prefix import PrefixMask
from ablate.components.masks.window import WindowMask
from ablate.kernels import Attend, attend, attention_entropy, choose, order
from ablate.kernels.choose import Needs, objection
from ablate.kernels.gate import Gate, check, sites
from ablate.kernels.mask import Everything
from ablate.kernels.sdpa import attend_sdpa_sink, in_pieces
from ablate.probes.attention_entropy import mean_entropy

B, H, T, K = 2, 3, 13, 8
MASKS = {"window": WindowMask(4), "prefix": PrefixMask(5), "full": Everything()}
FORWARD_ONLY = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def drawn(*shape, seed=0, dtype=torch.float64, times=1.0):
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (times * numbers).to(dtype).requires_grad_()


def inputs(*, keys=T, dtype=torch.float64):
    q = drawn(B, H, T, K, seed=1, dtype=dtype, times=2)
    k = drawn(B, H, keys, K, seed=2, dtype=dtype)
    v = drawn(B, H, keys, K, seed=3, dtype=dtype)
    sink = torch.tensor([-2.0, 0.3, 5.0], dtype=torch.float64).to(dtype).requires_grad_()
    return q, k, v, sink


def written_out(q, k, v, sink, *, scale, seen, maps="none", bias=None):
    """One query after another: the weights of its keys are exp(s) / (exp(b) + Σ exp(s)), and not more."""
    q, k, v, sink = (x.double() for x in (q, k, v, sink))
    rows = []
    for b in range(B):
        for h in range(H):
            for t in range(T):
                keys = [s for s in range(k.shape[-2]) if seen(t, s)]
                scores = scale * (k[b, h, keys] @ q[b, h, t])
                for logit_map in MAPS[maps]:
                    scores = logit_map(scores)
                if bias is not None:
                    scores = scores + bias.expand(B, H, T, -1)[b, h, t, keys].double()
                weights = scores.exp() / (sink[h].exp() + scores.exp().sum())
                rows.append(weights @ v[b, h, keys])
    return torch.stack(rows).reshape(B, H, T, K)


def same(actual, exact, asked, *, rtol=1e-9):
    direction = drawn(*exact.shape, seed=9).detach()
    torch.testing.assert_close(actual.double(), exact, rtol=rtol, atol=rtol)
    mine = torch.autograd.grad((actual * direction.to(actual)).sum(), asked, retain_graph=True)
    theirs = torch.autograd.grad((exact * direction).sum(), asked, retain_graph=True)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=rtol, atol=10 * rtol)


def past(t, s):
    return s <= t


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("scale", [0.35, -0.35, 0.0])
@pytest.mark.parametrize("causal", [True, False])
def test_without_mask_and_bias(kernel, scale, causal):
    given = inputs()
    q, k, v, sink = given
    actual = attend(q, k, v, causal=causal, scale=scale, sink=sink, kernel=kernel)
    seen = past if causal else lambda t, s: True
    asked = [v, sink] if scale == 0 else list(given)
    same(actual, written_out(*given, scale=scale, seen=seen), asked)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_more_or_fewer_keys_than_queries(kernel):
    for keys in (5, 20):
        given = inputs(keys=keys)
        q, k, v, sink = given
        actual = attend(q, k, v, causal=True, scale=0.35, sink=sink, kernel=kernel)
        same(actual, written_out(*given, scale=0.35, seen=past), given)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mask", [None, *MASKS])
@pytest.mark.parametrize("maps", list(MAPS))
@pytest.mark.parametrize("kind", ["none", "shared", "head", "batch"])
def test_a_sink_is_neither_mapped_nor_biased_nor_hidden(mask, maps, kind):
    given = inputs()
    q, k, v, sink = given
    bias = None
    if kind != "none":
        by_batch, by_head = KINDS[kind]
        bias = drawn(B if by_batch else 1, H if by_head else 1, T, T, seed=4)
    rule = MASKS.get(mask)
    table = None if rule is None else rule.rows(0, T, T)[0, 0]
    seen = past if table is None else lambda t, s: bool(table[t, s])
    options = {"causal": True, "scale": 0.35, "logits": MAPS[maps], "mask": rule}
    actual = attend(q, k, v, bias=bias, sink=sink, kernel="eager", **options)
    exact = written_out(*given, scale=0.35, seen=seen, maps=maps, bias=bias)
    same(actual, exact, [*given, *([] if bias is None else [bias])])


@FORWARD_ONLY
@pytest.mark.parametrize("mask", [None, "window"])
def test_flex_forward(mask):
    given = inputs(dtype=torch.float32)
    q, k, v, sink = given
    options = {"causal": True, "scale": 0.35, "logits": MAPS["softcap"], "mask": MASKS.get(mask), "sink": sink}
    with torch.no_grad():
        actual = attend(q, k, v, kernel="flex", **options)
        exact = attend(*(x.double() for x in (q, k, v)), kernel="eager", **options)
    torch.testing.assert_close(actual.double(), exact, rtol=1e-5, atol=1e-6)


def test_a_query_whose_keys_are_all_padding_gives_nothing_and_passes_finite_gradients():
    q, k, v, sink = inputs()
    padding = torch.ones(B, T, dtype=torch.bool)
    padding[0, :3] = False
    y = attend(q, k, v, causal=True, scale=0.35, sink=sink, padding=padding)
    exact = written_out(q, k, v, sink, scale=0.35, seen=past)
    assert (y[0, :, :3] == 0).all()
    torch.testing.assert_close(y[1], exact[1], rtol=1e-9, atol=1e-9)
    assert all(x.isfinite().all() for x in torch.autograd.grad(y.sum(), (q, k, v, sink)))


def test_dropout_drops_what_is_left_to_the_keys():
    q, k, v, sink = inputs()
    given = {"causal": True, "scale": 0.35, "dropout": 0.25, "kernel": "eager"}
    torch.manual_seed(0)
    plain = attend(q, k, v, **given)
    torch.manual_seed(0)
    y = attend(q, k, v, sink=sink, **given)
    lse = (0.35 * (q @ k.mT)).masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf).logsumexp(-1)
    left = lse.exp() / (lse.exp() + sink.exp()[:, None])
    torch.testing.assert_close(y, left[..., None] * plain, rtol=1e-9, atol=1e-12)


def test_sinks_far_away_and_far_above():
    q, k, v, _ = inputs()
    for kernel in ("eager", "sdpa"):
        given = {"causal": True, "scale": 0.35, "kernel": kernel}
        none = attend(q, k, v, sink=torch.full((H,), -1e4, dtype=torch.float64), **given)
        torch.testing.assert_close(none, attend(q, k, v, **given), rtol=1e-9, atol=1e-9)
        assert attend(q, k, v, sink=torch.full((H,), 1e4, dtype=torch.float64), **given).abs().max() == 0


def test_a_sink_keeps_its_precision_in_bfloat16():
    numbers = torch.tensor([5.03125 + 2**-12, -0.7, 1 / 3])
    pieces = in_pieces(numbers, torch.bfloat16)
    assert all(piece.dtype == torch.bfloat16 for piece in pieces)
    torch.testing.assert_close(sum(p.double() for p in pieces), numbers.double(), rtol=2**-23, atol=0)
    assert len(in_pieces(numbers, torch.float32)) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("asked", [{}, {"causal": False}, {"dropout": 0.1}, {"scale": -0.5}], ids=str)
def test_the_gate_checks_it_with_its_sink(dtype, asked):
    found = site(dtype, **asked)
    assert found.needs.sink
    assert check("sdpa", found) == ("", "")
    assert check("eager", found) == ("", "")


@pytest.mark.parametrize("wrong", [lambda sink: sink + 0.1, lambda sink: sink.detach()], ids=("moved", "no gradient"))
def test_the_gate_sees_a_sink_that_is_wrong(monkeypatch, wrong):
    def replaced(*given, sink, **options):
        return attend_sdpa_sink(*given, sink=wrong(sink), **options)

    monkeypatch.setattr(sys.modules["ablate.kernels.attend"], "attend_sdpa_sink", replaced)
    refusal, _ = check("sdpa", site(torch.float32))
    assert refusal.startswith("sdpa gives wrong numbers here (")


class Model(torch.nn.Module):
    def __init__(self, **asked):
        super().__init__()
        self.logit = torch.nn.Parameter(torch.zeros(H))
        self.attend = Attend(**{"causal": True, "scale": 0.35, "sink": lambda: self.logit, **asked})

    def forward(self, x):
        return self.attend(x, x, x)


def site(dtype, **asked):
    model = Model(**asked)
    x = torch.zeros(B, H, 33, K, dtype=dtype, requires_grad=True)
    (found,) = sites(model, lambda: model(x)).values()
    return found


def test_which_backend_takes_it():
    needs = Needs(causal=True, dtype="bfloat16", sink=True, d_head=64)
    assert choose(needs, "cpu").name == "sdpa"
    assert [name for name in order(needs, "cuda") if name != "flex"] == ["sdpa", "eager"]
    biased = Needs(causal=True, dtype="float32", sink=True, bias="head")
    assert choose(biased, "cpu").reason == "sdpa takes no sink beside a bias or a mask; eager holds all scores"
    assert objection("xformers", needs, "cuda") == "xformers takes no sink"
    assert Gate().choose(site(torch.float32)).name == "sdpa"


def test_the_entropy_is_that_of_the_keys_among_themselves():
    q, k, _, _ = inputs()
    core = Attend(causal=True, scale=0.35, sink=lambda: torch.tensor([1.0, 2.0, 3.0]))
    read = mean_entropy(core, q.detach(), k.detach())["attention_entropy"]
    assert read == attention_entropy(q.detach(), k.detach(), causal=True, scale=0.35).mean()
