"""Finding the parts of a block by address: `attention.entropy`, `*_norm.eps`, `layers.*.mlp`.

The first word names parts as they are registered in the compiled block (`attention`, `mlp_2`, `attention_norm`; `*` and
`?` as in file names); each further word is a field of the component there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, TypeGuard

from ablate.block.address import name_parts, names_of
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Gain, Node, Path, Sequence, Series, Value
from ablate.block.layers import pattern_free

START: Final = "init"
"""What the number that a trained gain starts at is called in an address: `mlp_residual.gain.init`."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A pattern for parts, and the fields to follow from there."""

    part: str
    fields: tuple[str, ...]

    @property
    def text(self) -> str:
        """The address as it is written."""
        return ".".join((self.part, *self.fields))


def parse_address(text: str) -> Selector:
    """Read an address; `layers.*.attention.query` and `attention.query` are the same; ValueError for an empty word."""
    words = text.removeprefix("layers.*.").split(".")
    if not all(words):
        raise ValueError(f"{text!r} is not an address: write words joined by dots, such as attention.entropy")
    return Selector(words[0], tuple(words[1:]))


def parts_by_name(block: Block, catalogue: Catalogue) -> tuple[tuple[str, Node], ...]:
    """Return every part of a block with the name that addresses match, in reading order.

    With patterns over layers, these are the parts of each block that it has without them.
    """
    plain = [free.block for free in pattern_free(block, catalogue)]
    named = ((name, node_at(each, path)) for each in plain for path, name in names_of(each, catalogue))
    return tuple(named if len(plain) == 1 else dict.fromkeys(named))


def value_at(node: Node, fields: Iterable[str]) -> tuple[Value, ...]:
    """Return the value at the end of these fields of a part, in a tuple; empty if there is no such field.

    A trained gain has one field, `init`: the number that it starts at.
    """
    value: Value = node
    for field in fields:
        if is_start(value, field):
            value = value.value
            continue
        if not isinstance(value, Node):
            return ()
        try:
            value = value[field]
        except KeyError:
            return ()
    return (value,)


def is_start(value: Value, field: str) -> TypeGuard[Gain]:
    """Return whether a field of a value is the number that a trained gain starts at."""
    return isinstance(value, Gain) and value.trainable and field == START


def is_there(block: Block, address: Selector, catalogue: Catalogue) -> bool:
    """Return whether any part of a block has the field that an address names; a pattern has its own fields, too."""
    paths = name_parts(block, catalogue)
    return any(
        has_field(node_at(block, path), address.fields, catalogue)
        for path, name in paths
        if fnmatchcase(name, address.part)
    )


def has_field(node: Node, fields: Iterable[str], catalogue: Catalogue) -> bool:
    """Return whether these fields of a part lead to a value, of a pattern over layers or inside its alternatives."""
    fields = tuple(fields)
    plain = (free.block for free in pattern_free(Sequence((node,)), catalogue))
    return any(value_at(each, fields) for each in (node, *(part for block in plain for part in block)))


def change_parts(block: Block, part: str, change: Callable[[Node], Node], catalogue: Catalogue) -> tuple[Block, int]:
    """Apply `change` to every part whose name matches; return the block and how many matched."""
    paths = list(dict.fromkeys(path for path, name in name_parts(block, catalogue) if fnmatchcase(name, part)))
    # Innermost first, so that a change to a combinator keeps the changes made inside it.
    for path in sorted(paths, key=len, reverse=True):
        block = _replace(block, path, change)
    return block, len(paths)


def node_at(block: Block, path: Path) -> Node:
    """Return the node at a path from `name_parts`."""
    value: Value = block
    for step in path:
        value = _step(value, step)
    assert isinstance(value, Node)
    return value


def _step(value: Value, step: int | str) -> Value:
    if isinstance(step, str):
        assert isinstance(value, Node)
        return value[step]
    match value:
        case Sequence(parts=items) | Series(values=items):
            return items[step]
    return value[step]  # type: ignore[index]


def _replace(value: Any, path: Path, change: Callable[[Node], Node]) -> Any:
    if not path:
        return change(value)
    step, rest = path[0], path[1:]
    changed = _replace(_step(value, step), rest, change)
    if isinstance(step, str):
        return value.replace({step: changed})
    items = [*value]
    items[step] = changed
    return type(value)(tuple(items)) if isinstance(value, Sequence | Series) else tuple(items)
