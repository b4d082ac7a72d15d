"""README and the manual stay true: what they tell to type is what works."""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
from pathlib import Path

import pandas
import pytest
import typer
import yaml
from documents import DOCUMENTS, MANUAL, README, ROOT, code, commands
from rich.console import Console
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate.cli import app
from ablate.errors import AblateError
from ablate.extension.declaration import KINDS, OBJECTIVE, OPTIMIZER, SAMPLER
from ablate.extension.loader import shipped
from ablate.space.metrics import askable_probes
from ablate.testing import ComponentContract

COMMANDS = commands()
SQL = [words for words in COMMANDS if words[0] == "sql"]
LOOKING = [words for words in COMMANDS if words[0] in ("show", "diff", "list", "docs") and "--plugin" not in words]
INLINE = sorted({line for text in DOCUMENTS.values() for line in re.findall(r"`(ablate [a-z][^`…]*)`", text)})
"""Commands within sentences, and in comments of YAML and shell."""
PARTS = [(name, block) for name in DOCUMENTS for block in code(name, "yaml") if "space" not in yaml.safe_load(block)]
"""Parts of a space."""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    claim = "judge.expect=[{claim: Fig. 1, of: op, metric: eval_loss, verdict: better}]"
    space = ablate.load_space(write_world(folder), settings=["seeds=1", claim])
    ablate.run(space, results=folder / "results", executor="inline", console=Console(quiet=True), mirror=False)
    runs = pandas.read_csv(io.StringIO(code("judge", "csv")[0]))
    ablate.judge(runs, metrics="loss", space="runs", results=folder / "results")
    return folder / "results"


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A folder with the space that `init` writes and every file that the documents add things by."""
    folder = tmp_path_factory.mktemp("examples")
    shipped_space = ROOT / "ablate" / "space" / "template.yaml"
    (folder / "mine.yaml").write_text(shipped_space.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "poems.txt").write_text("one line\nand another\n", encoding="utf-8")
    for document in DOCUMENTS:
        for file in {word for words in COMMANDS for word in words if word.endswith(".py")}:
            if f"--plugin {file}" in DOCUMENTS[document]:
                (folder / file).write_text(code(document, "python")[0], encoding="utf-8")
    return folder


def test_there_are_statements():
    assert len(SQL) >= 7


@pytest.mark.sampled(4)
@pytest.mark.parametrize("words", SQL, ids=" ".join)
def test_every_statement_answers(words, results):
    words = [word.replace("op_vs_preln", "tiny") for word in words]
    formats = [] if "--format" in words else ["--json"]
    done = CliRunner().invoke(app, [*words, *formats, "--results", str(results)])
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) >= 2


@pytest.mark.sampled(4)
@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_every_look_at_blocks_shows_something(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) >= 2


def parse(words: list[str]) -> None:
    """Read a command line as the program would, and start nothing; an unknown verb or option ends the test."""
    command, name = typer.main.get_command(app), "ablate"
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name, *words = words
        assert name in command.commands, f"no verb {name}"
        command = command.commands[name]
    if words or not hasattr(command, "commands"):
        command.make_context(name, list(words))


@pytest.mark.sampled(20, gate="all")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_verbs_and_options_that_there_are(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parse(words)


@pytest.mark.parametrize("line", INLINE)
def test_so_has_every_command_within_a_sentence(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(line)
    if words[:1] != ["docs"] and len(words) == 1:
        words = []  # the name of a verb alone stands for it with whatever it takes
        assert line.split()[1] in typer.main.get_command(app).commands
    if words:
        parse([word.replace("…", "").replace("FOLDER", ".").replace("/shared/results", ".") for word in words])


@pytest.mark.fast
@pytest.mark.parametrize("line", ["ablate rnu mine", "ablate run mine --fersh", "ablate list blokcs"])
def test_a_command_that_there_is_not_would_be_found(line):
    with pytest.raises(BaseException, match=r"no verb|fersh"):
        parse(line.split()[1:])


@pytest.mark.fast
def test_the_space_it_shows_is_the_one_that_init_writes(tmp_path, monkeypatch):
    shown = [block for name in DOCUMENTS for block in code(name, "yaml") if block.startswith("# spaces/mine.yaml")]
    assert len(shown) == 2 and shown[0] == shown[1]
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init"]).exit_code == 0
    written = yaml.safe_load(Path("spaces/mine.yaml").read_text(encoding="utf-8"))
    assert written.pop("profiles")
    assert yaml.safe_load(shown[0]) == written


@pytest.mark.fast
@pytest.mark.parametrize(("name", "block"), PARTS, ids=[name for name, _ in PARTS])
def test_every_part_of_a_space_is_one_as_it_stands(name, block, examples, monkeypatch):
    """Laid over the space that `init` writes."""
    sections = yaml.safe_load(block)
    monkeypatch.chdir(examples)
    loaded = ablate.load_space(
        "mine",
        settings=[f"{key}={json.dumps(value)}" for key, value in sections.items()],
        plugins=[file for file in ("dyt.py", "neighbour.py") if file in DOCUMENTS[name]],
    )
    assert loaded.name == "mine"


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
def test_every_space_they_run_by_name_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init"]).exit_code == 0
    texts = "\n".join(DOCUMENTS.values())
    names = set(re.findall(r"\bablate (?:run|check|plan|report) ([a-z_]+)(?=[\s`])", texts))
    assert len(names) >= 5
    for name in names:
        assert ablate.load_space(name).name == name


RUNS = [words for words in COMMANDS if words[0] in ("run", "check", "list") and "--plugin" in words]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_what_runs_with_a_file_of_ones_own_is_a_question_that_can_be_asked(words, examples, monkeypatch):
    """`check` stands for `run`: all is read, and nothing trained."""
    monkeypatch.chdir(examples)
    verb, *others = words
    done = CliRunner().invoke(app, ["list" if verb == "list" else "check", *others])
    assert done.exit_code == 0, done.output


@pytest.mark.fast
def test_every_block_of_python_is_run_by_a_test():
    """README's here; those of components, of tables and of Python in files of their own, the others together."""
    own_things = {"optimizer", "schedule", "objective", "sampler", "probe", "corpus"}
    assert {name for name in DOCUMENTS if code(name, "python")} == {
        "README",
        "component",
        "forecast",
        "judge",
        "python",
        *own_things,
    }
    assert len(RUNS) >= 6 and len(code("README", "python")) == len(code("python", "python")) == 1


@pytest.mark.fast
def test_the_terms_of_the_manual_are_those_of_the_space_it_names():
    shown = yaml.safe_load(code("fair", "yaml")[0])
    assert shown["fair"] == yaml.safe_load((ROOT / "spaces" / "sas_p_fair.yaml").read_text(encoding="utf-8"))["fair"]


@pytest.mark.fast
def test_the_component_of_readme_holds_the_contract(tmp_path):
    (tmp_path / "pool.py").write_text(code("README", "python")[0], encoding="utf-8")

    class Contract(ComponentContract):
        plugins = (tmp_path / "pool.py",)
        component = "pool"

    Contract().check_all()


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
def test_the_moments_of_the_manual_are_what_it_says():
    names = {}
    exec(code("forecast", "python")[0], names)
    y, same = names["y"], names["same"]
    assert (y.variance, y.correlation) == pytest.approx((same.variance, same.correlation), rel=1e-12)
    said = (round(y.variance, 2), round(y.correlation, 3), round(names["rest"], 3), round(names["share"], 2))
    assert said == (1.11, 0.434, 0.821, 0.50) and all(
        text in MANUAL["forecast"] for text in ("variance 1.11", "correlation 0.434", "# 0.821", "# 0.50")
    )


@pytest.mark.fast
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_files_a_document_names_exist_and_its_python_can_be_read(name):
    text = DOCUMENTS[name]
    for path in re.findall(r"`((?:ablate|spaces|grammars)/[\w/]+(?:\.py|\.yaml|/))`", text):
        if path != "spaces/mine.yaml":
            assert (ROOT / path).exists(), path
    for path in re.findall(r"\]\(([^):]+)\)", text):
        assert (ROOT / path).is_file(), path
    for block in code(name, "python"):
        ast.parse(block)


@pytest.mark.fast
def test_readme_leads_to_every_page_and_is_short():
    own = {"component", "probe", "optimizer", "schedule", "objective", "sampler", "corpus", "install"}
    linked = set(re.findall(r"\(ablate/docs/(\w+)\.md\)", README.partition("## Where to go next")[2]))
    assert linked == MANUAL.keys() - own
    assert {topic for topic in own if f"ablate docs {topic}`" in MANUAL["extending"]} == own - {"install"}
    assert len(README.splitlines()) <= 250


@pytest.mark.fast
def test_extending_names_every_kind():
    for kind in KINDS:
        assert f"`{kind.group}`" in MANUAL["extending"] and f"| {kind.noun} |" in MANUAL["extending"]


@pytest.mark.fast
def test_every_probe_is_measured_somewhere_in_the_manual():
    """At its own place; what is read elsewhere, or as a paper's code has it, has a rule for its name there."""
    variant = re.compile(r"_(as_released|centred|before_sublayers|behind_norms|in_training)$")
    names = {name for name in askable_probes(ablate.catalogue()) if not variant.search(name)}
    assert len(names) >= 9 and not [name for name in names if f"`{name}`" not in MANUAL["measurements"]]


@pytest.mark.fast
def test_all_optimisers_and_samplers_are_named():
    for kind, page in ((OPTIMIZER, "space"), (OBJECTIVE, "space"), (SAMPLER, "search")):
        assert not [spec.name for spec in shipped(kind) if not re.search(rf"\b{spec.name}\b", MANUAL[page])]
