"""Files that are wholly there or not at all, and what to say when the disk refuses."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ablate.errors import InputError, RefusedError

UNFINISHED = ".new"
"""How the name of a file ends until it is whole. Whoever holds the lock may delete what is left of one."""

DAMAGED = "damaged"
"""The folder, in a results folder, for what was found damaged: nothing of the user's is deleted."""


UNREADABLE = {"?": "options", "\\": "another separator of folders"}
"""What may not be in the path of a results folder, and what DuckDB takes it for."""


def check_folder(folder: Path) -> None:
    """InputError for a results folder whose path DuckDB would read otherwise than it is meant."""
    for letter, taken_for in UNREADABLE.items():
        if letter in str(folder.absolute()):
            raise InputError(
                f"a folder of results cannot have {letter} in its path: {folder.absolute()}\n"
                f"  = DuckDB, which keeps the tables, takes it for {taken_for}: choose another folder with --results"
            )


@contextmanager
def writing(path: Path, option: str = "--results") -> Iterator[None]:
    """Turn what the operating system refuses into a RefusedError that names `path` and the way out; `option` is what
    names its folder on the command line.
    """
    try:
        yield
    except OSError as error:
        raise RefusedError(
            f"cannot write {path}: {error.strerror or error}\n"
            f"  = free space or permission there, or choose another folder with {option}"
        ) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """The same for reading; that there is no such file is for the caller to know what to do about."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RefusedError(
            f"cannot read {path}: {error.strerror or error}\n"
            "  = give permission to read it, look after that disk, or name another folder with --results"
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
            unfinished.unlink(missing_ok=True)  # half a file is of no use, and the disk may be full
            raise


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


def unfinished_in(folder: Path) -> list[Path]:
    """What a writer that died had not put in place, DuckDB's folders for spilled rows included."""
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if UNFINISHED in entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def remove(path: Path) -> None:
    """Delete a file or a folder of temporary files."""
    with writing(path):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def set_aside(folder: Path, path: Path) -> Path:
    """Move a damaged file of the results folder `folder` to `<folder>/damaged/`, under a name that is free there."""
    place = _free_place(folder, path)
    with writing(place):
        path.rename(place)
        sync_folder(place.parent)
        sync_folder(path.parent)
    return place


def copy_aside(folder: Path, path: Path) -> Path:
    """Copy a file there that is going to be mended."""
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
