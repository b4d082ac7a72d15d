"""What ships works: every grammar and space parses, every named block compiles, counts right and takes a step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from builders import node, pre_ln
from homogeneity import departure
from paper_fixtures import with_fields
from reading import DEPTHS, decoders, read_block, transformer

import ablate
from ablate.block.architecture import reads_encoder
from ablate.block.arithmetic import parse
from ablate.block.expression import Node, print_block, walk
from ablate.block.normal_form import fingerprint
from ablate.block.sizes import Sizes
from ablate.compiler import compile_block, compile_model, size_report
from ablate.plan.size import cost

ROOT = Path(__file__).parents[2]
REPETITION = 0.05  # of a text, where a block asks for it
GRAMMARS = sorted((ROOT / "grammars").glob("*.yaml"))
SPACES = sorted((ROOT / "spaces").glob("*.yaml"))
GRAMMAR = transformer()
CATALOGUE = GRAMMAR.catalogue
SIZES = Sizes(n_layers=6, d_model=24, n_heads=2, seq_len=10, vocab_size=13)
INIT = Node("normal", (("std", parse(0.3)),))
TABLE3 = {
    # OUTLIER, Table 3: name, and whether the paper marks it homogeneous
    "outlier_table3_pre_rms": False,
    "outlier_table3_scaled_resids": False,
    "outlier_table3_all_norms": False,
    "outlier_table3_attn_norms_only": False,
    "outlier_table3_post_qk_pre_v": False,
    "outlier_table3_qk_norms_only": True,
    "outlier_table3_pre_qk_only": True,
    "outlier_table3_op": True,
}


@pytest.mark.fast
@pytest.mark.parametrize("path", GRAMMARS, ids=lambda path: path.stem)
def test_every_grammar_parses_and_derives(path):
    grammar = ablate.load_grammar(path)
    assert grammar.count > 1
    assert not any(grammar.refusals(named.block) for named in grammar.blocks.values())


@pytest.mark.sampled(6, gate="all")
@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_every_space_and_each_of_its_profiles_resolves(path):
    profiles = yaml.safe_load(path.read_text()).get("profiles", {})
    for profile in (None, *profiles):
        space = ablate.load_space(path, profile=profile)
        plan = ablate.check(space)
        assert plan.trials and len({trial.id for trial in plan.trials}) == len(plan.trials)
        if space.noise is None and space.fair.tune == "none":
            known = [variant for variant in plan.variants if not variant.setting.open]
            assert len(plan.trials) == len(known) * len(plan.seeds)


OFTEN = decoders()[::4]


@pytest.mark.sampled(8, gate="all")
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in OFTEN else pytest.mark.full) for n in decoders()])
def test_every_named_block_is_counted_right_and_takes_a_step(name):
    space = ablate.load_space(ROOT / "spaces" / "op_vs_preln.yaml", profile="smoke")
    count_and_step(space, GRAMMAR.block(name), DEPTHS.get(name, 6))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [name for name in GRAMMAR.blocks if name not in decoders()])
def test_every_named_block_that_reads_an_encoder_is_counted_right_and_takes_a_step(name):
    space = ablate.load_space(ROOT / "spaces" / "encoder_decoder.yaml", profile="smoke")
    count_and_step(space, GRAMMAR.block(name), DEPTHS.get(name, 4))


@pytest.mark.sampled(2, gate="all")
@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_every_block_that_a_space_brings_is_counted_right_and_takes_a_step(path):
    """Those that no grammar names, half-way models among them, and what is only let through with a warning."""
    space = ablate.load_space(path, profile="smoke")
    for variant in ablate.check(space).variants:
        if variant.name not in GRAMMAR.blocks and not variant.setting.salt:
            count_and_step(space, variant.block, space.model.layers)


def count_and_step(space, written, depth):
    """Counted as it is built; a step of training moves what it gives, and every gradient is there."""
    architecture = space.architecture(written, 256)
    architecture = replace(architecture, sizes=replace(architecture.sizes, n_layers=depth, repetition=REPETITION))
    assert cost(architecture, CATALOGUE) == size_report(architecture, CATALOGUE)
    drawn = torch.Generator().manual_seed(0)
    if reads_encoder(written):
        block = compile_model(architecture, CATALOGUE)
        source, tokens = (torch.randint(0, 256, (2, length), generator=drawn) for length in (12, 8))
        shape = (2, *architecture.input_shape)  # of frames
        inputs = [torch.randn(shape, generator=drawn) if architecture.input_shape else source, tokens]
    else:
        block = compile_block(written, replace(SIZES, n_layers=depth, repetition=REPETITION), CATALOGUE, init=INIT)
        inputs = [torch.randn(2, SIZES.seq_len, SIZES.d_model, generator=drawn)]
    optimizer = torch.optim.AdamW(block.parameters(), lr=1e-2)
    before = block(*inputs).square().mean()
    before.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in block.parameters())
    optimizer.step()
    after = block(*inputs).square().mean()
    assert after.isfinite() and after != before


@pytest.mark.fast
def test_named_blocks_are_different_unless_they_are_meant_to_be_the_same():
    prints = {name: fingerprint(GRAMMAR.block(name), CATALOGUE) for name in GRAMMAR.blocks}
    assert prints.pop("bamboo") == prints["pre_ln"]
    assert len(set(prints.values())) == len(prints)


@pytest.mark.parametrize("name", GRAMMAR.blocks)
def test_what_is_printed_reads_back(name):
    assert read_block(print_block(GRAMMAR.block(name), CATALOGUE, GRAMMAR.defaults)) == GRAMMAR.block(name)


@pytest.mark.parametrize("k", [0.1, 10.0])
@pytest.mark.parametrize("name", TABLE3)
def test_table_3_is_homogeneous_where_the_paper_says_so(name, k):
    """OUTLIER, Table 3: rows marked homogeneous satisfy f(kx) = k·f(x); the others miss it clearly."""
    written = with_fields(GRAMMAR.block(name), eps=0.0, activation=Node("relu"))
    error = departure(written, k, SIZES, (1, 2, 3))
    assert error < 1e-10 if TABLE3[name] else error > 1e-2


@pytest.mark.fast
def test_table_3_has_the_norms_the_paper_lists():
    """The columns of the paper's table, from its text: Post-QK, Pre-QK, Pre-V, Pre-MLP, scaled residuals."""
    columns = {
        "pre_rms": (0, 1, 1, 1, 0),
        "scaled_resids": (0, 1, 1, 1, 1),
        "all_norms": (1, 1, 1, 1, 1),
        "attn_norms_only": (1, 1, 1, 0, 1),
        "post_qk_pre_v": (1, 0, 1, 0, 1),
        "qk_norms_only": (1, 1, 0, 0, 1),
        "pre_qk_only": (0, 1, 0, 0, 1),
        "op": (1, 0, 0, 0, 1),
    }
    for row, expected in columns.items():
        attention_residual, mlp_residual = GRAMMAR.block(f"outlier_table3_{row}").parts
        (attention,) = attention_residual["branch"]
        found = (
            bool(attention["entropy"]),
            attention["pre_qk"] is not None,
            attention["pre_v"] is not None,
            len(mlp_residual["branch"]) == 2,
            mlp_residual["gain"].value.text == "0.3",
        )
        assert found == tuple(map(bool, expected)), row
        assert mlp_residual["gain"] == attention_residual["gain"]
        norms = {node.name for node in walk(GRAMMAR.block(f"outlier_table3_{row}")) if "norm" in node.name}
        assert norms <= {"rms_norm", "qk_norm"}


@pytest.mark.fast
def test_pre_ln_is_the_block_that_is_held_against_a_hand_written_one():
    """tests/compiler/test_compiler_pre_ln.py writes the block as a tree; the grammar's YAML is that tree."""
    dense, norm = node("dense", bias=True), node("layer_norm", eps=1e-5, scale=True, bias=True)
    attention = node("attention", **dict.fromkeys(("query", "key", "value", "projection"), dense))
    by_hand = pre_ln(norm, attention=attention, mlp=node("mlp", activation="gelu", up=dense, down=dense))
    weights = dict.fromkeys(("query", "key", "value", "projection", "up", "down"), dense)
    assert with_fields(GRAMMAR.block("pre_ln"), **weights) == by_hand
