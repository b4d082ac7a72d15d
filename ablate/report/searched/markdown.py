"""What a search found, as Markdown: the tables of the screen, with what each edit of the front changes."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.output.markdown import code, escape, fenced, paragraph, sentence
from ablate.report import markdown
from ablate.report.html.grid import Grid
from ablate.report.searched import answer, ask_next, course, defined, rows
from ablate.report.searched.reckoned import Reckoned, reckon
from ablate.report.searched.record import SearchRecord


def to_markdown(record: SearchRecord) -> str:
    """The question, the answer, the front, what was confirmed, and how it came about."""
    return "\n".join(_lines(record, reckon(record))) + "\n"


def _lines(record: SearchRecord, found: Reckoned) -> Iterator[str]:
    yield f"# {escape(record.space)}\n"
    yield f"{paragraph(record.question)}\n\n{' · '.join(map(sentence, answer.headline(record)))}\n"
    if record.partial:
        yield f"**{sentence(answer.unfinished(record))}**\n"
    yield from (f"- {sentence(line)}" for line in answer.answers(record, found))
    yield from (f"- **!** {sentence(line)}" for line in answer.warnings(record, found))
    yield ""
    if found.compared:
        yield from _grid(rows.front(record, found))
        yield from _edits(record, found)
    if record.confirmed is not None:
        yield f"## Confirmed at seeds {', '.join(map(str, record.confirm_seeds))}, on the verdict split\n"
        yield from _grid(rows.left(record), level=3)
        yield from markdown.body(record.confirmed, record.defined, level=3)
        yield ""
    for grid in (
        course.accounts(record),
        course.removed(record),
        course.progress(record, found),
        course.rungs(record),
        rows.edits(record, found),
    ):
        if grid is not None:
            yield from _grid(grid)
    yield "## Cost\n"
    yield from (f"- {sentence(line)}" for line in course.cost(record))
    yield from _next(record, found)
    yield "\n## What the numbers mean\n"
    yield from (f"- {sentence(line)}" for line in defined.definitions(record))


def _edits(record: SearchRecord, found: Reckoned) -> Iterator[str]:
    for entry in rows.described(record, found):
        yield f"- **{escape(entry.name)}**"
        yield from (
            f"  - {code(edit)}: {escape(detail)}" for edit, detail in zip(entry.edits, entry.details, strict=False)
        )
    yield ""


def _next(record: SearchRecord, found: Reckoned) -> Iterator[str]:
    yield f"\n## Next\n\nTo {'go on with' if record.partial else 'repeat'} this search: {code(record.again)}"
    chosen = ask_next.chosen(record, found)
    if chosen is not None:
        yield f"\n{sentence(ask_next.how(record, chosen))}\n"
        yield fenced("yaml", ask_next.snippet(record, chosen.entry))


def _grid(grid: Grid, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {escape(grid.title)}\n\n{paragraph(grid.note[:1].upper() + grid.note[1:])}.\n"
    if grid.rows:
        yield from markdown.table(grid.heading, grid.rows)
    yield from (f"- **!** {sentence(caveat)}" for caveat in grid.caveats)
    yield from (f"- {sentence(remark)}" for remark in grid.remarks)
    yield ""
