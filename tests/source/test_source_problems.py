"""How mistakes are drawn, ordered, counted, and what is suggested."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.errors import AblateError, InputError
from ablate.source.located import Source
from ablate.source.problems import SHOWN, Problem, Problems, nearest, quote, render, suggest
from ablate.source.yaml import parse_yaml

pytestmark = pytest.mark.fast


def problem(text, start, end, name="space.yaml", **more):
    return Problem("wrong", Source(name, text).span(start, end), **more)


def test_the_promised_shape():
    located = parse_yaml("attention:\n  # how it is kept in bounds\n    entropy: qk_nrom\n", "unknown_component.yaml")
    span = located["attention"]["entropy"].span
    choices = ("none", "qk_norm", "softcap", "clamp", "sigma_reparam")
    assert (
        render(
            Problem(
                "unknown component 'qk_nrom' for slot entropy",
                span,
                suggest("qk_nrom", choices),
                (f"slot entropy accepts: {', '.join(choices)}",),
            )
        )
        == """\
error: unknown component 'qk_nrom' for slot entropy
 --> unknown_component.yaml:3:14
  |
3 |     entropy: qk_nrom
  |              ^^^^^^^ did you mean 'qk_norm'?
  = slot entropy accepts: none, qk_norm, softcap, clamp, sigma_reparam"""
    )


def lines(found):
    _, _, _, source, carets = render(found).splitlines()
    return source, carets


@pytest.mark.parametrize(
    ("text", "word", "source", "carets"),
    [
        ("a: bad", "bad", "1 | a: bad", "  |    ^^^"),
        ("\ta:\tbad", "bad", "1 |     a:  bad", "  |         ^^^"),
        ("漢: bad", "bad", "1 | 漢: bad", "  |     ^^^"),
        ("a: 漢字", "漢字", "1 | a: 漢字", "  |    ^^^^"),
        ("e\u0301: bad", "bad", "1 | e\u0301: bad", "  |    ^^^"),
        ("😀: bad", "bad", "1 | 😀: bad", "  |     ^^^"),
        ("\x1b[31m\u202e: bad", "bad", r"1 | \x1b[31m\u202e: bad", "  |                 ^^^"),
        ("a: bad\n  and more", "bad\n  and more", "1 | a: bad", "  |    ^^^"),
        ("a:", "", "1 | a:", "  | ^"),
    ],
)
def test_carets(text, word, source, carets):
    start = text.index(word)
    assert lines(problem(text, start, start + len(word))) == (source, carets)


@given(st.integers(0, 400), st.integers(1, 60), st.integers(0, 400))
def test_long_lines_are_shown_around_the_place(before, length, after):
    text = "a" * before + "X" * length + "b" * after
    source, carets = lines(problem(text, before, before + length))
    assert len(source) <= 4 + 102
    under = source[carets.index("^") : carets.rindex("^") + 1]
    assert set(under) == {"X"} and len(under) == length
    assert source.count("…") == ("a" * before not in source) + ("b" * after not in source)


def test_a_span_longer_than_the_window():
    source, carets = lines(problem("a: " + "x" * 5000, 3, 5003))
    assert source.endswith("x…") and carets.count("^") == 97


def test_wide_line_numbers_share_one_gutter():
    source = Source("s.yaml", "a: 1\n" * 1000)
    found = Problem("wrong", source.span(4995, 4996), also=((source.span(0, 1), "here too"),), notes=("a note",))
    assert render(found).splitlines()[1:] == [
        "    --> s.yaml:1000:1",
        "     |",
        "1000 | a: 1",
        "     | ^",
        "    ::: s.yaml:1:1",
        "     |",
        "   1 | a: 1",
        "     | ^ here too",
        "     = a note",
    ]


def test_names_below_the_current_directory_are_short(tmp_path, monkeypatch):
    (tmp_path / "spaces").mkdir()
    inside, outside = tmp_path / "spaces" / "op.yaml", tmp_path / "other.yaml"
    monkeypatch.chdir(tmp_path / "spaces")
    assert " --> op.yaml:1:1" in render(problem("a", 0, 1, str(inside)))
    assert f" --> {outside}:1:1" in render(problem("a", 0, 1, str(outside)))
    assert " --> --set:1:1" in render(problem("a", 0, 1, "--set"))
    assert " --> ../other.yaml:1:1" in render(problem("a", 0, 1, os.path.relpath(outside, Path.cwd())))


def test_all_at_once_in_order_and_once_each():
    first, second = Source("b.yaml", "x\ny\n"), Source("a.yaml", "z\n")
    problems = Problems()
    problems.raise_if_any()  # nothing found, nothing raised
    problems.add("later", first.span(2, 3))
    problems.add("other file", second.span(0, 1))
    problems.add("earlier", first.span(0, 1))
    problems.add("earlier", first.span(0, 1))
    problems.add("earlier", first.span(0, 1), label="but not the same")
    problems.add("no place", label="a hint")
    assert [(found.message, found.label) for found in problems] == [
        ("no place", "a hint"),
        ("earlier", ""),
        ("earlier", "but not the same"),
        ("later", ""),
        ("other file", ""),
    ]
    with pytest.raises(InputError) as caught:
        problems.raise_if_any()
    assert str(caught.value) == "\n\n".join(render(found) for found in problems)
    assert str(caught.value).startswith("error: no place\n  = a hint\n\nerror: earlier\n --> b.yaml:1:1\n")
    assert isinstance(caught.value, AblateError) and caught.value.exit_code == 2


def test_very_many_are_counted():
    problems = Problems()
    for number in range(SHOWN + 7):
        problems.add(f"problem {number}")
    assert problems.text().count("error: ") == SHOWN
    assert problems.text().endswith("\n\n… and 7 more")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("stpes", "steps"),
        ("Steps", "steps"),
        ("step", "steps"),
        ("warmpu", "warmup"),
        ("clip", "clip"),
        ("zzz", None),
        ("", None),
    ],
)
def test_suggestions(word, meant):
    choices = ("steps", "batch", "warmup", "clip")
    assert nearest(word, choices) == meant
    assert suggest(word, choices) == (None if meant is None else f"did you mean '{meant}'?")


def test_words_of_the_user_cannot_spoil_the_screen():
    assert quote("a\n\x1b[2J") == r"'a\n\x1b[2J'"
    assert len(quote("x" * 10_000)) <= 62
    assert nearest("x" * 100_000, ["x" * 100_000]) is None  # and it does not take long to say so
    assert render(Problem("a\nb\x1b", notes=("c\rd",))) == "error: a\\nb\\x1b\n  = c\\rd"
