"""Spaces and grammars by name: which file is meant, and what a shell may complete."""

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
