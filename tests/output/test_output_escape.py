"""One form for what could drive a terminal, wherever it is shown; widths are measured after it is written out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import unicodedata
import warnings

import pytest
import rich.console
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from ablate.cli import main
from ablate.errors import AblateWarning, InputError
from ablate.output.escape import DIRECTIONS, drives_terminal, visible, write_data, write_text
from ablate.output.terminal import Console, Text, line_writer


def is_harmless(text: str) -> bool:
    """Whether a text holds no control character but tab and line feed, by Unicode's own tables."""
    return not any(
        (unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\t\n") or c in DIRECTIONS for c in text
    )


@given(st.text(st.characters(), max_size=40))
def test_nothing_that_drives_a_terminal_is_left(text):
    assert is_harmless(visible(text))
    assert visible(visible(text)) == visible(text)
    if is_harmless(text):
        assert visible(text) == text


@given(st.recursive(st.text(st.characters(exclude_categories=()), max_size=20), st.lists, max_leaves=5))
def test_json_stays_the_same_json(document):
    for text in (json.dumps(document, ensure_ascii=False), json.dumps(document)):
        assert json.loads(visible(text)) == document
        assert is_harmless(visible(text))


@given(st.characters())
def test_what_yaml_refuses_is_what_is_written_out(character):
    halves_and_returns = character == "\r" or unicodedata.category(character) == "Cs"
    assert drives_terminal(character) == (visible(character) != character and not halves_and_returns)


def rendered(renderable, console=Console, **options):
    screen = console(file=io.StringIO(), width=60, **options)
    screen.print(renderable)
    return screen.file.getvalue()


@pytest.mark.parametrize("of", [str, Text])
def test_a_cell_shows_what_it_holds_and_keeps_its_column(of):
    table = Table(box=None, pad_edge=False)
    table.add_column(of("he\x1b[1mad"))
    table.add_column("second")
    table.add_row(of("\x1b[31mred\x07\u202e"), "a")
    table.add_row(of("[bold]plain[/bold] :smile:"), "b")
    lines = rendered(table).splitlines()
    assert [line[:26].rstrip() for line in lines] == [
        r"he\x1b[1mad",
        r"\x1b[31mred\x07\u202e",
        "[bold]plain[/bold] :smile:",
    ]
    assert [line[26:].strip() for line in lines] == ["second", "a", "b"]
    assert len({len(line) - len(line[26:].lstrip()) for line in lines}) == 1  # all begin in one column


def test_what_comes_in_beside_our_texts_is_escaped_at_the_last_moment():
    hostile = rich.console.Group(rich.text.Text("a\x1b[31mb"), rich.text.Text("c\x9bd"))
    assert rendered(hostile) == "a\\x1b[31mb\nc\\u009bd\n"
    assert "\x1b[31m" in rendered(hostile, rich.console.Console)  # so it is our console that does it


def test_styles_are_ours_alone():
    said = rendered(Text("\x1b[31mred", style="bold"), force_terminal=True, color_system="standard")
    assert said == "\x1b[1m\\x1b[31mred\x1b[0m\n"


def test_lines_on_a_console_that_a_caller_brings_along_hold_no_markup():
    screen = rich.console.Console(file=io.StringIO(), width=60, force_terminal=True)
    line_writer(screen)("[red]a[/red] \x1b[31mb")
    assert screen.file.getvalue() == "[red]a[/red] \\x1b[31mb\n"


def test_texts_are_put_together_as_rich_does():
    parts = [Text("a", "bold"), Text("b\x07"), Text("c")]
    assert Text("\n").join(parts).plain == "a\nb\\x07\nc"
    assert Text(", ").join([]).plain == ""
    assert (Text("a", "bold") + Text("b")).spans == Text.assemble(("a", "bold"), "b").spans
    assert (Text("a") + "\x1b").plain == "a\\x1b"


def test_errors_and_warnings_are_escaped_for_python_too():
    assert str(InputError("no \x1b[31m\nhere")) == "no \\x1b[31m\nhere"
    assert str(AblateWarning("\u202e")) == "\\u202e"


def test_a_bug_of_ours_keeps_its_traceback_and_not_what_would_drive_the_terminal(capsys, monkeypatch):
    def bug(**_):
        raise RuntimeError("\x1b[31mred")

    app = sys.modules[main.__module__]  # `ablate.cli.app` is the Typer of that name
    monkeypatch.setattr(app, "app", bug)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback") and said.endswith("RuntimeError: \\x1b[31mred\n")


def test_words_are_escaped_everywhere_and_data_on_a_terminal_alone(capfdbinary, monkeypatch):
    write_text("w\x1b\udc80")
    write_data("d\x1b\n")
    assert capfdbinary.readouterr().out == b"w\\x1b\\udc80\nd\x1b\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write_data("d\x1b\n")
    assert capfdbinary.readouterr().out == b"d\\x1b\n"


@pytest.mark.full
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_of_another_encoding_shows_what_it_can(encoding):
    done = subprocess.run(
        [sys.executable, "-c", "from ablate.cli import main; main()", "diff", "pre_ln", "\U0001f600é", "--json"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert b"\\ud83d\\ude00" in done.stdout
    [mistake] = json.loads(done.stdout.decode(encoding))["mistakes"]
    assert "\U0001f600é" in mistake["message"]
