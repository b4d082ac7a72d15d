"""Block overrides of a space: `{attention.position: rope, mlp: {activation: relu}}` changes fields of every block.

An override that changes no block of the design has no effect, and that is an error, not a warning. The overrides of a
preset are an exception: they are meant for all blocks of its paper, and need not change those of the design. The blocks
of a search are not known beforehand, so an override must change its reference or one of many randomly drawn blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial

from ablate.block.address import name_parts
from ablate.block.arithmetic import Expression
from ablate.block.catalogue import Arithmetic, Catalogue, ComponentSpec, FieldType, Sequenced, in_slot
from ablate.block.expression import Block, Node, Series, Value
from ablate.block.layers import alternatives
from ablate.block.normal_form import normalise
from ablate.block.printer import Defaults, print_value
from ablate.block.read import Invalid, Reader
from ablate.block.select import Selector, change_parts, has_field, is_start, parse_address, value_at
from ablate.output.words import listed
from ablate.source.located import Located, Mapping, Scalar, Source, to_python
from ablate.source.problems import Problems, quote, shorten

PART = Sequenced()
"""The kind of what a part of a block stands in."""


@dataclass(frozen=True, slots=True)
class Override:
    """An address of a field, and the value to set there."""

    address: Selector
    key: Scalar
    value: Located


@dataclass(frozen=True, slots=True)
class FurtherBlocks:
    """Blocks that a design may reach besides those it names, drawn only when they are needed.

    The mistakes that `reader` notes about them are dropped: not every override fits every block.
    """

    blocks: Callable[[], tuple[Block, ...]]
    reader: Reader


def read_overrides(located: Located | None, problems: Problems) -> tuple[Override, ...]:
    """Read the overrides of a space's `block:`, one per field; mistakes go to `problems`."""
    if located is None:
        return ()
    if not isinstance(located, Mapping):
        notes = ("such as {mlp.hidden: 2x, attention: {scale: 1/head_width}}",)
        problems.add("block must map addresses to values", located.span, notes=notes)
        return ()
    overrides: dict[str, Override] = {}
    for override in _flat("", located, problems):
        text = override.address.text
        if text in overrides:
            also = ((overrides[text].key.span, "first given here"),)
            problems.add(f"{text} is given twice", override.key.span, label="and again", also=also)
        overrides.setdefault(text, override)
    return tuple(overrides.values())


def _flat(prefix: str, located: Mapping, problems: Problems) -> list[Override]:
    overrides: list[Override] = []
    for key, value in located.entries:
        text = f"{prefix}{key.value}"
        try:
            address = parse_address(text)
        except ValueError as error:
            problems.add(str(error), key.span)
            continue
        if not address.fields:
            if isinstance(value, Mapping):
                overrides.extend(_flat(f"{text}.", value, problems))
            else:
                problems.add(f"{text} is a part: name one of its fields", key.span, notes=(f"such as {text}.FIELD: …",))
            continue
        overrides.append(Override(address, key, value))
    return overrides


def apply_overrides(
    blocks: Map[str, Block],
    overrides: tuple[Override, ...],
    reader: Reader,
    presets: Collection[Source] = (),
    drawn: FurtherBlocks | None = None,
    *,
    alone: bool = False,
) -> dict[str, Block]:
    """Apply every override to every block.

    An override that changes none of them, nor any of the `drawn`, is noted as having no effect, unless it comes from
    one of the texts of `presets`. `alone`: there is one block, which belongs to no design.
    """
    changed = dict(blocks)
    for override in overrides:
        try:
            after = {name: _apply(override, block, reader) for name, block in changed.items()}
        except Invalid:
            continue
        without = all(_same(block, changed[name], reader.catalogue) for name, (block, _) in after.items())
        if without and override.key.span.source not in presets and not _changes(override, drawn):
            _note_no_effect(override, tuple(changed.values()), drawn, reader, alone=alone)
        changed = {name: block for name, (block, _) in after.items()}
    return changed


def own_values_replaced(
    blocks: Map[str, Block], overrides: tuple[Override, ...], reader: Reader, defaults: Defaults
) -> Iterator[str]:
    """Yield a note for each override that replaces what blocks set themselves: a value that is not the default."""
    changed = dict(blocks)
    for override in overrides:
        own: dict[str, list[str]] = {}
        for name, block in changed.items():
            replaced: list[str] = []

            def change(node: Node, override: Override = override, replaced: list[str] = replaced) -> Node:
                after = _set(node, override.address.fields, override, reader)
                replaced.extend(_own_value(node, after, override.address.fields, reader.catalogue, defaults))
                return after

            changed[name], _ = change_parts(block, override.address.part, change, reader.catalogue)
            for value in dict.fromkeys(replaced):
                own.setdefault(value, []).append(name)
        for value, names in own.items():
            written = f"block: {{{override.address.text}: {shorten(str(to_python(override.value)))}}}"
            sets = "sets itself" if len(names) == 1 else "set themselves"
            yield f"{written} replaces {value}, which {listed(names)} {sets}"


def _own_value(
    before: Node, after: Node, fields: tuple[str, ...], catalogue: Catalogue, defaults: Defaults
) -> Iterator[str]:
    """Yield the value of a field that a part sets itself, printed, if it is another afterwards."""
    *way, last = fields
    holder = value_at(before, way)
    there, now = value_at(before, fields), value_at(after, fields)
    if there == now or not there or not holder or not isinstance(holder[0], Node):
        return
    usual = defaults.get(holder[0].name, {})
    if last in usual and there[0] != usual[last]:  # without a default every block sets it
        yield shorten(print_value(there[0], catalogue, defaults))


def overridden(block: Block, overrides: tuple[Override, ...], reader: Reader) -> Block:
    """Apply every override to a block; one for a part that it does not have changes nothing, and is no mistake here.

    Raises Invalid for a value that a part cannot take; the reader's problems then say why.
    """
    for override in overrides:
        block, _ = _apply(override, block, reader)
    return block


def with_value(block: Block, override: Override, reader: Reader) -> Block:
    """Apply an override to each part that has its field; raise Invalid for a value that such a field refuses."""
    fields = override.address.fields

    def change(node: Node) -> Node:
        return _set(node, fields, override, reader) if has_field(node, fields, reader.catalogue) else node

    return change_parts(block, override.address.part, change, reader.catalogue)[0]


def _apply(override: Override, block: Block, reader: Reader) -> tuple[Block, int]:
    """Apply one override to a block; return it with the number of its parts that the override names."""
    change = partial(_set, fields=override.address.fields, override=override, reader=reader)
    return change_parts(block, override.address.part, change, reader.catalogue)


def _set(node: Node, fields: tuple[str, ...], override: Override, reader: Reader, place: FieldType = PART) -> Node:
    """Change the field of a node that `fields` leads to; `place` is the kind of what the node stands in.

    The fields of a pattern over layers are its own and those of its alternatives: all that have such a field are
    changed. The node stays as it is if there is an empty slot on the way, or if it stands in for a component that has
    the field.
    """
    spec, span = reader.catalogue[node.name], override.key.span
    first, rest = fields[0], fields[1:]
    if spec.chooses is not None and first not in spec.fields:
        return _set_inside(node, fields, override, reader, place)
    if first not in spec.fields and _stands_for_one_with(first, spec, reader.catalogue):
        return node
    if first not in spec.fields:
        message = f"{spec.name} has no field {quote(first)}"
        reader.problems.add_unknown(message, span, first, spec.fields, "its fields are")
        raise Invalid
    if not rest:
        return node.replace({first: reader.value(override.value, in_slot(spec.fields[first], place))})
    inner = node[first]
    if inner is None:
        return node
    if not rest[1:] and is_start(inner, rest[0]):
        # What stands there is a plain number or expression: a mapping would be another gain
        start = reader.value(override.value, Arithmetic())
        assert isinstance(start, Expression)
        return node.replace({first: replace(inner, value=start)})
    if not isinstance(inner, Node):
        message = f"{spec.name}.{first} holds {print_value(inner)}, which has no field {quote(rest[0])}"
        reader.problems.add(message, span, notes=(f"set the whole field: {spec.name}.{first}: …",))
        raise Invalid
    return node.replace({first: _set(inner, rest, override, reader, in_slot(spec.fields[first], place))})


def _set_inside(pattern: Node, fields: tuple[str, ...], override: Override, reader: Reader, place: FieldType) -> Node:
    """Change a field of the alternatives of a pattern that have it; if none has, say so of the first."""
    inside = [
        (way, node) for way, node in alternatives(pattern, reader.catalogue[pattern.name]) if isinstance(node, Node)
    ]
    having = [(way, node) for way, node in inside if has_field(node, fields, reader.catalogue)]
    for (field, *index), node in having or inside[:1]:
        changed: Value = _set(node, fields, override, reader, place)
        if index:
            series = pattern[str(field)]
            assert isinstance(series, Series)
            changed = Series(tuple(changed if i == index[0] else each for i, each in enumerate(series)))
        pattern = pattern.replace({str(field): changed})
    return pattern


def _stands_for_one_with(field: str, spec: ComponentSpec, catalogue: Catalogue) -> bool:
    """Return whether it has the role of a component with that field: a stand-in for attention has no `position`."""
    return spec.role != spec.name and spec.role in catalogue and field in catalogue[spec.role].fields


def _changes(override: Override, drawn: FurtherBlocks | None) -> bool:
    """Return whether it changes one of the drawn blocks; those that cannot take it do not count."""
    if drawn is None:
        return False
    for block in drawn.blocks():
        try:
            after, matched = _apply(override, block, drawn.reader)
        except Invalid:
            continue
        if matched and not _same(after, block, drawn.reader.catalogue):
            return True
    return False


def _note_no_effect(
    override: Override, named: tuple[Block, ...], drawn: FurtherBlocks | None, reader: Reader, *, alone: bool
) -> None:
    part, missed = override.address.part, f"{override.address.text} has no effect here"
    others = () if drawn is None else drawn.blocks()
    names = sorted({name for block in (*named, *others) for _, name in name_parts(block, reader.catalogue)})
    if any(fnmatchcase(name, part) for name in names):
        drawn_too = f", and each of {len(others):,} drawn from the grammar," if others else ""
        subject = "the block" if alone else f"every block of this design{drawn_too}"
        message = f"{missed}: {subject} already has this value"
        reader.problems.add(message, override.key.span, notes=("remove it, or set another value",))
        return
    nor_drawn = f", nor any of {len(others):,} drawn from the grammar," if others else ""
    subject = "the block has no" if alone else f"no block of this design{nor_drawn} has a"
    message, lead = f"{missed}: {subject} part {quote(part)}", f"{'its' if alone else 'their'} parts are"
    reader.problems.add_unknown(message, override.key.span, part, names, lead)


def _same(block: Block, other: Block, catalogue: Catalogue) -> bool:
    return normalise(block, catalogue) == normalise(other, catalogue)
