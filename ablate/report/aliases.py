"""What else is in the estimates of a factorial's effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from ablate.output.terminal import Text
from ablate.plan.plan import Factors
from ablate.report.parts import heading_line, new_table
from ablate.verdict.aliases import alias_rows

NOTED = "in estimates besides (aliases)"
"""How the note of a plan begins that has its aliases by letters."""


def alias_table(designs: Sequence[tuple[str, Factors]]) -> Iterator[RenderableType]:
    """For each factorial a row for every effect whose estimate has others in it; nothing where none has."""
    told = list(dict.fromkeys((factors.resolution, rows) for _, factors in designs if (rows := alias_rows(factors))))
    for resolution, rows in told:
        yield heading_line("Aliases", f"resolution {resolution}" if resolution else "what is mixed with what")
        table = new_table()
        table.add_column("effect", overflow="fold")
        table.add_column("its estimate has in it also", overflow="fold")
        for effect, others in rows:
            table.add_row(Text(effect, style="bold"), others)
        yield table
        yield Text()


def beside_table(notes: Sequence[str], designs: Sequence[tuple[str, Factors]]) -> list[str]:
    """The notes of a plan without what the table of aliases says in full."""
    said = any(alias_rows(factors) for _, factors in designs)
    return [note for note in notes if not (said and note.startswith(NOTED))]
