"""A verb of the command line: its help in full, and mistakes as JSON."""

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
    """A summary in full in the list of verbs, over as many lines as needed; Typer would cut it at the width."""

    help: str | None

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first paragraph of its help."""
        return " ".join(inspect.cleandoc(self.help or "").partition("\n\n")[0].split())


class Verbs(WholeSummary, TyperGroup):
    """A group of verbs."""


class Verb(WholeSummary, TyperCommand):
    """A verb whose `--json` prints mistakes as JSON too: `{"mistakes": [{"message", "way_out", "file", …}]}`."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; a user's mistake ends it with the same exit code, with `--json` or without."""
        try:
            return super().invoke(ctx)
        except AblateError as error:
            if not ctx.params.get("json"):
                raise
            write_text(as_json(error))
            raise typer.Exit(error.exit_code) from None


def as_json(error: AblateError) -> str:
    """Return every mistake with its place, its text and the way out, as JSON."""
    return json.dumps({"mistakes": [asdict(mistake) for mistake in error.mistakes]}, indent=2, ensure_ascii=False)
