"""Block overrides of a space: `{attention.position: rope, mlp: {activation: relu}}` changes fields of every block.

An override that changes no block of the design has no effect, and that is a mistake, not a warning.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass

from ablate.block.address import name_parts
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Node, Value
from ablate.block.normal import normalise
from ablate.block.printer import print_value
from ablate.block.read import Invalid, Reader
from ablate.block.select import Address, change_parts, parse_address
from ablate.source.located import Located, Mapping, Scalar
from ablate.source.problems import Problems, suggest


@dataclass(frozen=True, slots=True)
class Override:
    """One field at one address, and the value it gets."""

    address: Address
    key: Scalar
    value: Located


def read_overrides(located: Located | None, problems: Problems) -> tuple[Override, ...]:
    """The overrides of a space's `block:`, one for each field; mistakes go to `problems`."""
    if located is None:
        return ()
    if not isinstance(located, Mapping):
        problems.add("block must map addresses to values", located.span, notes=("such as {attention.position: rope}",))
        return ()
    return tuple(_flat("", located, problems))


def _flat(prefix: str, located: Mapping, problems: Problems) -> list[Override]:
    found: list[Override] = []
    for key, value in located.entries:
        text = f"{prefix}{key.value}"
        try:
            address = parse_address(text)
        except ValueError as error:
            problems.add(str(error), key.span)
            continue
        if not address.fields:
            if isinstance(value, Mapping):
                found.extend(_flat(f"{text}.", value, problems))
            else:
                problems.add(
                    f"{text} is a part: say which of its fields", key.span, notes=(f"such as {text}.FIELD: …",)
                )
            continue
        found.append(Override(address, key, value))
    return found


def apply_overrides(
    blocks: Map[str, Block], overrides: tuple[Override, ...], reader: Reader, catalogue: Catalogue, problems: Problems
) -> dict[str, Block]:
    """Every block with every override; one that changes none of them is noted as having no effect."""
    changed = dict(blocks)
    for override in overrides:
        effect = False
        matched = 0
        try:
            for name, block in changed.items():
                after, parts = change_parts(
                    block, override.address.part, lambda node: _changed(node, override, reader, problems), catalogue
                )
                matched += parts
                effect |= normalise(after, catalogue) != normalise(block, catalogue)
                changed[name] = after
        except Invalid:
            continue
        if not effect:
            _note_no_effect(override, matched, changed, catalogue, problems)
    return changed


def _changed(node: Node, override: Override, reader: Reader, problems: Problems) -> Node:
    return _set(node, override.address.fields, override, reader, problems)


def _set(node: Node, fields: tuple[str, ...], override: Override, reader: Reader, problems: Problems) -> Node:
    spec = reader.catalogue[node.name]
    first, rest = fields[0], fields[1:]
    if first not in spec.fields:
        problems.add(
            f"{spec.name} has no field {first!r}",
            override.key.span,
            label=suggest(first, tuple(spec.fields)) or "",
            notes=(f"its fields are: {', '.join(spec.fields) or 'none'}",),
        )
        raise Invalid
    if not rest:
        return node.replace({first: reader.value(override.value, spec.fields[first])})
    inner: Value = node[first]
    if inner is None:
        return node
    if not isinstance(inner, Node):
        problems.add(
            f"{spec.name}.{first} holds {print_value(inner)}, which has no field {rest[0]!r}", override.key.span
        )
        raise Invalid
    return node.replace({first: _set(inner, rest, override, reader, problems)})


def _note_no_effect(
    override: Override, matched: int, blocks: Map[str, Block], catalogue: Catalogue, problems: Problems
) -> None:
    address = override.address.text
    if not matched:
        names = sorted({name for block in blocks.values() for _, name in name_parts(block, catalogue)})
        problems.add(
            f"{address} has no effect here: no block of this design has a part {override.address.part!r}",
            override.key.span,
            label=suggest(override.address.part, tuple(names)) or "",
            notes=(f"their parts are: {', '.join(names)}",),
        )
    else:
        problems.add(
            f"{address} has no effect here: every block of this design already is so",
            override.key.span,
            notes=("remove it, or say another value",),
        )
