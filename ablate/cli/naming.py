"""Spaces and grammars by name: which file is meant, and what a shell completes."""

from __future__ import annotations

from pathlib import Path

from ablate.cli.console import note


def space_file(named: Path) -> Path:
    """Return the file of a space given by name or path; print a note if it ships with `ablate`."""
    from ablate.grammar.named_files import find_file

    path = find_file(named, "space")
    if path != named and path.is_absolute():
        note(f"{named} is a space that ships with ablate: {path}")
    return path


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
