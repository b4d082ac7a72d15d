"""README stays true: what it tells to type is what works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner
from worlds import write_world

import ablate
from ablate.cli import app
from ablate.errors import AblateError

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

SQL = [shlex.split(line, comments=True)[1:] for line in re.findall(r"^ablate sql .*$", README, re.MULTILINE)]
LOOKING = [shlex.split(line, comments=True)[1:] for line in re.findall(r"^ablate (?:show|diff|list) .*$", README, re.M)]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    space = ablate.load_space(write_world(folder), settings=["seeds=1"])
    ablate.run(space, results=folder / "results", executor="inline", console=Console(quiet=True), mirror=False)
    return folder / "results"


def test_there_are_statements():
    assert len(SQL) >= 7


@pytest.mark.parametrize("words", SQL, ids=" ".join)
def test_every_statement_answers(words, results):
    words = [word.replace("op_vs_preln", "tiny") for word in words]
    formats = [] if "--format" in words else ["--json"]
    done = CliRunner().invoke(app, [*words, *formats, "--results", str(results)])
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) >= 2


@pytest.mark.fast
@pytest.mark.parametrize("words", [words for words in LOOKING if "--plugin" not in words], ids=" ".join)
def test_every_look_at_blocks_shows_something(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) >= 2


@pytest.mark.fast
def test_the_space_it_shows_is_the_one_that_init_writes(tmp_path, monkeypatch):
    shown = re.search(r"```yaml\n# spaces/mine.yaml\n(.*?)```", README, re.DOTALL)
    assert shown
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init"]).exit_code == 0
    written = yaml.safe_load(Path("spaces/mine.yaml").read_text(encoding="utf-8"))
    assert written.pop("profiles")
    assert yaml.safe_load(shown[1]) == written


@pytest.mark.fast
@pytest.mark.parametrize("place", ["readme", "init"])
def test_each_text_that_a_comment_offers_is_one_as_it_stands(place, tmp_path, monkeypatch):
    """Copied from the comment into `data`, with its key and all."""
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init"]).exit_code == 0
    shown = re.search(r"```yaml\n# spaces/mine.yaml\n(.*?)```", README, re.DOTALL)
    text = shown[1] if place == "readme" else Path("spaces/mine.yaml").read_text(encoding="utf-8")
    comments = " ".join(line.partition("# ")[2] for line in text.splitlines())
    offered = re.findall(r"((?:\w+: )?)(\{(?:files|hub|bpe): [^}]*\})", comments)
    assert {kind[1:5] for _, kind in offered} >= {"file", "hub:"}
    for key, value in offered:
        data = ablate.load_space("mine", settings=[f"data={{{key}{value}}}"]).data
        said = data.tokenizer.model_fields_set if "bpe" in value else data.corpus.settings
        assert yaml.safe_load(value).keys() <= set(said)


@pytest.mark.fast
def test_every_space_it_runs_by_name_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init"]).exit_code == 0
    names = set(re.findall(r"\bablate (?:run|check|plan) ([a-z_]+)(?=[\s`])", README))
    assert len(names) >= 5
    for name in names:
        assert ablate.load_space(name).name == name


@pytest.mark.fast
def test_a_block_compiles_from_python():
    import torch

    grammar = ablate.load_grammar(ROOT / "grammars" / "transformer.yaml")
    sizes = ablate.Sizes(n_layers=6, d_model=16, n_heads=2, seq_len=8, vocab_size=256)
    block = ablate.compile_block(grammar.block("op"), sizes, init="normal: {std: 0.02}", seed=3)
    assert block(torch.zeros(1, 8, 16)).shape == (1, 8, 16)
    with pytest.raises(AblateError, match="did you mean 'normal'"):
        ablate.compile_block(grammar.block("op"), sizes, init="nromal: {std: 0.02}")


@pytest.mark.fast
def test_the_files_it_names_exist():
    for name in re.findall(r"`((?:ablate|spaces|grammars)/[\w/]+\.(?:py|yaml))`", README):
        assert (ROOT / name).exists(), name
