"""The errors of the YAML parser in plain words: the message, the place that is wrong, and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import yaml

from ablate.source.located import Source, Span
from ablate.source.problems import Problem, quote

QUOTE_IT: Final = "if this is text, put it in quotes"


def explain(error: yaml.MarkedYAMLError, source: Source) -> Problem:
    """Return a parser's or scanner's error as a Problem."""
    message, context = error.problem or "", error.context or ""
    at = _point(source, error.problem_mark or error.context_mark)
    begun = _point(source, error.context_mark) if error.context_mark else at
    for pattern, make in _KNOWN:
        if re.search(pattern, f"{context}; {message}"):
            return make(message, at, begun)
    also = ((begun, context),) if context and begun != at else ()
    return Problem(f"this is not YAML: {message}", at, also=also)


def explain_character(error: yaml.reader.ReaderError, source: Source) -> Problem:
    """Return the problem of a character that YAML does not allow anywhere."""
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


def _item_not_here(message: str, at: Span, begun: Span) -> Problem:
    return Problem("a list item is not allowed here", at, "start the list on a line of its own, or write [a, b]")


def _no_colon(message: str, at: Span, begun: Span) -> Problem:
    rest = begun.source.line(begun.line)[begun.column - 1 :]
    written = re.split(r"\s#", rest)[0].rstrip()
    span = begun.source.span(begun.start, begun.start + max(1, len(written)))
    return Problem("expected `key: value` here", span, "':' is missing")


def _indentation(message: str, at: Span, begun: Span) -> Problem:
    if _before(at).strip():
        return _more_text(message, at, begun)
    also = ((begun, "it would belong to what starts here"),) if begun.line != at.line else ()
    return Problem("this line does not continue what precedes it", at, "check the indentation", also=also)


def _unclosed_quote(message: str, at: Span, begun: Span) -> Problem:
    return Problem("this quote is never closed", begun)


def _escape(message: str, at: Span, begun: Span) -> Problem:
    return Problem("unknown escape in double quotes", at, "in single quotes a backslash is only a backslash")


def _alias(message: str, at: Span, begun: Span) -> Problem:
    sign, what = ("*", "alias") if begun.text == "*" else ("&", "anchor")
    return Problem(f"'{sign}' starts an {what}, but no name follows", begun, notes=(QUOTE_IT,))


def _block_text(message: str, at: Span, begun: Span) -> Problem:
    return Problem("after '|' or '>' the text starts on the next line", at)


def _tag(message: str, at: Span, begun: Span) -> Problem:
    return Problem("tags ('!…') are not supported", begun, notes=(QUOTE_IT,))


def _directive(message: str, at: Span, begun: Span) -> Problem:
    return Problem("directives ('%…') are not supported", begun, notes=(QUOTE_IT,))


def _no_value(message: str, at: Span, begun: Span) -> Problem:
    return Problem("a value is missing here", at, "is a bracket left open?" if "<stream end>" in message else "")


def _more_text(message: str, at: Span, begun: Span) -> Problem:
    return Problem("this does not belong to what precedes it", at, "check the quotes and brackets")


_KNOWN: Final[tuple[tuple[str, _Maker], ...]] = (
    (r"that cannot start any token", _character),
    (r"expected ',' or '[\]}]'", _unclosed_collection),
    (r"mapping (keys|values) are not allowed here", _key_not_here),
    (r"sequence entries are not allowed here", _item_not_here),
    (r"could not find expected ':'", _no_colon),
    (r"expected <block end>", _indentation),
    (r"quoted scalar; found unexpected (end of stream|document separator)", _unclosed_quote),
    (r"double-quoted scalar; (found unknown escape|expected escape)", _escape),
    (r"scanning an? (alias|anchor)", _alias),
    (r"block scalar", _block_text),
    (r"tag", _tag),
    (r"directive|YAML document", _directive),
    (r"expected the node content", _no_value),
    (r"expected '<document start>'", _more_text),
)
"""The first pattern that matches `context; problem` of PyYAML's scanner or parser decides."""
