"""From PyYAML's events to located values: one document, no surprises, and limits that apply while the text is read.

A mistake that does not stop the reading (a key written twice, a merge key, a tag) is collected and shown with the rest.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from ablate.output.escape import drives_terminal
from ablate.source.core_schema import NO_TAGS, ValueProblem, construct, is_collection_tag, resolve
from ablate.source.located import Atom, Items, Located, Mapping, Scalar, Source, Span
from ablate.source.problems import Problems, quote, suggest
from ablate.source.syntax import explain, explain_character

MAX_NODES: Final = 20_000
"""The largest number of values in a document; an alias counts as everything it stands for."""
MAX_DEPTH: Final = 64
"""The deepest nesting of lists and mappings."""

DRIVES: Final = "it is invisible, and changes what a terminal shows"


def compose(source: Source, start: int = 0) -> Located:
    """Read the one document in a source from character `start` on; places count from the beginning of the source."""
    problems = Problems()
    root = _Composer(source, start, problems).document()
    problems.raise_if_any()
    return root


class _Composer:
    """One pass over PyYAML's events; the value of an alias is shared, and counted at each use."""

    def __init__(self, source: Source, start: int, problems: Problems):
        self.source, self.problems = source, problems
        self.anchors: dict[str, tuple[Located, int] | None] = {}  # None while the anchored value is being read
        self.nodes = 0
        self.end = start  # where the last value ends: a block has no closing mark of its own
        try:
            # Leading spaces keep every mark at its offset in the source.
            self.loader = yaml.SafeLoader(" " * start + source.text[start:])
        except yaml.reader.ReaderError as error:
            self.problems.append(explain_character(error, source))
            self._stop()

    def document(self) -> Located:
        """Read the root of the only document."""
        self._next()  # the start of the stream
        if isinstance(event := self._next(), StreamEndEvent):
            self._fail("the document is empty", self._span(event))
        root = self._node(self._next(), depth=1)
        if isinstance(root, Scalar) and not root.span.text:
            self._fail("the document is empty", root.span)
        while isinstance(event := self._next(), DocumentEndEvent):
            pass
        if not isinstance(event, StreamEndEvent):
            self._fail("a second document starts here", self._span(event), notes=("one file holds one document",))
        return root

    def _node(self, event: Event, depth: int) -> Located:
        if isinstance(event, AliasEvent):
            return self._alias(event, depth)
        anchor = event.anchor if isinstance(event, ScalarEvent | CollectionStartEvent) else None
        before = self.nodes
        self._count(1, event)
        if depth > MAX_DEPTH:
            self._fail(f"lists and mappings are nested deeper than {MAX_DEPTH} levels here", self._span(event))
        if anchor is not None:
            self._open_anchor(anchor, event)
        value: Located
        match event:
            case ScalarEvent():
                value = self._scalar(event)
            case MappingStartEvent():
                value = self._mapping(event, depth)
            case CollectionStartEvent():
                value = self._items(event, depth)
            case _:
                raise TypeError(f"no value begins with {event}")
        if anchor is not None:
            self.anchors[anchor] = (value, self.nodes - before)
        return value

    def _scalar(self, event: ScalarEvent) -> Scalar:
        span = self._span(event)
        value: Atom = event.value
        try:
            if event.tag is not None:
                value = construct(event.tag, event.value)
            elif event.style is None:  # plain: neither quoted nor a block of text
                value = resolve(event.value)
        except ValueProblem as problem:
            self.problems.add(str(problem), span if event.tag is None else self._properties(event))
        if any("\ud800" <= character <= "\udfff" for character in event.value):
            notes = ("write the character as one escape, such as \\U0001F600",)
            self.problems.add("half a surrogate pair is not a character", span, notes=notes)
        elif unseen := next(filter(drives_terminal, event.value), None):
            self.problems.add(f"text may not contain the character U+{ord(unseen):04X}", span, notes=(DRIVES,))
        return Scalar(value, event.value, span)

    def _items(self, start: CollectionStartEvent, depth: int) -> Items:
        self._check_tag(start)
        items: list[Located] = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return Items(tuple(items), self._span(start, self.end))

    def _mapping(self, start: CollectionStartEvent, depth: int) -> Mapping:
        self._check_tag(start)
        entries: dict[Atom, tuple[Scalar, Located]] = {}
        while not isinstance(event := self._next(), MappingEndEvent):
            plain = isinstance(event, ScalarEvent) and event.style is None
            key = self._node(event, depth + 1)
            value = self._node(self._next(), depth + 1)
            if not isinstance(key, Scalar):
                self.problems.add("a key cannot be a list or a mapping", key.span)
            elif plain and key.value == "<<":
                notes = ("it hides where a value comes from: write the keys out, or use a profile",)
                self.problems.add("merge keys ('<<') are not supported", key.span, notes=notes)
            elif key.value in entries:
                also = ((entries[key.value][0].span, "first written here"),)
                self.problems.add(f"key {quote(key.text)} is written twice", key.span, label="and again", also=also)
            else:
                entries[key.value] = (key, value)
        return Mapping(tuple(entries.values()), self._span(start, self.end))

    def _alias(self, event: AliasEvent, depth: int) -> Located:
        span, name = self._span(event), str(event.anchor)
        if name not in self.anchors:
            self._fail(f"no anchor &{name} is defined before this alias", span, label=suggest(name, self.anchors) or "")
        anchored = self.anchors[name]
        if anchored is None:
            self._fail(f"&{name} would contain itself", span)
        value, size = anchored
        self._count(size, event)
        if depth + _height(value) - 1 > MAX_DEPTH:
            self._fail(f"lists and mappings are nested deeper than {MAX_DEPTH} levels here", span)
        return value

    def _open_anchor(self, anchor: str, event: Event) -> None:
        if anchor in self.anchors:
            self.problems.add(f"the anchor &{anchor} is defined twice", self._properties(event))
        self.anchors[anchor] = None

    def _check_tag(self, event: CollectionStartEvent) -> None:
        if event.tag is not None and not is_collection_tag(event.tag):
            self.problems.add(NO_TAGS, self._properties(event))

    def _count(self, nodes: int, event: Event) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            notes = ("an alias counts as everything it stands for",) if isinstance(event, AliasEvent) else ()
            self._fail(f"more than {MAX_NODES:,} values up to here", self._span(event), notes=notes)

    def _span(self, event: Event, end: int | None = None) -> Span:
        """Return the span of an event's value, up to `end` if given, without blanks after a block of text."""
        low, high = _indices(event)
        low, high = self._after_properties(event, low), high if end is None else end
        return self.source.span(min(low, high), max(low, low + len(self.source.text[low:high].rstrip())))

    def _properties(self, event: Event) -> Span:
        """Return the span of the anchor and the tag in front of a value."""
        low, _ = _indices(event)
        written = self.source.text[low : self._after_properties(event, low)].rstrip()
        return self.source.span(low, low + len(written))

    def _after_properties(self, event: Event, low: int) -> int:
        """Return where the value itself begins, after the anchor and tag that PyYAML includes."""
        if isinstance(event, ScalarEvent | CollectionStartEvent):
            for _ in filter(None, (event.anchor, event.tag)):
                if match := _PROPERTY.match(self.source.text, low):
                    low = match.end()
        return low

    def _next(self) -> Event:
        try:
            event: Event = self.loader.get_event()  # type: ignore[no-untyped-call]
        except yaml.MarkedYAMLError as error:
            self.problems.append(explain(error, self.source))
            self._stop()
        except (ValueError, OverflowError):  # PyYAML lets these escape: "\UFFFFFFFF", or a %YAML of 5000 digits
            offset = min(self.loader.get_mark().index, len(self.source.text))
            self._fail("this number is too large", self.source.span(offset, offset))
        low, high = _indices(event)
        if isinstance(event, ScalarEvent | AliasEvent) or (isinstance(event, CollectionEndEvent) and low < high):
            self.end = high
        return event

    def _fail(self, message: str, span: Span, *, label: str = "", notes: tuple[str, ...] = ()) -> NoReturn:
        self.problems.add(message, span, label=label, notes=notes)
        self._stop()

    def _stop(self) -> NoReturn:
        self.problems.raise_if_any()
        raise AssertionError("stopped without a problem")


def _indices(event: Event) -> tuple[int, int]:
    assert event.start_mark is not None and event.end_mark is not None  # only events made by hand have none
    return event.start_mark.index, event.end_mark.index


_PROPERTY = re.compile(r"(?:&[\w-]+|!(?:<[^>\s]*>|[^\s,\[\]{}]*))(?:\s|#[^\r\n]*)*")


def _height(located: Located) -> int:
    match located:
        case Mapping(entries=entries):
            return 1 + max((_height(value) for _, value in entries), default=0)
        case Items(items=items):
            return 1 + max((_height(item) for item in items), default=0)
    return 1
