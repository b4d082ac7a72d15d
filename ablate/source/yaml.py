"""YAML from a file or a text as located values, and one document laid over another."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Final, overload

from ablate.errors import InputError
from ablate.source.compose import MAX_DEPTH, compose
from ablate.source.located import Located, Mapping, Scalar, Source, Span
from ablate.source.problems import quote, refusal, suggest

MAX_BYTES: Final = 1 << 20


def read_yaml(path: str | Path) -> Located:
    """Read the one document in a file; InputError shows what is wrong with it, or why it cannot be read."""
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise refusal(f"cannot read {quote(name)}: {reason(error)}", label=neighbour(Path(path), error)) from None
    if len(data) > MAX_BYTES:
        raise refusal(f"{quote(name)} is larger than 1 MiB", notes=("a grammar or a space is a few pages of text",))
    return parse_yaml(_decode(data, name), name)


def is_file(path: Path) -> bool:
    """Return whether a file exists; False for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a name, a loop of links, a null character
        return False


def parse_yaml(text: str, name: str = "text") -> Located:
    """Read the one document in a text, which messages call `name`; InputError shows what is wrong with it.

    >>> from ablate.source.located import to_python
    >>> to_python(parse_yaml("lr: 3e-4"))
    {'lr': 0.0003}
    """
    if len(text) > MAX_BYTES:
        raise refusal(f"{quote(name)} is larger than 1 MiB", notes=("a grammar or a space is a few pages of text",))
    return _composed(name, text.removeprefix("\N{BYTE ORDER MARK}"))


@functools.lru_cache(maxsize=64)
def _composed(name: str, text: str) -> Located:
    """Compose a text, cached: one process reads a grammar and its files many times, and the values are frozen."""
    return compose(Source(name, text))


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        source = Source(name, data.decode("utf-8", "replace"))
        start = len(data[: error.start].decode("utf-8"))
        utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        notes = ("it looks like UTF-16: save it as UTF-8",) if utf16 else ("save the file as UTF-8",)
        message = f"this is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        raise refusal(message, source.span(start, start + 1), notes=notes) from None


def reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error)


def neighbour(path: Path, error: OSError | ValueError) -> str:
    """Suggest the file that a misspelt name most likely means."""
    if not isinstance(error, FileNotFoundError):
        return ""
    try:
        return suggest(path.name, (entry.name for entry in path.parent.iterdir())) or ""
    except OSError:  # the folder is missing too, or may not be listed
        return ""


# One document laid over another: profiles over a space, a space over its grammar's defaults, `--set path=value`.

SET: Final = "--set"  # the name of a source that is an argument of the command line

_KEY = re.compile(r""""(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^.='"\s]+)""")


@overload
def overlay(base: Located, over: Mapping) -> Mapping: ...
@overload
def overlay(base: Located, over: Located) -> Located: ...
def overlay(base: Located, over: Located) -> Located:
    """Lay `over` over `base`, whose keys come first: mappings merge, all else (lists and null too) is replaced.

    Every value keeps its place in the source.
    """
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return over
    entries = [_merged(key, value, over) for key, value in base.entries]
    entries += [(key, value) for key, value in over.entries if key.value not in base]
    return Mapping(tuple(entries), base.span)


def _merged(key: Scalar, value: Located, over: Mapping) -> tuple[Scalar, Located]:
    if key.value not in over:
        return key, value
    winner = over[key.value]
    both_merge = isinstance(value, Mapping) and isinstance(winner, Mapping)
    return (key if both_merge else over.key(key.value)), overlay(value, winner)


def read_setting(argument: str, base: Located | None = None) -> Mapping:
    """Read an argument of `--set`, such as `recipe.steps=20`, as a document of its own, to lay over `base`.

    A dot goes one mapping down, unless it is in a key of `base` (`attention.position`), of which the longest is meant.
    A key in quotes is taken literally. InputError points into the argument.
    """
    source = Source(SET, argument)
    keys, start = _read_keys(source)
    *outer, last = _join(keys, base)
    document = _under(last, compose(source, start))
    for key in reversed(outer):
        document = _under(key, document)
    return document


def _under(key: Scalar, value: Located) -> Mapping:
    source = key.span.source
    return Mapping(((key, value),), source.span(key.span.start, len(source.text)))


def _read_keys(source: Source) -> tuple[list[Scalar], int]:
    text, at = source.text, 0
    keys: list[Scalar] = []
    while match := _KEY.match(text, at):
        keys.append(Scalar(match[match.lastgroup or 0], match[match.lastgroup or 0], source.span(*match.span())))
        at = match.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    if not match or text[at : at + 1] != "=":
        raise _wrong_setting(
            "expected `path=value`", source.span(at, at + 1), "expected '='" if match else "expected a key here"
        )
    if len(keys) > MAX_DEPTH:
        raise _wrong_setting(f"a path has at most {MAX_DEPTH} keys", keys[MAX_DEPTH].span)
    if not text[at + 1 :].strip():
        raise _wrong_setting("no value is given", source.span(at, at + 1), "write null to leave it empty")
    return keys, at + 1


def _join(keys: list[Scalar], base: Located | None) -> list[Scalar]:
    """Join the parts of keys that contain dots, taking the longest key that `base` has."""
    joined: list[Scalar] = []
    while keys:
        taken = next((n for n in range(len(keys), 1, -1) if _has(base, keys[:n])), 1)
        key = _joined(keys[:taken])
        joined.append(key)
        keys = keys[taken:]
        base = base.get(key.value) if isinstance(base, Mapping) else None
    return joined


def _has(base: Located | None, keys: list[Scalar]) -> bool:
    return isinstance(base, Mapping) and ".".join(key.text for key in keys) in base


def _joined(keys: list[Scalar]) -> Scalar:
    name = ".".join(key.text for key in keys)
    return Scalar(name, name, keys[0].span.source.span(keys[0].span.start, keys[-1].span.end))


def _wrong_setting(message: str, span: Span, label: str = "") -> InputError:
    return refusal(message, span, label=label, notes=(f"such as {SET} recipe.steps=20",))
