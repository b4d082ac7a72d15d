"""Damaged token streams, which are rebuilt from the texts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ablate.data import cache
from ablate.store.durable import DAMAGED, set_aside
from ablate.store.repair.faults import Fault
from ablate.store.repair.report import Finding

FOLDER = "corpus"
"""The folder, in a results folder, for token streams (see `ablate.data.cache`)."""


def faults(folder: Path) -> Iterator[Fault]:
    """Find the damaged files of the cache; every byte is read."""
    for path, what in cache.faults(folder / FOLDER):
        remedy = f"kept in {DAMAGED}; rebuilt from the texts by the next run that reads them"
        changes = (path, path.with_suffix(".json"))
        finding = Finding("corpus", "repaired", what, path, remedy, changes=changes)
        yield Fault((finding,), partial(_put_aside, folder, changes))


def _put_aside(folder: Path, paths: tuple[Path, ...]) -> str:
    for path in dict.fromkeys(paths):
        if path.exists():
            set_aside(folder, path)
    return ""
