"""What `show` and `list` print: the tree reads back, the numbers are those of the plan, the papers are named."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import CATALOGUE, many_blocks
from reading import ROOT, transformer
from rich.console import Console

from ablate.block.expression import Block
from ablate.block.sizes import Cost
from ablate.errors import InputError
from ablate.plan.size import block_costs, part_costs
from ablate.report.screens import block, catalogue
from ablate.report.screens.block import DIM, tree
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.load import load_space

GOLDEN = Path(__file__).parent / "shown"


def text(renderable: object, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(renderable, crop=False)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def find(name: str, **sizes: int) -> block.ShownBlock:
    return block.find(name, transformer(), None, sizes)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", [*many_blocks(), *transformer().blocks])
def test_the_tree_reads_back(name: str) -> None:
    block = many_blocks().get(name) or transformer().block(name)
    written = tree(block, transformer().defaults)
    problems = Problems()
    read = transformer().reader_for(problems).block(parse_yaml(written.plain, name))
    problems.raise_if_any()
    assert read == block


def dimmed(block: Block) -> str:
    found = tree(block, transformer().defaults)
    return " ".join(found.plain[span.start : span.end] for span in found.spans if span.style == DIM)


@pytest.mark.fast
def test_what_the_defaults_filled_in_is_dim_and_nothing_else() -> None:
    found = dimmed(transformer().block("op"))
    assert "matrix: softmax" in found and "hidden: 4x" in found and "scale: true" in found
    assert "1/sqrt(2*depth)" not in found and "qk_norm" not in found


@pytest.mark.fast
@pytest.mark.parametrize("name", ["pre_ln", "sas", "parallel"])
def test_costs_are_those_of_the_plan(name: str) -> None:
    found = find(name, n_layers=4, d_model=64, n_heads=4)
    by_hand = [block_costs(found.block, found.sizes, found.catalogue, layer) for layer in (1, 2, 3, 4)]
    assert found.total() == sum((cost for costs in by_hand for cost in costs.values()), Cost())
    (_, first), *later = found.costs()
    assert list(first.values()) == list(by_hand[0].values())
    assert [title for title, _ in later] == (["layer 2"] if name == "sas" else [])


@pytest.mark.fast
def test_the_screen_says_which_sizes_the_numbers_are_for() -> None:
    assert "L = 12 layers, d = 768, H = 12 heads" in text(block.screen(find("op")))
    asked = text(block.screen(find("op", n_layers=3, d_model=32, n_heads=2, seq_len=8, vocab_size=99)))
    assert "L = 3 layers, d = 32, H = 2 heads, T = 8 tokens of V = 99" in asked
    assert "as requested, the others for display" in " ".join(asked.split())
    assert "β = 1/√(2L) = 0.4082" in asked


@pytest.mark.fast
def test_what_is_solved_for_a_depth_is_shown_at_one_that_has_a_solution() -> None:
    assert find("e_spa_tat").sizes.n_layers > 12
    assert find("pre_ln").sizes.n_layers == 12
    with pytest.raises(InputError):
        text(block.screen(find("e_spa_tat", n_layers=12)))


def test_a_space_gives_its_sizes_and_its_overrides() -> None:
    space = load_space(ROOT / "spaces" / "op_vs_preln.yaml", CATALOGUE)
    found = block.find("op", None, space, {})
    assert (found.sizes.d_model, found.sizes.vocab_size) == (space.model.width, 256)
    assert "RoPE" in found.written() and "ReLU" in found.written()
    assert "with its overrides" in found.where
    other = block.find("sas", None, space, {})
    assert "with its overrides" not in other.where and other.block == transformer().block("sas")


def test_a_block_that_reads_a_source_is_counted_at_its_length() -> None:
    """What is shown is the plan's: cross-attention over 96 frames, and a vocabulary with what starts and fills up."""
    space = load_space(ROOT / "spaces" / "encoder_decoder.yaml", CATALOGUE)
    found = block.find("pre_ln_plain", None, space, {})
    architecture = space.architecture(space.blocks["pre_ln_plain"], 25)
    of_plan = {name: cost for name, cost in part_costs(architecture, CATALOGUE).items() if name.startswith("layers.")}
    assert found.total() == sum(of_plan.values(), Cost())
    layers, width, context, source = 4, 64, 12, 96
    ((_, parts),) = found.costs()
    both = {
        name: parts[name].flops + sum(c.flops for n, c in parts.items() if n.startswith(f"{name}.")) for name in parts
    }
    products = 2 * 2 * context * source * width
    assert both["attention_2"] == products + 2 * (2 * context + 2 * source) * width**2
    assert both["attention"] == 2 * 2 * context**2 * width + 2 * 4 * context * width**2
    shown = " ".join(text(block.screen(found)).split())
    assert "T = 12 tokens of V = 27, S = 96 of the source" in shown
    assert f"all {layers} blocks of the decoder" in shown
    said = json.loads(block.as_json(found))
    assert (said["sizes"]["source"], said["sizes"]["vocabulary"]) == (source, 27)
    assert said["all_layers"] == {
        "stack": "decoder",
        "parameters": found.total().parameters,
        "flops": found.total().flops,
    }
    plain = json.loads(block.as_json(find("op")))
    assert "source" not in plain["sizes"] and "stack" not in plain["all_layers"]


@pytest.mark.fast
def test_the_json_says_all_of_it() -> None:
    said = json.loads(block.as_json(find("op")))
    assert said["name"] == "op" and said["equation"]["lines"][0] == "x₁ = x + β Attn(x)"
    assert (
        said["block"][0]["residual"]["branch"][0]["attention"]["entropy"]["qk_norm"]["norm"]["rms_norm"]["eps"] == 1e-8
    )
    assert said["all_layers"]["parameters"] == 12 * sum(row["parameters"] for row in said["costs"])


@pytest.mark.fast
def test_an_unknown_block_is_told_with_what_was_meant() -> None:
    with pytest.raises(InputError, match="did you mean 'pre_ln'"):
        find("pre_lm")


@pytest.mark.fast
def test_blocks_stand_under_their_papers() -> None:
    found = text(catalogue.blocks(transformer()))
    papers = {named.paper for named in transformer().blocks.values() if named.paper}
    assert papers
    for paper in papers:
        assert found.replace("\n", " ").count(paper) == 1
    for name in transformer().blocks:
        assert f"\n{name} " in f"\n{found}"
    rows = json.loads(str(catalogue.blocks(transformer(), as_json=True)))
    assert [row["name"] for row in rows] == list(transformer().blocks)
    assert {"about", "source", "paper", "written", "fingerprint"} <= set(rows[0])


@pytest.mark.fast
def test_presets_are_listed() -> None:
    assert [row["name"] for row in json.loads(str(catalogue.presets(transformer(), as_json=True)))] == list(
        transformer().presets
    )
    none = replace(transformer(), presets={})
    assert "has no presets" in text(catalogue.presets(none))


@pytest.mark.fast
def test_components_are_listed_with_their_source() -> None:
    found = text(catalogue.components(CATALOGUE))
    assert "slot norm" in found or "slot part, norm" in found
    rows = json.loads(str(catalogue.components(CATALOGUE, as_json=True)))
    assert [row["name"] for row in rows] == [spec.name for spec in CATALOGUE]
    assert all(row["source"] and row["summary"] for row in rows)


@pytest.mark.fast
@pytest.mark.parametrize("name", ["pre_ln", "op", "sas"])
def test_screen_is_as_it_was_read(name: str, golden) -> None:
    golden(GOLDEN / f"{name}.txt", text(block.screen(find(name))) + "\n")


@pytest.mark.fast
def test_a_variant_is_shown_with_what_it_sets_around_its_block(golden) -> None:
    """Its sizes are those that it sets, as are the numbers."""
    deep_thin = load_space(ROOT / "spaces" / "deep_thin.yaml", CATALOGUE)
    deep, shallow = (block.find(name, None, deep_thin, {}) for name in ("deep", "dslm_pre_ln"))
    golden(GOLDEN / "deep.txt", text(block.screen(deep)) + "\n")
    assert deep.sizes.n_layers == 12 and shallow.sizes.n_layers == 4
    assert deep.total().parameters == 3 * shallow.total().parameters
    assert "Around the block" not in text(block.screen(shallow))
    assert json.loads(block.as_json(deep))["changes"] == {"model.layers": 12}
    assert json.loads(block.as_json(shallow))["changes"] == {}
    recipe = block.find("sgd", None, load_space(ROOT / "spaces" / "outlier_recipe.yaml", CATALOGUE), {})
    assert "recipe.optimizer: {sgd: {lr: 0.5, momentum: 0.9}}" in text(block.screen(recipe))
