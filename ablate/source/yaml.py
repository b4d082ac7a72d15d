"""YAML from a file or a text as located values: `read_yaml`, `parse_yaml`, and the types of the values."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final, NoReturn

from ablate.source.compose import MAX_DEPTH, MAX_NODES, compose
from ablate.source.located import Atom, Items, Located, Mapping, Scalar, Source, Span, to_python
from ablate.source.overlay import overlay, set_path
from ablate.source.problems import Problems, quote, suggest

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "Atom",
    "Items",
    "Located",
    "Mapping",
    "Scalar",
    "Source",
    "Span",
    "compose",
    "is_file",
    "overlay",
    "parse_yaml",
    "read_yaml",
    "set_path",
    "to_python",
]

MAX_BYTES: Final = 1 << 20
"""The largest file, 1 MiB."""


def read_yaml(path: str | Path) -> Located:
    """Read the one document in a file; InputError shows what is wrong with it, or why it cannot be read."""
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        _refuse(f"cannot read {quote(name)}: {reason(error)}", label=neighbour(Path(path), error))
    if len(data) > MAX_BYTES:
        _refuse(f"{quote(name)} is larger than 1 MiB", notes=("a grammar or a space is a few pages of text",))
    return parse_yaml(_decode(data, name), name)


def is_file(path: Path) -> bool:
    """Return whether a file exists; False for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a name, a loop of links, a null character
        return False


def parse_yaml(text: str, name: str = "text") -> Located:
    """Read the one document in a text, which messages call `name`; InputError shows what is wrong with it.

    >>> to_python(parse_yaml("lr: 3e-4"))
    {'lr': 0.0003}
    """
    if len(text) > MAX_BYTES:
        _refuse(f"{quote(name)} is larger than 1 MiB", notes=("a grammar or a space is a few pages of text",))
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
        _refuse(message, source.span(start, start + 1), notes=notes)


def reason(error: OSError | ValueError) -> str:
    """Return why a file cannot be read, as the end of a message."""
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


def _refuse(message: str, span: Span | None = None, *, label: str = "", notes: tuple[str, ...] = ()) -> NoReturn:
    problems = Problems()
    problems.add(message, span, label=label, notes=notes)
    problems.raise_if_any()
    raise AssertionError("refused without a problem")
