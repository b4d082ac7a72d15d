"""`ablate init`: a commented space to begin with, or a copy of one that ships; `list spaces` names them all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tiny_spaces import ROOT
from typer.testing import CliRunner

import ablate
from ablate.cli import app
from ablate.errors import AblateError

SHIPPED = sorted((ROOT / "spaces").glob("*.yaml"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str) -> str:
    """What a verb prints; AblateError where it refuses."""
    done = CliRunner().invoke(app, words)
    if isinstance(done.exception, AblateError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.fast
def test_it_writes_a_space_that_is_fine_and_names_what_to_type_next(here):
    said = call("init")
    assert said.startswith("wrote spaces/mine.yaml") and "check mine" in said and "run mine" in said
    assert [path.relative_to(here).as_posix() for path in here.rglob("*.yaml")] == ["spaces/mine.yaml"]
    space = ablate.load_space("mine")
    plan = ablate.check(space)
    assert (space.name, [variant.name for variant in plan.variants]) == ("mine", ["pre_ln", "half_norm"])
    assert len(plan.trials) == 10 and plan.comparisons
    assert ablate.check(ablate.load_space("mine", profile="smoke")).trials


@pytest.mark.fast
def test_its_comments_are_in_front_of_every_section_and_fit_a_screen(here):
    call("init")
    lines = Path("spaces/mine.yaml").read_text(encoding="utf-8").splitlines()
    assert all(len(line) <= 120 for line in lines)
    for section in ("blocks", "model", "block", "data", "recipe", "design", "seeds", "measure", "judge", "profiles"):
        (found,) = (n for n, line in enumerate(lines) if line.startswith(f"{section}:"))
        assert lines[found - 1].startswith("#"), section


@pytest.mark.fast
def test_the_verbs_and_options_that_its_comments_name_are_there(here):
    call("init")
    text = Path("spaces/mine.yaml").read_text(encoding="utf-8")
    named = {tuple(words.split()) for words in re.findall(r"ablate ((?:list )?[a-z]+)", text)}
    assert len(named) >= 7
    for words in named:
        assert "Usage" in call(*words, "--help"), words


@pytest.mark.fast
@pytest.mark.parametrize("name", ["first", "1e3", "true", "a-b_c", "x" * 60])
def test_a_name_is_the_file_s_and_the_space_s(name, here):
    call("init", name)
    assert ablate.load_space(name).name == name
    assert f"ablate run {name} " in Path("spaces", f"{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.fast
@pytest.mark.parametrize("name", ["", "a/b", "../up", "a.yaml", ".hidden", "-x", "a b", "a\nb", "é", "x" * 61])
def test_what_is_no_name_is_refused(name, here):
    with pytest.raises(AblateError, match=r"cannot be the name of a space(.|\n)*spaces/NAME\.yaml"):
        call("init", "--", name or "/")
    assert not list(here.iterdir())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_an_example_is_a_copy_of_what_ships(path, here):
    call("init", "--example", path.stem)
    copy = Path("spaces", path.name)
    assert copy.read_bytes() == path.read_bytes()
    call("init", "renamed", "--example", path.stem)
    renamed, shipped = (yaml.safe_load(file.read_text()) for file in (Path("spaces/renamed.yaml"), path))
    assert renamed == {**shipped, "space": "renamed"}


@pytest.mark.fast
def test_nothing_is_overwritten(here):
    call("init")
    before = Path("spaces/mine.yaml").read_bytes()
    for words in (("init",), ("init", "mine", "--example", "op_vs_preln")):
        with pytest.raises(AblateError, match=r"there is already a space mine: spaces/mine\.yaml\n  = .*another name"):
            call(*words)
    Path("beside.yaml").write_text("space: beside\n")
    with pytest.raises(AblateError, match=r"already a space beside: beside\.yaml"):
        call("init", "beside")
    assert Path("spaces/mine.yaml").read_bytes() == before
    assert sorted(path.name for path in here.rglob("*.yaml")) == ["beside.yaml", "mine.yaml"]


@pytest.mark.fast
def test_an_example_that_there_is_not_is_refused_with_those_there_are(here):
    with pytest.raises(AblateError) as refused:
        call("init", "--example", "op_vs_prelm")
    for said in ("did you mean 'op_vs_preln'?", "those that `ablate list spaces` lists"):
        assert said in str(refused.value)


@pytest.mark.fast
def test_a_folder_that_cannot_be_written_is_told(here):
    Path("spaces").write_text("in the way")
    with pytest.raises(AblateError, match=r"cannot write spaces/mine\.yaml"):
        call("init")


@pytest.mark.fast
def test_list_spaces_names_ones_own_then_what_ships(here):
    shipped = json.loads(call("list", "spaces", "--json"))
    assert [one["name"] for one in shipped] == [path.stem for path in SHIPPED]
    assert all(one["shipped"] and Path(one["file"]).is_file() and one["question"].endswith("?") for one in shipped)
    assert {one["name"]: one["profiles"] for one in shipped}["op_vs_preln"] == ["smoke", "paper"]
    call("init")
    call("init", "--example", "op_vs_preln")
    Path("compose.yaml").write_text("services: {}\n")  # somebody else's
    Path("spaces/broken.yaml").write_text("space: [\n")
    listed = json.loads(call("list", "spaces", "--json"))
    assert [one["name"] for one in listed if not one["shipped"]] == ["broken", "mine", "op_vs_preln"]
    assert [one["name"] for one in listed].count("op_vs_preln") == 1
    assert "ablate check spaces/broken.yaml" in listed[0]["question"]
    screen = call("list", "spaces")
    assert "in spaces/" in screen and "Does Pre-LN need its second norm?  --profile smoke" in screen
    assert "skipless" in screen and listed[0]["profiles"] == []


@pytest.mark.fast
def test_init_imports_nothing_heavy(here):
    program = (
        "import sys; sys.argv = ['ablate', 'init']\n"
        "from ablate.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "loaded = {'torch', 'numpy', 'duckdb', 'pandas'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=here, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
