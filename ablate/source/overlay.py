"""One document laid over another: profiles over a space, a space over its grammar's defaults, `--set path=value`."""

from __future__ import annotations

import re
from typing import Final, NoReturn, overload

from ablate.source.compose import MAX_DEPTH, compose
from ablate.source.located import Located, Mapping, Scalar, Source, Span
from ablate.source.problems import Problems

SET: Final = "--set"
"""The name of a source that is an argument of the command line."""

_KEY = re.compile(r""""(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^.='"\s]+)""")


@overload
def overlay(base: Located, over: Mapping) -> Mapping: ...
@overload
def overlay(base: Located, over: Located) -> Located: ...
def overlay(base: Located, over: Located) -> Located:
    """Lay `over` over `base`: mappings merge key by key, else `over` wins; every value keeps its place in the source.

    A list, and an explicit null, replace what was there. Keys of `base` come first, in its order.
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


def set_path(base: Located, argument: str) -> Mapping:
    """Lay one argument of `--set` over `base`, such as `recipe.steps=20`.

    A dot goes one mapping down, unless `base` has a key that contains the dot (`attention.position`): then the longest
    such key is meant. A key in quotes is taken literally. InputError points into the argument.
    """
    return overlay(base, read_setting(argument, base))


def read_setting(argument: str, base: Located | None = None) -> Mapping:
    """Read an argument of `--set` as a document of its own: mappings down to the value, which is read as YAML."""
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
        _refuse("expected `path=value`", source.span(at, at + 1), "expected '='" if match else "expected a key here")
    if len(keys) > MAX_DEPTH:
        _refuse(f"a path has at most {MAX_DEPTH} keys", keys[MAX_DEPTH].span)
    if not text[at + 1 :].strip():
        _refuse("no value is given", source.span(at, at + 1), "write null to leave it empty")
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


def _refuse(message: str, span: Span, label: str = "") -> NoReturn:
    problems = Problems()
    problems.add(message, span, label=label, notes=(f"such as {SET} recipe.steps=20",))
    problems.raise_if_any()
    raise AssertionError("refused without a problem")
