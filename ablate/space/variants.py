"""Variants: values set at addresses of a space, in its blocks and around them.

A dotted key is an address, its words each at its place. An override sets a field of the blocks' parts, a change a
value outside the block; a variant is a block with overrides and changes of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, Protocol, TypeAlias

from ablate.block.address import Selector, change_parts, has_field, is_start, name_parts, parse_address, value_at
from ablate.block.arithmetic import Expression
from ablate.block.catalogue import Arithmetic, Catalogue, ComponentSpec, FieldType, Sequenced, in_slot
from ablate.block.expression import Block, Defaults, Node, Series, Value, print_value
from ablate.block.layers import alternatives
from ablate.block.normal_form import normalise
from ablate.block.reader import Invalid, Reader
from ablate.output.words import listed
from ablate.source.located import Located, Mapping, Scalar, Source, to_python
from ablate.source.problems import Problems, missing_keys, note_unknown, quote, shorten
from ablate.space.fair import Plain, plain

# Dotted keys: their words, each at its place, their values, and documents that hold one of them


def words_of(key: Scalar) -> Iterator[Scalar]:
    start = 0
    for word in key.text.split("."):
        yield Scalar(word, word, key.within(start, start + len(word)))
        start += len(word) + 1


def entries_of(
    located: Mapping,
    problems: Problems,
    before: tuple[Scalar, ...] = (),
    is_value: Callable[[Mapping], bool] = lambda located: not located.entries,
) -> Iterator[tuple[tuple[Scalar, ...], Scalar, Located]]:
    """Yield the words, the last key and the value of every address in nested mappings.

    `is_value` says of a mapping that it is itself the value at its address; by default an empty one is.
    """
    for key, value in located.entries:
        if not isinstance(key.value, str):
            problems.add("this key must be text", key.span, label="put it in quotes")
            continue
        words = (*before, *words_of(key))
        if isinstance(value, Mapping) and not is_value(value):
            yield from entries_of(value, problems, words, is_value)
        else:
            yield words, key, value


def document_with(path: Sequence[Scalar], value: Located) -> Mapping:
    *outer, last = path
    document = Mapping(((last, value),), value.span)
    for step in reversed(outer):
        document = Mapping(((step, document),), value.span)
    return document


# Overrides of every block: `{attention.position: rope, mlp: {activation: relu}}`
#
# An override that changes no block of the design has no effect, and that is an error, not a warning. The overrides of
# a preset are an exception: they are meant for all blocks of its paper, and need not change those of the design. The
# blocks of a search are not known beforehand, so an override must change its reference or one of many randomly drawn
# blocks.

PART = Sequenced()  # the kind of place in which a part of a block stands


@dataclass(frozen=True, slots=True)
class Override:
    address: Selector
    key: Scalar
    value: Located


@dataclass(frozen=True, slots=True)
class FurtherBlocks:
    """Blocks that a design may reach besides those it names, drawn only when they are needed.

    Mistakes in them are dropped: not every override fits every block.
    """

    blocks: Callable[[], tuple[Block, ...]]
    reader: Reader


def read_overrides(located: Located | None, problems: Problems) -> tuple[Override, ...]:
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
        if without and override.key.span.source not in presets and not _changes_any(override, drawn):
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
                after = _set_field(node, override.address.fields, override, reader)
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
    """Yield the value that a part sets itself, printed, if it is another afterwards."""
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

    Raises Invalid for a value that a part refuses; the reader's problems then have the reason.
    """
    for override in overrides:
        block, _ = _apply(override, block, reader)
    return block


def with_value(block: Block, override: Override, reader: Reader) -> Block:
    """Apply an override to each part that has its field; Invalid for a value that such a field refuses."""
    fields = override.address.fields

    def change(node: Node) -> Node:
        return _set_field(node, fields, override, reader) if has_field(node, fields, reader.catalogue) else node

    return change_parts(block, override.address.part, change, reader.catalogue)[0]


def _apply(override: Override, block: Block, reader: Reader) -> tuple[Block, int]:
    """Apply one override; return the block and the number of parts that it names."""
    change = partial(_set_field, fields=override.address.fields, override=override, reader=reader)
    return change_parts(block, override.address.part, change, reader.catalogue)


def _set_field(
    node: Node, fields: tuple[str, ...], override: Override, reader: Reader, place: FieldType = PART
) -> Node:
    """Change the field of a node that `fields` leads to; `place` is the kind of place in which the node stands.

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
    return node.replace({first: _set_field(inner, rest, override, reader, in_slot(spec.fields[first], place))})


def _set_inside(pattern: Node, fields: tuple[str, ...], override: Override, reader: Reader, place: FieldType) -> Node:
    """Change a field of the alternatives of a pattern that have it; if none has, say so of the first."""
    inside = [
        (way, node) for way, node in alternatives(pattern, reader.catalogue[pattern.name]) if isinstance(node, Node)
    ]
    having = [(way, node) for way, node in inside if has_field(node, fields, reader.catalogue)]
    for (inner, *index), node in having or inside[:1]:
        changed: Value = _set_field(node, fields, override, reader, place)
        if index:
            series = pattern[str(inner)]
            assert isinstance(series, Series)
            changed = Series(tuple(changed if i == index[0] else each for i, each in enumerate(series)))
        pattern = pattern.replace({str(inner): changed})
    return pattern


def _stands_for_one_with(field: str, spec: ComponentSpec, catalogue: Catalogue) -> bool:
    """Return whether it has the role of a component with that field: a stand-in for attention has no `position`."""
    return spec.role != spec.name and spec.role in catalogue and field in catalogue[spec.role].fields


def _changes_any(override: Override, drawn: FurtherBlocks | None) -> bool:
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


# Named treatments: a block with what is changed around it
#
# `hot: {block: op, set: {recipe.optimizer.adamw.lr: 1e-2, block.attention.scale: 1/width}}`: a key of `set` is an
# address of the resolved space, and its value is laid over the space as `--set` would lay it. A design names a
# variant where it may name a block. What the variant changes in its block becomes part of the block; every other
# change belongs to the variant, which is then a treatment like any other.

Changes: TypeAlias = "tuple[tuple[str, Plain], ...]"
"""Values by their addresses in the resolved space, in alphabetical order."""

BLOCK: Final = "block"
SECTIONS: Final = ("model", "recipe", "data")
"""The sections, besides `block`, whose values decide how a model is built and trained."""
KEYS: Final = (BLOCK, "set")
EVALUATED: Final = "both sides would be evaluated on other text, so that their losses could not be compared"
SEES: Final = "a model that sees the tokens it predicts has nothing to learn"
CHOSEN: Final = ("recipe.optimizer", "recipe.schedule.decay")
"""Addresses at which one thing of several is chosen, with its settings."""
REFUSED: Final = {
    "data.tuning": EVALUATED,
    "data.verdict": EVALUATED,
    "model.kind": "models of different kinds learn from different data, or predict different things",
    "model.causal": SEES,
    "recipe.objective": "losses of different objectives cannot be compared",
}
"""Values that cannot be a treatment, and why."""


@dataclass(frozen=True, slots=True)
class Change:
    """A value at an address of the resolved space, outside the block; `written` is the value as it stands there."""

    address: str
    value: Plain
    path: tuple[Scalar, ...] = field(compare=False, repr=False)
    key: Scalar = field(compare=False, repr=False)
    written: Located = field(compare=False, repr=False)

    @property
    def document(self) -> Mapping:
        return document_with(self.path, self.written)


class Keyed(Protocol):
    """A change, or the levels of a factor: the entry of a space at an address, with its key."""

    @property
    def address(self) -> str: ...

    @property
    def key(self) -> Scalar: ...


@dataclass(frozen=True, slots=True)
class NamedVariant:
    """A variant as declared: the name of its block, the block's fields that it sets, and all other changes."""

    name: str
    block: Scalar
    key: Scalar
    overrides: tuple[Override, ...]
    changes: tuple[Change, ...]


def read_variants(located: Located | None, blocks: Container[str], problems: Problems) -> dict[str, NamedVariant]:
    """Read the section, by name; mistakes go to `problems`. `blocks` are the names that are taken already."""
    if located is None:
        return {}
    if not isinstance(located, Mapping):
        notes = ("such as variants: {hot: {block: op, set: {recipe.optimizer.adamw.lr: 1e-2}}}",)
        problems.add("variants must map names to a block and what is set", located.span, notes=notes)
        return {}
    read = (_variant(key, body, blocks, problems) for key, body in located.entries)
    return {variant.name: variant for variant in read if variant is not None}


def _variant(key: Scalar, body: Located, blocks: Container[str], problems: Problems) -> NamedVariant | None:
    if not isinstance(key.value, str) or key.value in blocks:
        why = "is the name of a block already" if isinstance(key.value, str) else "must be text"
        problems.add(f"the name of a variant, {quote(key.text)}, {why}", key.span, notes=("give it another name",))
        return None
    if not isinstance(body, Mapping):
        notes = (f"such as {key.text}: {{block: op, set: {{recipe.optimizer.adamw.lr: 1e-2}}}}",)
        problems.add(f"variant {key.text} must be a mapping with the keys block and set", body.span, notes=notes)
        return None
    before = len(problems)
    after = f" in variant {key.text}"
    unknown = note_unknown(body, KEYS, problems, "unknown key", after, lead="a variant accepts")
    for missing in missing_keys(body, KEYS, unknown):
        problems.add(f"missing key {missing!r} in variant {key.text}", key.span)
    block, written = body.get(BLOCK), body.get("set")
    if block is not None and not (isinstance(block, Scalar) and isinstance(block.value, str)):
        problems.add(f"block of variant {key.text} must be the name of a block", block.span)
    overrides, changes = _read_set(key, written, problems)
    if len(problems) > before:
        return None
    assert isinstance(block, Scalar)
    return NamedVariant(key.value, block, key, overrides, changes)


def _read_set(
    name: Scalar, written: Located | None, problems: Problems
) -> tuple[tuple[Override, ...], tuple[Change, ...]]:
    if written is None:
        return (), ()
    if not isinstance(written, Mapping) or not written.entries:
        notes = ("such as set: {recipe.optimizer.adamw.lr: 1e-2}",)
        problems.add(f"set of variant {name.text} must map addresses to values", written.span, notes=notes)
        return (), ()
    overrides: dict[str, Override] = {}
    changes: dict[str, Change] = {}
    for words, key, value in _entries(written):
        address = ".".join(word.text for word in words)
        if words[0].text == BLOCK:
            if (override := read_override(words, key, value, problems)) is not None:
                overrides[override.address.text] = override
        elif (change := read_change(words, key, value, problems)) is not None:
            check_apart(change, changes, problems)
            changes[address] = change
    return tuple(overrides.values()), tuple(sorted(changes.values(), key=lambda change: change.address))


def _entries(written: Mapping) -> Iterator[tuple[tuple[Scalar, ...], Scalar, Located]]:
    """Yield the words, key and value of each address; a section written as a mapping holds several addresses."""
    for key, value in written.entries:
        words = tuple(words_of(key))
        if len(words) == 1 and words[0].text in (BLOCK, *SECTIONS) and isinstance(value, Mapping):
            for inner, inside in value.entries:
                yield (*words, *words_of(inner)), inner, inside
        else:
            yield words, key, value


def read_change(words: tuple[Scalar, ...], key: Scalar, value: Located, problems: Problems) -> Change | None:
    """Read a change at an address outside the block; None after a mistake."""
    address, section = ".".join(word.text for word in words), words[0].text
    if section not in SECTIONS:
        message = f"{address} cannot be a treatment: it does not decide how a model is built or trained"
        problems.add_unknown(message, words[0].span, section, (BLOCK, *SECTIONS), "an address begins with")
        return None
    if len(words) == 1:
        message = f"{address} is a whole section: name what changes in it"
        problems.add(message, key.span, notes=(f"such as {address}.…",))
        return None
    refused = next((name for name in REFUSED if f"{address}.".startswith(f"{name}.")), None)
    if refused is not None:
        notes = ("set it for all variants, in the space itself",)
        problems.add(f"{address} cannot be a treatment: {REFUSED[refused]}", key.span, notes=notes)
        return None
    return Change(address, plain(to_python(value)), words, key, value)


def read_override(words: tuple[Scalar, ...], key: Scalar, value: Located, problems: Problems) -> Override | None:
    text = ".".join(word.text for word in words[1:])
    try:
        address = parse_address(text)
    except ValueError as error:
        problems.add(str(error), key.span)
        return None
    if not address.fields:
        notes = (f"such as block.{text or 'PART'}.FIELD: …",)
        whole = ".".join(word.text for word in words)
        problems.add(f"{whole} is a part: name one of its fields", key.span, notes=notes)
        return None
    return Override(address, key, value)


def check_apart(change: Keyed, others: Map[str, Keyed], problems: Problems) -> None:
    for other in others.values():
        if overlap(change.address, other.address):
            also = ((other.key.span, "beside this"),)
            message = f"{change.address} and {other.address} set the same value"
            problems.add(message, change.key.span, notes=("keep one of them",), also=also)


def choices_of(variants: Iterable[NamedVariant]) -> dict[tuple[str, str], Mapping]:
    """Return the optimisers and schedules that variants choose, by address and name, with the document of each."""
    return {
        (change.address, str(name)): change.document
        for variant in variants
        for change in variant.changes
        if change.address in CHOSEN
        for name in (change.written if isinstance(change.written, Mapping) else [change.value])
    }


def is_inside(address: str, outer: str) -> bool:
    """Return whether an address is another one, or leads into its value.

    >>> is_inside("recipe.optimizer.adamw.lr", "recipe.optimizer"), is_inside("recipe.steps", "recipe.step")
    (True, False)
    """
    return f"{address}.".startswith(f"{outer}.")


def overlap(address: str, other: str) -> bool:
    return is_inside(address, other) or is_inside(other, address)


def changes_in(changes: tuple[Change, ...]) -> Changes:
    return tuple(sorted((change.address, change.value) for change in changes))
