"""Probes before each sub-layer and behind its norm, of compiled models, against forward passes written out here."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from reading import transformer

import ablate
from ablate.block.address import sublayers
from ablate.compiler import compile_model
from ablate.errors import InputError
from ablate.probes import registry
from ablate.probes.watch import watching
from ablate.space.metrics import SITES, judgeable

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
GRAMMAR = transformer()
SPACE = ROOT / "spaces" / "op_vs_preln.yaml"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pre_ln", {"attention": "attention_residual", "mlp": "mlp_residual"}),
        ("post_ln", {"attention": "attention_residual", "mlp": "mlp_residual"}),
        ("op", {"attention": "attention_residual", "mlp": "mlp_residual"}),
        ("skipless_norm", {"attention": "attention_norm", "mlp": "mlp_norm"}),
        ("skipless", {"attention": "attention", "mlp": "mlp"}),
        ("sas", {"attention": "attention_residual", "mlp": "mlp_residual"}),
        ("macaron", {"mlp": "mlp_residual", "attention": "attention_residual", "mlp_2": "mlp_2_residual"}),
        ("parallel", {"attention": "attention_parallel", "mlp": "attention_parallel"}),
    ],
)
def test_a_sublayer_begins_where_its_skip_sets_out(name, expected):
    assert dict(sublayers(GRAMMAR.block(name), GRAMMAR.catalogue)) == expected


def model_of(name):
    architecture = ablate.load_space(SPACE).architecture(GRAMMAR.block(name), 17)
    sizes = replace(architecture.sizes, n_layers=2, d_model=8, n_heads=2, seq_len=5)
    return compile_model(replace(architecture, sizes=sizes), GRAMMAR.catalogue, dtype=torch.float64)


def readings_of(model, tokens, probes):
    with torch.no_grad(), watching(model, registry.select(probes)) as readings:
        model(tokens)
    return {(r.metric, r.address): r.value.item() for r in readings}


def kurtosis(x):
    squares = np.mean(x.reshape(-1, x.shape[-1]) ** 2, axis=0)
    return np.mean(squares**2) / np.mean(squares) ** 2


@pytest.mark.parametrize("name", ["pre_ln", "post_ln"])
def test_attention_and_mlp_are_read_apart_before_their_sublayers_and_behind_their_norms(name):
    model, tokens = model_of(name), torch.randint(17, (3, 5), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    probes = ["kurtosis", "kurtosis_before_sublayers", "kurtosis_behind_norms", "token_cosine_behind_norms"]
    readings = readings_of(model, tokens, probes)
    with torch.no_grad():
        x = model.embedding(tokens)
        for layer, block in model.layers.items():
            for mixer in ("attention", "mlp"):
                before, part = x, block.get_submodule(mixer)
                if name == "pre_ln":
                    given = block.get_submodule(f"{mixer}_norm")(x)
                    x = x + part(given)
                else:
                    given = x
                    x = block.get_submodule(f"{mixer}_post_norm")(x + part(x))
                address = f"layers.{layer}.{mixer}"
                for metric, stream in (("kurtosis_before_sublayers", before), ("kurtosis_behind_norms", given)):
                    assert readings[metric, address] == pytest.approx(kurtosis(stream.numpy()), rel=1e-12)
    of_blocks = {address for metric, address in readings if metric == "kurtosis"}
    assert of_blocks == {"layers.1", "layers.2", "head"}  # what is read there is not mixed with the others
    assert readings["kurtosis_before_sublayers", "layers.2.attention"] == readings["kurtosis", "layers.2"]
    assert readings["kurtosis_before_sublayers", "layers.2.mlp"] != readings["kurtosis", "layers.2"]
    if name == "pre_ln":
        before, behind = (readings[f"kurtosis_{site}", "layers.2.mlp"] for site in ("before_sublayers", "behind_norms"))
        assert before != pytest.approx(behind, rel=1e-6)


def test_a_peak_has_the_definition_and_the_name_of_its_site():
    known = judgeable(GRAMMAR.catalogue)
    assert known["peak_kurtosis"].source == "arXiv:2405.19279, Table 3"
    assert known["peak_kurtosis_behind_norms"].source == "arXiv:2405.19279, App. G (Languini)"
    assert SITES["before_sublayers"].definition in known["peak_kurtosis_before_sublayers"].definition
    assert SITES["behind_norms"].definition in known["peak_activation_rms_behind_norms"].definition


def test_a_space_asks_for_them_and_is_judged_by_the_kurtosis_behind_norms():
    judged = "judge.metrics={peak_kurtosis_behind_norms: {scale: log}}"
    probes = "kurtosis, token_correlation"
    space = ablate.load_space(SPACE, settings=(f"measure.probes=[{probes}, kurtosis_behind_norms]", judged))
    assert space.measure.probes[-1] == "kurtosis_behind_norms"
    assert "peak_kurtosis_behind_norms" in space.judge.metrics
    with pytest.raises(InputError, match="the probe kurtosis_behind_norms does not run"):
        ablate.load_space(SPACE, settings=(f"measure.probes=[{probes}]", judged))
