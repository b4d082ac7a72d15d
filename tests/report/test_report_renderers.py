"""The contract of the renderers: each shows every kind of part, and whatever a name holds it stays a text."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape

import pytest

from ablate.output.terminal import Console
from ablate.report import document as model
from ablate.report import html_renderer, json_form, markdown_renderer, terminal_renderer
from ablate.report.document import (
    BulletList,
    Candidate,
    Cell,
    Column,
    Figure,
    Fold,
    FrontTable,
    Grid,
    Group,
    GroupedTable,
    Lead,
    Part,
    Prose,
    ReportDocument,
    RowGroup,
    Section,
    Stacked,
    Statement,
    Statements,
    StyledText,
    TableOf,
    Verbatim,
    VerdictGrid,
    plain,
)

pytestmark = pytest.mark.fast

VERDICT = (StyledText("better, survivors", "better"),)
GRID = Grid(title="Sizes", note="of blocks", heading=("block", "size"), rows=(("op", "17"),), numbers=(1,))
CONFIRMED = GroupedTable(
    title="Confirmed",
    note="at seeds 7",
    columns=(
        Column("block", "name"),
        Column("metric", "metric"),
        Column("search", "number", line=2),
        Column("mean", line=1),
        Column("by itself", roomy=True),
        Column("n", "number"),
        Column("verdict", "verdict"),
    ),
    groups=(RowGroup("op", "diverged 1 of 5", (("eval_loss", "-0.2", "2.31", "[-0.3, -0.1]", "5", VERDICT),)),),
)
PARTS: dict[str, tuple[Part, tuple[str, ...]]] = {
    "Lead": (Lead(("It does.",)), ("It does.",)),
    "Statements": (
        Statements(
            (Statement((StyledText("op", "strong"), StyledText(": "), StyledText("lowers it", "better")), "→"),)
        ),
        ("op", "lowers it"),
    ),
    "Prose": (Prose("Each against pre_ln.", "note"), ("Each against pre_ln.",)),
    "BulletList": (BulletList(("a variant diverged",), "beware"), ("a variant diverged",)),
    "Verbatim": (Verbatim("ablate run tiny", "sh"), ("ablate run tiny",)),
    "VerdictGrid": (
        VerdictGrid("At a glance", ("change", "loss"), (("op", (Cell("worse", "worse", "+0.2"),)),)),
        ("At a glance", "change", "loss", "op", "worse", "+0.2"),
    ),
    "TableOf": (
        TableOf(replace(GRID, remarks=("a remark",), caveats=("a caveat",))),
        ("Sizes", "f blocks", "block", "size", "op", "17", "a remark", "a caveat"),
    ),
    "GroupedTable": (
        CONFIRMED,
        ("Confirmed", "t seeds 7", "metric", "mean", "search", "op", "diverged 1 of 5", "eval_loss", "-0.2", "better"),
    ),
    "FrontTable": (
        FrontTable(
            title="Front",
            note="dominated by none",
            reference="pre_ln",
            objectives=("eval_loss",),
            sizes=("FLOPs",),
            candidates=(Candidate("p7", "", (("2.30", "-0.04"),), ("+1 %",)),),
            remarks=("and 3 more",),
        ),
        ("Front", "ominated by none", "pre_ln", "eval_loss", "FLOPs", "p7", "2.30", "-0.04", "+1 %", "and 3 more"),
    ),
    "Figure": (Figure("<svg></svg>", "Loss over steps."), ("Loss over steps.",)),
    "Group": (Group((Prose("side by side"),)), ("side by side",)),
    "Stacked": (Stacked((Prose("one below another"),)), ("one below another",)),
    "Fold": (Fold("has 2 edits", (Prose("inside"),), "op", ("qk_norm",)), ("has 2 edits", "op", "qk_norm", "inside")),
    "Section": (Section("Cost", (Prose("an hour"),), note="of all trials"), ("Cost", "f all trials", "an hour")),
}
"""Of each kind of part an example, and the texts that are read of it; a note may begin with a capital."""


def on_terminal(document: ReportDocument, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(terminal_renderer.Screen(document))
    text = console.file.getvalue()
    assert isinstance(text, str)
    return text


RENDERERS: dict[str, Callable[[ReportDocument], str]] = {
    "terminal": on_terminal,
    "html": lambda document: unescape(
        re.sub(r"</?(p|b|code|span|td|th|h\d)\b[^>]*>", "", html_renderer.render(document))
    ),
    "markdown": markdown_renderer.render,
    "json": lambda document: json.dumps(json_form.render(document), ensure_ascii=False),
}
LEFT_OUT = {("terminal", "Figure"): {"Loss over steps."}, ("terminal", "Fold"): {"inside"},
            ("markdown", "Figure"): {"Loss over steps."}}  # fmt: skip
"""What a renderer does not show, since it is on the page."""


def of(part: Part) -> ReportDocument:
    return ReportDocument(title="Does it?", about=("a path",), parts=(part,))


def missing(renderer: str, kind: str) -> set[str]:
    """The texts of an example that are not read where a renderer shows it."""
    part, texts = PARTS[kind]
    shown = RENDERERS[renderer](of(part))
    return {text for text in texts if text not in shown}


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("renderer", RENDERERS)
def test_every_part_is_shown(renderer: str, kind: str) -> None:
    assert missing(renderer, kind) == LEFT_OUT.get((renderer, kind), set())


def test_every_kind_of_part_has_its_example() -> None:
    assert set(PARTS) == {kind.strip() for kind in str(model.Part).split("|")}
    assert all(type(part).__name__ == kind for kind, (part, _) in PARTS.items())


def test_what_is_not_shown_is_found_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contract can fail."""
    monkeypatch.setitem(RENDERERS, "terminal", lambda document: on_terminal(replace(document, parts=())))
    assert missing("terminal", "Lead") == {"It does."}


@pytest.mark.parametrize("renderer", RENDERERS)
def test_title_and_what_asks_it_come_first(renderer: str) -> None:
    shown = RENDERERS[renderer](of(Prose("then the rest")))
    assert shown.index("Does it?") < shown.index("a path") < shown.index("then the rest")


HOSTILE = "<i>[red]\x1b[31m*a*"


def _renamed(value: object) -> object:
    """The example with a hostile name for every `op`."""
    if isinstance(value, str):
        return value.replace("op", HOSTILE)
    if isinstance(value, tuple):
        return tuple(map(_renamed, value))
    if hasattr(value, "__dataclass_fields__"):
        return type(value)(**{name: _renamed(getattr(value, name)) for name in value.__dataclass_fields__})
    return value


@pytest.mark.parametrize("kind", [kind for kind, (_, texts) in PARTS.items() if "op" in texts])
def test_a_hostile_name_stays_a_text(kind: str) -> None:
    document = of(_renamed(PARTS[kind][0]))  # type: ignore[arg-type]
    terminal = on_terminal(document, 200)
    assert "\x1b" not in terminal and "[red]" in terminal
    page = html_renderer.render(document)
    assert "<i>[red]" not in page and "&lt;i&gt;" in page
    markdown = markdown_renderer.render(document)
    assert "\x1b" not in markdown and ("\\*a\\*" in markdown or f"`{kind}" in markdown)
    assert HOSTILE in json.dumps(json_form.render(document), ensure_ascii=False).encode().decode("unicode_escape")


def test_verdicts_are_typed_in_json() -> None:
    grid, table, answer = (json_form.render(of(PARTS[kind][0]))["parts"][0] for kind in
                           ("VerdictGrid", "GroupedTable", "Statements"))  # fmt: skip
    assert grid["rows"] == [{"name": "op", "cells": [{"verdict": "worse", "words": "worse", "number": "+0.2"}]}]
    found = {"text": "better, survivors", "verdicts": [{"verdict": "better", "text": "better, survivors"}]}
    assert table["rows"] == [["op (diverged 1 of 5)", "eval_loss", "-0.2", "2.31", "[-0.3, -0.1]", "5", found]]
    assert answer["lines"][0]["words"]["verdicts"] == [{"verdict": "better", "text": "lowers it"}]
    assert "<svg" not in json.dumps(json_form.render(of(PARTS["Figure"][0])))


def test_on_a_narrow_terminal_cells_stand_one_below_the_other_and_what_qualifies_a_verdict_below_it() -> None:
    wide = replace(CONFIRMED, side_by_side=100)
    line = next(line for line in on_terminal(of(wide), 128).splitlines() if "eval_loss" in line)
    assert line.split() == ["op", "eval_loss", "-0.2", "2.31", "[-0.3,", "-0.1]", "5", "better,", "survivors"]
    assert "[-0.3, -0.1]" not in on_terminal(of(wide), 127)
    lines = on_terminal(of(wide), 80).splitlines()
    place = next(place for place, line in enumerate(lines) if "eval_loss" in line)
    assert lines[place].split() == ["op", "eval_loss", "2.31", "5", "better,"]
    assert lines[place + 1].split() == ["diverged", "1", "of", "5", "-0.2", "survivors"]


def test_a_table_without_a_least_width_stands_side_by_side_where_it_fits() -> None:
    def row(width: int) -> str:
        return next(line for line in on_terminal(of(CONFIRMED), width).splitlines() if "eval_loss" in line)

    assert "-0.2" in row(75) and "better, survivors" in row(75)
    assert "-0.2" not in row(60)


def test_words_are_the_same_without_their_tones() -> None:
    assert plain("op") == plain((StyledText("o", "strong"), StyledText("p"))) == "op"


def test_each_kind_of_list_has_its_mark() -> None:
    lists = tuple(BulletList((kind,), kind) for kind in ("plain", "beware", "unequal", "power", "remarks"))
    shown = on_terminal(ReportDocument(title="", about=(), parts=lists))
    assert shown.split() == ["•", "plain", "!", "beware", "≠", "unequal", "~", "power", "·", "remarks"]


def test_a_report_that_goes_on_from_another_has_no_title() -> None:
    assert on_terminal(replace(of(Prose("more")), title="")) == "more\n"
