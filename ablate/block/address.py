"""Addresses: the name each part of a block has, in the expression, in the module and in the result rows.

Parts are named by role, in a flat namespace per block, never by list index, so that removing a norm does not rename
(and reseed) the attention behind it:

    a principal (attention, mlp)        its role, with an ordinal among its like: `attention`, `attention_2`
    a modifier just before a principal  `attention_norm`
    any other modifier                  after the principal before it: `attention_post_norm`; if there is none before
                                        it in its sequence, after the next principal inside what follows
    a combinator                        after the first principal inside it: `attention_residual`
    a modifier or a combinator alone    as if it stood in the place of the combinator around it; a combinator around
                                        nothing but modifiers is itself named like one: `mlp_first_layer`, `mlp_norm`

Principals are named first, so that no modifier takes the name of one. A modifier that serves no principal is named by
its role alone. Names that are still ambiguous get an ordinal in reading order (`attention_norm_2`).

A *path* leads to a part through the expression: an index into a sequence, then the name of a field, and so on.
`(0, "branch", 1)` is the second part of the branch of the block's first part.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeGuard

from ablate.block.arithmetic import ArithmeticProblem, number_text
from ablate.block.arithmetic import parse as parse_arithmetic
from ablate.block.catalogue import Catalogue, ComponentSpec
from ablate.block.expression import Block, Gain, Node, Path, Sequence, Series, Value, ValueAddress
from ablate.block.layers import alternatives, has_patterns, pattern_free


def address(layer: int, name: str) -> str:
    """Return the address, in the model, of the part `name` of block `layer` (from 1).

    >>> address(3, "attention")
    'layers.3.attention'
    """
    return f"layers.{layer}.{name}"


def name_parts(block: Block, catalogue: Catalogue) -> tuple[tuple[Path, str], ...]:
    """Return the path and name of each part of `block`, in reading order, parents before the parts inside them.

    Only places in sequences are named here; what fills a slot of a part is addressed by its field (`attention.query`).
    An alternative of a pattern over layers is named as in a layer where it stands, so two may have one name; a part
    with several names, such as an MLP behind one that only some layers have, is there once for each.
    """
    if not has_patterns(block, catalogue):
        return names_of(block, catalogue)
    named = {
        (free.origins[path], name): None
        for free in pattern_free(block, catalogue)
        for path, name in names_of(free.block, catalogue)
    }
    return tuple(named)


def address_at(path: Path, names: Mapping[Path, str]) -> str | None:
    """Return the address, within a block, of what stands at a path: a part, or its fields; None outside all parts."""
    part = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in names), None)
    return None if part is None else ".".join((names[part], *(s for s in path[len(part) :] if isinstance(s, str))))


def names_of(block: Block, catalogue: Catalogue) -> tuple[tuple[Path, str], ...]:
    """Return the path and name of each part of a block without patterns."""
    return _named(tuple((path, _Kind.of(catalogue[node.name])) for path, node in parts_of(block, catalogue)))


class _Kind(NamedTuple):
    """The properties of a component that decide the name of its part, beside its place."""

    role: str
    modifier: bool
    combinator: bool

    @staticmethod
    def of(spec: ComponentSpec) -> _Kind:
        return _Kind(spec.role, spec.modifier, bool(spec.holds_sequences))


@lru_cache(maxsize=10_000)  # the blocks of a grammar are many, and their outlines few
def _named(outline: tuple[tuple[Path, _Kind], ...]) -> tuple[tuple[Path, str], ...]:
    parts = dict(outline)
    principals: dict[Path, str] = {}
    for path, kind in outline:
        if not kind.modifier:
            principals[path] = _unused(kind.role, principals.values())
    names = dict(principals)
    for path, kind in outline:
        if kind.modifier:
            inside = _principals_in(path, principals)
            name = f"{inside[0]}_{kind.role}" if inside else _named_at(path, kind.role, parts, principals)
            names[path] = _unused(name, names.values())
    return tuple((path, names[path]) for path in parts)


def sublayers(block: Block, catalogue: Catalogue) -> tuple[tuple[str, str], ...]:
    """Return the name of each principal of a layer's block, with that of the part that its sub-layer starts with.

    The input of that part is the residual stream before the sub-layer. It is the part around the principal (a residual,
    a parallel, …) if only modifiers stand before the principal in it; otherwise the first of the modifiers directly
    before the principal, or the principal itself. So a Pre-LN norm belongs to the sub-layer, and the norm behind a
    residual (Post-LN) to none.
    """
    names = dict(name_parts(block, catalogue))
    parts = {path: catalogue[node.name] for path, node in parts_of(block, catalogue)}
    principals = {path: names[path] for path, spec in parts.items() if not spec.modifier}

    def beginning(path: Path) -> Path:
        sequence, place = path[:-1], path[-1]
        assert isinstance(place, int)
        while place > 0 and not _principals_in((*sequence, place - 1), principals):
            place -= 1
        around = [path[:end] for end in range(len(sequence), 0, -1) if path[:end] in parts]
        return around[0] if place == 0 and around else (*sequence, place)

    return tuple((name, names[beginning(path)]) for path, name in principals.items())


def parts_of(sequence: Sequence, catalogue: Catalogue, start: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield every part of `sequence` and of the sequences inside it, with its path; parents before children."""
    for index, node in enumerate(sequence):
        path = (*start, index)
        yield path, node
        for inner, inside in sequences_of(node, catalogue[node.name], path):
            yield from parts_of(inside, catalogue, inner)


def sequences_of(node: Node, spec: ComponentSpec, path: Path = ()) -> Iterator[tuple[Path, Sequence]]:
    """Yield the sequences in the own fields of `node`, those of a pattern too, with their paths."""
    if spec.chooses is not None:
        yield from (((*path, *way), each) for way, each in alternatives(node, spec) if isinstance(each, Sequence))
    for field in spec.holds_sequences:
        value = node[field]
        if isinstance(value, Sequence):
            yield (*path, field), value
        elif isinstance(value, tuple):
            yield from (((*path, field, i), branch) for i, branch in enumerate(value) if isinstance(branch, Sequence))


def _named_at(path: Path, role: str, parts: Mapping[Path, _Kind], principals: Mapping[Path, str]) -> str:
    siblings = [other for other in parts if len(other) == len(path) and other[:-1] == path[:-1]]
    here = siblings.index(path)
    before = [name for sibling in siblings[:here] for name in _principals_in(sibling, principals)]
    after = [name for sibling in siblings[here:] for name in _principals_in(sibling, principals)]
    served = next((s for s in siblings[here:] if s in principals or parts[s].combinator), None)
    if served in principals or (after and not before):
        return f"{after[0]}_{role}"
    if before:
        return f"{before[-1]}_post_{role}"
    around = next((path[:end] for end in range(len(path) - 1, 0, -1) if path[:end] in parts), None)
    return role if around is None else _named_at(around, role, parts, principals)


def _principals_in(path: Path, principals: Mapping[Path, str]) -> list[str]:
    return [name for other, name in principals.items() if other[: len(path)] == path]


def _unused(name: str, taken: Collection[str]) -> str:
    ordinals = (name if ordinal == 1 else f"{name}_{ordinal}" for ordinal in itertools.count(1))
    return next(candidate for candidate in ordinals if candidate not in taken)


# Finding the parts of a block by address: `attention.entropy`, `*_norm.eps`, `layers.*.mlp`.
#
# The first word names parts as they are registered in the compiled block (`attention`, `mlp_2`, `attention_norm`; `*`
# and `?` as in file names); each further word is a field of the component there.

START: Final = "init"
"""The field, in addresses, of the number that a trained gain starts at: `mlp_residual.gain.init`."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A pattern for parts, and the fields to follow from there."""

    part: str
    fields: tuple[str, ...]

    @property
    def text(self) -> str:
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
    """True if a field of a value is the number that a trained gain starts at."""
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
        value = _child(value, step)
    assert isinstance(value, Node)
    return value


def _child(value: Value, step: int | str) -> Value:
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
    changed = _replace(_child(value, step), rest, change)
    if isinstance(step, str):
        return value.replace({step: changed})
    items = [*value]
    items[step] = changed
    return type(value)(tuple(items)) if isinstance(value, Sequence | Series) else tuple(items)


# Addresses of values that stand earlier in the model: what a field may read besides its input.
#
#     layers.first.attention.value      what the values of the first layer's attention are
#     layers.previous.mlp               what the MLP of the layer before gives
#     layers.2.out                      the stream behind block 2; `layers.first.in` is that before the first
#     layers.(depth+1-layer).out        the layer is arithmetic in `layer` and `depth`
#     layers.*.in                       the streams before all blocks up to this one, where a field takes several
#     attention.key                     of this layer: what stands before it in the block
#     tokens                            the numbers of the tokens, [B, T]
#     embedding, positions, entry_norm  what these parts of the model give
#     encoder                           in a decoder beside an encoder: what that gives, [B, S, D], behind its norm
#
# The names are those of parts and of the weights in their fields, as everywhere. A value is read as it is, with its
# gradient. What it stands before, and what it is inside of, a field cannot read.

TOKENS: Final = "tokens"
AROUND: Final = ("embedding", "positions", "entry_norm")  # the parts before the blocks whose output can be read
ENCODER: Final = "encoder"
"""The output of the encoder, which only the `source` of an attention can read: it has another length."""
IN, OUT = "in", "out"
EVERY_LAYER: Final = "*"
VALUE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
ONE_LAYER: Final = r"first|previous|\*|[0-9]+|\([^()]*(?:\([^()]*\)[^()]*)*\)"
OF_LAYER = re.compile(rf"layers\.({ONE_LAYER})\.(.+)")
BEFORE_LAYER: Final = len("layers.")


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """A value of the model: of block `layer`, or of what stands before the blocks (None), under its name there."""

    layer: int | None
    name: str

    @property
    def address(self) -> str:
        return self.name if self.layer is None else address(self.layer, self.name)


def address_fault(text: str, *, several: bool) -> ArithmeticProblem | None:
    """Return the fault of an address as it is written, at its characters; None if there is none."""
    if text in (TOKENS, ENCODER, *AROUND):
        return None
    if not text.startswith("layers."):
        return _fault_of_name(text, 0, f"{text!r} is not the address of a value")
    match = OF_LAYER.fullmatch(text)
    message = f"{text!r} is not the address of a value in a layer"
    if match is None:
        which = text.split(".")[1]
        if re.fullmatch(ONE_LAYER, which):
            return ArithmeticProblem(f"{message}: say which value, as in layers.{which}.out")
        return ArithmeticProblem(f"{message}: {which!r} is no layer", BEFORE_LAYER, BEFORE_LAYER + len(which))
    if match[1] == EVERY_LAYER and not several:
        return ArithmeticProblem(f"{text!r} is many values, but one is read here", *match.span(1))
    if match[1].startswith("("):
        try:
            parse_arithmetic(match[1][1:-1])
        except ArithmeticProblem as problem:
            start, end = (offset + 1 for offset in match.span(1))
            end = end - 2 if problem.end is None else start + problem.end
            return ArithmeticProblem(f"{text!r}: {problem}", start + problem.start, end)
    return _fault_of_name(match[2], match.start(2), message)


def _fault_of_name(name: str, start: int, message: str) -> ArithmeticProblem | None:
    """Return the fault that `name` is none, from where it stops to be one; `start` is its place in the address."""
    if VALUE_NAME.fullmatch(name):
        return None
    begun = VALUE_NAME.match(name)
    return ArithmeticProblem(message, start + (begun.end() if begun else 0), start + len(name))


def values_named(read: ValueAddress, scope: Mapping[str, float]) -> tuple[ValuePlace, ...]:
    """Return the values that an address names, seen from the layer of `scope`; several for `layers.*`.

    `layers.*.in` are those up to and with this layer, `layers.*` of anything else those of the layers before.
    Raises ArithmeticProblem for a layer that has no number.
    """
    match = OF_LAYER.fullmatch(read.text)
    here = int(scope["layer"])
    if match is None:
        around = read.text in (TOKENS, ENCODER, *AROUND)
        return (ValuePlace(None if around else here, read.text),)
    which, name = match[1], match[2]
    if which == EVERY_LAYER:
        return tuple(ValuePlace(layer, name) for layer in range(1, here + (name == IN)))
    return (ValuePlace(_layer_number(which, scope), name),)


def is_several(read: ValueAddress) -> bool:
    """True for an address that names as many values as there are layers: `layers.*.in`."""
    return read.text.startswith(f"layers.{EVERY_LAYER}.")


def resolved_address(read: ValueAddress, scope: Mapping[str, float]) -> ValueAddress:
    """Return the address with the layer as a number, of this layer without one; `layers.*` as it is."""
    match = OF_LAYER.fullmatch(read.text)
    if match is None or match[1] == EVERY_LAYER:
        return read
    layer = _layer_number(match[1], scope)
    own = layer == scope["layer"] and match[2] not in (IN, OUT)
    return ValueAddress(match[2] if own else address(layer, match[2]))


def _layer_number(which: str, scope: Mapping[str, float]) -> int:
    if which == "first":
        return 1
    if which == "previous":
        return int(scope["layer"]) - 1
    if which.isdigit():
        return int(which)
    number = parse_arithmetic(which[1:-1]).at(scope)
    if not number.is_integer():
        raise ArithmeticProblem(f"layer {which} is {number_text(number)} in layer {int(scope['layer'])}, not whole")
    return int(number)
