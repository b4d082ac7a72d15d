"""`model.kind: vit` and `mlp`, against NumPy in float64: patches, positions, pooling, losses, sizes, refusals."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import SIZES, architecture, default_init, node
from numpy_transformer import mlp as numpy_mlp
from numpy_transformer import norm, perturbed, post_layer, pre_layer, sines, weights_of
from reading import decoders, transformer

from ablate.api import load_block
from ablate.block.architecture import n_tokens
from ablate.block.expression import walk
from ablate.compiler import compile_model, size_report
from ablate.data.batch import Batch
from ablate.errors import InputError
from ablate.plan.identity import model_identity
from ablate.plan.size import cost, part_costs
from ablate.space.recipe import Loss
from ablate.train.microbatches import BatchShares, Passes
from ablate.train.objectives import classification, regression
from ablate.train.objectives.declare import Given
from ablate.train.optimizer import parameter_kinds

CATALOGUE = transformer().catalogue
PRE = """[residual: {gain: 1/sqrt(2*depth), branch: [layer_norm, attention]},
    residual: {gain: 1/layer, branch: [layer_norm, mlp: {activation: silu, hidden: 2x}]}]"""
POST = "[residual: [attention], layer_norm, residual: [mlp: {activation: silu, hidden: 2x}], layer_norm]"
LAYERS = {"pre": (PRE, pre_layer), "post": (POST, post_layer)}
FLAT = "[residual: {gain: 1/layer, branch: [layer_norm, mlp: {activation: silu, hidden: 1x}]}]"
DEPTH, CLASSES, SCALE, LOGITS = 3, 5, 2.0, 0.5
SHAPE, PATCH = (3, 6, 9), 3
"""Images of 2 x 3 patches: no square, so that rows and columns are told apart."""
POSITIONS = ("none", "learned", "sinusoidal", "sine_cosine_2d", "sine_cosine_2d_as_released")
POOLINGS = pytest.mark.parametrize("pooling", ["class_token", "mean"])


def vit(block=PRE, **changes):
    block = load_block(block) if isinstance(block, str) else block
    pooling = changes.get("pooling", "class_token")
    sizes = replace(
        SIZES, n_layers=DEPTH, n_heads=2, seq_len=6 + (pooling == "class_token"), causal=False, vocab_size=CLASSES
    )
    around = {
        "kind": "vit",
        "sizes": sizes,
        "init": default_init(),
        "final_norm": node("layer_norm", bias=True, scale=True),
        "positions": "learned",
        "embedding_scale": SCALE,
        "logit_scale": LOGITS,
        "input_shape": SHAPE,
        "patch": PATCH,
        "pooling": pooling,
    }
    return architecture(block, **{**around, **changes})


def mlp(block=FLAT, **changes):
    sizes = replace(SIZES, n_layers=DEPTH, n_heads=1, seq_len=1, causal=False, vocab_size=CLASSES)
    around = {
        "kind": "mlp",
        "sizes": sizes,
        "init": default_init(),
        "embedding_scale": SCALE,
        "logit_scale": LOGITS,
        "input_shape": SHAPE,
        "position_std": None,
    }
    return architecture(load_block(block) if isinstance(block, str) else block, **{**around, **changes})


def model_of(whole):
    return perturbed(compile_model(whole, CATALOGUE, dtype=torch.float64))


def images(batch=4, shape=SHAPE):
    return torch.randn(batch, *shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def patches_of(image):
    """The patches of an image, row by row, one number after another."""
    channels, height, width = image.shape
    return np.array([
        [image[c, top + y, left + x] for c in range(channels) for y in range(PATCH) for x in range(PATCH)]
        for top in range(0, height, PATCH)
        for left in range(0, width, PATCH)
    ])  # fmt: skip


def on_a_grid(width, *, last):
    """Positions of 2 rows and 3 columns: sines and cosines of the column, then of the row."""
    quarter = width // 4
    table = []
    for y in range(SHAPE[1] // PATCH):
        for x in range(SHAPE[2] // PATCH):
            ω = [10000 ** -(i / (quarter - 1 if last else quarter)) for i in range(quarter)]
            table.append([f(at * each) for at in (x, y) for f in (np.sin, np.cos) for each in ω])
    return np.array(table)


def positions_of(name, w, width, *, before):
    if name == "learned":
        return w["positions.weight"]
    if name == "sinusoidal":
        return sines(6 + before, width)
    if name == "none":
        return 0
    table = on_a_grid(width, last=name.endswith("as_released"))
    return np.concatenate([np.zeros((1, width)), table]) if before else table


def vit_by_numpy(w, x, layer_of, whole):
    patches = np.stack([patches_of(image) for image in x])
    x = patches @ w["embedding.weight"].T + w["embedding.bias"]
    before = whole.pooling == "class_token"
    if before:
        x = np.concatenate([np.broadcast_to(w["embedding.class_token"], (len(x), 1, x.shape[-1])), x], axis=1)
    x = SCALE * x + positions_of(whole.positions, w, x.shape[-1], before=before)
    seen = np.ones((len(x), x.shape[1], x.shape[1]))
    for n in range(1, DEPTH + 1):
        x = layer_of(x, None, seen, None, w, f"layers.{n}", n, DEPTH)
    x = norm(x, w, "final_norm")
    return answer(w, x[:, 0] if before else x.mean(1), whole)


def mlp_by_numpy(w, x, whole):
    x = SCALE * (x.reshape(len(x), -1) @ w["embedding.weight"].T + w["embedding.bias"])
    for n in range(1, DEPTH + 1):
        x = x + numpy_mlp(norm(x, w, f"layers.{n}.mlp_norm"), w, f"layers.{n}.mlp") / n
    return answer(w, x, whole)


def answer(w, h, whole):
    if whole.head_layer:
        h = np.tanh(h @ w["head.layer.weight"].T + w["head.layer.bias"])
    logits = LOGITS * h @ w["head.weight"].T + w["head.bias"]
    return logits if whole.logit_softcap is None else whole.logit_softcap * np.tanh(logits / whole.logit_softcap)


@POOLINGS
@pytest.mark.parametrize("positions", POSITIONS)
def test_the_whole_vit_is_that_of_numpy(pooling, positions):
    for name, (block, layer_of) in LAYERS.items():
        whole = vit(block, pooling=pooling, positions=positions, head_layer=name == "post")
        model, x = model_of(whole), images()
        expected = vit_by_numpy(weights_of(model), x.numpy(), layer_of, whole)
        assert expected.shape == (4, CLASSES) and np.abs(expected - expected[0]).max() > 1e-3
        assert np.abs(model(x).detach().numpy() - expected).max() < 1e-9
        other = model_of(replace(whole, positions="none" if positions == "sinusoidal" else "sinusoidal"))
        assert np.abs(other(x).detach().numpy() - expected).max() > 1e-3, "it knows the positions"


@pytest.mark.parametrize("changes", [{}, {"head_layer": True}, {"logit_softcap": 0.7}], ids=["plain", "layer", "cap"])
def test_the_whole_mlp_is_that_of_numpy(changes):
    whole = mlp(**changes)
    model, x = model_of(whole), images()
    assert np.abs(model(x).detach().numpy() - mlp_by_numpy(weights_of(model), x.numpy(), whole)).max() < 1e-9
    frames = mlp(input_shape=(7, 2))
    assert model_of(frames)(images(shape=(7, 2))).shape == (4, CLASSES)


def targets():
    return torch.tensor([4, 0, 2, 2])


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def smoothed(logits, ε=0.1):
    """The cross-entropy of the classes, and what smoothing adds: together that of 1 - ε + ε/N and ε/N."""
    wanted = np.full(logits.shape, ε / CLASSES)
    wanted[np.arange(4), targets()] += 1 - ε
    return -(wanted * log_softmax(logits)).sum(-1).mean()


def squares(logits, weight=3.0, value=2.0):
    """Hui & Belkin 2021, Eq. 2, of each example in turn."""
    each = []
    for row, of in zip(logits, targets().tolist(), strict=True):
        right = weight * (row[of] - value) ** 2
        each.append((right + sum(row[c] ** 2 for c in range(CLASSES) if c != of)) / CLASSES)
    return np.mean(each)


OBJECTIVES = {
    "smoothed": (classification.Objective, classification.Classification(), Loss(label_smoothing=0.1), smoothed),
    "squares": (regression.Objective, regression.Regression(weight=3, value=2), Loss(), squares),
}


@pytest.mark.parametrize(
    "of", [vit(), vit(pooling="mean", positions="sine_cosine_2d"), mlp()], ids=["cls", "gap", "mlp"]
)
@pytest.mark.parametrize("objective", list(OBJECTIVES))
@pytest.mark.parametrize("parts", [1, 3])
def test_losses_and_their_gradients_are_those_of_numpy(of, objective, parts):
    """The gradient along a random direction of every parameter, by complex steps: exact to rounding."""
    built, settings, terms, by_numpy = OBJECTIVES[objective]
    made, model, x = built(settings, Given(of.sizes, terms)), model_of(of), images()
    cut = BatchShares(parts)
    passes = Passes(model, "float64", cut, made)
    loss = passes.backward(cut.of(Batch(x, targets()), torch.device("cpu"), made)) + sum(passes.added.values())
    w = weights_of(model)

    def at(weights):
        if of.kind == "mlp":
            return by_numpy(mlp_by_numpy(weights, x.numpy(), of))
        return by_numpy(vit_by_numpy(weights, x.numpy(), pre_layer, of))

    assert loss == pytest.approx(at(w), rel=1e-9)
    drawn = np.random.default_rng(1)
    for name, parameter in model.named_parameters():
        direction = drawn.normal(size=parameter.shape)
        slope = at({**w, name: w[name] + 1e-30j * direction}).imag / 1e-30
        assert (parameter.grad.numpy() * direction).sum() == pytest.approx(slope, rel=1e-8, abs=1e-11), name


def test_patches_see_each_other_and_only_their_own_image():
    model, x = model_of(vit(pooling="mean")).eval(), images()
    jacobian = torch.autograd.functional.jacobian(model, x)
    assert jacobian[0, :, 0].abs().amax((0, 1)).min() > 1e-9, "each pixel counts"
    assert all(jacobian[a, :, b].abs().max() == 0 for a in range(4) for b in range(4) if a != b)


VARIED = {
    "class token": vit(),
    "mean, on a grid": vit(pooling="mean", positions="sine_cosine_2d", position_std=None),
    "a layer before the head": vit(POST, head_layer=True, final_norm=None),
    "a head from zero": vit(head_init=node("zero"), entry_norm=node("rms_norm")),
    "other patches": vit(patch=1, pooling="mean", sizes=replace(vit().sizes, seq_len=54)),
    "an mlp": mlp(),
    "an mlp with a layer before the head": mlp(head_layer=True, final_norm=node("rms_norm")),
    "earlier values": vit(
        """[recall: {of: embedding, gain: 0.5}, residual: [recall: {of: positions, gain: 0.1}, attention:
        {value: {blend: {own: dense, beside: {from: layers.first.attention.key}}}}], residual: [mlp]]""",
        entry_norm=node("rms_norm"),
    ),
    "experts": mlp("[residual: [rms_norm, moe: {experts: 4}]]"),
}


@pytest.mark.parametrize("whole", list(VARIED.values()), ids=list(VARIED))
def test_the_closed_form_is_the_count(whole):
    assert cost(whole, CATALOGUE) == size_report(whole, CATALOGUE)
    built = compile_model(whole, CATALOGUE, device="meta")
    assert set(part_costs(whole, CATALOGUE)) <= {name for name, _ in built.named_modules()}


def test_every_difference_is_another_identity():
    ids = [str(model_identity(each, CATALOGUE)) for each in VARIED.values()]
    assert len(set(ids)) == len(ids)
    released = vit(positions="sine_cosine_2d_as_released", position_std=None, pooling="mean")
    assert str(model_identity(released, CATALOGUE)) not in ids


def test_a_head_from_zero_answers_the_same_of_everything():
    model = compile_model(vit(head_init=node("zero")), CATALOGUE)
    assert (model(images().float()) == 0).all()
    assert (compile_model(vit(), CATALOGUE)(images().float()) != 0).any()


def test_what_embeds_and_what_answers_have_the_kinds_of_those_of_tokens():
    kinds = {name: kind for name, _, kind in parameter_kinds(model_of(vit(head_layer=True)))}
    assert {kinds[f"embedding.{name}"] for name in ("weight", "bias", "class_token")} == {"embedding"}
    assert {kinds[f"head.{name}"] for name in ("weight", "bias", "layer.weight")} == {"head"}
    assert kinds["positions.weight"] == "positions"


def test_parameters_are_paired_by_their_addresses():
    one, other = (compile_model(each, CATALOGUE, seed=4) for each in (vit(), vit(POST, head_layer=True)))
    for name in ("embedding.weight", "embedding.class_token", "positions.weight", "head.weight"):
        assert torch.equal(one.get_parameter(name), other.get_parameter(name))


WRONG = {
    "causal": vit(sizes=replace(vit().sizes, causal=True)),
    "no pooling": vit(pooling=None, sizes=replace(vit().sizes, seq_len=6)),
    "no patch": vit(patch=None),
    "text": vit(input_shape=()),
    "frames": vit(input_shape=(7, 2)),
    "patches that do not fit": vit(patch=2),
    "another number of tokens": vit(sizes=replace(vit().sizes, seq_len=6)),
    "a width that has no quarter": vit(positions="sine_cosine_2d", sizes=replace(vit().sizes, d_model=18)),
    "tied": vit(tied=True),
    "ahead": vit(ahead=1),
    "tokens in a vit": vit("[residual: [attention: {value: {blend: {beside: lookup}}}], residual: [mlp]]"),
    "text in an mlp": mlp(input_shape=()),
    "several tokens": mlp(sizes=replace(mlp().sizes, seq_len=2)),
    "positions in an mlp": mlp(positions="sinusoidal"),
    "attention in an mlp": mlp(PRE),
    "patches of an mlp": mlp(patch=3),
    "pooling of an mlp": mlp(pooling="mean"),
    "a grid in a decoder": architecture(load_block(PRE), positions="sine_cosine_2d"),
    "a layer in a decoder": architecture(load_block(PRE), head_layer=True),
    "a start of a tied head": architecture(load_block(PRE), tied=True, head_init=node("zero")),
    "patches of a decoder": architecture(load_block(PRE), patch=3),
}


@pytest.mark.parametrize("whole", list(WRONG.values()), ids=list(WRONG))
def test_what_does_not_fit_the_kind_is_refused_by_plan_and_compiler_alike(whole):
    refusals = []
    for build in (cost, compile_model):
        with pytest.raises(InputError, match=r"(model\.|mixes|tokens).*\n  = ") as refused:
            build(whole, CATALOGUE)
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]


def test_the_number_of_tokens_is_told():
    assert [n_tokens(each) for each in (vit(), vit(pooling="mean"), mlp())] == [7, 6, 1]
    with pytest.raises(InputError, match=r"2 x 3 patches and a class token\n  = set it to 7"):
        cost(WRONG["another number of tokens"], CATALOGUE)


REFUSED = {
    "e_spa_skips": "no attention compensates",  # at four layers, as a decoder's
    "e_spa_skips_norm": "no attention compensates",
    "e_spa_tat": "or more layers",
    "nanochat": "reads the numbers of tokens",
    **dict.fromkeys(set(transformer().blocks) - set(decoders()), "a model of this kind has none"),  # an encoder
}
"""The named blocks of which no vision transformer is made, and why."""


def attends(block):
    return any(part.name == "attention" for part in walk(block))


def refusal(name, kind):
    """Why a named block is refused; None if it is not."""
    if kind == "vit":
        return REFUSED.get(name)
    if name == "nanochat":
        return REFUSED[name]
    return "has one token" if attends(transformer().blocks[name].block) else None


@pytest.mark.sampled(0, gate="all")
@pytest.mark.parametrize("kind", ["vit", "mlp"])
@pytest.mark.parametrize("name", sorted(transformer().blocks))
def test_named_blocks_make_a_step_or_say_why_not(name, kind):
    whole = (vit if kind == "vit" else mlp)(transformer().blocks[name].block)
    whole = replace(whole, sizes=replace(whole.sizes, n_layers=4))
    if (why := refusal(name, kind)) is not None:
        with pytest.raises(InputError, match=rf"(?s){why}"):
            cost(whole, CATALOGUE)
        return
    makes_a_step(whole)


def makes_a_step(whole):
    assert cost(whole, CATALOGUE) == size_report(whole, CATALOGUE)
    model = compile_model(whole, CATALOGUE)
    loss = torch.nn.functional.cross_entropy(model(images().float()), targets())
    loss.backward()
    assert loss.isfinite()
    moved = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(grad.isfinite().all() for grad in moved) and any((grad != 0).any() for grad in moved)


@pytest.mark.full
@pytest.mark.parametrize("start", transformer().starts)
def test_blocks_that_the_grammar_derives_make_a_step_or_say_why_not(start):
    grammar, drawn, made = transformer().starting(start), random.Random(0), 0
    for _ in range(40):
        block = grammar.sample(drawn)
        with pytest.raises(InputError, match=r"(has one token|reads the numbers of tokens)(.|\n)*\n  = "):
            cost(mlp(block), CATALOGUE)
        try:
            cost(vit(block), CATALOGUE)
        except InputError as error:
            assert "\n  = " in str(error)
            continue
        makes_a_step(vit(block))
        made += 1
    assert made >= 20
