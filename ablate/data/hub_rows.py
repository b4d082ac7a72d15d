"""Rows of a data set of the Hugging Face hub, streamed in its own order, and the error where they cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ablate.data.refusal import CORPUS, CorpusError, CorpusFault
from ablate.source.problems import quote, suggest


def hub_rows(name: str, config: str | None, split: str, *, corpus: str, instead: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of one split. Raises CorpusError, located at the setting `corpus`, if the hub cannot be read.

    `instead` is how a space names a corpus that needs no network.
    """
    from datasets import load_dataset

    try:
        yield from load_dataset(name, config, split=split, streaming=True)
    except (OSError, ValueError, RuntimeError) as error:  # no network, no such set or split; a set that is a script
        message = f"cannot read split {quote(split)} of {quote(name)}: {error}"
        notes = (
            "a hub data set needs a network, the right name and split, and access on the hub",
            f"without a network: {instead}",
        )
        raise CorpusError([CorpusFault(message, (*CORPUS, corpus), notes=notes)]) from error


def without_field(name: str, field: str, row: Mapping[str, Any], setting: str) -> CorpusFault:
    """Return the fault that a row of a data set lacks a field, with the fields it has, at the setting that names it."""
    label, notes = suggest(field, row) or "", (f"its fields: {', '.join(sorted(row))}",)
    return CorpusFault(f"{quote(name)} has no field {quote(field)}", (*CORPUS, setting), label, notes)
