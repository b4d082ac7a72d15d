"""Reading blocks in tests: from text, with or without the defaults of the shipped grammar."""

from __future__ import annotations

import functools
from pathlib import Path

from builders import CATALOGUE

from ablate.block.expression import Block
from ablate.block.read import Reader
from ablate.grammar.grammar import Grammar, load_grammar
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml

ROOT = Path(__file__).parent.parent
GRAMMARS = tuple(sorted((ROOT / "grammars").glob("*.yaml")))
SPACES = tuple(sorted((ROOT / "spaces").glob("*.yaml")))


@functools.cache
def transformer() -> Grammar:
    """The shipped grammar."""
    return load_grammar(ROOT / "grammars" / "transformer.yaml", CATALOGUE)


def read_block(text: str, *, defaults: bool = True) -> Block:
    """The block that a text says, by the shipped grammar's defaults or with every field said; InputError if none."""
    problems = Problems()
    reader = Reader(CATALOGUE, transformer().located_defaults if defaults else {}, problems)
    block = reader.block(parse_yaml(text))
    problems.raise_if_any()
    assert block is not None
    return block
