"""Fields that came later: a grammar need not name them, and an identity leaves them out where they have no effect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from ablate.block.catalogue import (
    Arithmetic,
    Catalogue,
    ComponentSpec,
    Flag,
    GainField,
    Number,
    Part,
    Parts,
    Word,
    added,
    value_before,
    without_added,
)
from ablate.block.expression import Node, Sequence, print_block
from ablate.block.normal_form import canonical, fingerprint
from ablate.block.reader import Reader
from ablate.components.registry import declarations
from ablate.grammar.grammar import load_grammar
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml

KINDS: dict[str, tuple[Any, Any]] = {
    "gate": (Part("weight", optional=True), None),
    "more": (Parts("norm"), ()),
    "count": (Arithmetic(optional=True), None),
    "share": (Arithmetic(), 1),
    "slope": (Number(), 0.5),
    "times": (GainField(), 1),
    "sharp": (Flag(), False),
    "kind": (Word(("old", "new")), "old"),
}
"""A field of each kind that may come later, with the value at which it has no effect."""


@pytest.fixture(name="catalogue")
def with_later_fields() -> Catalogue:
    """The shipped catalogue, in which simple_rms_norm has got a field of each kind."""
    known = declarations()
    old = known["simple_rms_norm"]
    fields = {**old.fields, **{name: kind for name, (kind, _) in KINDS.items()}}
    new = replace(old, fields=fields, added={name: value for name, (_, value) in KINDS.items()})
    return Catalogue({**known.components, new.name: new})


def read(text: str, catalogue: Catalogue, defaults: str = "{simple_rms_norm: {eps: 1e-8}}") -> Sequence:
    problems = Problems()
    located: Any = parse_yaml(defaults, "defaults")
    known = {str(key.value): {str(k.value): value for k, value in body.entries} for key, body in located.entries}
    block = Reader(catalogue, known, problems).block(parse_yaml(text, "block"))
    problems.raise_if_any()
    assert block is not None
    return block


def test_a_grammar_need_not_name_a_field_that_came_later(catalogue: Catalogue) -> None:
    (norm,) = read("[simple_rms_norm]", catalogue)
    spec = catalogue["simple_rms_norm"]
    assert [name for name, _ in norm.fields] == list(spec.fields)
    assert all(norm[field] == value_before(spec, field) for field in KINDS)


def test_the_default_of_a_grammar_holds_for_it_too(catalogue: Catalogue) -> None:
    (norm,) = read("[simple_rms_norm]", catalogue, "{simple_rms_norm: {eps: 1e-8, kind: new}}")
    assert norm["kind"] == "new"


def test_each_kind_prints_and_reads_back(catalogue: Catalogue) -> None:
    block = read("[simple_rms_norm]", catalogue)
    assert read(print_block(block), catalogue) == block


def test_the_fingerprint_is_that_of_before(catalogue: Catalogue) -> None:
    before = read("[simple_rms_norm]", declarations())
    assert fingerprint(read("[simple_rms_norm]", catalogue), catalogue) == fingerprint(before, declarations())


@pytest.mark.parametrize("written", ["gate: dense", "more: layer_norm", "count: 2", "share: 0.5", "sharp: true"])
def test_another_value_is_another_block(catalogue: Catalogue, written: str) -> None:
    norms = "simple_rms_norm: {eps: 1e-8}, layer_norm: {eps: 1, scale: true, bias: true}"
    defaults = f"{{{norms}, dense: {{bias: false, init: none, rate: 1}}}}"
    plain = read("[simple_rms_norm]", catalogue, defaults)
    other = read(f"[simple_rms_norm: {{{written}}}]", catalogue, defaults)
    assert fingerprint(plain, catalogue) != fingerprint(other, catalogue)


def test_only_fields_without_effect_are_left_out(catalogue: Catalogue) -> None:
    (norm,) = read("[simple_rms_norm: {share: 0.5}]", catalogue)
    (left,) = without_added(Sequence((norm,)), catalogue)
    assert [name for name, _ in left.fields] == ["eps", "share"]


def test_a_field_that_was_always_there_has_no_value_before(catalogue: Catalogue) -> None:
    with pytest.raises(KeyError):
        value_before(catalogue["simple_rms_norm"], "eps")


@dataclass(frozen=True)
class Later:
    width: int
    share: str | None = added(None)


class LaterModel(BaseModel):
    width: int
    share: str | None = Field(default=None, json_schema_extra={"added": True})


@pytest.mark.parametrize("kind", [Later, LaterModel])
def test_a_dataclass_or_model_leaves_out_what_came_later(kind: Any) -> None:
    assert canonical(kind(width=3)) == {"width": 3}
    assert canonical(kind(width=3, share="cycle 2")) == {"width": 3, "share": "cycle 2"}


def test_a_spec_lists_only_its_own_fields() -> None:
    for spec in declarations():
        assert isinstance(spec, ComponentSpec)
        assert set(spec.added) <= set(spec.fields)


def test_nodes_without_such_fields_stay_as_they_are(catalogue: Catalogue) -> None:
    norm = Node("layer_norm", (("eps", 1.0), ("scale", True), ("bias", True)))
    assert without_added(Sequence((norm,)), catalogue) == Sequence((norm,))


def test_a_grammar_that_does_not_name_such_a_field_leaves_it_out_where_it_prints() -> None:
    known = declarations()
    path = Path(__file__).parents[1] / "errors" / "grammars" / "small.yaml"
    assert "mask" not in path.read_text(encoding="utf-8")
    grammar = load_grammar(path, known)
    _, attention = grammar.blocks["pre_ln"].block.parts[0]["branch"]
    assert attention["mask"] is None
    assert print_block(Sequence((attention,)), known, grammar.defaults) == "[attention]"
    with_mask = attention.replace({"mask": Node("window", (("size", 4.0),))})
    assert print_block(Sequence((with_mask,)), known, grammar.defaults) == "[attention: {mask: {window: 4}}]"
