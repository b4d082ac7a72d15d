"""Dotted keys of a space: their words, each at its place, and documents that hold one value at such a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.source.located import Located, Mapping, Scalar


def words_of(key: Scalar) -> Iterator[Scalar]:
    """Yield the words of a dotted key, each at its place."""
    start = 0
    for word in key.text.split("."):
        yield Scalar(word, word, key.within(start, start + len(word)))
        start += len(word) + 1


def document_with(path: Sequence[Scalar], value: Located) -> Mapping:
    """Return a document with a value at a path, and nothing else."""
    *outer, last = path
    document = Mapping(((last, value),), value.span)
    for step in reversed(outer):
        document = Mapping(((step, document),), value.span)
    return document
