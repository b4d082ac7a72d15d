"""A preset lies over the `space:` of its grammar and under the space itself."""

from pathlib import Path

import pytest
import space_fixtures as worlds
from reading import copy_grammar

from ablate.errors import InputError
from ablate.source.located import to_python
from ablate.space.space import Space

pytestmark = pytest.mark.fast

PRESETS = """\
presets:
  narrow:
    about: a smaller model
    model: {width: 16, heads: 2, position: sinusoidal, embedding: {scale: 3}}
    recipe: {clip: 2.0, steps: 7}
  wide: {model: {width: 64}}
"""


def load(folder: Path, *, presets: str = PRESETS, profile: str | None = None, **sections: str | None) -> Space:
    """The small space over a copy of the shipped grammar that has `presets`."""
    grammar = copy_grammar(folder / "grammar", "with_presets.yaml", more=presets)
    return worlds.space(folder, profile=profile, **{"grammar": str(grammar), **sections})


def test_a_preset_fills_in_what_the_space_leaves_out(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        preset="narrow",
        model="{layers: 4, context: 16, head: untied, embedding: {std: 1}, init: {normal: 0.02}}",
    )
    assert (found.model.width, found.model.heads, found.model.position) == (16, 2, "sinusoidal")
    embedding = to_python(found.located)["model"]["embedding"]
    assert (embedding["std"], embedding["scale"]) == (1, 3)


def test_the_space_is_above_the_preset_and_the_preset_above_the_grammar(tmp_path: Path) -> None:
    found = load(tmp_path, preset="narrow")
    assert found.model.width == 32 and found.recipe.steps == 20
    assert found.recipe.clip == 2.0


def test_without_a_preset_none_counts(tmp_path: Path) -> None:
    assert load(tmp_path).recipe.clip == 1.0


def test_a_profile_may_choose_another(tmp_path: Path) -> None:
    model = "{layers: 4, heads: 4, context: 16, embedding: {std: 1, scale: 1}, head: untied, init: {normal: 0.02}}"
    big = load(tmp_path, preset="narrow", model=model, profiles="{big: {preset: wide}}", profile="big")
    assert (big.model.width, big.recipe.clip, big.model.position) == (64, 1.0, "none")


def test_a_key_that_is_no_section_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown key 'desing' in preset narrow"):
        load(tmp_path, presets=PRESETS.replace("about: a smaller model", "desing: {}"))


def test_a_preset_is_no_question(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown key 'design' in preset narrow"):
        load(tmp_path, presets=PRESETS.replace("about: a smaller model", "design: {}"))


def test_a_block_of_the_space_may_be_described_as_one_of_a_grammar_is(tmp_path: Path) -> None:
    described = "{mine: {about: no skip, parts: [attention, mlp]}, plain: [attention, mlp, mlp]}"
    found = load(tmp_path, blocks=described, design="{compare: [pre_ln, mine, plain]}")
    assert [node.name for node in found.blocks["mine"]] == ["attention", "mlp"]
    assert len(found.blocks["plain"]) == 3
