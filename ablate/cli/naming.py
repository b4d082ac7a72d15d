"""Spaces and grammars by name: which file is meant, and what a shell completes."""

from __future__ import annotations

from pathlib import Path

from ablate.cli.console import note


def space_file(named: Path) -> Path:
    """The file of a space that was named or given; one that ships with `ablate` is said."""
    from ablate.grammar.named_files import find_file

    found = find_file(named, "space")
    if found != named and found.is_absolute():
        note(f"{named} is a space that ships with ablate: {found}")
    return found


def complete_space(incomplete: str) -> list[str]:
    """The names of spaces that begin so; where there is none, the shell completes files."""
    from ablate.grammar.named_files import own_files, shipped_files

    return _begin(incomplete, {*own_files("space"), *shipped_files("space")})


def complete_grammar(incomplete: str) -> list[str]:
    """The names of grammars that begin so."""
    from ablate.grammar.named_files import own_files, shipped_files

    return _begin(incomplete, {*own_files("grammar"), *shipped_files("grammar")})


def complete_example(incomplete: str) -> list[str]:
    """The names of shipped spaces that begin so."""
    from ablate.grammar.named_files import shipped_files

    return _begin(incomplete, set(shipped_files("space")))


def _begin(incomplete: str, names: set[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
