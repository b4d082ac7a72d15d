"""QK-Clip: after a step each head's largest logit is at most τ, by the paper's shares, in NumPy float64."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, node, sequence

from ablate.block.equation import equation
from ablate.compiler import compile_block, size_report
from ablate.components.masks.prefix import PrefixMask
from ablate.components.masks.window import WindowMask
from ablate.components.protocols import ActsAfterStep, OffersLosses, WatchesLogits
from ablate.errors import InputError
from ablate.kernels.mask import Everything, PastMask
from ablate.kernels.scale import largest_logits
from ablate.plan.size import cost

X = np.random.default_rng(3).normal(size=(2, 12, 16))


class Alone:
    """One rank: what `after_step` receives."""

    def __call__(self, value):
        return value

    def largest(self, value):
        return value


class WithAnother(Alone):
    """Two ranks, of which the other has seen these logits."""

    def __init__(self, others):
        self.others = torch.tensor(others, dtype=torch.float64)

    def largest(self, value):
        return torch.maximum(value, self.others)


def built(tau=2.0, alpha=0.5, *, dtype=torch.float64, **fields):
    """The block; its heads have logits of very different sizes."""
    part = node("attention", entropy=(node("qk_clip", tau=tau, alpha=alpha), *fields.pop("and_", ())), **fields)
    model = compile_block(sequence(part), SIZES, CATALOGUE, init=default_init(), dtype=dtype)
    numbers = np.random.default_rng(4)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(0.4 * numbers.normal(size=parameter.shape)))
            if name == "attention.query.weight":
                rows = torch.arange(len(parameter)) // (len(parameter) // model.attention.entropy["qk_clip"].heads)
                parameter *= (0.05 * 4.0**rows)[:, None]
    return model


def clip(model):
    return model.attention.entropy["qk_clip"]


def weights(model):
    return [getattr(model.attention, name).weight.detach().double().numpy().copy() for name in ("query", "key")]


def largest(query, key, x, *, heads=2, seen=lambda t, s: s <= t, turned=lambda x: x):
    """The largest logit of each head, pair by pair."""
    width, group = len(query) // heads, heads * len(query) // heads // len(key)
    found = []
    for h in range(heads):
        q = x @ query[h * width : (h + 1) * width].T
        g = h // group
        k = x @ key[g * width : (g + 1) * width].T
        q, k = turned(q), turned(k)
        pairs = [(t, s) for t, s in itertools.product(range(x.shape[1]), repeat=2) if seen(t, s)]
        found.append(max(q[b, t] @ k[b, s] / math.sqrt(width) for b in range(len(x)) for t, s in pairs))
    return np.array(found)


def passed(model, x=X):
    """One pass of training."""
    model.train()
    y = model(torch.from_numpy(x).to(next(model.parameters()).dtype))
    assert clip(model).losses() == {}
    return y


@torch.no_grad()
def stepped(model, across=None):
    return {name: float(number) for name, number in clip(model).after_step(across or Alone()).items()}


@pytest.mark.parametrize("alpha", [0.5, 0.25, 0.0, 1.0])
def test_each_head_is_scaled_by_its_own_share(alpha):
    model = built(tau=2.0, alpha=alpha, heads=4)
    query, key = weights(model)
    before = largest(query, key, X, heads=4)
    gamma = np.minimum(1, 2.0 / before)
    assert 0 < (gamma < 1).sum() < 4
    passed(model)
    assert stepped(model) == pytest.approx({"largest_logit": before.max(), "clipped_heads": (gamma < 1).sum()})
    by_row = np.repeat(gamma, 4)[:, None]
    after = weights(model)
    np.testing.assert_allclose(after[0], query * by_row**alpha, rtol=1e-12)
    np.testing.assert_allclose(after[1], key * by_row ** (1 - alpha), rtol=1e-12)
    np.testing.assert_array_equal(after[0][by_row[:, 0] == 1], query[by_row[:, 0] == 1])
    np.testing.assert_allclose(largest(*after, X, heads=4), np.minimum(before, 2.0), rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.5, 0.3])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (4, 1)])
def test_shared_keys_scale_every_head_by_exactly_its_own(heads, kv_heads, alpha):
    model = built(tau=2.0, alpha=alpha, heads=heads, kv_heads=kv_heads)
    query, key = weights(model)
    before = largest(query, key, X, heads=heads)
    gamma = np.minimum(1, 2.0 / before)
    assert 0 < (gamma < 1).sum() < heads
    passed(model)
    stepped(model)
    after = weights(model)
    width = len(query) // heads
    of_query = (after[0] / query).reshape(heads, width, -1)
    of_key = (after[1] / key).reshape(kv_heads, width, -1)
    for h in range(heads):
        both = of_query[h, 0, 0] * of_key[h // (heads // kv_heads), 0, 0]
        assert both == pytest.approx(gamma[h], rel=1e-12)
    for g, group in enumerate(np.split(gamma, kv_heads)):
        np.testing.assert_allclose(of_key[g], group.min() ** (1 - alpha), rtol=1e-12)
    np.testing.assert_allclose(largest(*after, X, heads=heads), np.minimum(before, 2.0), rtol=1e-12)


@pytest.mark.parametrize(
    ("mask", "seen"),
    [
        (node("window", size=3.0), lambda t, s: t - 3 < s <= t),
        (node("prefix", length=5.0), lambda t, s: s <= t or s < 5),
        (node("full"), lambda t, s: True),
    ],
    ids=("window", "prefix", "full"),
)
def test_only_pairs_that_are_seen_count(mask, seen):
    model = built(mask=mask)
    passed(model)
    expected = largest(*weights(model), X, seen=seen)
    assert clip(model).largest.numpy() == pytest.approx(expected, rel=1e-6)
    assert stepped(model)["largest_logit"] == pytest.approx(expected.max(), rel=1e-6)


def test_they_are_queries_and_keys_as_attention_sees_them():
    def turned(x):
        angle = np.arange(12)[:, None] * 10000.0 ** (-2 * np.arange(4) / 8)
        pairs = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
        return np.stack((pairs.real, pairs.imag), axis=-1).reshape(x.shape)

    model = built(position=node("rope", base=10000.0, share=1.0), and_=(node("softcap", cap=0.1),), bias="alibi")
    passed(model)
    expected = largest(*weights(model), X, turned=turned)
    np.testing.assert_allclose(clip(model).largest, expected, rtol=1e-9)
    assert np.abs(expected - largest(*weights(model), X)).max() > 1e-3


def test_the_largest_of_all_passes_and_ranks_of_a_step():
    model = built(tau=0.1)
    others = np.random.default_rng(6).normal(size=(3, 12, 16))
    passed(model)
    passed(model, others)
    both = np.maximum(largest(*weights(model), X), largest(*weights(model), others))
    np.testing.assert_allclose(clip(model).largest, both, rtol=1e-9)
    query, key = weights(model)
    elsewhere = [both[0] + 5, both[1] - 5]
    assert stepped(model, WithAnother(elsewhere))["largest_logit"] == pytest.approx(both[0] + 5)
    gamma = np.repeat(np.minimum(1, 0.1 / np.array([both[0] + 5, both[1]])), 8)[:, None]
    np.testing.assert_allclose(weights(model)[0], query * np.sqrt(gamma), rtol=1e-12)
    np.testing.assert_allclose(weights(model)[1], key * np.sqrt(gamma), rtol=1e-12)
    assert clip(model).largest is None


def test_nothing_is_clipped_below_tau():
    model = built(tau=100.0)
    before = weights(model)
    passed(model)
    assert stepped(model)["clipped_heads"] == 0
    for old, new in zip(before, weights(model), strict=True):
        np.testing.assert_array_equal(old, new)


def test_output_and_gradient_are_those_without_it():
    model = built()
    plain = compile_block(sequence(node("attention")), SIZES, CATALOGUE, init=default_init(), dtype=torch.float64)
    plain.load_state_dict(model.state_dict())
    y, other = passed(model), plain(torch.from_numpy(X))
    assert torch.equal(y, other)
    for a, b in zip(*(torch.autograd.grad(z.square().sum(), m.parameters()) for z, m in ((y, model), (other, plain)))):
        assert torch.equal(a, b)


@pytest.mark.parametrize("how", ["evaluation", "no gradient"])
def test_nothing_is_watched_outside_training(how):
    model = built().train(how != "evaluation")
    with torch.set_grad_enabled(how == "evaluation"):
        model(torch.from_numpy(X))
    assert clip(model).losses() == {} and clip(model).largest is None


def test_a_copy_clips_its_own_weights():
    model = built(tau=0.05)
    passed(model)
    twin = copy.deepcopy(model)
    before = weights(model)
    stepped(twin)
    np.testing.assert_array_equal(weights(model)[0], before[0])
    assert np.abs(weights(twin)[0] - before[0]).max() > 1e-3


def test_in_bfloat16():
    model = built(tau=0.05, dtype=torch.bfloat16)
    expected = largest(*weights(model), X)
    passed(model)
    assert clip(model).largest.dtype == torch.float32
    np.testing.assert_allclose(clip(model).largest, expected, rtol=0.05)
    stepped(model)
    np.testing.assert_allclose(largest(*weights(model), X)[1], 0.05, rtol=0.05)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("scale", [0.3, -0.3, 0.0])
@pytest.mark.parametrize("mask", [None, PastMask(), Everything(), WindowMask(3), PrefixMask(4)], ids=str)
@pytest.mark.parametrize("causal", [True, False])
def test_in_rows(scale, mask, causal):
    numbers = np.random.default_rng(5)
    q, k = (torch.from_numpy(numbers.normal(size=(2, 3, 11, 4))) for _ in range(2))
    scores = scale * (q @ k.mT)
    rule = mask or (PastMask() if causal else Everything())
    exact = scores.masked_fill(~rule.rows(0, 11, 11), -math.inf).amax((0, 2, 3))
    for rows in (1, 4, 11, 256):
        found = largest_logits(q, k, causal=causal, scale=scale, mask=mask, rows=rows)
        torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"heads": 4, "kv_heads": 2},
        {"head_width": 12, "position": "rope", "mask": node("window", size=4.0)},
        {"matrix": "shaped"},
        {"matrix": node("value_skipinit", gain=0)},
        {"matrix": node("shaped", gain=0), "bias": "transformer_xl"},
        {"sink": "learned_sink"},
    ],
    ids=str,
)
def test_size_as_counted(fields):
    whole = architecture(sequence(node("attention", entropy=("qk_clip",), **fields)))
    without = cost(architecture(sequence(node("attention", **fields))), CATALOGUE)
    counted = cost(whole, CATALOGUE)
    assert counted == size_report(whole, CATALOGUE)
    heads, width = fields.get("heads", 2), fields.get("head_width", 16 // fields.get("heads", 2))
    assert counted.flops - without.flops == SIZES.n_layers * 2 * 12 * 12 * heads * width
    assert counted.training_flops - without.training_flops == counted.flops - without.flops
    assert counted.parameters == without.parameters


@pytest.mark.parametrize("which", ["query", "key"])
@pytest.mark.parametrize("weight", [node("dense", bias=True), "spectral", node("frozen", init="orthogonal")], ids=str)
def test_weights_that_are_no_plain_matrix(which, weight):
    with pytest.raises(InputError, match=f"qk_clip: the {which} weight is not a plain trained matrix"):
        built(**{which: weight})


@pytest.mark.parametrize("other", ["qk_norm", "sigma_reparam"])
def test_behind_a_norm_it_would_do_nothing(other):
    fields = {"norm": "rms_norm"} if other == "qk_norm" else {}
    block = sequence(node("attention", entropy=(node("qk_clip"), node(other, **fields))))
    with pytest.raises(InputError, match=f"behind {other}, qk_clip would scale"):
        cost(architecture(block), CATALOGUE)
    with pytest.raises(InputError, match=f"behind {other}, qk_clip would scale"):
        compile_block(block, SIZES, CATALOGUE, init=default_init())


def test_it_is_found_by_what_it_does():
    for protocol in (OffersLosses, ActsAfterStep, WatchesLogits):
        assert isinstance(clip(built()), protocol)


def test_the_equation_names_it():
    block = sequence(node("attention", entropy=(node("qk_clip", tau=50.0, alpha=0.25),)))
    text = equation(block, SIZES, CATALOGUE).text
    assert "after each step:  W^Q_h ← γ_h^0.25 W^Q_h,  W^K_h ← γ_h^0.75 W^K_h,  γ_h = min(1, 50 / max S_h)" in text
    assert "Q ←" not in text
