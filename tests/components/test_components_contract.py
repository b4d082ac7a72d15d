"""The contract, for every component found; and broken components, which it must refuse."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builders import CATALOGUE, sequence
from component_contract import ComponentContract, hosts, settings
from reading import read_block

from ablate.block.expression import Node, Sequence
from ablate.components import registry
from ablate.errors import InputError

READ_A_MODEL = {"from", "lookup", "document", "padding"}
"""They read what is in a whole model: test_components_elsewhere.py, test_components_token_masks.py."""
CASES = [
    pytest.param(block, id=f"{spec.name}-{number}")
    for spec in CATALOGUE
    if spec.name not in READ_A_MODEL
    if spec.chooses is None  # a pattern has no module: what it holds is built in its place
    for number, block in enumerate(b for component in settings(spec) for b in hosts(component, spec))
]


@pytest.mark.fast
@pytest.mark.parametrize("block", CASES)
class TestEveryComponent(ComponentContract):
    def test_shape_is_kept(self, block):
        self.check_shape_is_kept(block)

    def test_causal(self, block):
        self.check_causal(block)

    def test_finite_gradients_in_bfloat16(self, block):
        self.check_finite_gradients_in_bfloat16(block)

    def test_deterministic(self, block):
        self.check_deterministic(block)

    def test_size_as_declared(self, block):
        self.check_size_as_declared(block)


FORECAST_IN = {
    "blend": ["[attention: {value: {blend: {beside: dense, gain: 0.5}}}]", "[mlp: {up: {blend: {beside: dense}}}]"],
    "eye": ["[mlp: {hidden: 1x, up: {dense: {init: eye}}}]", "[attention: {value: {dense: {init: eye}}}]"],
    "frozen": [
        "[attention: {query: &f {frozen: {init: {normal: 1/sqrt(width)}}}, key: *f, value: *f, projection: *f}]"
    ],
    "identity": ["[attention: {value: identity, projection: identity}]", "[attention: {query: identity}]"],
    "inverse": ["[attention: {value: &o {dense: {init: orthogonal}}, projection: {dense: {init: {inverse: value}}}}]"],
    "reparameterised": ["[attention: {query: reparameterised, value: &r {reparameterised: {bias: true}}, key: *r}]"],
    "transformer_xl": ["[attention: {query: {dense: {init: zero}}, bias: {transformer_xl: {start: zero}}}]"],
}
"""Where a component is forecast that is not in every slot that it fills, or not from the plain values of tests."""
FORECAST_IN_A_MODEL = {"from", "lookup"}
"""Forecast beside sampled models that they read: theory/test_theory_elsewhere.py."""
NOT_FORECAST = {
    "document": "which tokens are of one document depends on the text",
    "padding": "how much of a sequence is filled up depends on the text",
}
"""Components that no forecast follows, and why."""


def forecast_blocks(spec):
    """The blocks in which what a component says of token kernels is checked."""
    if spec.name in FORECAST_IN:
        return [read_block(text) for text in FORECAST_IN[spec.name]]
    return [b for component in settings(spec) for b in hosts(component, spec)]


def said(catalogue):
    """The components of a catalogue that must say what they do to token kernels."""
    beside = NOT_FORECAST.keys() | FORECAST_IN_A_MODEL
    return [spec for spec in catalogue if spec.chooses is None and spec.name not in beside]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{spec.name}-{n}")
        for spec in said(CATALOGUE)
        for n, block in enumerate(forecast_blocks(spec))
    ],
)
def test_what_it_says_of_token_kernels_is_what_initialisations_measure(block):
    ComponentContract().check_forecast(block)


@pytest.mark.fast
def test_every_component_says_what_it_does_to_token_kernels_or_has_a_reason():
    assert [spec.name for spec in CATALOGUE if spec.chooses is None and not hasattr(spec.config, "propagate")] == []
    assert {*NOT_FORECAST, *FORECAST_IN_A_MODEL, *FORECAST_IN} <= {spec.name for spec in CATALOGUE}


@pytest.mark.fast
@pytest.mark.parametrize("name", NOT_FORECAST)
def test_what_is_not_forecast_says_why_and_what_to_do(name):
    (block,) = hosts(next(settings(CATALOGUE[name])), CATALOGUE[name])
    with pytest.raises(InputError, match=rf"(?s){NOT_FORECAST[name]}.*\n  = set mask: none"):
        ComponentContract().check_forecast(block)


@pytest.mark.fast
@pytest.mark.parametrize("spec", list(CATALOGUE), ids=lambda spec: spec.name)
def test_the_docstring_opens_with_a_summary_and_names_its_source(spec):
    document = importlib.import_module(spec.module).__doc__
    text = " ".join(document.split())
    assert spec.source
    for piece in re.split(r"[,;] ", spec.source):
        assert piece in text, f"the docstring of {spec.path.name} does not cite {piece!r}"
    assert document.splitlines()[0] == spec.summary
    assert spec.summary.endswith(".")


@pytest.mark.fast
def test_one_mechanism_per_file_under_its_own_name():
    assert {spec.name for spec in CATALOGUE} == {spec.path.stem for spec in CATALOGUE}
    assert len(list(CATALOGUE)) == len({spec.path for spec in CATALOGUE}) > 20


@pytest.mark.fast
def test_reading_the_declarations_imports_no_torch():
    script = """
import sys
from ablate.components.registry import declarations
assert len(list(declarations())) > 1
print(sorted({'torch', 'jaxtyping', 'numpy'} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.fast
def test_attention_over_everything_leaks_so_the_causal_check_can_fail():
    assert ComponentContract().leak(sequence("attention"), causal=False) > 1e-3


BROKEN = '''"""Broken: {summary}."""

from ablate.components.declare import Cost, Sizes, component, implements


@component("broken", slots=("part",), source="nobody")
class Config:
    """Nothing to choose."""

    def cost(self, sizes: Sizes) -> Cost:
        return {cost}

    def propagate(self, x, sizes):
        return {propagate}


import torch
from torch import nn


@implements(Config)
class Broken(nn.Module):
    def __init__(self, config, sizes):
        super().__init__()
        self.extra = nn.Parameter(torch.zeros(sizes.d_model)) if {parameters} else None

    def forward(self, x):
        y = x if self.extra is None else x + self.extra
        return {result}
'''


def broken(folder: Path, *, result: str = "y", parameters: bool = False, cost: str = "Cost()", propagate: str = "x"):
    path = folder / "broken.py"
    text = BROKEN.format(
        summary="a plugin for the twin", result=result, parameters=parameters, cost=cost, propagate=propagate
    )
    path.write_text(text)
    return Sequence((Node("broken"),)), registry.declarations((path,))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"result": "y[:, 1:]"}, "check_shape_is_kept"),
        ({"result": "y + y.flip(1)"}, "check_causal"),
        ({"result": "(y - y).sqrt() + y"}, "check_finite_gradients_in_bfloat16"),
        ({"result": "y + torch.rand(())"}, "check_deterministic"),
        ({"parameters": True}, "check_size_as_declared"),
        ({"result": "y @ torch.eye(y.shape[-1], device=y.device)"}, "check_size_as_declared"),
        ({"result": "2 * y"}, "check_forecast"),
        ({"result": "2 * y", "propagate": "x.times(1.8)"}, "check_forecast"),
        ({"result": "2 * y", "propagate": "x.times(2).with_gradient_times(0.7)"}, "check_forecast"),
        ({"result": "2 * y", "propagate": "x.through_weights(4, 4)"}, "check_forecast"),  # as large, and independent
    ],
)
def test_the_contract_refuses_a_broken_component(fault, check, tmp_path):
    block, catalogue = broken(tmp_path, **fault)
    with pytest.raises(AssertionError):
        getattr(ComponentContract(), check)(block, catalogue)


@pytest.mark.fast
def test_a_users_matrix_that_is_not_trained_says_what_it_spares(tmp_path):
    fixed, flops = "y @ torch.eye(y.shape[-1], device=y.device)", "2 * sizes.seq_len * sizes.d_model**2"
    block, catalogue = broken(tmp_path, result=fixed, cost=f"Cost(flops={flops}, spared={flops})")
    ComponentContract().check_size_as_declared(block, catalogue)
    (tmp_path / "unsaid").mkdir()
    block, catalogue = broken(tmp_path / "unsaid", result=fixed, cost=f"Cost(flops={flops})")
    with pytest.raises(AssertionError, match=r"declared Cost\(.*spared=0\), counted Cost\(.*spared=\d{4,}\)"):
        ComponentContract().check_size_as_declared(block, catalogue)


@pytest.mark.fast
def test_a_users_own_file_joins_the_catalogue_and_holds_the_contract(tmp_path):
    block, catalogue = broken(tmp_path)
    for check in (
        "check_shape_is_kept",
        "check_causal",
        "check_deterministic",
        "check_size_as_declared",
        "check_forecast",
    ):
        getattr(ComponentContract(), check)(block, catalogue)
    with pytest.raises(InputError, match="declared twice"):
        other = tmp_path / "other.py"
        other.write_text((tmp_path / "broken.py").read_text())
        registry.declarations((tmp_path / "broken.py", other))
