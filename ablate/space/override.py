"""Block overrides of a space: `{attention.position: rope, mlp: {activation: relu}}` changes fields of every block.

An override that changes no block of the design has no effect, and that is a mistake, not a warning; but what a preset
says holds for all of its paper's blocks, and need not change these.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping as Map
from dataclasses import dataclass
from functools import partial

from ablate.block.address import name_parts
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Node
from ablate.block.normal import normalise
from ablate.block.printer import print_value
from ablate.block.read import Invalid, Reader
from ablate.block.select import Address, change_parts, parse_address
from ablate.source.located import Located, Mapping, Scalar, Source
from ablate.source.problems import Problems, quote, suggest


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
        notes = ("such as {mlp.hidden: 2x, attention: {scale: 1/head_width}}",)
        problems.add("block must map addresses to values", located.span, notes=notes)
        return ()
    found: dict[str, Override] = {}
    for override in _flat("", located, problems):
        text = override.address.text
        if text in found:
            also = ((found[text].key.span, "first said here"),)
            problems.add(f"{text} is said twice", override.key.span, label="and again", also=also)
        found.setdefault(text, override)
    return tuple(found.values())


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
    blocks: Map[str, Block], overrides: tuple[Override, ...], reader: Reader, presets: Collection[Source] = ()
) -> dict[str, Block]:
    """Every block with every override; one that changes none of them, and is from none of the texts of `presets`, is
    noted as having no effect.
    """
    changed = dict(blocks)
    for override in overrides:
        change = partial(_set, fields=override.address.fields, override=override, reader=reader)
        try:
            after = {n: change_parts(b, override.address.part, change, reader.catalogue) for n, b in changed.items()}
        except Invalid:
            continue
        by_hand = override.key.span.source not in presets
        if by_hand and not any(matched for _, matched in after.values()):
            _note_unmatched(override, changed, reader)
        elif by_hand and all(_same(block, changed[name], reader.catalogue) for name, (block, _) in after.items()):
            message = f"{override.address.text} has no effect here: every block of this design already is so"
            reader.problems.add(message, override.key.span, notes=("remove it, or say another value",))
        changed = {name: block for name, (block, _) in after.items()}
    return changed


def _set(node: Node, fields: tuple[str, ...], override: Override, reader: Reader) -> Node:
    """The node with the field that `fields` leads to changed; the node itself where an empty slot is on the way."""
    spec, span = reader.catalogue[node.name], override.key.span
    first, rest = fields[0], fields[1:]
    if first not in spec.fields:
        label, notes = suggest(first, spec.fields) or "", (f"its fields are: {', '.join(spec.fields) or 'none'}",)
        reader.problems.add(f"{spec.name} has no field {quote(first)}", span, label=label, notes=notes)
        raise Invalid
    if not rest:
        return node.replace({first: reader.value(override.value, spec.fields[first])})
    inner = node[first]
    if inner is None:
        return node
    if not isinstance(inner, Node):
        message = f"{spec.name}.{first} holds {print_value(inner)}, which has no field {quote(rest[0])}"
        reader.problems.add(message, span, notes=(f"say all of it: {spec.name}.{first}: …",))
        raise Invalid
    return node.replace({first: _set(inner, rest, override, reader)})


def _note_unmatched(override: Override, blocks: Map[str, Block], reader: Reader) -> None:
    part = override.address.part
    names = sorted({name for block in blocks.values() for _, name in name_parts(block, reader.catalogue)})
    reader.problems.add(
        f"{override.address.text} has no effect here: no block of this design has a part {quote(part)}",
        override.key.span,
        label=suggest(part, names) or "",
        notes=(f"their parts are: {', '.join(names)}",),
    )


def _same(one: Block, other: Block, catalogue: Catalogue) -> bool:
    return normalise(one, catalogue) == normalise(other, catalogue)
