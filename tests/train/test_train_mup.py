"""µP's coordinate check: after a few steps of Adam, activations have moved as far at every width, and otherwise not.

Yang et al. 2022 (Tensor Programs V), arXiv:2203.03466, Table 8 and App. D.1. In words of ours: hidden weights start
from fan-in variance and learn at base/width times the rate; embedding and head start from one spread at every width and
keep the rate; logits are multiplied by base/width; attention's scale is proportional to 1/head_width.
"""

from dataclasses import replace

import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, node, residual, sequence
from reading import transformer
from recipes import adamw, chosen

import ablate
from ablate.compiler import compile_model
from ablate.train.loss import cross_entropy
from ablate.train.optimizer import build_optimizer, set_rates

WIDTHS = (32, 256)
ADAM = adamw(betas=(0.9, 0.99), eps=1e-12, weight_decay=0.0, decays=())
MUP = {
    "weight": node("dense", init="fan_in", rate="32/width"),
    "scale": "sqrt(8)/head_width",
    "init": node("normal", std=0.5),
    "logit_scale": "sqrt(8)/width",
}
STANDARD = {
    "weight": node("dense", init="fan_in"),
    "scale": "1/sqrt(head_width)",
    "init": node("fan_in"),
    "logit_scale": 1,
}


def model_of(width, how, *, seed):
    four = dict.fromkeys(("query", "key", "value", "projection"), how["weight"])
    two = dict.fromkeys(("up", "down"), how["weight"])
    norm = node("rms_norm", scale=False)
    block = sequence(residual(norm, node("attention", scale=how["scale"], **four)), residual(norm, node("mlp", **two)))
    sizes = replace(SIZES, d_model=width, n_heads=4)
    around = {"embedding_std": 1.0, "embedding_scale": 1, "logit_scale": how["logit_scale"], "init": how["init"]}
    return compile_model(architecture(block, sizes=sizes, **around), CATALOGUE, seed=seed)


def observed(model, tokens):
    """The signals whose change is measured: a layer's hidden activations, the residual stream, the logits."""
    seen = {}
    hooks = [
        model.get_submodule(name).register_forward_hook(
            lambda module, inputs, output, name=name: seen.__setitem__(name, output.detach())
        )
        for name in ("layers.2.mlp.up", "layers.2")
    ]
    logits = model(tokens)
    for hook in hooks:
        hook.remove()
    return {**seen, "logits": logits.detach()}, logits


def moved(width, how, *, seed, steps=4, build=model_of):
    """Mean absolute change of each signal over some steps on one batch."""
    generator = torch.Generator().manual_seed(seed)
    tokens, targets = (torch.randint(11, (8, 12), generator=generator) for _ in range(2))
    model = build(width, how, seed=seed)
    optimizer = build_optimizer(model, chosen(ADAM), CATALOGUE)
    before, _ = observed(model, tokens)
    for _ in range(steps):
        set_rates(optimizer, 1.0)
        optimizer.zero_grad()
        cross_entropy(observed(model, tokens)[1], targets).backward()
        optimizer.step()
    after, _ = observed(model, tokens)
    return {name: (after[name] - before[name]).abs().mean().item() for name in before}


def growth(how, build=model_of):
    """By what factor each signal moves further at the largest width than at the smallest, over a few seeds."""
    small, large = ([moved(width, how, seed=seed, build=build) for seed in range(3)] for width in WIDTHS)
    return {name: sum(m[name] for m in large) / sum(m[name] for m in small) for name in large[0]}


def test_under_mup_activations_move_as_far_at_every_width():
    found = growth(MUP)
    assert all(0.8 < factor < 1.25 for factor in found.values()), found


def test_under_the_standard_parameterisation_they_move_further_the_wider_the_model():
    found = growth(STANDARD)
    assert found["layers.2"] > 2.5 and found["logits"] > 5, found


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("key", "signal"),
    [("weight", "layers.2"), ("logit_scale", "logits")],
)
def test_each_rule_is_needed(key, signal):
    found = growth({**MUP, key: STANDARD[key]})
    assert found[signal] > 2.5, found


SHIPPED = """
space: mup
question: Is the named block, with its preset, what the paper calls µP?
grammar: {grammar}
preset: mup_128
model: {{layers: 2, context: 12}}
design: {{compare: [{block}, pre_rms]}}
seeds: 1
measure: {{every: 10, probes: [], evaluation: {{every: 20, windows: 8}}}}
judge: {{against: {block}, metrics: {{eval_loss: {{}}}}}}
"""


def builder(block, folder):
    """What makes a model of the named block with the preset; its `how` are more settings of the space."""
    path = folder / "space.yaml"
    path.write_text(SHIPPED.format(grammar=transformer().path, block=block))

    def build(width, how, *, seed):
        space = ablate.load_space(path, settings=[f"model.width={width}", *how])
        return compile_model(space.architecture(space.blocks[block], 11), CATALOGUE, seed=seed)

    return build


@pytest.mark.full
def test_the_named_block_with_its_preset_is_mup(tmp_path):
    found = growth((), builder("mup", tmp_path))
    assert all(0.8 < factor < 1.25 for factor in found.values()), found


@pytest.mark.full
def test_the_preset_needs_the_block_and_the_block_the_preset(tmp_path):
    assert growth((), builder("pre_ln", tmp_path))["layers.2"] > 2.5
    assert growth(("model.logit_scale=1",), builder("mup", tmp_path))["logits"] > 2.5
