"""`variants:` of a space: treatments that change anything that decides how a model is built and trained."""

import pytest
from space_fixtures import space

from ablate.block.expression import print_block
from ablate.errors import InputError
from ablate.source.problems import Problems
from ablate.space.changes import with_changes

VARIANTS = """
  hot:   {block: op, set: {recipe.optimizer.adamw.lr: 2e-2}}
  mixed: {block: op, set: {model: {layers: 8}, recipe.batch: 8, block.attention.scale: 1/width}}
  sgd:   {block: pre_ln, set: {recipe.optimizer: {sgd: {lr: 0.1, momentum: 0.9}}}}
"""


@pytest.mark.fast
def test_what_is_set_in_the_block_is_part_of_the_block_and_the_rest_is_changed_around_it(tmp_path):
    found = space(tmp_path, variants=VARIANTS, design="{compare: [pre_ln, mixed, op]}")
    assert found.changes_of("mixed") == (("model.layers", 8), ("recipe.batch", 8))
    assert found.changes_of("op") == ()
    assert found.blocks["mixed"] != found.blocks["op"]
    assert "1/width" in print_block(found.blocks["mixed"]) and "1/width" not in print_block(found.blocks["op"])


def test_a_change_is_laid_over_the_space_as_an_option_of_the_command_line_would_be(tmp_path):
    found = space(tmp_path, variants=VARIANTS, design="{compare: [pre_ln, hot, sgd]}")
    for name, setting in (
        ("hot", "recipe.optimizer.adamw.lr=2e-2"),
        ("sgd", "recipe.optimizer={sgd: {lr: 0.1, momentum: 0.9}}"),
    ):
        changed = with_changes(found, found.variants[name].changes, Problems())
        asked = space(tmp_path, setting, design="{compare: [pre_ln, op]}")
        assert changed is not None
        assert changed.recipe == asked.recipe and changed.recipe != found.recipe
        assert (changed.model, changed.around, changed.data) == (asked.model, asked.around, asked.data)


@pytest.mark.fast
def test_a_variant_that_no_design_names_is_checked_all_the_same(tmp_path):
    with pytest.raises(InputError, match="unknown key 'bach' in recipe"):
        space(tmp_path, variants="{hot: {block: op, set: {recipe.bach: 2}}}")


@pytest.mark.fast
def test_a_search_from_a_variant_is_a_search_of_the_space_with_its_changes(tmp_path):
    search = "{search: {from: hot, objective: {eval_loss: min}, budget: {trials: 4}}}"
    judge = "{against: hot, metrics: {eval_loss: {margin: 1%}}}"
    found = space(tmp_path, variants=VARIANTS, design=search, judge=judge, seeds="1")
    assert found.recipe.optimizer.settings["lr"] == 2e-2
    assert found.changes_of("hot") == ()
