"""The spaces that a name finds, with the questions they ask."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ablate.errors import InputError
from ablate.grammar.named_files import own_files, shipped_files
from ablate.source.located import Mapping, Scalar
from ablate.source.yaml import read_yaml


@dataclass(frozen=True, slots=True)
class KnownSpace:
    """A space by its name: its file, what it asks as far as that can be read, and whether it ships with `ablate`."""

    name: str
    path: Path
    question: str
    shipped: bool


def known_spaces() -> tuple[KnownSpace, ...]:
    """One's own spaces below the working directory, then those that ship under names that none of these has.

    A file in the directory itself that is no space is left out; one in `spaces/` that cannot be read is named.
    """
    own, shipped = own_files("space"), shipped_files("space")
    found = [_known(name, path, shipped=False) for name, path in own.items()]
    found += [_known(name, path, shipped=True) for name, path in shipped.items() if name not in own]
    return tuple(one for one in found if one is not None)


def _known(name: str, path: Path, *, shipped: bool) -> KnownSpace | None:
    try:
        written = read_yaml(path)
    except InputError:
        written = None
    if isinstance(written, Mapping) and "space" in written and "rules" not in written:
        question = written.get("question")
        said = str(question.value) if isinstance(question, Scalar) else "asks no question"
    elif path.parent == Path():
        return None
    else:
        said = f"is no space that can be read: `ablate check {path}` says why"
    return KnownSpace(name, path, said, shipped)
