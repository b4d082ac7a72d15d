"""From PyYAML's events to located values: one document, no surprises, and limits that apply while the text is read.

A mistake that does not stop the reading (a key written twice, a tag) is collected and shown with the rest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeAlias

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
from ablate.source.located import Atom, Items, Located, Mapping, Scalar, Source, Span
from ablate.source.problems import Problem, Problems, quote, suggest

# Which unquoted words are numbers, booleans or null: the core schema of YAML 1.2.2 (section 10.3.2), and no more.
#
# `1e-6` is a number, `off`, `yes`, `2024-01-01` and `1:30` are text, `0o17` is fifteen and `017` seventeen. A number
# that a float cannot hold (`1e999`, `1e-999`) is refused: read as infinity or zero it would be another value.

LARGEST_WHOLE: Final = 10**300  # the bound of whole numbers, below which each one converts to a float and prints

NO_TAGS: Final = "tags ('!…') are not supported, except !!str, !!int, !!float, !!bool and !!null"
_TAG_PREFIX = "tag:yaml.org,2002:"


class ValueProblem(ValueError):
    """A scalar without a valid value; the text says why."""


def _int(text: str) -> int:
    # Check the length first: Python refuses to convert more than 4300 decimal digits.
    if len(text) > 400 or abs(value := int(text.lstrip("+"), 0 if text[:2] in ("0o", "0x") else 10)) >= LARGEST_WHOLE:
        raise ValueProblem("this number is too large (at most 300 digits)")
    return value


def _float(text: str) -> float:
    special = text.lstrip("+-").lower()
    if special in (".inf", ".nan"):
        return math.nan if special == ".nan" else math.copysign(math.inf, -1 if text[0] == "-" else 1)
    value = float(text)
    mantissa = re.split("[eE]", text)[0]
    if math.isinf(value) or (value == 0 and re.search("[1-9]", mantissa)):
        size = "large: write .inf if you mean infinity" if value else "small: write 0 if you mean zero"
        raise ValueProblem(f"this number is too {size}")
    return value


_KINDS: Final[tuple[tuple[str, re.Pattern[str], Callable[[str], Atom]], ...]] = (
    ("null", re.compile(r"(?:null|Null|NULL|~|)"), lambda text: None),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)"), lambda text: text.lower() == "true"),
    ("int", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"), _int),
    (
        "float",
        re.compile(
            r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
        ),
        _float,
    ),
)
_NAMES: Final = {"null": "null", "bool": "true or false", "int": "a whole number", "float": "a number"}


def resolve(text: str) -> Atom:
    """Return the value of a plain (unquoted) scalar; raises ValueProblem for a number beyond the range of floats.

    >>> resolve("3e-4"), resolve("off"), resolve("0o17"), resolve("~")
    (0.0003, 'off', 15, None)
    """
    for _, pattern, convert in _KINDS:
        if pattern.fullmatch(text):
            return convert(text)
    return text


def construct(tag: str, text: str) -> Atom:
    """Return the value of a scalar tagged `!!str`, `!!int`, `!!float`, `!!bool` or `!!null`; raises ValueProblem."""
    name = tag.removeprefix(_TAG_PREFIX) if tag.startswith(_TAG_PREFIX) else ""
    if name == "str":
        return text
    for kind, pattern, convert in _KINDS:
        if kind == name:
            if not pattern.fullmatch(text):
                raise ValueProblem(f"this is not {_NAMES[kind]}, though its tag is !!{name}")
            return convert(text)
    raise ValueProblem(NO_TAGS)


def is_collection_tag(tag: str) -> bool:
    return tag in (_TAG_PREFIX + "map", _TAG_PREFIX + "seq")


MAX_NODES: Final = 20_000  # the largest number of values in a document; an alias counts as everything it stands for
MAX_DEPTH: Final = 64

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


# The errors of the YAML parser in plain words: the message, the place that is wrong, and the way out.

QUOTE_IT: Final = "if this is text, put it in quotes"
OWN_LINE: Final = "start the list on a line of its own, or write [a, b]"
BACKSLASH: Final = "in single quotes a backslash is only a backslash"
MORE_TEXT: Final = "this does not belong to what precedes it"
CHECK_QUOTES: Final = "check the quotes and brackets"


def explain(error: yaml.MarkedYAMLError, source: Source) -> Problem:
    message, context = error.problem or "", error.context or ""
    at = _point(source, error.problem_mark or error.context_mark)
    begun = _point(source, error.context_mark) if error.context_mark else at
    for pattern, make in _KNOWN:
        if re.search(pattern, f"{context}; {message}"):
            return make(message, at, begun)
    also = ((begun, context),) if context and begun != at else ()
    return Problem(f"this is not YAML: {message}", at, also=also)


def explain_character(error: yaml.reader.ReaderError, source: Source) -> Problem:
    code = ord(source.text[error.position])
    escape = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    span = source.span(error.position, error.position + 1)
    return Problem(f"the character U+{code:04X} is not allowed in YAML", span, f"in double quotes, write {escape}")


def _point(source: Source, mark: yaml.Mark | None) -> Span:
    offset = min(mark.index, len(source.text)) if mark else 0
    return source.span(offset, min(offset + 1, len(source.text)))


_Maker: TypeAlias = Callable[[str, Span, Span], Problem]


def _character(message: str, at: Span, begun: Span) -> Problem:
    if at.text == "\t":
        return Problem("a tab cannot indent YAML", at, "use spaces")
    return Problem(f"a value cannot start with {quote(at.text)}", at, notes=(QUOTE_IT,))


def _unclosed_collection(message: str, at: Span, begun: Span) -> Problem:
    what, close = ("list", "]") if "']'" in message else ("mapping", "}")
    if "<stream end>" in message:
        return Problem(f"this {what} is never closed", begun, f"'{close}' is missing")
    return Problem(f"expected ',' or '{close}' here", at, also=((begun, f"the {what} starts here"),))


def _key_not_here(message: str, at: Span, begun: Span) -> Problem:
    second = re.search(r":\s", _before(at))
    ways = ("write one `key: value` on a line, indented like its neighbours", "text that holds ': ' needs quotes")
    return Problem(
        "a key is not allowed here", at, "" if second else "check the indentation, and the ':' of the line above", ways
    )


def _before(at: Span) -> str:
    return at.source.line(at.line)[: at.column - 1]


def _no_colon(message: str, at: Span, begun: Span) -> Problem:
    rest = begun.source.line(begun.line)[begun.column - 1 :]
    written = re.split(r"\s#", rest)[0].rstrip()
    span = begun.source.span(begun.start, begun.start + max(1, len(written)))
    return Problem("expected `key: value` here", span, "':' is missing")


def _indentation(message: str, at: Span, begun: Span) -> Problem:
    if _before(at).strip():
        return Problem(MORE_TEXT, at, CHECK_QUOTES)
    also = ((begun, "it would belong to what starts here"),) if begun.line != at.line else ()
    return Problem("this line does not continue what precedes it", at, "check the indentation", also=also)


def _alias(message: str, at: Span, begun: Span) -> Problem:
    sign, what = ("*", "alias") if begun.text == "*" else ("&", "anchor")
    return Problem(f"'{sign}' starts an {what}, but no name follows", begun, notes=(QUOTE_IT,))


_KNOWN: Final[tuple[tuple[str, _Maker], ...]] = (
    (r"that cannot start any token", _character),
    (r"expected ',' or '[\]}]'", _unclosed_collection),
    (r"mapping (keys|values) are not allowed here", _key_not_here),
    (
        r"sequence entries are not allowed here",
        lambda message, at, begun: Problem("a list item is not allowed here", at, OWN_LINE),
    ),
    (r"could not find expected ':'", _no_colon),
    (r"expected <block end>", _indentation),
    (
        r"quoted scalar; found unexpected (end of stream|document separator)",
        lambda message, at, begun: Problem("this quote is never closed", begun),
    ),
    (
        r"double-quoted scalar; (found unknown escape|expected escape)",
        lambda message, at, begun: Problem("unknown escape in double quotes", at, BACKSLASH),
    ),
    (r"scanning an? (alias|anchor)", _alias),
    (r"block scalar", lambda message, at, begun: Problem("after '|' or '>' the text starts on the next line", at)),
    (r"tag", lambda message, at, begun: Problem("tags ('!…') are not supported", begun, notes=(QUOTE_IT,))),
    (
        r"directive|YAML document",
        lambda message, at, begun: Problem("directives ('%…') are not supported", begun, notes=(QUOTE_IT,)),
    ),
    (
        r"expected the node content",
        lambda message, at, begun: Problem(
            "a value is missing here", at, "is a bracket left open?" if "<stream end>" in message else ""
        ),
    ),
    (r"expected '<document start>'", lambda message, at, begun: Problem(MORE_TEXT, at, CHECK_QUOTES)),
)
"""The first pattern that matches `context; problem` of PyYAML's scanner or parser decides."""
