"""Masks and padding in every backend on this machine, against softmax over the keys seen, written out in NumPy."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from attention_cases import MAPS, NUMPY_MAPS, Case, close, gradients, wanted
from held import Held

from ablate.components.masks.prefix import PrefixMask
from ablate.components.masks.window import WindowMask
from ablate.kernels import Attend, attend, attend_lse, attention_entropy, choose
from ablate.kernels.attend import mask_blocks, without_padding
from ablate.kernels.bias import masked, with_mask
from ablate.kernels.choose import Needs, objection, order, reservation
from ablate.kernels.flex import fused, score_mod
from ablate.kernels.gate import BACKENDS, Gate, check, sites
from ablate.kernels.mask import Everything, MaskOfBatch, PastMask, named

UNFUSED = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


@dataclass(frozen=True, eq=False)
class Documents(MaskOfBatch):
    """The past of the same document: it varies over the batch."""

    of: torch.Tensor

    @property
    def batch(self):
        return len(self.of)

    def sees(self, b, t, s):
        return (s <= t) & (self.of[b, t] == self.of[b, s])


MASKS = {
    "window": (WindowMask(3), lambda t, s: t - 3 < s <= t),
    "window of one": (WindowMask(1), lambda t, s: s == t),
    "both ways": (WindowMask(4, causal=False), lambda t, s: abs(t - s) < 4),
    "prefix": (PrefixMask(5), lambda t, s: s <= t or s < 5),
    "full": (Everything(), lambda t, s: True),
    "causal": (PastMask(), lambda t, s: s <= t),
}
NAMES = pytest.mark.parametrize("name", list(MASKS))


def seen_of(name, n_queries, n_keys):
    """The table of a mask, pair by pair."""
    rule = MASKS[name][1]
    return np.array([[rule(t, s) for s in range(n_keys)] for t in range(n_queries)])


def numpy_masked(q, k, v, seen, *, scale, maps="none", bias=None):
    """Attention over the keys seen ([T, S] or [B, 1, T, S]) and its log-sum-exp; nothing seen gives 0 and -∞."""
    q, k, v = (x.detach().double().numpy() for x in (q, k, v))
    scores = NUMPY_MAPS[maps](scale * np.einsum("bhtk,bhsk->bhts", q, k))
    if bias is not None:
        scores = scores + bias.detach().double().numpy()
    scores = np.where(seen, scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(most), most, 0.0))
    sums = weights.sum(-1, keepdims=True)
    y = np.einsum("bhts,bhsk->bhtk", weights / np.where(sums > 0, sums, 1.0), v)
    with np.errstate(divide="ignore"):
        return torch.from_numpy(y), torch.from_numpy((most + np.log(sums))[..., 0])


def torch_masked(q, k, v, seen, *, scale, maps="none", bias=None):
    """The same in float64 as a sum over the keys seen, for gradients: no -∞, no softmax, no backend."""
    scores = scale * torch.einsum("bhtk,bhsk->bhts", q, k)
    for logit_map in MAPS[maps]:
        scores = logit_map(scores)
    scores = scores if bias is None else scores + bias
    weights = scores.exp() * torch.from_numpy(seen)
    sums = weights.sum(-1, keepdim=True)
    return torch.einsum("bhts,bhsk->bhtk", weights / sums.clamp(min=1e-300), v), sums[..., 0]


def padding_of(n_batch, n_keys):
    """The first sequence starts with padding, so that its first causal queries see nothing; the others end with it."""
    padding = torch.ones(n_batch, n_keys, dtype=torch.bool)
    padding[0, :2] = False
    padding[1:, n_keys - 3 :] = False
    return padding


SHAPE = (2, 3, 9, 9, 4)
TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-5, torch.bfloat16: 2e-2}


@NAMES
def test_a_rule_is_its_table(name):
    mask = MASKS[name][0]
    for n_queries, n_keys in ((1, 1), (9, 9), (4, 9), (9, 4)):
        expected = torch.from_numpy(seen_of(name, n_queries, n_keys))[None, None]
        assert torch.equal(mask.rows(0, n_queries, n_keys), expected)
        assert torch.equal(mask.rows(1, n_queries, n_keys), expected[..., 1:, :])
    assert bool(mask.rows(0, 20, 20).diagonal(dim1=-2, dim2=-1).all()), "a query sees itself"


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("bias", ["none", "shared", "head", "batch"])
@NAMES
def test_eager_and_sdpa_attend_to_what_is_seen(name, bias, padded, dtype):
    case = Case(SHAPE, bias=bias, dtype=dtype, seed=1)
    (q, k, v), added = case.draw()
    padding = padding_of(2, 9) if padded else None
    seen = seen_of(name, 9, 9)[None, None] & (padding.numpy()[:, None, None] if padded else True)
    expected, _ = numpy_masked(q, k, v, seen, scale=0.3, bias=added)
    for kernel in ("eager", "sdpa"):
        for causal in (True, False):  # the mask says everything
            options = {"causal": causal, "scale": 0.3, "bias": added, "mask": MASKS[name][0], "padding": padding}
            actual = attend(q, k, v, kernel=kernel, **options)
            close(actual, expected, TOLERANCE[dtype])
            assert actual.dtype == dtype
    if padded and name in ("window", "causal"):
        assert bool((actual[0, :, :2] == 0).all()), "the first queries of the first sequence see nothing"


@pytest.mark.sampled(12)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("maps", ["none", "both"])
@pytest.mark.parametrize("bias", ["none", "shared", "head", "batch"])
@NAMES
def test_gradients_are_those_of_the_sum_over_what_is_seen(name, bias, maps, padded):
    case = Case(SHAPE, bias=bias, learned=bias != "none", maps=maps, seed=2)
    qkv, added = case.draw()
    padding = padding_of(2, 9) if padded else None
    seen = seen_of(name, 9, 9)[None, None] & (padding.numpy()[:, None, None] if padded else True)
    inputs = wanted(qkv, added)
    exact, _ = torch_masked(*qkv, seen, scale=0.3, maps=maps, bias=added)
    expected = gradients(exact, inputs)
    for kernel in ("eager", "sdpa") if maps == "none" else ("eager",):
        options = {"causal": True, "scale": 0.3, "bias": added, "mask": MASKS[name][0], "padding": padding}
        result = attend(*qkv, kernel=kernel, logits=MAPS[maps], **options)
        close(result, exact, 1e-11)
        for actual, exactly in zip(gradients(result, inputs), expected, strict=True):
            close(actual, exactly, 1e-10)


@pytest.mark.sampled(6, gate=14)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("bias", "maps"), [("none", "none"), ("head", "softcap"), ("batch", "both")])
@NAMES
@UNFUSED
def test_flex_gives_output_and_log_sum_exp_without_a_gradient(name, bias, maps, padded):
    case = Case(SHAPE, bias=bias, maps=maps, seed=3)
    (q, k, v), added = case.draw()
    padding = padding_of(2, 9) if padded else None
    seen = seen_of(name, 9, 9)[None, None] & (padding.numpy()[:, None, None] if padded else True)
    expected, sums = numpy_masked(q, k, v, seen, scale=0.3, maps=maps, bias=added)
    options = {"causal": True, "scale": 0.3, "bias": added, "mask": MASKS[name][0], "padding": padding}
    with torch.no_grad():
        y, lse = attend_lse(q, k, v, kernel="flex", logits=MAPS[maps], **options)
        close(y, expected, 1e-11)
        close(attend(q, k, v, kernel="flex", logits=MAPS[maps], **options), expected, 1e-11)
    assert torch.equal(lse.isinf(), sums.isinf())
    close(lse.masked_fill(lse.isinf(), 0.0), sums.masked_fill(sums.isinf(), 0.0), 1e-11)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ["window", "prefix", None])
def test_the_log_sum_exp_and_its_gradient(name, padded):
    case = Case(SHAPE, bias="head", learned=True, maps="softcap", seed=4)
    qkv, added = case.draw()
    padding = padding_of(2, 9) if padded else None
    seen = seen_of(name or "causal", 9, 9)[None, None] & (padding.numpy()[:, None, None] if padded else True)
    _, sums = torch_masked(*qkv, seen, scale=0.3, maps="softcap", bias=added)
    options = {"causal": True, "scale": 0.3, "bias": added, "padding": padding}
    options["mask"] = MASKS[name][0] if name else None
    y, lse = attend_lse(*qkv, logits=MAPS["softcap"], **options)
    assert torch.equal(y, attend(*qkv, kernel="eager", logits=MAPS["softcap"], **options))
    blind = sums.detach() == 0
    assert bool((lse[blind] == -torch.inf).all())
    assert bool(blind.any()) == (padded and name != "prefix")
    close(lse[~blind], sums[~blind].log(), 1e-12)
    inputs = [qkv[0], qkv[1], added]
    actual = gradients(lse.masked_fill(blind, 0.0), inputs)
    for one, other in zip(actual, gradients(sums.masked_fill(blind, 1.0).log(), inputs), strict=True):
        close(one, other, 1e-11)


def test_the_log_sum_exp_is_not_asked_of_what_cannot():
    (q, k, v), _ = Case(SHAPE).draw()
    with pytest.raises(ValueError, match="sdpa gives no log-sum-exp with a gradient"):
        attend_lse(q, k, v, causal=True, scale=0.3, kernel="sdpa")
    with pytest.raises(ValueError, match="unknown kernel"):
        attend_lse(q, k, v, causal=True, scale=0.3, kernel="fastest")


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@NAMES
def test_a_token_changes_what_sees_it_and_nothing_else(name, kernel):
    (q, k, v), _ = Case((1, 1, 9, 9, 4), seed=5).draw()
    seen = torch.from_numpy(seen_of(name, 9, 9))
    options = {"causal": True, "scale": 0.3, "mask": MASKS[name][0], "kernel": kernel}
    before = attend(q, k, v, **options)
    for s in range(9):
        other = v.detach().clone()
        other[:, :, s] += 1.0
        key = k.detach().clone()
        key[:, :, s] *= -1.0
        changed = (attend(q, key, other, **options) != before).any(-1)[0, 0]
        assert torch.equal(changed, seen[:, s])


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("bias", ["none", "shared", "head"])
def test_a_mask_may_vary_over_the_batch(kernel, bias):
    case = Case(SHAPE, bias=bias, learned=bias != "none", seed=6)
    qkv, added = case.draw()
    of = torch.tensor([[0] * 4 + [1] * 5, [0] * 7 + [1] * 2])
    t = np.arange(9)
    seen = np.stack([(each[:, None] == each) & (t[:, None] >= t) for each in of.numpy()])[:, None]
    exact, _ = torch_masked(*qkv, seen, scale=0.3, bias=added)
    result = attend(*qkv, causal=True, scale=0.3, bias=added, mask=Documents(of), kernel=kernel)
    close(result, exact, 1e-11)
    inputs = wanted(qkv, added)
    for actual, expected in zip(gradients(result, inputs), gradients(exact, inputs), strict=True):
        close(actual, expected, 1e-10)


@UNFUSED
def test_flex_takes_a_mask_that_varies_over_the_batch():
    (q, k, v), added = Case(SHAPE, bias="head", seed=6).draw()
    of = torch.tensor([[0] * 4 + [1] * 5, [0] * 7 + [1] * 2])
    options = {"causal": True, "scale": 0.3, "bias": added, "mask": Documents(of)}
    with torch.no_grad():
        close(attend(q, k, v, kernel="flex", **options), attend(q, k, v, kernel="eager", **options), 1e-12)


def test_flex_skips_the_blocks_that_a_mask_hides_in_each_sequence():
    q = torch.zeros(2, 1, 512, 8)
    window = mask_blocks(WindowMask(100), q, q, causal=True)
    near = torch.eye(4) + torch.eye(4).roll(1, 0).tril(-1)  # of 4 blocks of 128: the query's own, and the one before
    assert torch.equal(window.to_dense()[0, 0].float(), near)
    assert window is mask_blocks(WindowMask(100), q, q, causal=False)
    of = torch.zeros(2, 512, dtype=torch.long)
    of[1, 256:] = 1
    halves = mask_blocks(Documents(of), q, q, causal=True).to_dense()[:, 0].bool()
    past = torch.ones(4, 4).tril().bool()
    assert torch.equal(halves[0], past)
    assert torch.equal(halves[1], past & (torch.arange(4)[:, None] // 2 == torch.arange(4) // 2))


def test_causal_and_full_are_what_backends_know_by_name():
    (q, k, v), _ = Case(SHAPE, dtype=torch.float32).draw()
    assert named(PastMask(), causal=False) == (None, True)
    assert named(Everything(), causal=True) == (None, False)
    assert named(None, causal=True) == (None, True)
    for mask, causal in ((PastMask(), True), (Everything(), False)):
        given = attend(q, k, v, causal=not causal, scale=0.3, mask=mask)
        assert torch.equal(given, attend(q, k, v, causal=causal, scale=0.3))


@pytest.mark.parametrize("n_queries", [5, 300])
@pytest.mark.parametrize("way", ["in place", "copied", "with a gradient", "one for two sequences"])
def test_a_mask_is_written_into_a_bias_where_it_may_be(n_queries, way):
    bias = torch.randn(1, 2, n_queries, 300, generator=torch.Generator().manual_seed(0))
    seen = WindowMask(7).rows(0, n_queries, 300)
    if way == "one for two sequences":
        seen = seen & (torch.arange(300) > torch.tensor([0, 2])[:, None])[:, None, None, :]
    given = bias.clone().requires_grad_(way == "with a gradient")
    result = masked(given, overwrite=way != "copied", seen=seen)
    assert torch.equal(result, torch.where(seen, bias, torch.tensor(-torch.inf)))
    assert (result.data_ptr() == given.data_ptr()) == (way == "in place")
    assert way == "in place" or torch.equal(given, bias)


def future_is_hidden(q, k, scale):
    """A bias that holds the mask of a causal model, as ALiBi gives it."""
    places = torch.arange(k.shape[-2], dtype=torch.float64)
    return (-0.5 * (places[:, None] - places)).masked_fill(places > places[:, None], -torch.inf)[None, None]


def distances(q, k, scale):
    places = torch.arange(k.shape[-2], dtype=torch.float64)
    return (-0.5 * (places[:, None] - places).abs())[None, None]


HOLDING = with_mask(future_is_hidden)


@pytest.mark.parametrize("source", [HOLDING, distances])
def test_a_bias_that_holds_the_causal_mask_gets_a_narrower_one(source):
    (q, k, v), _ = Case(SHAPE, seed=7).draw()
    core = Attend(causal=True, scale=0.3, biases=(source,), mask=WindowMask(3))
    for _ in range(2):  # nothing that is kept is spoiled
        expected, _ = numpy_masked(q, k, v, seen_of("window", 9, 9), scale=0.3, bias=distances(q, k, 0.3))
        close(core(q, k, v), expected, 1e-11)
        zero, _ = numpy_masked(0 * q, k, v, seen_of("window", 9, 9), scale=0.3, bias=distances(q, k, 0.3))
        close(core.uniform(q, k, v), zero, 1e-11)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_a_bias_that_holds_the_mask_does_not_hold_the_padding(kernel):
    (q, k, v), _ = Case(SHAPE, seed=7).draw()
    padding = padding_of(2, 9)
    seen = seen_of("causal", 9, 9)[None, None] & padding.numpy()[:, None, None]
    bias = future_is_hidden(q, k, 0.3)
    given = attend(q, k, v, causal=True, scale=0.3, bias=bias, kernel=kernel, holds_mask=True, padding=padding)
    close(given, numpy_masked(q, k, v, seen, scale=0.3, bias=distances(q, k, 0.3))[0], 1e-11)


def test_a_source_that_holds_the_mask_of_another_model_is_masked_all_the_same():
    (q, k, v), _ = Case(SHAPE, seed=7).draw()
    said = with_mask(lambda q, k, scale: distances(q, k, scale))  # as a component says of a model that sees everything
    core = Attend(causal=False, scale=0.3, biases=(said,), mask=PastMask())
    expected, _ = numpy_masked(q, k, v, seen_of("causal", 9, 9), scale=0.3, bias=distances(q, k, 0.3))
    close(core(q, k, v), expected, 1e-11)
    zero, _ = numpy_masked(0 * q, k, v, seen_of("causal", 9, 9), scale=0.3, bias=distances(q, k, 0.3))
    close(core.uniform(q, k, v), zero, 1e-11)


@NAMES
def test_at_zero_query_it_is_the_mean_of_what_is_seen(name):
    (q, k, v), _ = Case(SHAPE, seed=8).draw()
    core = Attend(causal=True, scale=0.3, mask=MASKS[name][0])
    seen = seen_of(name, 9, 9)
    mean = torch.from_numpy(seen / seen.sum(-1, keepdims=True))
    actual = core.uniform(q, k, v)
    close(actual, mean @ v, 1e-12)
    (gradient,) = gradients(actual, [v])
    close(gradient, gradients(mean @ v, [v])[0], 1e-12)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("rows", [1, 4, 128])
@pytest.mark.parametrize("padded", [False, True])
@NAMES
def test_the_entropy_is_over_what_is_seen(name, padded, rows):
    (q, k, _), bias = Case(SHAPE, bias="head", seed=9).draw()
    padding = padding_of(2, 9) if padded else None
    seen = seen_of(name, 9, 9)[None, None] & (padding.numpy()[:, None, None] if padded else True)
    one_hot = torch.eye(9, dtype=torch.float64).expand(2, 3, 9, 9)
    p, _ = numpy_masked(q, k, one_hot, seen, scale=2.0, bias=bias)
    p = p.numpy()
    expected = -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1)
    options = {"causal": True, "scale": 2.0, "bias": bias, "rows": rows, "mask": MASKS[name][0], "padding": padding}
    np.testing.assert_allclose(attention_entropy(q, k, **options).detach(), expected, rtol=1e-11, atol=1e-12)


PLAIN = Needs(causal=False, dtype="bfloat16", d_head=64, mask="shared")


def test_on_cuda_blocks_are_skipped_and_elsewhere_a_table_is_shared(monkeypatch):
    monkeypatch.setattr("ablate.kernels.flex.missing", lambda: "")
    assert order(PLAIN, "cuda") == ("flex", "sdpa", "eager")
    assert choose(PLAIN, "cuda").reason == "first choice on cuda"
    assert order(PLAIN, "cpu") == ("sdpa", "eager")
    assert choose(replace(PLAIN, dropout=True), "cuda").name == "sdpa"
    assert objection("xformers", PLAIN, "cuda") == "xformers is given no mask but the causal one"
    padded = replace(PLAIN, mask="none", causal=True, padding=True)
    assert objection("xformers", padded, "cuda") == "xformers is given no padding"
    assert choose(padded, "cuda").name == "sdpa"
    assert "every sequence" in reservation("sdpa", replace(padded, bias="head"), "cpu")
    wants_lse = replace(PLAIN, lse=True)
    assert objection("sdpa", wants_lse, "cpu") == "sdpa gives no log-sum-exp with a gradient"
    plain = replace(padded, padding=False, lse=True)
    assert objection("xformers", plain, "cuda") == "xformers gives no log-sum-exp with a gradient"
    assert order(wants_lse, "cuda") == ("flex", "eager")
    assert order(wants_lse, "cpu") == ("eager",)


class Masked(torch.nn.Module):
    def __init__(self, mask, **asked):
        super().__init__()
        self.attend = Attend(causal=True, scale=0.35, mask=mask, **asked)

    def forward(self, x):
        return self.attend(x, x, x)


def site(mask, **asked):
    model = Masked(mask, **asked)
    x = torch.zeros(2, 2, 33, 8, requires_grad=True)
    (found,) = sites(model, lambda: model(x)).values()
    return found


def learned(q, k, scale):
    return LEARNED * 1.0


LEARNED = torch.nn.Parameter(torch.zeros(1, 2, 33, 33))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("asked", [{}, {"biases": (learned,)}, {"dropout": 0.1}], ids=("plain", "bias", "dropout"))
@NAMES
def test_the_gate_checks_the_mask_of_the_site(name, asked, monkeypatch):
    found = site(MASKS[name][0], **asked)
    assert check("sdpa", found) == ("", "")
    right = BACKENDS["sdpa"]

    def blind(q, k, v, *, mask=None, **options):  # what a backend would do that knows only the causal mask
        return right(q, k, v, **{**options, "causal": True})

    monkeypatch.setitem(BACKENDS, "sdpa", blind)
    refusal, _ = check("sdpa", found)
    assert ("wrong numbers" in refusal) == (name != "causal")


def test_sites_that_differ_in_their_mask_are_checked_apart():
    assert site(WindowMask(3)).traits == site(WindowMask(3)).traits
    assert site(WindowMask(3)).traits != site(WindowMask(4)).traits != site(None).traits
    assert Gate().choose(site(WindowMask(3))).name == "sdpa"


def saved_bytes(n_tokens, core):
    """The bytes of all tensors that a forward pass saves for the backward pass, each storage once."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, n_tokens, 8, generator=generator).requires_grad_() for _ in range(3))
    storages = {}

    def keep(x):
        storages[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        result = core(q, k, v) + core(q, k, v)  # two layers
    result.sum().backward()
    return sum(storages.values()), max(storages.values())


def test_two_layers_with_a_window_save_one_table_between_them():
    core = Attend(causal=True, scale=0.3, mask=WindowMask(64))
    short, long = 512, 4096
    (few, _), (many, largest) = (saved_bytes(n, core) for n in (short, long))
    table = 4 * long**2
    assert largest == table  # [1, 1, T, S] in float32, and no [B, H, T, S], which is 8 times that
    assert many - table <= 8.1 * (few - 4 * short**2)  # the rest grows with T


def test_a_window_beside_a_bias_of_heads_is_one_bias():
    n, heads = 512, 4
    kept = torch.randn(1, heads, n, n)
    core = Attend(causal=True, scale=0.3, biases=(lambda q, k, scale: kept[...],), mask=WindowMask(64))
    q, k, v = (torch.randn(2, heads, n, 8).requires_grad_() for _ in range(3))
    core(q, k, v)  # what is kept of the mask is made once
    with Held(4 * heads * n * n) as watch:
        core(q, k, v).sum().backward()
    assert (watch.most_large, watch.largest) == (1, 4 * heads * n * n)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["window", "prefix"])
def test_flex_compiled_under_a_mask_with_padding(name):
    drawn, bias = Case((2, 2, 300, 300, 16), bias="head", maps="softcap", dtype=torch.float32, seed=3).draw()
    q, k, v = (x.detach() for x in drawn)
    mask, padding = MASKS[name][0], padding_of(2, 300)
    seen = mask.rows(0, 300, 300).numpy() & padding.numpy()[:, None, None]
    expected, _ = numpy_masked(q, k, v, seen, scale=0.3, maps="softcap", bias=bias)
    mod, seen_blocks = without_padding(score_mod(MAPS["softcap"], bias), padding), mask_blocks(mask, q, k, causal=True)
    with torch.no_grad():
        close(fused()(q, k, v, score_mod=mod, block_mask=seen_blocks, scale=0.3), expected, 1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
class TestOnCUDA:
    """The same, where FlexAttention has a backward pass."""

    @pytest.mark.parametrize("kernel", ["flex", "sdpa"])
    @pytest.mark.parametrize("padded", [False, True])
    @pytest.mark.parametrize("bias", ["none", "head"])
    @pytest.mark.parametrize("length", [130, 300])
    @NAMES
    def test_attention_and_its_gradients(self, name, length, bias, padded, kernel):
        case = Case((2, 2, length, length, 32), bias=bias, dtype=torch.float32, seed=2)
        qkv, added = case.draw("cuda")
        padding = padding_of(2, length).cuda() if padded else None
        options = {"causal": True, "scale": 0.3, "mask": MASKS[name][0], "padding": padding}
        result = attend(*qkv, kernel=kernel, bias=added, **options)
        wide = [x.detach().double().requires_grad_() for x in qkv]
        exact = attend(*wide, kernel="eager", bias=None if added is None else added.double(), **options)
        close(result, exact, 1e-4)
        for actual, expected in zip(gradients(result, qkv), gradients(exact, wide), strict=True):
            close(actual, expected, 1e-3)

    @pytest.mark.parametrize("name", ["window", "prefix"])
    def test_the_log_sum_exp_has_a_gradient(self, name):
        qkv, _ = Case((2, 2, 300, 300, 32), dtype=torch.float32, seed=2).draw("cuda")
        options = {"causal": True, "scale": 0.3, "mask": MASKS[name][0]}
        _, lse = attend_lse(*qkv, kernel="flex", **options)
        wide = [x.detach().double().requires_grad_() for x in qkv]
        _, exact = attend_lse(*wide, kernel="eager", **options)
        close(lse, exact, 1e-4)
        for actual, expected in zip(gradients(lse, qkv[:2]), gradients(exact, wide[:2]), strict=True):
            close(actual, expected, 1e-3)
