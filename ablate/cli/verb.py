"""A verb of the command line: what becomes of an error where JSON is asked for."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ablate.errors import AblateError
from ablate.output.streams import write_text


class WholeSummary:
    """In a list of verbs its line is told whole, over as many lines as it takes; Typer would cut it at the width."""

    help: str | None

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first paragraph of its help."""
        return " ".join(inspect.cleandoc(self.help or "").partition("\n\n")[0].split())


class Verbs(WholeSummary, TyperGroup):
    """A group of verbs."""


class Verb(WholeSummary, TyperCommand):
    """With `--json` mistakes are JSON on standard output too: `{"mistakes": [{"message", "way_out", "file", …}]}`."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; an error of the user's ends it with the same code in either form."""
        try:
            return super().invoke(ctx)
        except AblateError as error:
            if not ctx.params.get("json"):
                raise
            write_text(as_json(error))
            raise typer.Exit(error.exit_code) from None


def as_json(error: AblateError) -> str:
    """Every mistake with its place, its text and the way out."""
    return json.dumps({"mistakes": [asdict(mistake) for mistake in error.mistakes]}, indent=2, ensure_ascii=False)
