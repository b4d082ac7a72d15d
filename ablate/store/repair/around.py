"""The surroundings of the results: killed runs, free disk space, kept files, and clocks set back."""

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
"""Free bytes below which a finding is reported."""


def killed(folder: Path) -> Iterator[Finding]:
    """Report a run killed before releasing the lock; call it before taking the lock, which overwrites that."""
    if who := lock.left(folder):
        what = f"was not released: a run was killed ({who})"
        yield Finding("killed", "harmless", what, folder / "lock", "blocks nobody")


def notes(folder: Path) -> Iterator[Finding]:
    """Report low disk space, and the files that earlier repairs have kept."""
    free, database = shutil.disk_usage(folder).free, folder / DATABASE
    needed = max(SPACE_LOW, database.stat().st_size if database.exists() else 0)
    if free < needed:
        what = f"has {free / 2**20:.0f} MiB free; bringing {DATABASE} up to date needs up to {needed / 2**20:.0f}"
        yield Finding("space", "harmless", what, folder, "free some space")
    if kept := sorted((folder / DAMAGED).glob("*")):
        what = f"contains {len(kept)} damaged {'files' if len(kept) > 1 else 'file'} ({kept[0].name}…)"
        yield Finding("kept", "harmless", what, folder / DAMAGED, "delete them when you no longer need them")


def clocks(folder: Path, endings: Iterable[Ending]) -> Iterator[Finding]:
    """Report trials that ended before they began."""
    backwards = [ending.trial_id for ending in endings if ending.ended < ending.began]
    if backwards:
        what = f"{named(backwards)} ended before it began: a clock was set back"
        yield Finding("clock", "harmless", what, folder / sealed.FOLDER, "nothing depends on it")
