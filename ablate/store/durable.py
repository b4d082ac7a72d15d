"""Files that are complete or absent, and the errors of a disk that refuses."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ablate.errors import InputError, RefusedError

UNFINISHED = ".new"
"""Marks the name of a file that is not complete. Whoever holds the lock may delete leftover ones."""

DAMAGED = "damaged"
"""The folder, within a results folder, for damaged files: nothing of the user's is deleted."""


UNREADABLE = {"?": "options", "\\": "another path separator"}
"""Characters that the path of a results folder may not have, and what DuckDB takes them for."""


def check_folder(folder: Path) -> None:
    """Raise InputError for a results folder whose path DuckDB would misread, RefusedError if it cannot be read."""
    for letter, taken_for in UNREADABLE.items():
        if letter in str(folder.absolute()):
            raise InputError(
                f"the path of a results folder cannot contain {letter}: {folder.absolute()}\n"
                f"  = DuckDB, which keeps the tables, takes it for {taken_for}: choose another folder with --results"
            )
    try:
        os.scandir(folder).close()
        (folder / DAMAGED).stat()  # raises another error than that it is not there if the folder may not be entered
    except FileNotFoundError:
        return
    except OSError as error:
        raise RefusedError(
            f"cannot use {folder} as a results folder: {error.strerror}\n  = choose another folder with --results"
        ) from None


@contextmanager
def writing(path: Path, option: str = "--results") -> Iterator[None]:
    """Turn errors of the system into a RefusedError that names `path`, and `option`, which names another folder."""
    try:
        yield
    except OSError as error:
        raise RefusedError(
            f"cannot write {path}: {error.strerror or error}\n"
            f"  = free space or permission there, or choose another folder with {option}"
        ) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Do the same for reading, except for a missing file, which the caller handles."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RefusedError(
            f"cannot read {path}: {error.strerror or error}\n"
            "  = give permission to read it, check that disk, or name another folder with --results"
        ) from error


def write_whole(path: Path, content: bytes, option: str = "--results") -> None:
    """Write `content` to `path` so that a crash at any moment leaves the old file or the new one."""
    unfinished = path.with_name(path.name + UNFINISHED)
    with writing(path, option):
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            put_in_place(unfinished, path)
        except OSError:
            unfinished.unlink(missing_ok=True)  # half a file is useless, and the disk may be full
            raise


def put_in_place(unfinished: Path, path: Path) -> None:
    """Rename over `path` atomically; processes that have the old file open keep it."""
    unfinished.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unfinished_in(folder: Path) -> list[Path]:
    """Return the unfinished files that a dead writer left, DuckDB's folders for spilled rows included."""
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if UNFINISHED in entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def remove(path: Path) -> None:
    with writing(path):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def set_aside(folder: Path, path: Path) -> Path:
    """Move a damaged file of the results folder `folder` to `<folder>/damaged/`, under a free name."""
    place = _free_place(folder, path)
    with writing(place):
        path.rename(place)
        sync_folder(place.parent)
        sync_folder(path.parent)
    return place


def copy_aside(folder: Path, path: Path) -> Path:
    """Copy a file that is about to be repaired to the same place."""
    place = _free_place(folder, path)
    write_whole(place, path.read_bytes())
    return place


def _free_place(folder: Path, path: Path) -> Path:
    with writing(folder / DAMAGED):
        (folder / DAMAGED).mkdir(exist_ok=True)
    place, number = folder / DAMAGED / path.name, 1
    while place.exists():
        number += 1
        place = folder / DAMAGED / f"{path.stem}.{number}{path.suffix}"
    return place
