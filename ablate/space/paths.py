"""Paths that a space names: they stay in a folder, unless they are absolute; what then comes from elsewhere is said.

So that a space of someone else's reads what lies beside it and no more, unless it says so in as many words.
"""

from __future__ import annotations

from pathlib import Path, PurePath

from ablate.source.excerpt import drawn
from ablate.source.problems import quote

ELSEWHERE = "name what is elsewhere by an absolute path: it is then read, and said"
"""The way out."""


def checked_pattern(pattern: str) -> str:
    """A glob pattern as it is; ValueError for one that could lead out of its folder without being absolute."""
    if "\0" in pattern:
        raise ValueError("a path holds no null character")
    try:
        absolute = Path(pattern).expanduser().is_absolute()
    except RuntimeError:
        raise ValueError(f"whose home {quote(pattern)} means is not known; write the path out") from None
    if not absolute and ".." in PurePath(pattern).parts:
        raise ValueError("'..' leads out of the folder of the space; name what is elsewhere by an absolute path")
    return pattern


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a file is in a folder once links are followed."""
    return path.resolve().is_relative_to(folder.resolve())


def from_elsewhere(names: tuple[str, ...], folder: Path, what: str) -> tuple[str, ...]:
    """A note for each absolute path or pattern among `names` that does not begin in `folder`."""
    found = (name for name in names if Path(name).expanduser().is_absolute())
    return tuple(
        f"{what} {drawn(name)} is from outside the folder of the space, {folder.resolve()}"
        for name in found
        if not is_inside(before_wildcards(Path(name).expanduser()), folder)
    )


def before_wildcards(pattern: Path) -> Path:
    """The folder that a pattern starts from: what stands before its first wildcard."""
    wild = next((n for n, part in enumerate(pattern.parts) if any(sign in part for sign in "*?[")), len(pattern.parts))
    return Path(*pattern.parts[:wild])
