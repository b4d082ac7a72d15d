"""A verb of the command line, with its help in full."""

from __future__ import annotations

import inspect

from typer.core import TyperCommand, TyperGroup


class WholeSummary:
    """A summary in full in the list of verbs, over as many lines as needed; Typer would cut it at the width."""

    help: str | None

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first paragraph of its help."""
        return " ".join(inspect.cleandoc(self.help or "").partition("\n\n")[0].split())


class Verbs(WholeSummary, TyperGroup):
    """A group of verbs."""


class Verb(WholeSummary, TyperCommand):
    """A verb."""
