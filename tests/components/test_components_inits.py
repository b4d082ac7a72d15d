"""Inits against what they promise: exact structure where there is one, spreads where there is not."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, node, residual, sequence

from ablate.block.sizes import Surroundings
from ablate.compiler import compile_block, compile_model
from ablate.compiler.build import Builder
from ablate.errors import InputError
from ablate.plan.size import cost

pytestmark = pytest.mark.fast


def filled(init, d_out, d_in, *, seed=0, sizes=SIZES, layer=1):
    """The numbers that `init` draws, [d_out, d_in]."""
    scheme = Builder(CATALOGUE, Surroundings(sizes.at(layer))).part(init, ())()
    numbers = torch.zeros(d_out, d_in, dtype=torch.float64)
    scheme.fill(numbers, d_in, d_out, torch.Generator().manual_seed(seed))
    return numbers.numpy()


@pytest.mark.parametrize(("d_out", "d_in"), [(16, 16), (64, 16), (16, 64), (1, 5)])
@pytest.mark.parametrize("gain", [1, 0.5])
def test_orthogonal_keeps_lengths_up_to_the_scale(d_out, d_in, gain):
    w = filled(node("orthogonal", gain=gain), d_out, d_in)
    scale = gain * max(math.sqrt(d_out / d_in), 1)
    gram = w.T @ w if d_out >= d_in else w @ w.T
    np.testing.assert_allclose(gram, scale**2 * np.eye(len(gram)), atol=1e-12)
    x = np.random.default_rng(0).normal(size=(4000, d_in))
    assert np.mean((x @ w.T) ** 2) == pytest.approx(gain**2, rel=0.1)
    if d_out > d_in:  # the rule for weights stored the other way round would be off by the ratio of the widths
        assert scale != pytest.approx(gain * max(math.sqrt(d_in / d_out), 1))


def test_orthogonal_is_uniform():
    draws = np.stack([filled(node("orthogonal"), 4, 4, seed=seed) for seed in range(400)])
    assert np.abs(draws.mean(0)).max() < 0.12  # each entry has mean 0 and variance 1/4: 4.8 standard errors
    assert np.abs((draws**2).mean(0) - 1 / 4).max() < 0.06
    random = np.random.default_rng(0)
    raw = np.stack([np.linalg.qr(random.normal(size=(4, 4)))[0] for _ in range(400)])
    assert np.abs(raw.mean(0)).max() > 0.3  # without the signs it is not
    assert 0.4 < np.mean(np.linalg.det(draws) > 0) < 0.6


def test_eye():
    np.testing.assert_array_equal(filled(node("eye"), 3, 3), np.eye(3))
    np.testing.assert_array_equal(filled(node("eye"), 5, 3), np.eye(5, 3))
    np.testing.assert_array_equal(filled(node("eye"), 3, 5), np.eye(3, 5))


WIDE = replace(SIZES, d_model=256, n_heads=4)


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize(("d_out", "d_in"), [(256, 256), (1024, 256), (256, 1024)])
def test_xavier(distribution, per_head, d_out, d_in):
    init = node("xavier", gain="sqrt(2)", distribution=distribution, per_head=per_head)
    w = filled(init, d_out, d_in, sizes=WIDE)
    std = math.sqrt(2) * math.sqrt(2 / (d_in + d_out / (4 if per_head else 1)))
    assert w.std() == pytest.approx(std, rel=0.01)
    assert abs(w.mean()) < 0.01 * std
    bounded = np.abs(w).max() <= math.sqrt(3) * std
    assert bounded == (distribution == "uniform")
    assert (w**4).mean() / std**4 == pytest.approx(9 / 5 if distribution == "uniform" else 3, rel=0.05)


def test_ds_init_and_deepnorm_are_xavier_with_a_gain():
    """arXiv:1908.11365: uniform within sqrt(6/(d_in + d_out)) / sqrt(l); arXiv:2203.00555, Fig. 2: (8N)^(-1/4)."""
    ds_init = node("xavier", gain="1/sqrt(layer)", distribution="uniform")
    for layer in (1, 2):
        w = filled(ds_init, 256, 256, sizes=WIDE, layer=layer)
        bound = math.sqrt(6 / 512) / math.sqrt(layer)
        assert 0.99 * bound < np.abs(w).max() <= bound
    deep = replace(WIDE, n_layers=50)
    w = filled(node("xavier", gain="(8*depth)**-0.25", distribution="normal"), 256, 256, sizes=deep)
    assert w.std() == pytest.approx((8 * 50) ** -0.25 / math.sqrt(256), rel=0.01)


@pytest.mark.parametrize("name", ["normal", "fan_in", "xavier"])
def test_a_spread_below_zero_is_refused_when_planned(name):
    init = node(name, **{"std" if name == "normal" else "gain": "-1/depth"})
    with pytest.raises(
        InputError, match=r"is -1/depth, which is -0.5 in layer 1 of 2\n  = give a number of at least 0"
    ):
        cost(architecture(sequence(node("mlp", up=node("dense", init=init)))), CATALOGUE)


ORTHOGONAL = node("orthogonal")


def tied(through="layer", *, value=ORTHOGONAL, kind="dense", init=ORTHOGONAL):
    """Attention whose projection undoes its values."""
    projection = node("inverse", of="value", through=through, init=init)
    weights = {"value": node(kind, init=value), "projection": node(kind, init=projection)}
    return node("attention", **weights)


def model_of(attention, *, layers=4, dtype=torch.float64, seed=0):
    sizes = replace(SIZES, n_layers=layers)
    block = sequence(residual(attention))
    return compile_model(architecture(block, sizes=sizes), CATALOGUE, dtype=dtype, seed=seed)


def weights(model, name):
    def matrix(part):
        found = part.start if hasattr(part, "start") else part.weight
        return found.detach().numpy()

    return [matrix(getattr(block.attention, name)) for block in model.layers.values()]


@pytest.mark.parametrize("kind", ["dense", "frozen", "reparameterised"])
def test_all_tied_projections_undo_the_values_of_their_layer(kind):
    model = model_of(tied(kind=kind))
    values, projections = weights(model, "value"), weights(model, "projection")
    for value, projection in zip(values, projections, strict=True):
        np.testing.assert_allclose(projection, value.T, atol=1e-12)
        np.testing.assert_allclose(projection @ value, np.eye(16), atol=1e-12)
    assert np.abs(values[0] - values[1]).max() > 0.1


def test_last_layer_tied_makes_the_product_the_identity():
    """App. D of arXiv:2311.01906: Π_l V_l P_l = I in row vectors, with all P but the last independent."""
    model = model_of(tied("layers"))
    values, projections = weights(model, "value"), weights(model, "projection")
    product = np.eye(16)
    for value, projection in zip(values, projections, strict=True):
        product = product @ value.T @ projection.T
        np.testing.assert_allclose(projection @ projection.T, np.eye(16), atol=1e-12)
    np.testing.assert_allclose(product, np.eye(16), atol=1e-12)
    for value, projection in list(zip(values, projections, strict=True))[:-1]:
        assert np.abs(projection @ value - np.eye(16)).max() > 0.1
    plain = model_of(node("attention", **dict.fromkeys(("value", "projection"), node("dense", init=ORTHOGONAL))))
    for ours, theirs in zip(projections[:-1], weights(plain, "projection"), strict=False):
        np.testing.assert_array_equal(ours, theirs)  # independent: what they would be without a tie


def test_the_inverse_of_any_matrix():
    init = node("fan_in")
    for value, projection in zip(*(weights(model_of(tied(value=init, init=init)), n) for n in ("value", "projection"))):
        np.testing.assert_allclose(projection @ value, np.eye(16), atol=1e-9)
        assert np.abs(projection - value.T).max() > 0.1


def test_lower_precision_is_the_inverse_rounded():
    double, single = (model_of(tied("layers"), dtype=dtype) for dtype in (torch.float64, torch.float32))
    for ours, theirs in zip(weights(single, "projection"), weights(double, "projection"), strict=True):
        np.testing.assert_array_equal(ours, theirs.astype(np.float32))


@pytest.mark.parametrize("through", ["layer", "layers"])
def test_a_block_alone_is_the_block_in_its_model(through):
    sizes = replace(SIZES, n_layers=4)
    block = sequence(residual(tied(through)))
    model = model_of(tied(through), seed=5)
    for layer in (3, 4):
        alone = compile_block(
            block, sizes, CATALOGUE, layer=layer, seed=5, init=default_init(), dtype=torch.float64
        ).attention.projection.weight
        assert torch.equal(alone, model.layers[str(layer)].attention.projection.weight)


@pytest.mark.parametrize("value", [node("normal"), node("orthogonal", gain=2)])
def test_an_inverse_of_other_numbers_is_refused(value):
    with pytest.raises(InputError, match=r"layers\.1\.attention\.value, which starts from other numbers"):
        model_of(tied(value=value))


def test_an_inverse_without_what_it_inverts_is_refused():
    inverse = node("dense", init=node("inverse", of="value", through="layer", init=ORTHOGONAL))
    with pytest.raises(InputError, match="which starts from other numbers"):
        model_of(node("attention", value="identity", projection=inverse))
    with pytest.raises(InputError, match="has no inverse"):
        compile_block(sequence(node("mlp", up=inverse)), SIZES, CATALOGUE, init=default_init())


@pytest.mark.parametrize("through", ["layer", "layers"])
@pytest.mark.parametrize(
    "init", [node("zero"), node("orthogonal", gain=0), node("normal", std=1e-320)], ids=["zero", "gain 0", "tiny"]
)
def test_the_inverse_of_a_singular_matrix_is_refused_with_the_way_out(init, through):
    with pytest.raises(InputError, match=r"(?s)which starts singular.*orthogonal with a gain above 0"):
        model_of(tied(through, value=init, init=init))
    small = node("normal", std=1e-60)  # small, and not singular
    assert model_of(tied("layer", value=small, init=small)).layers["1"].attention.projection.weight.isfinite().all()


def test_inverse_is_no_init_for_a_whole_model():
    inverse = node("inverse", of="value", through="layer", init=ORTHOGONAL)
    with pytest.raises(InputError, match="outside the layers"):
        cost(architecture(sequence("mlp"), init=inverse), CATALOGUE)
    with pytest.raises(InputError, match="outside the layers"):
        compile_model(architecture(sequence("mlp"), init=inverse), CATALOGUE)


def test_constant_weights_cost_nothing_to_look_at_without_storage():
    """On the meta device a block of constants alone is built and filled without a number."""
    four = dict.fromkeys(("query", "key", "value", "projection"), node("frozen", init=ORTHOGONAL))
    block = compile_block(sequence(node("attention", **four)), SIZES, CATALOGUE, init=default_init(), device="meta")
    assert block.attention.query.weight.is_meta and not list(block.parameters())
