"""`variants:` of a space: named treatments, each a block with what is changed around it.

    variants:
      hot:  {block: op, set: {recipe.optimizer.adamw.lr: 1e-2}}
      deep: {block: op, set: {model.layers: 12, block.attention.scale: 1/width}}

A key of `set` is an address of the resolved space, and its value is laid over the space as `--set` would lay it. A
design names a variant where it may name a block. What the variant changes in its block becomes part of the block;
every other change belongs to the variant, which is then a treatment like any other.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from ablate.block.select import parse_address
from ablate.source.located import Located, Mapping, Scalar, to_python
from ablate.source.problems import Problems, nearest, quote
from ablate.space.dotted import document_with, words_of
from ablate.space.fair import Plain, plain
from ablate.space.override import Override

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
    """A value at an address of the resolved space, outside the block; `written` is where and how it stands there."""

    address: str
    value: Plain
    path: tuple[Scalar, ...] = field(compare=False, repr=False)
    key: Scalar = field(compare=False, repr=False)
    written: Located = field(compare=False, repr=False)

    @property
    def document(self) -> Mapping:
        """The change as a document to be laid over the space."""
        return document_with(self.path, self.written)


class Keyed(Protocol):
    """What stands under a key of the space: a change, or the levels of a factor."""

    @property
    def address(self) -> str:
        """Its address."""

    @property
    def key(self) -> Scalar:
        """Its key."""


@dataclass(frozen=True, slots=True)
class NamedVariant:
    """A variant as the space declares it: the name of its block, the block's fields it sets, and all other changes."""

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
    for part, _ in body.entries:
        if part.value not in KEYS:
            message = f"unknown key {quote(part.text)} in variant {key.text}"
            problems.add_unknown(message, part.span, part.text, KEYS, "a variant accepts")
    meant = {nearest(part.text, KEYS) for part, _ in body.entries if part.value not in KEYS}
    for missing in (name for name in KEYS if name not in body and name not in meant):
        problems.add(f"missing key {missing!r} in variant {key.text}", key.span)
    block, written = body.get(BLOCK), body.get("set")
    if block is not None and not (isinstance(block, Scalar) and isinstance(block.value, str)):
        problems.add(f"block of variant {key.text} must be the name of a block", block.span)
    overrides, changes = _set(key, written, problems)
    if len(problems) > before:
        return None
    assert isinstance(block, Scalar)
    return NamedVariant(key.value, block, key, overrides, changes)


def _set(name: Scalar, written: Located | None, problems: Problems) -> tuple[tuple[Override, ...], tuple[Change, ...]]:
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
        problems.add(
            f"{address} is a whole section: name what changes in it", key.span, notes=(f"such as {address}.…",)
        )
        return None
    refused = next((name for name in REFUSED if f"{address}.".startswith(f"{name}.")), None)
    if refused is not None:
        notes = ("set it for all variants, in the space itself",)
        problems.add(f"{address} cannot be a treatment: {REFUSED[refused]}", key.span, notes=notes)
        return None
    return Change(address, plain(to_python(value)), words, key, value)


def read_override(words: tuple[Scalar, ...], key: Scalar, value: Located, problems: Problems) -> Override | None:
    """Read a change at an address of the block's parts; None after a mistake."""
    text = ".".join(word.text for word in words[1:])
    try:
        address = parse_address(text)
    except ValueError as error:
        problems.add(str(error), key.span)
        return None
    if not address.fields:
        notes = (f"such as block.{text or 'PART'}.FIELD: …",)
        problems.add(
            f"{'.'.join(word.text for word in words)} is a part: name one of its fields", key.span, notes=notes
        )
        return None
    return Override(address, key, value)


def check_apart(change: Keyed, others: Map[str, Keyed], problems: Problems) -> None:
    """Report an address that is another one, or inside it."""
    for other in others.values():
        if is_inside(change.address, other.address) or is_inside(other.address, change.address):
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


def changes_in(changes: tuple[Change, ...]) -> Changes:
    """Return the addresses and values of changes."""
    return tuple(sorted((change.address, change.value) for change in changes))
