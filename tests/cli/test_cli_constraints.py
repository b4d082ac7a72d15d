"""A constraint that a space lets through: the warning stands on the screen, in the store and on the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tiny_spaces import write_world

from ablate.cli import main
from ablate.store.query import query

REASON = "the matrix is what it was solved for only at a zero query-key product"
BLOCKS = """\
blocks:
  exact: [attention: {query: {dense: {init: zero}}, matrix: {e_spa: 0.2}}, mlp]
  small: [attention: {query: {dense: {init: {orthogonal: 0.1}}}, matrix: {e_spa: 0.2}}, mlp]
constraints: {exact_start: warn}
design: {compare: [exact, small]}
"""


def ablate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code of a command, and what it says."""
    monkeypatch.setattr(sys, "argv", ["ablate", *words])
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), "".join(capsys.readouterr())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space that lets one constraint through."""
    folder = tmp_path_factory.mktemp("constraints")
    space = write_world(folder, steps=4, seeds=1)
    text = space.read_text().replace("design: {path: {from: pre_ln, to: op}}\n", BLOCKS)
    space.write_text(text.replace("against: pre_ln", "against: exact"))
    return folder


def warned(screen: str) -> bool:
    """Whether the warning is there with the constraint's name, the block and the reason, however lines are broken."""
    said = " ".join(screen.replace("│", " ").split())
    return f"warning: exact_start is broken by small, which this space tolerates: {REASON}" in said


@pytest.mark.full
def test_it_is_said_before_anything_is_trained_then_on_the_screen_in_the_store_and_on_the_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for words in (
        ("check", "tiny.yaml"),
        ("plan", "tiny.yaml"),
        ("run", "tiny.yaml", "--executor", "inline", "--no-mlflow"),
    ):
        code, said = ablate(monkeypatch, capsys, *words)
        assert code == 0, said
        assert warned(said), words
    rows = query(
        Path("results"),
        "SELECT v.variant, t.status, v.breaks->>'$[0].constraint', v.breaks->>'$[0].because' "
        "FROM memberships m JOIN trials t USING (trial_id) JOIN variants v USING (space) "
        "WHERE v.variant_id = m.variant_id ORDER BY ALL",
    ).rows
    exact, small = rows
    assert exact == ("exact", "finished", None, None)
    assert small[:3] == ("small", "finished", "exact_start") and str(small[3]).startswith(REASON)
    ((notes,),) = query(Path("results"), "SELECT notes FROM spaces").rows
    assert any(warned(str(note)) for note in notes)
    code, said = ablate(monkeypatch, capsys, "report", "tiny.yaml")
    assert code == 0, said
    pages = Path("results/pages")
    for page in (pages.joinpath("tiny.html").read_text(), pages.joinpath("tiny.md").read_text()):
        assert "exact_start is broken by small" in page and "Breaks exact_start, which this space allows" in page


def test_without_the_word_it_is_refused_with_that_way_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    code, said = ablate(monkeypatch, capsys, "check", "tiny.yaml", "--set", "constraints.exact_start=refuse")
    said = " ".join(said.split())
    assert code == 2
    assert "block 'small' is refused by the constraint exact_start of the grammar" in said
    assert REASON in said and "constraints: {exact_start: warn} in the space" in said
