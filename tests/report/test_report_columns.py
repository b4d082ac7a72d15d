"""A column of a table of comparisons is declared once, so that every table says the same under the same heading."""

from __future__ import annotations

from collections.abc import Iterator

import page_fixtures
import pytest
from page_fixtures import record

from ablate.report import effect_tables
from ablate.report.effect_tables import COLUMNS, EffectColumn, headings
from ablate.report.figures import export
from ablate.report.page import PageRecord, verdicts

pytestmark = pytest.mark.fast

ELSEWHERE = {"edit", "edits", "change"}
"""What the first column is called, which names the comparison."""


def tables(of: PageRecord) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The headings of the tables of comparisons that the screen, the page, Markdown and LaTeX have."""
    for table in effect_tables.effect_tables(of.summary):
        if not table.title.startswith("Analysis"):
            yield "screen", table.grid.heading
    for grid in verdicts.verdicts(of):
        yield "page", grid.heading
    for grid in effect_tables.tables_of(of.summary):
        if "verdict" in grid.heading:
            yield "markdown", grid.heading
    yield "latex", ("change", *headings(export.LATEX_COLUMNS, of.summary))


def undeclared(of: PageRecord) -> set[tuple[str, str]]:
    """The headings that no declared column has."""
    declared = {*headings(tuple(effect_tables.COLUMNS), of.summary), *ELSEWHERE}
    return {(where, heading) for where, of_table in tables(of) for heading in of_table if heading not in declared}


@pytest.mark.parametrize("name", ["whole", "factorial", "one_seed"])
def test_every_heading_is_of_a_declared_column(name: str) -> None:
    found = page_fixtures.WORLDS[name]()
    assert undeclared(found) == set()
    assert {where for where, _ in tables(found)} == {"screen", "page", "markdown", "latex"}


def test_a_column_that_is_renamed_is_renamed_in_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not read from the declarations would keep its name, and the test above would fail."""
    renamed = {
        **COLUMNS, "n": EffectColumn("seeds", COLUMNS["n"].cell), "p": EffectColumn("chance", COLUMNS["p"].cell)
    }  # fmt: skip
    monkeypatch.setattr(effect_tables, "COLUMNS", renamed)
    found = record()
    assert undeclared(found) == set()
    assert {where for where, of in tables(found) if "seeds" in of} == {"screen", "page", "markdown", "latex"}
    assert {where for where, of in tables(found) if "chance" in of} == {"page", "latex"}
    monkeypatch.setitem(renamed, "n", COLUMNS["n"])
    assert not any("seeds" in of for _, of in tables(found))
