"""What stands around the blocks: arithmetic, learned positions with rows of their own, dropout, the logits' scale."""

from pathlib import Path

import pytest
from space_worlds import space

from ablate.block.arithmetic import parse
from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.plan.identity import model_identity

pytestmark = pytest.mark.fast


def model(found):
    return found.architecture(found.blocks["op"], 77)


def test_it_is_arithmetic_that_is_kept_as_written(tmp_path: Path) -> None:
    found = model(
        space(
            tmp_path,
            "model.embedding={std: sqrt((1-0.1)/3), scale: sqrt(width), dropout: 10%}",
            "model.position={learned: sqrt((1 - 0.1) / 3)}",
            "model.logit_scale=1/sqrt(0.3*width)",
        )
    )
    assert (found.embedding_std.text, found.logit_scale.text) == ("sqrt((1-0.1)/3)", "1/sqrt(0.3*width)")
    assert found.number("embedding_std") == pytest.approx(0.3**0.5)
    assert found.number("logit_scale") == pytest.approx((0.3 * 32) ** -0.5)
    assert found.numbers()["embedding_scale"] == pytest.approx(32**0.5)
    assert (found.embedding_dropout, found.position_rows) == (0.1, 16)


def test_what_is_left_out_is_in_the_grammar(tmp_path: Path) -> None:
    found = model(space(tmp_path))
    assert (found.logit_scale, found.embedding_dropout, found.position_rows) == (parse(1), 0.0, None)


def test_learned_positions_have_rows_of_their_own(tmp_path: Path) -> None:
    found = model(space(tmp_path, "model.position={learned: {std: 0.02, rows: 1024}}"))
    assert (found.position_std, found.position_rows) == (parse(0.02), 1024)
    same = (
        model(space(tmp_path, f"model.position={text}"))
        for text in ("{learned: 0.02}", "{learned: {std: 0.02, rows: 16}}")
    )
    assert len(set(same)) == 1


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.logit_scale=0", "model.logit_scale must be greater than 0, got 0"),
        ("model.logit_scale=1/widht", "model.logit_scale: unknown size 'widht'"),
        (
            "model.logit_scale=[1]",
            "model.logit_scale: expected a number, or arithmetic in the sizes such as 1/",
        ),
        ("model.embedding.std=true", "model.embedding.std: expected a number, or arithmetic"),
        ("model.embedding.scale=2**", "model.embedding.scale: '2**' is not arithmetic"),
        ("model.embedding.dropout=1", "model.embedding.dropout must be less than 1, got 1"),
        ("model.position={learned: -1}", "model.position.learned must be greater than 0, got -1"),
        ("model.position={learned: {std: 0.02, rows: 0}}", "model.position.learned.rows must be at least 1, got 0"),
        ("model.position={learned: {std: 0.02, row: 9}}", "unknown key 'row' in model.position.learned"),
    ],
)
def test_mistakes_are_told_at_their_place(tmp_path: Path, setting: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        space(tmp_path, setting)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.position={learned: {std: 0.02, rows: 8}}", "model.position has 8 rows for a context of 16 tokens"),
        ("model.logit_scale=1-depth", "model.logit_scale is 1-depth, which is -3 at these sizes"),
        ("model.embedding.std=1/layer", "model.embedding.std is 1/layer, which has no value outside the layers"),
        ("model.init={normal: 1/layer}", "normal.std is 1/layer, which has no value outside the layers"),
    ],
)
def test_what_the_sizes_do_not_bear_is_refused_with_the_plan(tmp_path: Path, setting: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        build_plan(space(tmp_path, setting), vocab_size=256, corpus="corpus")
    assert said in str(refused.value)


def test_what_a_model_is_depends_on_the_numbers_and_not_on_their_spelling(tmp_path: Path) -> None:
    def identity(*settings: str):
        found = space(tmp_path, *settings)
        return model_identity(model(found), found.grammar.catalogue)

    plain = identity("model.logit_scale=0.25")
    assert identity("model.logit_scale=8/width") == plain
    assert identity("model.logit_scale=4/width") != plain
    assert identity("model.logit_scale=0.25", "model.embedding.dropout=0.1") != plain
    learned = identity("model.position={learned: 0.02}")
    assert identity("model.position={learned: {std: 0.02, rows: 17}}") != learned
