"""DeepScaleLM (arXiv:2403.09635): its scales by its equations, its claims at 192 layers, and what it folds into."""

import math

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, node, post_ln, pre_ln, sequence
from deep_scale_fixtures import R0, P, Seen, dense, dslm, expected, observe, sizes, xavier

from ablate.block.sizes import Sizes
from ablate.compiler import compile_block, compile_model
from ablate.errors import InputError
from ablate.plan.size import cost


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors: a second thread would only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def deep_scale_std(layer: int, depth: int, r0: float, p: float, width: int) -> float:
    """The standard deviation of App. M, written out once more."""
    skip, gain = 1 - 2 / depth, 2 / depth
    r, s = r0 * (1 - p), 1.0
    for _ in range(layer - 1):
        r, s = (skip * r * s + gain * (1 - p)) / (skip * s + gain), skip * s + gain
        g = (1 - p) * (r + (math.sqrt(1 - r * r) - r * math.acos(r)) / math.pi)
        r, s = (skip * r * s + gain * g) / (skip * s + gain), skip * s + gain
    return math.sqrt(math.sqrt((1 - p) / r) / width)


@pytest.mark.fast
@pytest.mark.parametrize("layer", [1, 2, 5, 12])
def test_values_and_projection_have_the_papers_scale_in_each_layer(layer):
    shape = Sizes(n_layers=12, d_model=256, n_heads=4, seq_len=8, vocab_size=2)
    weights = dict(compile_block(dslm(), shape, CATALOGUE, init=node("zero"), layer=layer).named_parameters())
    wanted = deep_scale_std(layer, 12, R0, P, 256)
    for name in ("attention.value.weight", "attention.projection.weight"):
        assert weights[name].std().item() == pytest.approx(wanted, rel=0.01)
        assert weights[name].mean().item() == pytest.approx(0, abs=5e-4)
    if layer < 12:  # Fig. 15 is one layer late
        assert deep_scale_std(layer + 1, 12, R0, P, 256) != pytest.approx(wanted, rel=0.02)
    for name, std in (("attention.query", 1 / 16), ("mlp.up", math.sqrt(math.sqrt(0.45) / 256))):
        assert weights[f"{name}.weight"].std().item() == pytest.approx(std, rel=0.01)


@pytest.mark.fast
def test_it_depends_on_the_layer_and_on_nothing_random():
    shape = Sizes(n_layers=12, d_model=16, n_heads=4, seq_len=8, vocab_size=2)
    one, two = (compile_block(dslm(), shape, CATALOGUE, init=node("zero"), layer=n) for n in (3, 3))
    assert torch.equal(one.attention.value.weight, two.attention.value.weight)
    scaled = [compile_block(dslm(correlation=r), shape, CATALOGUE, init=node("zero"), layer=3) for r in (0.1, 0.2)]
    ratio = scaled[0].attention.value.weight / scaled[1].attention.value.weight
    wanted = deep_scale_std(3, 12, 0.1, P, 16) / deep_scale_std(3, 12, 0.2, P, 16)
    np.testing.assert_allclose(ratio.detach().numpy(), wanted, rtol=1e-5)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"correlation": 0}, r"deep_scale.correlation is 0\n  = give a number above 0"),
        ({"correlation": 1.5}, r"deep_scale.correlation is 1.5\n  = give a number of at most 1"),
        ({"correlation": "repetition"}, "deep_scale.correlation is repetition, .*repetition is not known here"),
        ({"skip": 0, "gain": 0}, "deep_scale has skip 0 and gain 0"),
        ({"skip": "sqrt(1-4/depth)"}, "a root or logarithm in it does not exist"),
    ],
)
def test_a_scale_that_does_not_exist_is_refused_with_the_plan(fields, message):
    init = node("deep_scale", **{"correlation": 0.2, "dropout": 0.1, "skip": 1, "gain": 1, **fields})
    with pytest.raises(InputError, match=message):
        cost(architecture(pre_ln(attention=node("attention", value=dense(init)))), CATALOGUE)


@pytest.mark.fast
def test_dropout_drops_in_training_alone():
    module = compile_block(sequence(node("dropout", p=0.25)), SIZES, CATALOGUE, init=node("zero"))
    x = torch.randn(40, 50, 16, dtype=torch.float64)
    torch.manual_seed(0)
    y = module(x)
    kept = y != 0
    assert kept.double().mean().item() == pytest.approx(0.75, abs=0.01)
    assert torch.allclose(y[kept], x[kept] / 0.75, rtol=1e-14)
    assert not torch.equal(module(x), y)
    torch.manual_seed(0)
    assert torch.equal(module(x), y)
    assert torch.equal(module.eval()(x), x)
    before = torch.random.get_rng_state()
    assert torch.equal(compile_block(sequence("dropout"), SIZES, CATALOGUE, init=node("zero"))(x), x)
    assert torch.equal(torch.random.get_rng_state(), before)


# Claims. The variance of the output: 1 by App. E.3 and E.4; within Eq. 6 where simplified. Norms of weight gradients:
# those of all matrices of a layer together, the median of the first quarter of layers by that of the last, within 20 %.
# The gradient's variance at the first layer by that at the last: within 10 % of the closed forms, as the geometric mean
# over seeds, since one draw of weights spreads by about 13 % (Pre-LN) and 20 % (Post-LN) at a width of 128.


def conserved(seen: Seen) -> bool:
    return seen.variance.min() > 0.75 and seen.variance.max() < 1.25


def flat(seen: Seen) -> bool:
    return 0.8 < seen.weights_first_to_last < 1.2


def factor_by_theory(block, shape, *, post, batch, seeds) -> tuple[float, list[Seen]]:
    """The geometric mean over seeds of what is seen by what is expected; and what was seen."""
    ratios, seen = [], []
    for seed in range(seeds):
        one = observe(block, shape, batch=batch, seed=seed)
        _, gradient = expected(one, shape, post=post)
        ratios.append(one.factor / (gradient[0] / gradient[-1]))
        seen.append(one)
    return math.exp(np.mean(np.log(ratios))), seen


def average(seen: list[Seen]) -> Seen:
    return Seen(*(np.mean([getattr(one, name) for one in seen], axis=0) for name in Seen.__dataclass_fields__))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("post", [False, True], ids=["pre", "post"])
def test_24_layers_conserve_variances_and_gradients(post):
    shape = sizes(24, 64, 32)
    ratio, seen = factor_by_theory(dslm(post=post), shape, post=post, batch=8, seeds=4)
    assert conserved(average(seen))
    assert flat(average(seen))
    assert 0.75 < ratio < 1.25
    plain = observe(xavier(post=post), shape, batch=8, seed=0)
    assert not flat(plain)
    assert post or not conserved(plain)
    _, gradient = expected(plain, shape, post=post)
    assert not 0.5 < plain.factor / (gradient[0] / gradient[-1]) < 2


@pytest.mark.slow
@pytest.mark.parametrize(("width", "seeds"), [(128, 8), (256, 6)])
@pytest.mark.parametrize("post", [False, True], ids=["pre", "post"])
def test_192_layers_conserve_variances_and_gradients(width, seeds, post):
    shape = sizes(192, width, 64)
    ratio, seen = factor_by_theory(dslm(post=post), shape, post=post, batch=4, seeds=seeds)
    assert all(one.variance.min() > 0.7 and one.variance.max() < 1.4 for one in seen)
    assert conserved(average(seen))
    assert flat(average(seen))
    assert ratio == pytest.approx(1, abs=0.1)
    plain = observe(xavier(post=post), shape, batch=4, seed=0)
    assert not flat(plain)
    _, gradient = expected(plain, shape, post=post)
    assert not 0.9 < plain.factor / (gradient[0] / gradient[-1]) < 1.1
    if post:
        assert plain.factor < 1e-3  # the gradient vanishes
    else:
        predicted, _ = expected(plain, shape, post=False, scheme="xavier")
        assert plain.variance[-1] == pytest.approx(predicted[-1], rel=0.15)  # 2.07 a layer
        assert plain.variance[-1] > 250
        assert plain.weights_first_to_last > 2


@pytest.mark.slow
@pytest.mark.parametrize("width", [128, 256])
def test_192_simplified_layers_are_within_the_papers_bounds(width):
    """Eq. 6 for n to infinity and no covariance of branch and skip, so 10 % are left on either side."""
    low, high = 1 / 2 + math.exp(-4) / 2, 3 / 4 + math.exp(-4) / 4
    ends = [observe(dslm(simple=True), sizes(192, width, 64), batch=4, seed=s).variance[-1] for s in range(3)]
    assert all(0.9 * low < end < 1.1 * high for end in ends)
    full = observe(dslm(), sizes(192, width, 64), batch=4, seed=0)
    assert not 0.9 * low < full.variance[-1] < 1.1 * high


@pytest.mark.fast
@pytest.mark.parametrize("post", [False, True], ids=["pre", "post"])
def test_scalings_fold_into_plain_weights(post):
    """Pre-LN: y_k = x_k/λ^k is a stream without λ, whose branch k has the gain β/λ^(k+1); norms divide by λ^k again.

    Post-LN: norm(λx + βf(x)) = norm(x + (β/λ)f(x)). Both at epsilon 0; the gain goes into the last weight of a branch.
    """
    norm = node("layer_norm", eps=0.0, bias=True)
    depth = 6
    skip, gain = math.sqrt(1 - 2 / depth), math.sqrt(2 / depth)
    shape = Sizes(n_layers=depth, d_model=32, n_heads=4, seq_len=10, vocab_size=23)
    around = {"sizes": shape, "final_norm": norm, "embedding_std": 1, "embedding_scale": 1}
    attention, mlp = node("attention"), node("mlp")
    plain_block = post_ln(norm) if post else pre_ln(norm, attention=attention, mlp=mlp)
    scaled_block = type(plain_block)(
        tuple(
            node("residual", skip="sqrt(1-2/depth)", gain="sqrt(2/depth)", branch=part["branch"])
            if part.name == "residual"
            else part
            for part in plain_block
        )
    )
    scaled = model(scaled_block, around)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in scaled.named_parameters():
            if "norm" in name:  # gains and shifts of the norms are no exception
                parameter += 0.3 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
    plain, untouched = model(plain_block, around), model(plain_block, around)
    state = scaled.state_dict()
    untouched.load_state_dict(state)
    plain.load_state_dict(folded(state, depth, skip, gain, post=post))
    tokens = torch.randint(23, (3, 10), generator=draw)
    with torch.no_grad():
        np.testing.assert_allclose(plain(tokens), scaled(tokens), rtol=1e-10, atol=1e-10)
        assert (untouched(tokens) - scaled(tokens)).abs().max() > 0.1


def folded(state, depth, skip, gain, *, post):
    """The weights of a model without λ and β that computes the same."""
    found = dict(state)
    for layer in range(1, depth + 1):
        for within, name in enumerate(("attention.projection.weight", "mlp.down.weight")):
            power = 1 if post else 2 * (layer - 1) + within + 1
            found[f"layers.{layer}.{name}"] = state[f"layers.{layer}.{name}"] * gain / skip**power
    return found


def model(block, around):
    init = node("normal", std=0.2)
    return compile_model(architecture(block, init=init, **around), CATALOGUE, dtype=torch.float64)
