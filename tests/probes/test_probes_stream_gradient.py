"""The gradient of the stream in front of each layer and behind the last, against autograd in float64."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from reading import transformer
from torch.nn import functional

import ablate
from ablate.block.arithmetic import parse
from ablate.compiler import compile_model
from ablate.probes.registry import select
from ablate.probes.watch import watching
from ablate.testing import ProbeContract

pytestmark = pytest.mark.fast

SPACE = Path(__file__).parents[2] / "spaces" / "variance_laws.yaml"
GRAMMAR = transformer()


class TestStreamGradient(ProbeContract):
    probe = "stream_gradient"


def model_of(name, **changes):
    architecture = ablate.load_space(SPACE).architecture(GRAMMAR.block(name), 17)
    sizes = replace(architecture.sizes, n_layers=3, d_model=8, n_heads=2, seq_len=5)
    return compile_model(replace(architecture, sizes=sizes, **changes), GRAMMAR.catalogue, dtype=torch.float64)


def tokens():
    return torch.randint(17, (3, 5), generator=torch.Generator().manual_seed(0))


def read_of(model, scale=1.0):
    with watching(model, select(["stream_gradient"]), scale=scale) as readings:
        (scale * functional.cross_entropy(model(tokens()).flatten(0, 1), tokens().flatten())).backward()
    return {reading.address: reading.value.item() for reading in readings}


@pytest.mark.parametrize("name", ["pre_ln", "post_ln", "op"])
@pytest.mark.parametrize(
    "changes", [{}, {"final_norm": None}, {"logit_scale": parse(0.25)}], ids=["", "no norm", "scaled"]
)
def test_it_is_the_gradient_by_the_stream_between_the_layers(name, changes):
    """The stream is gone through layer by layer here, and differentiated by each of its values."""
    model = model_of(name, **changes)
    streams = [model.embedding(tokens())]
    for layer in model.layers.values():
        streams.append(layer(streams[-1]))
    logits = model.scored(model.normed(streams[-1]))
    loss = functional.cross_entropy(logits.flatten(0, 1), tokens().flatten())
    gradients = [np.sqrt(np.mean(g.numpy() ** 2)) for g in torch.autograd.grad(loss, streams)]
    expected = dict(zip(["layers.1", "layers.2", "layers.3", "layers.end"], gradients, strict=True))
    assert read_of(model) == pytest.approx(expected, rel=1e-10)
    assert len({f"{value:.6g}" for value in gradients}) == 4, "else this could not fail"


def test_behind_the_last_layer_is_not_behind_the_final_norm():
    model, entered = model_of("pre_ln"), []
    model.head.register_forward_pre_hook(lambda _, given: entered.append(given[0]))
    loss = functional.cross_entropy(model(tokens()).flatten(0, 1), tokens().flatten())
    (gradient,) = torch.autograd.grad(loss, entered)
    behind_norm = gradient.square().mean().sqrt().item()
    assert read_of(model)["layers.end"] != pytest.approx(behind_norm, rel=1e-2)


def test_it_is_read_without_the_scale_of_the_loss():
    model = model_of("pre_ln")
    assert read_of(model, scale=64.0) == pytest.approx(read_of(model), rel=1e-12)


def test_blocks_ahead_are_not_read_but_pass_back():
    """With a token further ahead the final norm is gone through twice; the layers' end is one place all the same."""
    model = model_of("pre_ln", ahead=1).train()
    with watching(model, select(["stream_gradient", "gradient_normality"])) as readings:
        model(tokens()).square().mean().backward()
    places = [(reading.metric, reading.address) for reading in readings]
    assert len(places) == len(set(places)) == 8
    assert ("gradient_normality", "layers.end") not in places and ("stream_gradient", "head") not in places


def test_the_layers_pass_a_gradient_back_in_another_size_where_it_is_the_same_at_every_token():
    """So the loss's own gradient may be outside of a forecast's interval: attention adds up what tokens share."""
    model = model_of("pre_ln")
    ratios = []
    for common in (False, True):
        draws = torch.randn(3, 1 if common else 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        kept = model.layers["1"].register_forward_pre_hook(lambda _, given: ratios.append(given[0]))
        ends = []
        behind = model.layers["3"].register_forward_hook(lambda _, given, output, ends=ends: ends.append(output))
        model(tokens())
        kept.remove(), behind.remove()
        start = ratios.pop()
        (gradient,) = torch.autograd.grad(ends[0], start, draws.expand(3, 5, 8))
        ratios.append((gradient.square().mean() / draws.square().mean()).item())
    assert abs(ratios[1] / ratios[0] - 1) > 0.05
