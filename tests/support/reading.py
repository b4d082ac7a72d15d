"""Reading blocks in tests: from text, with or without the defaults of the shipped grammar."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

from builders import CATALOGUE

from ablate.block.architecture import reads_encoder
from ablate.block.expression import Block
from ablate.block.reader import Reader
from ablate.grammar.grammar import Grammar, load_grammar
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml

ROOT = Path(__file__).parents[2]
GRAMMARS = tuple(sorted((ROOT / "grammars").glob("*.yaml")))
SPACES = tuple(sorted((ROOT / "spaces").glob("*.yaml")))

DEPTHS = {"e_spa_tat": 36, "e_spa_skips": 32, "e_spa_skips_norm": 32}
"""Named blocks that exist only about as deep as their paper has them: what they are solved for needs the layers."""


@functools.cache
def transformer() -> Grammar:
    """The shipped grammar."""
    return load_grammar(ROOT / "grammars" / "transformer.yaml", CATALOGUE)


@functools.cache
def decoders() -> tuple[str, ...]:
    """The named blocks of which a decoder can be made: those that read no encoder."""
    return tuple(name for name, named in transformer().blocks.items() if not reads_encoder(named.block))


def copy_grammar(folder: Path, name: str, *, more: str = "") -> Path:
    """The shipped grammar under another name in `folder`, with what it includes, and `more` YAML at its end."""
    shutil.copytree(ROOT / "grammars", folder, dirs_exist_ok=True)
    path = (folder / "transformer.yaml").rename(folder / name)
    path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
    return path


def read_block(text: str, *, defaults: bool = True) -> Block:
    """The block that a text says, by the shipped grammar's defaults or with every field said; InputError if none."""
    problems = Problems()
    reader = Reader(CATALOGUE, transformer().located_defaults if defaults else {}, problems)
    block = reader.block(parse_yaml(text))
    problems.raise_if_any()
    assert block is not None
    return block
