"""What stands around the results: who was here last, whether there is room, what is kept, and clocks set back."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ablate.store import lock, sealed
from ablate.store.durable import DAMAGED
from ablate.store.ending import Ending
from ablate.store.projection import DATABASE
from ablate.store.repair.report import Finding
from ablate.store.repair.sealed_trials import named

SPACE_LOW = 256 * 2**20
"""Bytes free below which it is said."""


def killed(folder: Path) -> Iterator[Finding]:
    """Who was killed before giving the lock back; asked before the lock is taken, which overwrites that."""
    if who := lock.left(folder):
        what = f"was not given back: a run was killed ({who})"
        yield Finding("killed", "harmless", what, folder / "lock", "holds nobody up")


def notes(folder: Path) -> Iterator[Finding]:
    """Room, and what earlier repairs have kept."""
    free, database = shutil.disk_usage(folder).free, folder / DATABASE
    needed = max(SPACE_LOW, database.stat().st_size if database.exists() else 0)
    if free < needed:
        what = f"has {free / 2**20:.0f} MiB free; bringing {DATABASE} up to date takes up to {needed / 2**20:.0f}"
        yield Finding("space", "harmless", what, folder, "free some")
    if kept := sorted((folder / DAMAGED).glob("*")):
        what = f"keeps {len(kept)} {'files that were' if len(kept) > 1 else 'file that was'} damaged ({kept[0].name}…)"
        yield Finding("kept", "harmless", what, folder / DAMAGED, "delete them when you no longer want them")


def clocks(folder: Path, endings: Iterable[Ending]) -> Iterator[Finding]:
    """Trials that ended before they began."""
    backwards = [ending.trial_id for ending in endings if ending.ended < ending.began]
    if backwards:
        what = f"{named(backwards)} ended before it began: a clock was set back"
        yield Finding("clock", "harmless", what, folder / sealed.FOLDER, "nothing is ordered by clocks")
