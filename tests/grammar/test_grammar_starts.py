"""Grammars with several starts: the first is what everything uses, each counts the rules that it reaches."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import CATALOGUE

import ablate
from ablate.errors import InputError
from ablate.grammar.grammar import Grammar, load_grammar

SHIPPED = Path(ablate.__file__).parents[1] / "grammars" / "transformer.yaml"
TEXT = """grammar: small
defaults: {residual: {skip: 1, gain: 1, branch: []}, simple_rms_norm: {eps: 1e-8}}
rules:
  norm: [none, simple_rms_norm]
  block: [[$norm]]
  wide: [[residual: [$norm]], [$norm], [residual: {gain: 2, branch: [$norm]}]]
start: START
blocks: {}
"""


def read(folder: Path, start: str) -> Grammar:
    path = folder / "small.yaml"
    path.write_text(TEXT.replace("START", start), encoding="utf-8")
    return load_grammar(path, CATALOGUE)


def test_the_first_start_is_what_everything_uses(tmp_path: Path) -> None:
    grammar = read(tmp_path, "[block, wide]")
    assert list(grammar.starts) == ["block", "wide"]
    assert (grammar.count, grammar.starting("wide").count, grammar.starting("block").count) == (2, 6, 2)
    swapped = read(tmp_path, "[wide, $block]")
    blocks = [swapped.derive(k) for k in range(6)]
    assert blocks == [grammar.starting("wide").derive(k) for k in range(6)]


def test_a_start_that_it_does_not_have_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match=r"has no start 'wid'.*wide"):
        read(tmp_path, "[block, wide]").starting("wid")


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("[]", "start must name a rule"),
        ("[block, 3]", "each start must name a rule"),
        ("[block, wide, block]", "start 'block' is listed twice"),
        ("[block, wid]", "unknown rule \\$wid"),
        ("block", "rule 'wide' is never used"),
    ],
)
def test_mistakes_in_starts(tmp_path: Path, start: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, start)


def test_the_shipped_grammar_has_its_start_first() -> None:
    grammar = load_grammar(SHIPPED, CATALOGUE)
    assert next(iter(grammar.starts)) == "block" and grammar.starting("block").count == grammar.count
