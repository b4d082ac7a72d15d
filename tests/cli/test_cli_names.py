"""A space or a grammar by its name: one's own file, else one that ships, from whichever folder one stands in."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_spaces import ROOT, write_world

import ablate
from ablate.cli import main
from ablate.errors import InputError

SPACES = sorted(path.stem for path in (ROOT / "spaces").glob("*.yaml"))


class Screen:
    """What a command line in this process said, and how it ended."""

    def __init__(self, capsys, monkeypatch):
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *words: str) -> SimpleNamespace:
        self.monkeypatch.setattr(sys, "argv", ["ablate", *words])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        said = self.capsys.readouterr()
        return SimpleNamespace(code=end.value.code or 0, out=said.out, err=said.err)


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return Screen(capsys, monkeypatch)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, and the one that is stood in."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_shipped_space_by_its_name_is_the_space_by_its_file(here):
    """It reads no text beside it either: whoever runs it by name has no say in what lies there."""
    for name in SPACES:
        space = ablate.load_space(name)
        assert space.path.samefile(ROOT / "spaces" / f"{name}.yaml")
        assert space.data.corpus.name in ("digits", "drawn_images", "drawn_speech", "python_stdlib")
    by_name, by_file = ablate.load_space("op_vs_preln"), ablate.load_space(ROOT / "spaces" / "op_vs_preln.yaml")
    assert [trial.id for trial in ablate.check(by_name).trials] == [t.id for t in ablate.check(by_file).trials]


@pytest.mark.fast
def test_check_says_which_file_a_name_meant(here, run):
    done = run("check", "op_vs_preln")
    assert done.code == 0, done.err
    assert "4 variants × 5 seeds: 20 trials" in done.out
    assert done.err == f"note: op_vs_preln is a space that ships with ablate: {ROOT}/spaces/op_vs_preln.yaml\n"
    quiet = run("check", str(ROOT / "spaces" / "op_vs_preln.yaml"))
    assert (quiet.out, quiet.err) == (done.out, "")


@pytest.mark.parametrize(
    "words", [("show", "op"), ("diff", "pre_ln", "op"), ("list", "blocks"), ("check", "transformer")]
)
def test_the_shipped_grammar_is_there_without_a_file(words, here, run):
    done = run(*words)
    assert done.code == 0, done.err
    assert done.out and not done.err


@pytest.mark.full
def test_ones_own_file_comes_before_what_ships(here, run):
    own = Path("spaces") / "op_vs_preln.yaml"
    own.parent.mkdir()
    text = (ROOT / "spaces" / "op_vs_preln.yaml").read_text(encoding="utf-8").replace("seeds:  5", "seeds:  3")
    own.write_text(text, encoding="utf-8")
    assert ablate.load_space("op_vs_preln").path == own
    done = run("check", "op_vs_preln")
    assert "4 variants × 3 seeds" in done.out and not done.err
    assert "note: the grammar transformer is the one that ships with ablate" in done.out
    (here / "grammars").mkdir()
    small = (ROOT / "tests" / "errors" / "grammars" / "small.yaml").read_text(encoding="utf-8")
    (here / "grammars" / "transformer.yaml").write_text(small, encoding="utf-8")
    assert ablate.load_grammar("transformer").count == 9


@pytest.mark.fast
def test_a_file_beside_one_is_found_as_one_in_the_folder_is(here, run):
    path = write_world(here, name="mine.yaml")
    assert ablate.load_space("mine").path == Path("mine.yaml")
    (here / "spaces").mkdir()
    path.rename(here / "spaces" / "mine.yaml")
    assert ablate.load_space("mine").path == Path("spaces/mine.yaml")
    shown = run("show", "op", "--space", "mine")
    assert "d = 16" in shown.out, shown.err


@pytest.mark.fast
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "op_vs_prelm"), ("no space 'op_vs_prelm'", "did you mean 'op_vs_preln'?", "spaces/op_vs_prelm.yaml")),
        (("plan", "nothing_near"), ("no space 'nothing_near'", "`ablate list spaces` lists", "ablate init")),
        (("run", "spaces/op_vs_preln.yaml"), ("op_vs_preln is a space that ships", "give just its name")),
        (("check", "mine.yml"), ("cannot read 'mine.yml'", "did you mean 'mine.yaml'?", "ablate init")),
        (("show", "op", "--grammar", "tranformer"), ("did you mean 'transformer'?", "--grammar takes a file")),
        (("diff", "pre_ln", "op", "--grammar", "no.yaml"), ("cannot read 'no.yaml'", "--grammar takes a file")),
        (("show", "op", "--space", "a" * 400), ("there is no space", "aaa…")),
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_what_is_not_there_is_refused_with_the_nearest_names_and_the_way_out(words, said, here, run):
    write_world(here, name="mine.yaml")
    done = run(*words)
    assert done.code == 2 and not done.out
    assert done.err.startswith("error: ") and "Traceback" not in done.err
    for text in said:
        assert text in done.err, done.err


@pytest.mark.fast
def test_a_name_climbs_nowhere(here):
    (here.parent / "secret.yaml").write_text((ROOT / "spaces" / "op_vs_preln.yaml").read_text(encoding="utf-8"))
    (here / "spaces").mkdir()
    for name in ("../../secret", "spaces/../../secret", "..", ".", ""):
        with pytest.raises(InputError):
            ablate.load_space(name)


@pytest.mark.fast
def test_the_command_that_writes_a_page_names_the_folder_of_results_where_it_is_another():
    from ablate.cli.console import page_of

    assert page_of("tiny", Path("results"), Path("results")) == "ablate report tiny"
    assert page_of("tiny", Path("my results"), Path("results")) == "ablate report tiny --results 'my results'"


@pytest.mark.fast
@pytest.mark.parametrize("words", [("plan", "--nonsense"), ("nothing",), ("plan", "a", "b"), ("run", "--workers", "x")])
def test_wrong_words_exit_with_2_like_any_other_mistake(run, words):
    done = run(*words)
    assert done.code == 2 and done.out == "" and "Usage: ablate" in done.err and "Traceback" not in done.err
