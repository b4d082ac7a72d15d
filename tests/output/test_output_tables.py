"""CSV is what the query gave, to the byte; the one for spreadsheets says what it changes; HTML holds no commands."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.output.escape import for_html, no_formula
from ablate.output.terminal import Console
from ablate.report.screens.query import Answered, as_csv

CELL = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)


@given(st.lists(st.tuples(CELL, CELL), max_size=4))
def test_csv_is_read_back_as_it_was(rows):
    text = as_csv(("a", "b"), rows)
    assert [tuple(row) for row in csv.reader(io.StringIO(text, newline=""))] == [("a", "b"), *rows]


@pytest.mark.parametrize("cell", ["+qk_norm", "=1+1", "-layer_norm", "@SUM(A1)", "\t=1", "\r=1", "＝1+1", "'quoted"])
def test_a_spreadsheet_gets_no_formula_and_the_pipe_gets_the_text(cell):
    first, *_ = csv.reader(io.StringIO(as_csv((cell, "b"), [], spreadsheet=True).removeprefix("\ufeff"), newline=""))
    assert first == ["'" + cell, "b"]
    first, *_ = csv.reader(io.StringIO(as_csv((cell, "b"), []), newline=""))
    assert first == [cell, "b"]


@pytest.mark.parametrize("cell", ["+1.5e-3", "-0.25", "12", "inf", "plain", "a=b", ""])
def test_numbers_and_plain_texts_are_left_as_they_are(cell):
    assert no_formula(cell) == cell


def test_a_spreadsheet_is_told_that_it_is_utf_8_and_floats_stay_numbers():
    assert as_csv(("a",), [(-1.5e-3,), ("×",)], spreadsheet=True) == "\ufeffa\n-0.0015\n×\n"


def test_html_shows_what_would_drive_a_terminal():
    assert for_html("<b>\x1b[31m\u202e\ud800") == "&lt;b&gt;\\x1b[31m\\u202e\\ud800"


@pytest.mark.parametrize(
    ("columns", "rows", "said"),
    [
        (("metric", "estimate"), [("eval_loss", 0.1)], True),
        (("metric", "estimate", "scale"), [("eval_loss", 0.1, "linear"), ("peak_kurtosis", 0.1, "log")], True),
        (("metric", "estimate", "scale"), [("eval_loss", 0.1, "linear")], False),
        (("metric", "low"), [("eval_loss", 0.1)], False),
    ],
)
def test_logarithms_are_said_to_be_logarithms(columns, rows, said):
    console = Console(file=io.StringIO(), width=80)
    console.print(Answered(columns, rows))
    assert ("natural logarithms" in " ".join(console.file.getvalue().split())) == said
