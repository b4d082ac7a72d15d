"""The spaces that can be found by name, with their questions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ablate.errors import InputError
from ablate.grammar.named_files import own_files, shipped_files
from ablate.source.located import Mapping, Scalar
from ablate.source.yaml import read_yaml


@dataclass(frozen=True, slots=True)
class KnownSpace:
    """A space by its name: its file, its question and profiles if it can be read, and whether it is shipped."""

    name: str
    path: Path
    question: str
    shipped: bool
    profiles: tuple[str, ...] = ()


def known_spaces() -> tuple[KnownSpace, ...]:
    """Return the user's spaces below the working directory, then the shipped ones whose names are not among them.

    A file in the working directory itself that is not a space is left out; one in `spaces/` that cannot be read is
    included, with a remark.
    """
    own, shipped = own_files("space"), shipped_files("space")
    spaces = [_known(name, path, shipped=False) for name, path in own.items()]
    spaces += [_known(name, path, shipped=True) for name, path in shipped.items() if name not in own]
    return tuple(space for space in spaces if space is not None)


def _known(name: str, path: Path, *, shipped: bool) -> KnownSpace | None:
    try:
        written = read_yaml(path)
    except InputError:
        written = None
    if isinstance(written, Mapping) and "space" in written and "rules" not in written:
        question = written.get("question")
        text = str(question.value) if isinstance(question, Scalar) else "has no question"
        profiles = written.get("profiles")
        names = tuple(str(key) for key in profiles) if isinstance(profiles, Mapping) else ()
    elif path.parent == Path():
        return None
    else:
        text = f"cannot be read as a space: `ablate check {path}` says why"
        names = ()
    return KnownSpace(name, path, text, shipped, names)
