"""Spaces and grammars by name: which file is meant, and what a shell completes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ablate.cli.console import note

if TYPE_CHECKING:
    from ablate.session.kept_question import KeptSpace


def space_file(named: Path) -> Path:
    """Return the file of a space given by name or path; print a note if it ships with `ablate`."""
    from ablate.grammar.named_files import find_file

    path = find_file(named, "space")
    if path != named and path.is_absolute():
        note(f"{named} is a space that ships with ablate: {path}")
    return path


def run_by_name(named: Path, results: Path) -> KeptSpace | None:
    """Return a space as a results folder keeps it, given by the name of a run of it; None if a file has that name."""
    from ablate.grammar.named_files import is_name, own_files, shipped_files
    from ablate.session.kept_question import as_run
    from ablate.store.snapshot import Snapshot

    name = str(named)
    if not is_name(name) or named.is_file() or name in {*own_files("space"), *shipped_files("space")}:
        return None
    request = Snapshot(results).requests.get(name)
    return None if request is None else as_run(results, request)


def complete_space(incomplete: str) -> list[str]:
    """Return the names of spaces that begin with what was typed; if there are none, the shell completes files."""
    from ablate.grammar.named_files import own_files, shipped_files

    return _begin(incomplete, {*own_files("space"), *shipped_files("space")})


def complete_grammar(incomplete: str) -> list[str]:
    """Return the names of grammars that begin with what was typed."""
    from ablate.grammar.named_files import own_files, shipped_files

    return _begin(incomplete, {*own_files("grammar"), *shipped_files("grammar")})


def complete_example(incomplete: str) -> list[str]:
    """Return the names of shipped spaces that begin with what was typed."""
    from ablate.grammar.named_files import shipped_files

    return _begin(incomplete, set(shipped_files("space")))


def _begin(incomplete: str, names: set[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
