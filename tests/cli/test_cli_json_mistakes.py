"""With `--json` mistakes are JSON too, on standard output, with the place of each and the exit code of the text."""

from __future__ import annotations

import inspect
import json

import pytest
from tiny_spaces import write_world

from ablate.cli import main
from ablate.cli.app import VERBS
from ablate.cli.queries import listing


def mistakes(monkeypatch, capsys, *words, code=2):
    """What a command line prints as JSON; asserts its exit code, and that there is nothing else to read."""
    monkeypatch.setattr("sys.argv", ["ablate", *words])
    with pytest.raises(SystemExit) as left:
        main()
    printed = capsys.readouterr()
    assert (left.value.code or 0) == code, printed.err
    assert printed.err == ""
    return json.loads(printed.out)["mistakes"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_world(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_mistake_has_its_place_and_the_way_out(folder, monkeypatch, capsys):
    space = folder / "tiny.yaml"
    space.write_text(space.read_text().replace("batch: 4", "batchs: 4").replace("windows: 8", "windows: 0"))
    found = mistakes(monkeypatch, capsys, "check", "tiny.yaml", "--json")
    key, value = sorted(found, key=lambda mistake: mistake["message"], reverse=True)
    line = next(n for n, text in enumerate(space.read_text().splitlines(), 1) if "batchs" in text)
    assert key["message"] == "unknown key 'batchs' in recipe"
    assert key["way_out"][0] == "did you mean 'batch'?"
    assert (key["file"], key["line"]) == ("tiny.yaml", line)
    assert key["text"][key["column"] - 1 : key["end_column"] - 1] == "batchs"
    assert value["message"] == "measure.evaluation.windows must be at least 1, got 0"


@pytest.mark.parametrize("verb", ["check", "plan", "run", "report"])
def test_a_mistake_of_an_option_is_at_the_option(folder, monkeypatch, capsys, verb):
    (found,) = mistakes(monkeypatch, capsys, verb, "tiny.yaml", "--set", "recipe.stepz=5", "--json")
    assert (found["file"], found["line"], found["column"]) == ("--set", 1, 8)
    assert found["text"] == "recipe.stepz=5"


def test_a_mistake_in_a_profile_names_the_profile(folder, monkeypatch, capsys):
    space = folder / "tiny.yaml"
    space.write_text(space.read_text() + "profiles: {quick: {recipe: {stepz: 3}}}\n")
    (found,) = mistakes(monkeypatch, capsys, "check", "tiny.yaml", "--json")
    assert found["profile"] == "quick"
    assert found["way_out"][0] == "did you mean 'steps'?"


def test_an_error_without_a_place_is_one_mistake(folder, monkeypatch, capsys):
    (found,) = mistakes(monkeypatch, capsys, "report", "nothing", "--json")
    assert found["message"] == "nothing was run in results"
    assert found["way_out"] == ["run a space first, or name another folder with --results"]
    assert found["file"] is None


def test_a_list_verb_answers_so_too(folder, monkeypatch, capsys):
    (found,) = mistakes(monkeypatch, capsys, "list", "components", "--plugin", "nowhere.py", "--json")
    assert "nowhere.py" in found["message"]


def test_a_file_that_is_no_yaml_is_one_mistake(folder, monkeypatch, capsys):
    (folder / "tiny.yaml").write_text("space: [tiny\n")
    (found,) = mistakes(monkeypatch, capsys, "check", "tiny.yaml", "--json")
    assert (found["file"], found["line"]) == ("tiny.yaml", 1)


def test_without_mistakes_the_list_is_empty(folder, monkeypatch, capsys):
    assert mistakes(monkeypatch, capsys, "check", "tiny.yaml", "--json", code=0) == []


WITH_JSON = [
    *((verb.__name__,) for verb in VERBS if "json" in inspect.signature(verb).parameters),
    *(("list", command.name) for command in listing.registered_commands),
]


def test_all_but_two_verbs_answer_in_json():
    assert {verb.__name__ for verb in VERBS} - {verb for verb, *_ in WITH_JSON} == {"init", "ui"}


@pytest.mark.parametrize("verb", WITH_JSON, ids=" ".join)
def test_an_option_that_does_not_exist_is_a_mistake_of_every_verb(folder, monkeypatch, capsys, verb):
    (found,) = mistakes(monkeypatch, capsys, *verb, "--bogus", "--json")
    assert found["message"].startswith("No such option: --bogus")
    assert len(found["way_out"]) == 1 and found["way_out"][0].endswith(f"{' '.join(verb)} --help")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "No such command 'nowhere'."),
        (["list", "nowhere"], "No such command 'nowhere'."),
        (["plan"], "Missing argument 'SPACE'."),
        (["run", "tiny.yaml", "--workers", "0"], "Invalid value for '--workers': "),
        (["status", "extra"], "Got unexpected extra argument(s) (extra)"),
        (["ui"], "No such option: --json"),
        (["resume", "--timeout", "soon"], "'soon' is not a time"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_a_mistake_in_the_words_is_one_mistake(folder, monkeypatch, capsys, words, said):
    (found,) = mistakes(monkeypatch, capsys, *words, "--json")
    assert found["message"].startswith(said)


def test_behind_two_dashes_json_is_a_name(folder, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ablate", "plan", "--", "--json"])
    with pytest.raises(SystemExit, match="2"):
        main()
    printed = capsys.readouterr()
    assert printed.out == "" and "'--json'" in printed.err
