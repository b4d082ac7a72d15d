"""Grammars of several files, and the presets and descriptions in them. The texts of mistakes are in tests/errors."""

from pathlib import Path

import pytest
from builders import CATALOGUE
from reading import transformer

from ablate.errors import InputError
from ablate.grammar.grammar import Grammar, load_grammar

pytestmark = pytest.mark.fast

MAIN = """\
grammar: small
{include}
defaults:
  residual: {{skip: 1, gain: 1, branch: []}}
  simple_rms_norm: {{eps: 1e-8}}
rules: {{block: [residual: [simple_rms_norm]]}}
start: block
blocks:
  plain: [simple_rms_norm]
  told: {{about: "what it\n    is", parts: [simple_rms_norm]}}
"""
PAPER = """\
paper: He et al. 2023, arXiv:2302.10322
defaults: {layer_norm: {eps: 1e-5, scale: true, bias: true}}
blocks:
  normed: {source: Fig. 1, parts: [layer_norm]}
  bare: []
presets:
  long: {about: the long run, source: App. G, recipe: {steps: 3}}
constraints:
  - {forbid: {residual: any, norm: layer_norm}, because: it is only a test}
"""


def load(folder: Path, *, include: str = "include: [papers/one.yaml]", **files: str) -> Grammar:
    (folder / "papers").mkdir(exist_ok=True)
    (folder / "grammar.yaml").write_text(MAIN.format(include=include), encoding="utf-8")
    for name, text in files.items():
        (folder / "papers" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return load_grammar(folder / "grammar.yaml", CATALOGUE)


def test_what_is_included_is_part_of_the_grammar(tmp_path: Path) -> None:
    found = load(tmp_path, one=PAPER)
    assert list(found.blocks) == ["plain", "told", "normed", "bare"]
    assert found.block("normed").parts[0]["eps"] == 1e-5
    assert list(found.presets) == ["long"]
    assert found.presets["long"].sections.get("about") is None and "recipe" in found.presets["long"].sections
    assert [constraint.because for constraint in found.constraints] == ["it is only a test"]


def test_a_file_that_is_not_included_is_not(tmp_path: Path) -> None:
    assert list(load(tmp_path, include="", one=PAPER).blocks) == ["plain", "told"]


def test_a_grammar_is_read_once_and_again_when_a_file_of_it_says_something_else(tmp_path: Path) -> None:
    before = load(tmp_path, one=PAPER)
    assert load(tmp_path, one=PAPER) is before
    assert list(load(tmp_path, one=PAPER.replace("bare", "other")).blocks) == ["plain", "told", "normed", "other"]


def test_blocks_and_presets_say_what_they_are_and_where_from(tmp_path: Path) -> None:
    found = load(tmp_path, one=PAPER)
    texts = {name: (block.about, block.source, block.paper) for name, block in found.blocks.items()}
    paper = "He et al. 2023, arXiv:2302.10322"
    assert texts["plain"] == ("", "", "")
    assert texts["told"] == ("what it is", "", "")
    assert texts["normed"] == ("", "Fig. 1", paper)
    preset = found.presets["long"]
    assert (preset.about, preset.source, preset.paper) == ("the long run", "App. G", paper)


def test_a_description_changes_no_block(tmp_path: Path) -> None:
    found = load(tmp_path, one=PAPER)
    assert found.block("plain") == found.block("told")


def test_a_mistake_is_shown_in_the_file_where_it_stands(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        load(tmp_path, one=PAPER.replace("[layer_norm]", "[layer_nrom]"))
    assert "papers/one.yaml:4:" in str(refused.value)
    assert "did you mean 'layer_norm'?" in str(refused.value)


def test_mistakes_of_two_files_are_shown_together(tmp_path: Path) -> None:
    broken = PAPER.replace("[layer_norm]", "[layer_nrom]")
    other = "blocks:\n  third: [layer_nrom]\n"
    with pytest.raises(InputError) as refused:
        load(tmp_path, include="include: [papers/one.yaml, papers/two.yaml]", one=broken, two=other)
    assert "papers/one.yaml:4" in str(refused.value) and "papers/two.yaml:2" in str(refused.value)


def test_a_file_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("blocks: {stolen: []}\n", encoding="utf-8")
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    for name in ("../secret.yaml", str(tmp_path / "secret.yaml"), "link.yaml"):
        with pytest.raises(InputError, match="is not in the grammar's folder"):
            load(folder, include=f"include: [{name}]")


def test_the_shipped_blocks_have_names_once() -> None:
    assert len({named.key.span for named in transformer().blocks.values()}) == len(transformer().blocks)
