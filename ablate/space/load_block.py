"""Reading one block, by its name in a grammar or as YAML, with overrides, and checking the grammar's constraints."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping as Map

from ablate.block.arithmetic import Expression
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Gain, Node, Sequence, Size, walk
from ablate.block.printer import print_value
from ablate.errors import InputError
from ablate.grammar.grammar import Grammar
from ablate.source.problems import Problems, quote, suggest
from ablate.source.yaml import parse_yaml
from ablate.space.override import apply_overrides, read_overrides

NAME = re.compile(r"[A-Za-z_]\w*")
"""What is read as a name and not as YAML: a block of one part is written in brackets, `[attention]`."""
BARE = re.compile(r"[A-Za-z_][\w.]*")


def load_block(text: str | Block, grammar: Grammar, overrides: Map[str, object]) -> Block:
    """Read the block that a name, YAML or a block means under a grammar, as a space that names it would have it.

    `overrides` maps addresses to values: YAML, numbers, or parts of other blocks. Raises InputError with every mistake,
    including an override that changes nothing, and with the reason of each constraint that refuses the block.
    """
    problems = Problems()
    label = f"block {quote(text)}" if isinstance(text, str) and NAME.fullmatch(text.strip()) else "this block"
    block = _read(text, grammar, problems)
    written = read_overrides(parse_yaml(_as_yaml(overrides), "overrides"), problems) if overrides else ()
    problems.raise_if_any()
    assert block is not None
    changed = apply_overrides({label: block}, written, grammar.reader_for(problems), alone=True)[label]
    for broken in grammar.broken(changed):
        problems.add(
            f"{label} is refused by {broken.full_name}", notes=(f"because {broken.because}", broken.let_through)
        )
    problems.raise_if_any()
    return changed


def check_known(block: Block, catalogue: Catalogue) -> None:
    """Raise InputError if a block has components that are not in the catalogue."""
    if missing := sorted({node.name for node in walk(block)} - {spec.name for spec in catalogue}):
        raise InputError(f"no component is named {', '.join(map(quote, missing))}\n  = pass its file in plugins")


def _read(text: str | Block, grammar: Grammar, problems: Problems) -> Block | None:
    if not isinstance(text, str):
        check_known(text, grammar.catalogue)
        return text
    if not NAME.fullmatch(name := text.strip()):
        return grammar.reader_for(problems).block(parse_yaml(text, "block"))
    if name in grammar.blocks:
        return grammar.blocks[name].block
    notes = [f"the grammar {grammar.name} has {len(grammar.blocks)} blocks: `ablate list blocks` shows them"]
    if name in grammar.catalogue:
        notes.append(f"a block of that one component is [{name}]")
    elif (meant := suggest(name, grammar.blocks)) is not None:
        notes.insert(0, meant)
    problems.add(f"there is no block {quote(name)}", notes=tuple(notes))
    return None


def _as_yaml(overrides: Map[str, object]) -> str:
    """Write overrides as a space has them below `block:`, one per line."""
    return "\n".join(f"{_key(address)}: {_value(address, value)}" for address, value in overrides.items())


def _key(address: str) -> str:
    return address if BARE.fullmatch(address) else json.dumps(address, ensure_ascii=False)


def _value(address: str, value: object) -> str:
    match value:
        case str():
            return "\n" + textwrap.indent(value, "  ") if "\n" in value else value
        case Node() | Sequence() | Gain() | Size() | Expression():
            return print_value(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"the override {address} has no value: {error}\n  = give YAML, a number or a part") from None
