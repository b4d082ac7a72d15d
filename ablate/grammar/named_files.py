"""Finds a grammar or a space by its name: among the user's own files, else among those that ship with `ablate`.

A name is a word such as `op_vs_preln`; anything that ends in `.yaml` or names a folder is a path, and means that file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias

from ablate.errors import InputError
from ablate.source.problems import Problems, quote, shorten, suggest, unknown
from ablate.source.yaml import is_file

Kind: TypeAlias = Literal["grammar", "space"]

SUFFIXES = (".yaml", ".yml")
WAYS_OUT = {
    "grammar": "--grammar takes a file, or `transformer`, which ships with ablate",
    "space": "`ablate init` writes one to start from; `ablate init --example NAME` copies a shipped one",
}


def shipped_files(kind: Kind) -> dict[str, Path]:
    """Return the shipped grammars or spaces by name: in a wheel inside the package, in a clone beside it."""
    package = Path(__file__).resolve().parents[1]
    inside = package / f"{kind}s"
    folder = inside if inside.is_dir() else package.parent / f"{kind}s"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def own_files(kind: Kind) -> dict[str, Path]:
    """Return the user's own, by name: from `grammars/`, or from `spaces/` and then the working directory itself."""
    files: dict[str, Path] = {}
    for folder in (Path(f"{kind}s"), *((Path(),) if kind == "space" else ())):
        for path in sorted(path for suffix in SUFFIXES for path in folder.glob(f"*{suffix}")):
            files.setdefault(path.stem, path)
    return files


def is_shipped(path: Path, kind: Kind) -> bool:
    return path.resolve() in {shipped.resolve() for shipped in shipped_files(kind).values()}


def find_file(named: str | Path, *kinds: Kind) -> Path:
    """Find the file that a path or a name means; InputError, with the nearest names, if there is none.

    A file of exactly that name comes first, then the user's own by name, then the shipped ones. Of several `kinds`, the
    first that has the name counts. Whether a path can be read is left to the caller.
    """
    path = Path(named)
    if is_file(path):
        return path
    if is_name(path):
        for files in (own_files, shipped_files):
            for kind in kinds:
                if (file := files(kind).get(str(path))) is not None:
                    return file
        raise _no_such_name(str(path), kinds)
    if not _exists(path):
        raise _no_such_file(path, kinds)
    return path


def means_space(named: str) -> bool:
    """Return whether a text means a space: its path, or the name of one of the user's own or of a shipped one."""
    return not is_name(named) or is_file(Path(named)) or named in own_files("space") or named in shipped_files("space")


def is_name(named: str | Path) -> bool:
    path = Path(named)
    return len(path.parts) == 1 and path.suffix not in SUFFIXES and str(path) not in (".", "..")


def as_typed(path: Path) -> str:
    """Return a space as the user would type it: relative to the working directory, by a shipped name, else in full."""
    here = Path.cwd()
    if path.is_relative_to(here):
        return str(path.relative_to(here))
    return path.stem if is_shipped(path, "space") and path.stem not in own_files("space") else str(path)


def portable(path: Path) -> str:
    """Return a path that says nothing of this machine: relative to the working directory if it is below, else its name,
    and for a shipped space its own.
    """
    here, whole = Path.cwd(), Path(os.path.normpath(path.absolute()))
    for each in (whole, whole.resolve()):
        if each.is_relative_to(here):
            return each.relative_to(here).as_posix()
    return whole.stem if is_shipped(whole, "space") and whole.stem not in own_files("space") else whole.name


def _no_such_name(name: str, kinds: tuple[Kind, ...]) -> InputError:
    there = sorted({known for kind in kinds for known in (*own_files(kind), *shipped_files(kind))})
    places = [f"{folder}{name}.yaml" for kind in kinds for folder in (f"{kind}s/", *([""] if kind == "space" else []))]
    return unknown(
        f"there is no {' or '.join(kinds)} {quote(name)}",
        name,
        there,
        "there are",
        command="ablate list spaces" if "space" in kinds else "",
        notes=(f"looked for {shorten(', '.join(places))}, and among what ships with ablate", WAYS_OUT[kinds[0]]),
    )


def _no_such_file(path: Path, kinds: tuple[Kind, ...]) -> InputError:
    notes = [
        f"{path.stem} is a {kind} that ships with ablate: give just its name"
        for kind in kinds
        if path.stem in shipped_files(kind)
    ]
    there = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    problems = Problems()
    message = f"cannot read {quote(path)}: no such file or directory"
    problems.add(message, label=suggest(path.name, there) or "", notes=(*notes, WAYS_OUT[kinds[0]]))
    return InputError(problems.text(), problems.mistakes())


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or with a null character: reading it reports that
        return True
