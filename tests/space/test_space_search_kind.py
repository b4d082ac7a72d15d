"""A search whose rules derive no block for the kind of its model is refused before it starts."""

from functools import partial
from pathlib import Path

import pytest
from reading import ROOT
from space_fixtures import space

from ablate.block.expression import Node, Value, walk
from ablate.errors import InputError
from ablate.grammar.derivation import contained
from ablate.space.space import Space

SEARCH = "{search: {from: flat, objective: {eval_loss: min}, budget: {trials: 60}}}"
COMMON = {"design": SEARCH, "judge": "{against: flat, metrics: {eval_loss: {}}}", "seeds": "1"}
MLP = {
    **COMMON,
    "model": "{kind: mlp, layers: 2, width: 32, heads: 1, context: 1, init: {normal: 0.02}}",
    "blocks": "{flat: [residual: [layer_norm, mlp]]}",
    "data": "{corpus: digits}",
    "recipe": "{objective: classification, steps: 20, batch: 4, optimizer: {adamw: {lr: 1e-2}}}",
}
TWO_STACKS = {
    **COMMON,
    "model": "{kind: encoder_decoder, source: 24, layers: 2, width: 32, heads: 4, context: 16, init: {normal: 0.02}}",
    "blocks": "{flat: [residual: [attention], residual: [attention: {source: encoder}], residual: [mlp]]}",
    "recipe": "{objective: {span_filling: {spans: 4}}, steps: 20, batch: 4, optimizer: {adamw: {lr: 1e-2}}}",
}
KINDS = {"mlp": MLP, "encoder_decoder": TWO_STACKS}
WHY = {
    "mlp": "a search of .* can propose no block for model.kind mlp: all that its rules derive mixes the tokens",
    "encoder_decoder": "can propose no block for model.kind encoder_decoder: nothing .* derive reads encoder",
}
OWN = "search rules of your own whose blocks fit it"


def searching(folder: Path, kind: str, block: str = "", *settings: str) -> Space:
    """A search in a kind of model, with the small grammar of this rule for blocks, or with the shipped grammar."""
    sections = dict(KINDS[kind])
    if block:
        text = (ROOT / "tests" / "errors" / "grammars" / "small.yaml").read_text(encoding="utf-8")
        plain = "    - [residual: [$norm, attention], residual: [$norm, mlp]]\n"
        assert plain in text
        (folder / "own.yaml").write_text(text.replace(plain, block), encoding="utf-8")
        sections["grammar"] = "own.yaml"
    return space(folder, *settings, **sections)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [(), ("block={mlp.activation: relu}",), ("design.search.start=opened",)])
def test_no_start_of_the_shipped_grammar_fits(kind: str, settings: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{WHY[kind]}(.|\n)*{OWN}"):
        searching(tmp_path, kind, "", *settings)


MIXES = "    - [residual: [$norm, attention], residual: [$norm, mlp]]\n"
FLAT = "    - [residual: [$norm, mlp]]\n"
READS = "    - [residual: [attention], residual: [attention: {source: encoder}], residual: [$norm, mlp]]\n"
CHOOSES = "    - [residual: [attention: {source: {one_of: [none, encoder]}}], residual: [$norm, mlp]]\n"
HIDDEN = (
    "    - {let: {n: $norm}, in: [residual: [$n, {one_of: [attention, attention: {scale: 1}]}], residual: [mlp]]}\n"
)


@pytest.mark.parametrize(
    ("kind", "block", "fits"),
    [
        ("mlp", MIXES, False),
        ("mlp", HIDDEN, False),
        ("mlp", FLAT, True),
        ("mlp", MIXES + FLAT, True),
        ("encoder_decoder", MIXES, False),
        ("encoder_decoder", READS, True),
        ("encoder_decoder", CHOOSES, True),
        ("encoder_decoder", FLAT + READS, True),
    ],
)
def test_rules_are_refused_where_not_one_derivation_fits(kind: str, block: str, fits: bool, tmp_path: Path) -> None:
    if fits:
        assert searching(tmp_path, kind, block).grammar.count > 1
        return
    with pytest.raises(InputError, match=WHY[kind]):
        searching(tmp_path, kind, block)


VARIED = "design.search.vary={block.attention.source: [none, encoder]}"


@pytest.mark.parametrize("setting", ["block={attention.source: encoder}", VARIED])
def test_what_is_set_in_each_block_may_fit_it(setting: str, tmp_path: Path) -> None:
    assert searching(tmp_path, "encoder_decoder", MIXES, setting).design.search


def is_named(name: str, value: Value) -> bool:
    return isinstance(value, Node) and value.name == name


def test_what_is_told_of_all_derivations_is_told_of_each(tmp_path: Path) -> None:
    """Against the derivations themselves, one after another."""
    for kind, block in (("mlp", MIXES + FLAT), ("mlp", FLAT), ("encoder_decoder", CHOOSES), ("encoder_decoder", READS)):
        grammar = searching(tmp_path, kind, block).grammar
        blocks = [grammar.derive(k) for k in range(grammar.count)]
        for name in ("attention", "mlp", "rms_norm", "layer_norm", "residual"):
            held = [any(node.name == name for node in walk(each)) for each in blocks]
            assert contained(grammar.derivations, partial(is_named, name)) == (all(held), any(held)), (block, name)
