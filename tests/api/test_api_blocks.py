"""Blocks in Python: by name or as YAML, with overrides, under the same constraints as in a space."""

from __future__ import annotations

import doctest

import pytest
import torch
from reading import ROOT

import ablate
import ablate.api
from ablate.errors import InputError

pytestmark = pytest.mark.fast

GRAMMAR = ROOT / "grammars" / "transformer.yaml"
LOADED = ablate.load_grammar(GRAMMAR)
SIZES = ablate.Sizes(n_layers=6, d_model=16, n_heads=2, seq_len=8, vocab_size=256)
FORBIDDEN = "[residual: [layer_norm, attention: {pre_qk: rms_norm}]]"
REASON = "a norm before attention already normalises what pre_qk would"


@pytest.mark.parametrize("name", LOADED.blocks)
def test_what_a_block_prints_reads_back_as_the_same_block(name):
    block = LOADED.block(name)
    assert ablate.load_block(str(block), grammar=LOADED) == block
    assert len(repr(block)) < 200 and "\n" not in repr(block)


def test_a_block_is_a_name_or_yaml_or_a_block():
    named = ablate.load_block("pre_ln", grammar=GRAMMAR)
    written = ablate.load_block("[residual: [layer_norm, attention], residual: [layer_norm, mlp]]", grammar=LOADED)
    assert named == written == ablate.load_block(named, grammar=LOADED) == LOADED.block("pre_ln")


def test_overrides_are_those_of_a_space(tmp_path):
    overrides = {"attention.position": "rope", "*_norm.eps": 1e-3, "mlp": {"hidden": "2x"}}
    block = ablate.load_block("sas", grammar=LOADED, overrides=overrides)
    (tmp_path / "one.yaml").write_text(SPACE.format(grammar=GRAMMAR))
    assert ablate.load_space(tmp_path / "one.yaml").blocks["sas"] == block != LOADED.block("sas")


def test_what_constraints_forbid_is_refused_with_the_reason_also_when_it_is_compiled():
    for ask in (ablate.load_block, compiled):
        with pytest.raises(
            InputError, match=f"this block is refused by the constraint one_norm of the grammar\n  = .*{REASON}"
        ):
            ask(FORBIDDEN, grammar=LOADED)
        with pytest.raises(InputError, match=REASON):
            ask("pre_ln", grammar=LOADED, overrides={"attention.pre_qk": "rms_norm"})
    assert ablate.load_block("pre_ln", grammar=LOADED)


@pytest.mark.parametrize(
    ("asked", "overrides", "said"),
    [
        ("sass", {}, ["there is no block 'sass'", "did you mean 'sas'?", "`ablate list blocks`"]),
        ("attention", {}, ["there is no block 'attention'", "a block of that one component is [attention]"]),
        ("[residual: [attentoin]]", {}, ["block:1:13", "did you mean 'attention'?"]),
        (
            "sas",
            {"attention.positon": "rope", "mlp.hiden": "2x"},
            ["did you mean 'position'?", "did you mean 'hidden'"],
        ),
        ("sas", {"mlp.hidden": "4x"}, ["mlp.hidden has no effect here: the block already has this value"]),
        ("sas", {"mpl.hidden": "2x"}, ["the block has no part 'mpl'", "did you mean 'mlp'?", "its parts are"]),
        ("sas", {"mlp.hidden": object()}, ["the override mlp.hidden has no value"]),
    ],
)
def test_mistakes_are_said_with_the_way_out(asked, overrides, said):
    with pytest.raises(InputError) as error:
        ablate.load_block(asked, grammar=LOADED, overrides=overrides)
    assert all(one in str(error.value) for one in said), error.value


def test_a_name_or_yaml_compiles_to_what_the_block_does():
    block = LOADED.block("op")
    one, other = (compiled(asked, grammar=GRAMMAR, layer=2, seed=3) for asked in ("op", block))
    pairs = list(zip(one.named_parameters(), other.named_parameters(), strict=True))
    assert pairs and all(name == same and torch.equal(a, b) for (name, a), (same, b) in pairs)


def test_dtype_and_device_are_as_asked_and_what_is_not_there_is_refused():
    module = compiled("pre_ln", grammar=LOADED, dtype=torch.bfloat16, device="meta")
    assert {(p.dtype, p.device.type) for p in module.parameters()} == {(torch.bfloat16, "meta")}
    assert {p.dtype for p in compiled("pre_ln", grammar=LOADED).parameters()} == {torch.float32}
    with pytest.raises(InputError, match=r"dtype torch.int64 is not a floating-point type"):
        compiled("pre_ln", grammar=LOADED, dtype=torch.int64)
    with pytest.raises(InputError, match="there is no device 'nowhere' here"):
        compiled("pre_ln", grammar=LOADED, device="nowhere")


def test_a_component_that_is_not_known_here_is_named(tmp_path):
    (tmp_path / "twice.py").write_text(PLUGIN)
    block = ablate.load_block("[twice]", grammar=GRAMMAR, plugins=[tmp_path / "twice.py"])
    assert compiled(block, plugins=[tmp_path / "twice.py"])(torch.ones(1, 8, 16)).eq(2).all()
    with pytest.raises(InputError, match="no component is named 'twice'\n  = pass its file in plugins"):
        compiled(block)


def test_the_examples_in_docstrings_are_true(monkeypatch):
    monkeypatch.chdir(ROOT)
    tried = doctest.testmod(ablate.api)
    assert tried.attempted >= 8 and not tried.failed


def compiled(block, **options):
    return ablate.compile_block(block, SIZES, init="normal: {std: 0.02}", **options)


SPACE = """\
space: one
question: Are the overrides those of a space?
grammar: {grammar}
model:
  {{layers: 2, width: 16, heads: 2, context: 16, embedding: {{std: 0.02, scale: 50}},
   head: untied, init: {{normal: 0.02}}}}
block: {{attention.position: rope, "*_norm.eps": 1e-3, mlp: {{hidden: 2x}}}}
recipe: {{steps: 2, batch: 2, optimizer: {{adamw: {{lr: 1e-3}}}}}}
design: {{compare: [sas, sas_p]}}
seeds: 1
measure: {{every: 1, probes: [], evaluation: {{every: 2, windows: 1}}}}
judge: {{against: sas, metrics: {{eval_loss: {{}}}}}}
"""

PLUGIN = '''\
"""Twice: twice what comes in."""

from ablate.components.declare import Cost, Sizes, component, implements


@component("twice", slots=("part",), role="twice", source="none")
class Config:
    """Nothing."""

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def equation(self, x: str) -> str:
        return f"2 {x}"


import torch
from torch import nn


@implements(Config)
class Twice(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x
'''
