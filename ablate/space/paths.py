"""Paths that a space names: they stay in its folder unless they are absolute, and files from elsewhere are reported.

So someone else's space reads only what lies beside it, unless it says otherwise explicitly.
"""

from __future__ import annotations

from pathlib import Path, PurePath

from ablate.source.excerpt import drawn
from ablate.source.problems import quote

ELSEWHERE = "give an absolute path for a file elsewhere: it is then read, and reported"
"""What to do about a path that leads out of the folder."""


def checked_pattern(pattern: str) -> str:
    """Return a glob pattern as it is; ValueError if it could lead out of its folder without being absolute."""
    if "\0" in pattern:
        raise ValueError("a path cannot hold a null character")
    try:
        absolute = Path(pattern).expanduser().is_absolute()
    except RuntimeError:
        raise ValueError(f"the home folder in {quote(pattern)} is not known; write out the path") from None
    if not absolute and ".." in PurePath(pattern).parts:
        raise ValueError("'..' leads out of the folder of the space; give an absolute path for files elsewhere")
    return pattern


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a file is in a folder once links are followed."""
    return path.resolve().is_relative_to(folder.resolve())


def from_elsewhere(names: tuple[str, ...], folder: Path, what: str) -> tuple[str, ...]:
    """Return a note for each absolute path or pattern among `names` that does not start in `folder`."""
    absolute = (name for name in names if Path(name).expanduser().is_absolute())
    return tuple(
        f"{what} {drawn(name)} is from outside the folder of the space"
        for name in absolute
        if not is_inside(before_wildcards(Path(name).expanduser()), folder)
    )


def before_wildcards(pattern: Path) -> Path:
    """Return the folder that a pattern starts from: the part before its first wildcard."""
    wild = next((n for n, part in enumerate(pattern.parts) if any(sign in part for sign in "*?[")), len(pattern.parts))
    return Path(*pattern.parts[:wild])
