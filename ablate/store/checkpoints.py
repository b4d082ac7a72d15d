"""Where a trial that has not ended can go on from: `checkpoints/<trial>.<step>.pt`.

A state is written whole before the segment says so, and the one before it goes only after that; so at any moment the
last checkpoint that the segment names is there.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from ablate.store.durable import write_whole, writing
from ablate.store.segment import Mark
from ablate.train.events import Checkpoint

FOLDER = "checkpoints"


def write(folder: Path, trial_id: str, checkpoint: Checkpoint) -> tuple[int, int]:
    """Put the state on the disk; its CRC-32 and length."""
    with writing(folder / FOLDER):
        (folder / FOLDER).mkdir(exist_ok=True)
    write_whole(_path(folder, trial_id, checkpoint.step), checkpoint.state)
    return zlib.crc32(checkpoint.state), len(checkpoint.state)


def read(folder: Path, trial_id: str, mark: Mark) -> Checkpoint | None:
    """The state that a mark names; None if the file is gone or is not what was written."""
    try:
        state = _path(folder, trial_id, mark.step).read_bytes()
    except FileNotFoundError:
        return None
    whole = len(state) == mark.size and zlib.crc32(state) == mark.crc
    return Checkpoint(mark.step, state) if whole else None


def steps(folder: Path, trial_id: str) -> tuple[int, ...]:
    """The steps a trial has states of, in order."""
    return tuple(sorted(int(path.suffixes[-2][1:]) for path in _states(folder, trial_id)))


def drop(folder: Path, trial_id: str, keep: int | None = None) -> None:
    """Delete a trial's states but that of step `keep`."""
    for path in list(_states(folder, trial_id)):
        if keep is None or path != _path(folder, trial_id, keep):
            path.unlink(missing_ok=True)


def trials(folder: Path) -> set[str]:
    """The trials that have a state."""
    return {path.name.rsplit(".", 2)[0] for path in (folder / FOLDER).glob("*.pt")}


def _states(folder: Path, trial_id: str) -> Iterator[Path]:
    return (folder / FOLDER).glob(f"{trial_id}.*.pt")


def _path(folder: Path, trial_id: str, step: int) -> Path:
    return folder / FOLDER / f"{trial_id}.{step}.pt"
