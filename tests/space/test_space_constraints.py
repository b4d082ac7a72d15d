"""Constraints that a space lets through: by name, with a warning, and never in a search."""

from __future__ import annotations

from pathlib import Path

import pytest
from reading import read_block, transformer
from space_fixtures import space

from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.plan.plan import Plan
from ablate.space.space import Space

ZERO, SMALL = "{dense: {init: zero}}", "{dense: {init: {orthogonal: 0.1}}}"
REASON = "the matrix is what it was solved for only at a zero query-key product"


def spa(query: str = "dense", key: str = "dense", bias: str = "none", matrix: str = "{e_spa: 0.2}") -> str:
    """A skipless block with a solved matrix and these queries, keys and bias."""
    return f"[attention: {{query: {query}, key: {key}, bias: {bias}, matrix: {matrix}}}, mlp]"


STARTS = [
    ("zero queries", spa(ZERO), ()),
    ("zero keys", spa("dense", ZERO), ()),
    ("both", spa(ZERO, ZERO), ("scores_learn",)),
    ("neither", spa(), ("exact_start",)),
    ("both small", spa(SMALL, SMALL), ("exact_start",)),
    ("relative positions that start at zero", spa(ZERO, bias="{transformer_xl: {start: zero}}"), ()),
    ("relative positions, u and v by the model's init", spa(ZERO, bias="transformer_xl"), ("exact_start",)),
    ("relative positions beside zero keys", spa("dense", ZERO, "{transformer_xl: {start: zero}}"), ("exact_start",)),
    ("T5's table at zero", spa(ZERO, bias="{t5: {init: zero}}"), ()),
    ("T5's table", spa(ZERO, bias="t5"), ("exact_start",)),
    ("ALiBi", spa(ZERO, bias="alibi"), ("exact_start",)),
    ("ALiBi and queries", spa(bias="alibi", matrix="{u_spa: 0.8}"), ("exact_start", "exact_start")),
    ("no solved matrix", spa(bias="alibi", matrix="softmax"), ()),
]


@pytest.mark.fast
@pytest.mark.parametrize(("block", "names"), [case[1:] for case in STARTS], ids=[case[0] for case in STARTS])
def test_the_shipped_constraint_knows_where_the_start_is_exact(block: str, names: tuple[str, ...]) -> None:
    assert tuple(broken.name for broken in transformer().broken(read_block(block))) == names


BLOCKS = f"{{exact: {spa(ZERO)}, small: {spa(SMALL, SMALL)}}}"
COMPARE = {
    "blocks": BLOCKS,
    "design": "{compare: [exact, small]}",
    "judge": "{against: exact, metrics: {eval_loss: {margin: 1%}}}",
}


def planned(loaded: Space) -> Plan:
    return build_plan(loaded, vocab_size=256, corpus="here")


@pytest.mark.fast
def test_a_block_that_breaks_a_constraint_is_refused_by_its_name_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        space(tmp_path, **COMPARE)
    text = str(refused.value)
    assert "block 'small' is refused by the constraint exact_start of the grammar" in text
    assert f"because {REASON}" in text
    assert "set constraints: {exact_start: warn} in the space" in text
    assert "^^^^^" in text


def test_a_space_that_only_warns_plans_it_and_says_so(tmp_path: Path) -> None:
    loaded = space(tmp_path, constraints="{exact_start: warn}", **COMPARE)
    found = planned(loaded)
    assert {variant.name: [name for name, _ in variant.breaks] for variant in found.variants} == {
        "exact": [],
        "small": ["exact_start"],
    }
    (warning,) = [note for note in found.notes if note.startswith("warning: ")]
    assert warning.startswith("warning: exact_start is broken by small, which this space tolerates: ")
    assert REASON in warning


@pytest.mark.fast
def test_refuse_is_what_a_constraint_does_anyway(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="refused by the constraint exact_start"):
        space(tmp_path, constraints="{exact_start: refuse}", **COMPARE)
    with pytest.raises(InputError, match="refused by the constraint exact_start"):
        space(tmp_path, "constraints.exact_start=refuse", constraints="{exact_start: warn}", **COMPARE)
    assert space(tmp_path, "constraints.exact_start=warn", **COMPARE).warned == {"exact_start"}


@pytest.mark.fast
def test_one_constraint_let_through_leaves_the_others(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="refused by the constraint exact_start"):
        space(tmp_path, constraints="{one_norm: warn}", **COMPARE)


@pytest.mark.fast
def test_one_that_nobody_breaks_is_said(tmp_path: Path) -> None:
    notes = planned(space(tmp_path, constraints="{one_norm: warn}")).notes
    assert "constraints: {one_norm: warn} has no effect: no block here breaks one_norm" in notes


@pytest.mark.fast
def test_what_a_design_puts_together_is_let_through_too(tmp_path: Path) -> None:
    """From Pre-LN to a block with norms inside attention: half-way stands a block with both."""
    inside = "{inside: [residual: [attention: {pre_qk: rms_norm, pre_v: rms_norm}], residual: [layer_norm, mlp]]}"
    design = {"blocks": inside, "design": "{add_one_in: {from: pre_ln, to: inside}}"}
    strict = planned(space(tmp_path, **design))
    assert any(note.startswith("left out: ") and "one_norm: a norm before" in note for note in strict.notes)
    loose = planned(space(tmp_path, constraints="{one_norm: warn}", **design))
    assert not any(note.startswith("left out: ") for note in loose.notes)
    assert len(loose.variants) > len(strict.variants)
    assert any(variant.breaks for variant in loose.variants)


@pytest.mark.fast
def test_a_search_always_refuses_and_says_where_and_why(tmp_path: Path) -> None:
    search = "{search: {from: pre_ln, objective: {eval_loss: min}, budget: {trials: 8}}}"
    with pytest.raises(InputError) as refused:
        space(tmp_path, constraints="{exact_start: warn}", design=search)
    text = str(refused.value)
    assert "a search always refuses what a constraint forbids: it cannot let 'exact_start' through" in text
    assert "constraints: {exact_start: warn}" in text and "^^^^" in text
    assert "name them in a space with design: {compare: [" in text
    assert not space(tmp_path, constraints="{exact_start: refuse}", design=search).warned


@pytest.mark.fast
def test_mistakes_are_told_all_at_once_at_their_places(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        space(tmp_path, constraints="{exact_strat: warn, one_norm: wran, inverse_start: 3}")
    text = str(refused.value)
    assert "the grammar transformer has no constraint named 'exact_strat'" in text
    assert "did you mean 'exact_start'?" in text
    assert "constraints.one_norm: expected warn or refuse, got 'wran'" in text and "did you mean 'warn'?" in text
    assert "constraints.inverse_start: expected warn or refuse, got '3'" in text
    assert text.count("small.yaml:") == 3


@pytest.mark.fast
@pytest.mark.parametrize("written", ["[exact_start]", "warn", "{exact_start: {level: warn}}"])
def test_what_is_no_mapping_of_words_is_a_mistake(tmp_path: Path, written: str) -> None:
    with pytest.raises(InputError, match=r"such as constraints: \{one_norm: warn\}"):
        space(tmp_path, constraints=written)
