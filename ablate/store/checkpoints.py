"""Where a trial that has not ended can continue from: `checkpoints/<trial>.<step>.pt`.

The training worker writes its states here, so on a cluster all nodes must share the folder. A state is written
completely before the driver's segment says so, and the one before it is deleted only after that; so at any moment the
last checkpoint that the segment names exists.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from ablate.store.durable import write_whole, writing
from ablate.train.events import Checkpoint, Saved

FOLDER = "checkpoints"
NAME = re.compile(r"(?P<trial>.+)\.(?P<step>\d+)\.pt")


def write(folder: Path, trial_id: str, checkpoint: Checkpoint) -> Saved:
    """Write the state to the disk, completely or not at all."""
    with writing(folder / FOLDER):
        (folder / FOLDER).mkdir(exist_ok=True)
    write_whole(_path(folder, trial_id, checkpoint.step), checkpoint.state)
    return Saved(checkpoint.step, zlib.crc32(checkpoint.state), len(checkpoint.state))


def read(folder: Path, trial_id: str, saved: Saved) -> bytes | None:
    """Read the saved state; None if the file is gone or has changed since it was written."""
    try:
        state = _path(folder, trial_id, saved.step).read_bytes()
    except FileNotFoundError:
        return None
    return state if len(state) == saved.size and zlib.crc32(state) == saved.crc else None


def steps(folder: Path, trial_id: str) -> tuple[int, ...]:
    names = (NAME.fullmatch(path.name) for path in _states(folder, trial_id))
    return tuple(sorted(int(name["step"]) for name in names if name))


def drop(folder: Path, trial_id: str, *, keep: int | None = None, before: int | None = None) -> None:
    """Delete a trial's states: all, or all but that of step `keep`, or those `before` a step.

    While a worker has the trial, delete only older states: it may have written a newer one than its driver knows of.
    """
    for step in steps(folder, trial_id):
        if step != keep and (before is None or step < before):
            _path(folder, trial_id, step).unlink(missing_ok=True)


def trials(folder: Path) -> set[str]:
    names = (NAME.fullmatch(path.name) for path in (folder / FOLDER).glob("*.pt"))
    return {name["trial"] for name in names if name}


def _states(folder: Path, trial_id: str) -> Iterator[Path]:
    return (folder / FOLDER).glob(f"{trial_id}.*.pt")


def _path(folder: Path, trial_id: str, step: int) -> Path:
    return folder / FOLDER / f"{trial_id}.{step}.pt"
