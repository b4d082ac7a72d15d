"""A file of someone else's is data: it runs no code, loads no plugin, fills no memory, and reads what is beside it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from data_library import read_corpus
from space_fixtures import text

from ablate import api
from ablate.errors import InputError, RefusedError
from ablate.report.screens import check
from ablate.source.yaml import MAX_BYTES, parse_yaml, read_yaml
from ablate.space.data import Data

SMALL = Path(__file__).resolve().parents[1] / "errors" / "grammars" / "small.yaml"


@pytest.fixture
def mark(tmp_path):
    """A file that is there once code of an input has run."""
    mark = tmp_path / "code_has_run"
    yield mark
    assert not mark.exists()


TAGS = (
    "!!python/object/apply:pathlib.Path.touch [{path}]",
    '!!python/object/apply:os.system ["touch {mark}"]',
    '!!python/object/apply:subprocess.check_call [[touch, "{mark}"]]',
    '!!python/object/new:os.system ["touch {mark}"]',
    "!!python/object:ablate.errors.InputError {{args: [x]}}",
    "!!python/name:os.system",
    "!!python/module:this",
    "!<tag:yaml.org,2002:python/object/apply:eval> ['1']",
    "!!python/object/apply:eval [\"__import__('os').system('touch {mark}')\"]",
)


@pytest.mark.fast
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("where", ["a: {}\n", "{}\n", "? {}\n: 1\n", "- {}\n"])
def test_a_tag_is_refused_at_its_place_and_runs_nothing(tag, where, mark):
    written = where.format(tag.format(mark=mark, path=mark))
    with pytest.raises(InputError, match=r"tags \('!…'\) are not supported(.|\n)*--> grammar.yaml:1:\d"):
        parse_yaml(written, "grammar.yaml")


@pytest.mark.fast
def test_the_tags_would_run_code_elsewhere(tmp_path):
    """The twin: PyYAML's own unsafe loader does what these texts ask for."""
    import yaml

    mark = tmp_path / "code_has_run"
    yaml.unsafe_load(f"a: {TAGS[1].format(mark=mark, path=mark)}")
    assert mark.exists()


BOMBS = {
    "aliases": "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{b}: &{b} [{', '.join(f'*{a}' for _ in range(9))}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
    ),
    "merge keys": "a: &a {x: 1}\n"
    + "".join(f"{b}: &{b} {{<<: [*{a}, *{a}], y{b}: 1}}\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)),
    "itself": "a: &a [*a]\n",
    "depth": "[" * 100_000,
    "width": "[" + "1," * 400_000 + "1]",
    "digits": "a: " + "9" * 1_000_000,
    "long key": "a" * 500_000 + ": 1",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_soon(bomb, tmp_path):
    path = tmp_path / "grammar.yaml"
    path.write_text(BOMBS[bomb])
    began = time.process_time()
    with pytest.raises(InputError) as refused:
        api.load_grammar(path)
    assert time.process_time() - began < 5
    assert len(str(refused.value)) < 20_000


@pytest.mark.fast
def test_a_large_file_is_refused_without_being_read_whole(tmp_path):
    path = tmp_path / "grammar.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: nothing is on the disk
    with pytest.raises(InputError, match="is larger than 1 MiB"):
        read_yaml(path)
    path.write_bytes(b"a: " + b"x" * (MAX_BYTES - 3))
    assert read_yaml(path)


EVIL = "__import__('pathlib').Path({mark!r}).touch()\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "said",
    [
        "plugins: [{evil}]\n",
        "plugin: {evil}\n",
        "components: {{mine: {evil}}}\n",
        "blocks: {{odd: [{evil}]}}\n",
        "blocks: {{odd: [{{'{evil}': {{}}}}]}}\n",
        "blocks: {{odd: [evil_module]}}\n",
        "blocks: {{odd: [evil_module.Norm]}}\n",
        "blocks: {{odd: ['evil_module:Norm']}}\n",
        "block: {{attention.position: evil_module}}\n",
    ],
)
def test_yaml_loads_no_plugin(said, mark, tmp_path, monkeypatch):
    evil = tmp_path / "evil_module.py"
    evil.write_text(EVIL.format(mark=str(mark)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(text() + said.format(evil=evil))
    with pytest.raises(InputError, match=r"--> small\.yaml:\d+:\d+"):
        api.load_space("small.yaml")
    (tmp_path / "grammar.yaml").write_text(SMALL.read_text() + said.format(evil=evil))
    with pytest.raises(InputError, match=r"--> grammar\.yaml:\d+:\d+"):
        api.load_grammar("grammar.yaml")
    assert "evil_module" not in sys.modules


@pytest.mark.fast
def test_a_plugin_that_is_asked_for_is_run(tmp_path):
    """The twin: the same file given with --plugin is code."""
    (tmp_path / "evil_module.py").write_text(EVIL.format(mark=str(tmp_path / "code_has_run")))
    with pytest.raises(InputError, match="declares no component"):
        api.catalogue([tmp_path / "evil_module.py"])
    assert (tmp_path / "code_has_run").exists()


@pytest.mark.fast
@pytest.mark.parametrize(
    "written",
    [
        "__import__('os').system('touch {mark}')",
        "().__class__",
        "open('{mark}','w')",
        "exec('1')",
        "depth.__class__",
        "(lambda: 1)()",
    ],
)
def test_arithmetic_is_not_python(written, mark, tmp_path):
    gain = written.format(mark=mark)
    (tmp_path / "small.yaml").write_text(text(blocks=f'{{odd: [residual: {{gain: "{gain}", branch: [mlp]}}]}}'))
    with pytest.raises(InputError, match=r"-->"):
        api.load_space(tmp_path / "small.yaml")


# Paths: what lies beside the file, unless it is absolute, and then it is said.


@pytest.fixture
def world(tmp_path):
    """A folder of a space with texts, and one beside it that is not its business."""
    for folder in ("mine/texts/a", "mine/texts/b", "mine/texts/c", "secret/d", "secret/e", "secret/f"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "1.txt").write_text(folder * 50)
    (tmp_path / "secret" / "grammar.yaml").write_text(SMALL.read_text())
    (tmp_path / "mine" / "inside.yaml").write_text(SMALL.read_text())
    return tmp_path


def space_of(world, **sections):
    path = world / "mine" / "space.yaml"
    path.write_text(text(**{"grammar": "inside.yaml", **sections}))
    return api.load_space(path)


def corpus_of(world, *patterns):
    data = Data(corpus={"files": patterns}, tokenizer="bytes", tuning=0.2, verdict=0.2)
    return read_corpus(data, world / "mine")


@pytest.mark.fast
@pytest.mark.parametrize("pattern", ["../secret/**/*.txt", "texts/../../secret/**", "**/../../secret/*/*.txt", ".."])
def test_a_pattern_does_not_climb_out(world, pattern):
    with pytest.raises(InputError, match=r"'\.\.' leads out of the folder of the space(.|\n)*space\.yaml:\d+:\d+"):
        space_of(world, data=f'{{corpus: {{files: ["texts/**/*.txt", "{pattern}"]}}}}')


@pytest.mark.fast
@pytest.mark.parametrize("pattern", ["~nobody_of_that_name/*.txt", "a\\0b"])
def test_a_pattern_that_is_no_path_is_refused(world, pattern):
    with pytest.raises(InputError, match=r"space\.yaml:\d+:\d+"):
        space_of(world, data=f'{{corpus: {{files: ["{pattern}"]}}}}')


@pytest.mark.fast
@pytest.mark.parametrize("link", ["folder", "file"])
def test_a_pattern_does_not_follow_a_link_out(world, link):
    if link == "folder":
        (world / "mine" / "texts" / "z").symlink_to(world / "secret" / "d")
    else:
        (world / "mine" / "texts" / "a" / "2.txt").symlink_to(world / "secret" / "d" / "1.txt")
    with pytest.raises(RefusedError, match=r"leads to .*secret/d/1\.txt, outside the folder of the space.*\n  = "):
        corpus_of(world, "texts/**/*.txt")
    (world / "mine" / "spare.txt").write_text("spare")
    (world / "mine" / "texts" / "a" / "3.txt").symlink_to(world / "mine" / "spare.txt")  # a link inside
    assert corpus_of(world, "texts/[abc]/[13].txt").texts["train"]


@pytest.mark.fast
def test_an_absolute_pattern_is_read_and_said(world):
    from ablate.data.streams import fingerprint

    absolute = f"{world}/secret/**/*.txt"
    said = f"text {absolute} is from outside the folder of the space"
    assert corpus_of(world, absolute).notes == (said,)
    assert corpus_of(world, f"{world}/mine/texts/*/*.txt").notes == ()
    space = space_of(world, data=f'{{corpus: {{files: ["{absolute}"]}}, tuning: 20%, verdict: 20%}}')
    report = fingerprint(space.data, space.folder, world / "cache")
    assert said in report.notes and f"note: {said}" in report.describe()
    assert f"note: {said}" in str(check.space(space, api.check(space)))


@pytest.mark.fast
@pytest.mark.parametrize("name", ["../secret/grammar.yaml", "./../secret/grammar.yaml", "../../secret/grammar"])
def test_a_grammar_does_not_lie_outside(world, name):
    (world / "mine" / "grammars").mkdir()
    with pytest.raises(InputError, match=r"leads out of .*(.|\n)*space\.yaml:\d+:\d+(.|\n)*an absolute path"):
        space_of(world, grammar=name)


@pytest.mark.fast
@pytest.mark.parametrize("name", ["linked.yaml", "linked"])
def test_a_grammar_is_no_link_outside(world, name):
    (world / "mine" / "grammars").mkdir()
    for folder in ("mine", "mine/grammars"):
        (world / folder / "linked.yaml").symlink_to(world / "secret" / "grammar.yaml")
    with pytest.raises(InputError, match=r"leads out of .*(.|\n)*space\.yaml:\d+:\d+"):
        space_of(world, grammar=name)


@pytest.mark.fast
def test_an_absolute_grammar_is_read_and_said(world):
    said = f"the grammar {world}/secret/grammar.yaml is from outside the folder of the space"
    space = space_of(world, grammar=str(world / "secret" / "grammar.yaml"))
    assert said in str(check.space(space, api.check(space)))
    inside = space_of(world, grammar=str(world / "mine" / "inside.yaml"))
    assert "outside" not in str(check.space(inside, api.check(inside)))


@pytest.mark.fast
@pytest.mark.parametrize(
    "name", ["../secret/paper.yaml", "linked.yaml", "{world}/secret/paper.yaml", "a/../../secret/paper.yaml"]
)
def test_an_include_stays_in_the_folder_of_its_grammar(world, name):
    (world / "secret" / "paper.yaml").write_text("paper: x\nblocks: {}\n")
    (world / "mine" / "linked.yaml").symlink_to(world / "secret" / "paper.yaml")
    path = world / "mine" / "grammar.yaml"
    path.write_text(SMALL.read_text() + f'include: ["{name.format(world=world)}"]\n')
    with pytest.raises(InputError, match=r"is not in the grammar's folder(.|\n)*grammar\.yaml:\d+:\d+"):
        api.load_grammar(path)


@pytest.mark.full
def test_the_command_line_says_it_as_an_error_of_the_input(world):
    path = world / "mine" / "space.yaml"
    path.write_text(text(grammar="inside.yaml", data='{corpus: {files: ["../secret/*/*.txt"]}}'))
    done = subprocess.run(
        [sys.executable, "-c", "from ablate.cli import main; main()", "check", path], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr
