"""Dotted keys of a space: their words, each at its place, their values, and documents that hold one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ablate.source.located import Located, Mapping, Scalar
from ablate.source.problems import Problems


def words_of(key: Scalar) -> Iterator[Scalar]:
    """Yield the words of a dotted key, each at its place."""
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
    """Yield the words, the last key and the value of every address in nested mappings, down to values that are none.

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
    """Return a document with a value at a path, and nothing else."""
    *outer, last = path
    document = Mapping(((last, value),), value.span)
    for step in reversed(outer):
        document = Mapping(((step, document),), value.span)
    return document
