"""Which unquoted words are numbers, booleans or null: the core schema of YAML 1.2.2 (section 10.3.2), and no more.

`1e-6` is a number, `off`, `yes`, `2024-01-01` and `1:30` are text, `0o17` is fifteen and `017` seventeen.
A number that a float cannot hold (`1e999`, `1e-999`) is refused: read as infinity or zero it would be another value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from ablate.source.located import Atom

LARGEST: Final = 10**300
"""The bound of whole numbers, below which each one converts to a float and prints."""

NO_TAGS: Final = "tags ('!…') are not supported, except !!str, !!int, !!float, !!bool and !!null"
_TAG = "tag:yaml.org,2002:"


class ValueProblem(ValueError):
    """A scalar without a valid value; the text says why."""


def _null(text: str) -> None:
    return None


def _bool(text: str) -> bool:
    return text.lower() == "true"


def _int(text: str) -> int:
    # Check the length first: Python refuses to convert more than 4300 decimal digits.
    if len(text) > 400 or abs(value := int(text.lstrip("+"), 0 if text[:2] in ("0o", "0x") else 10)) >= LARGEST:
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
    ("null", re.compile(r"(?:null|Null|NULL|~|)"), _null),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)"), _bool),
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
    name = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
    if name == "str":
        return text
    for kind, pattern, convert in _KINDS:
        if kind == name:
            if not pattern.fullmatch(text):
                raise ValueProblem(f"this is not {_NAMES[kind]}, though its tag is !!{name}")
            return convert(text)
    raise ValueProblem(NO_TAGS)


def is_collection_tag(tag: str) -> bool:
    """Return whether a tag is the default one of a mapping or a list."""
    return tag in (_TAG + "map", _TAG + "seq")
