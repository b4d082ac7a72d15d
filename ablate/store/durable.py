"""Files that are wholly there or not at all, and what to say when the disk refuses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ablate.errors import RefusedError

UNFINISHED = ".new"
"""How the name of a file ends until it is whole. Whoever holds the lock may delete what is left of one."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into a RefusedError that names `path` and the way out."""
    try:
        yield
    except OSError as error:
        raise RefusedError(
            f"cannot write {path}: {error.strerror or error}\n"
            "  = free space or permission there, or choose another folder with --results"
        ) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path` so that a crash at any moment leaves the old file or the new one."""
    unfinished = path.with_name(path.name + UNFINISHED)
    with writing(path):
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        put_in_place(unfinished, path)


def put_in_place(unfinished: Path, path: Path) -> None:
    """Rename over `path` in one step; whoever has the old file open keeps it."""
    unfinished.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
