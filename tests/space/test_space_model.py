"""What stands around the blocks: arithmetic, learned positions with rows of their own, dropout, the logits' scale."""

import shutil
from pathlib import Path

import pytest
from reading import ROOT
from space_fixtures import space

from ablate.block.arithmetic import parse
from ablate.block.expression import print_value
from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.plan.identity import model_identity


def model(found):
    return found.architecture(found.blocks["op"], 77)


@pytest.mark.fast
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


@pytest.mark.fast
def test_what_is_left_out_is_in_the_grammar(tmp_path: Path) -> None:
    found = model(space(tmp_path))
    assert (found.logit_scale, found.embedding_dropout, found.position_rows) == (parse(1), 0.0, None)


BARE = "{layers: 4, width: 32, heads: 4, context: 16, position: sinusoidal%s}"
LEFT = "model: {}: not set in this space, so these are the grammar's defaults"


def around(found):
    """What stands around the blocks, embedding, head and init."""
    built = model(found)
    return built.embedding_std.text, built.embedding_scale.text, built.tied, print_value(built.init)


def left(found):
    notes = build_plan(found, vocab_size=256, corpus="c").notes
    return [note for note in notes if note.startswith("model:")]


def test_embedding_head_and_init_come_from_the_grammar(tmp_path: Path) -> None:
    spelt = "embedding: {std: 0.02, scale: 50}, head: untied, init: {normal: 0.02}"
    bare, written = space(tmp_path, model=BARE % ""), space(tmp_path, model=BARE % f", {spelt}", file="written.yaml")
    assert around(bare) == around(written) == ("0.02", "50", False, "{normal: {std: 0.02}}")
    bare_ids, written_ids = ([t.id for t in build_plan(s, vocab_size=256, corpus="c").trials] for s in (bare, written))
    assert bare_ids == written_ids
    said = "embedding {std: 0.02, scale: 50}, head untied, init {normal: 0.02}"
    assert (left(bare), left(written)) == ([LEFT.format(said)], [])


EMBEDDING, HEAD, INIT = "embedding {std: 0.02, scale: 50}", "head untied", "init {normal: 0.02}"
PLAIN = ("0.02", "50", False, "{normal: {std: 0.02}}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("own", "expected", "told"),
    [
        ("head: tied", (*PLAIN[:2], True, PLAIN[3]), (EMBEDDING, INIT)),
        ("init: orthogonal", (*PLAIN[:3], "{orthogonal: {gain: 1}}"), (EMBEDDING, HEAD)),
        ("init: {fan_in: 2}", (*PLAIN[:3], "{fan_in: {gain: 2}}"), (EMBEDDING, HEAD)),
        ("embedding: {std: 1, scale: 1}", ("1", "1", *PLAIN[2:]), (HEAD, INIT)),
        ("embedding: {dropout: 10%}", PLAIN, (EMBEDDING, HEAD, INIT)),
    ],
)
def test_what_the_space_says_of_them_goes_before(tmp_path: Path, own: str, expected, told) -> None:
    for found in (space(tmp_path, model=BARE % f", {own}"), space(tmp_path, f"model={{{own}}}", model=BARE % "")):
        assert around(found) == expected
        assert left(found) == [LEFT.format(", ".join(told))]


@pytest.mark.fast
@pytest.mark.parametrize(("said", "missed"), [("std: 1", "scale"), ("scale: 1", "std")])
def test_of_a_spread_that_is_half_said_the_grammar_does_not_say_the_other_half(tmp_path: Path, said, missed) -> None:
    """0.02 with a scale of 1, or 1 with a scale of 50, is what nobody has asked for."""
    with pytest.raises(InputError, match=f"missing key '{missed}' in model.embedding"):
        space(tmp_path, model=BARE % f", embedding: {{{said}}}")
    with pytest.raises(InputError, match=f"missing key '{missed}' in model.embedding"):
        space(tmp_path, f"model.embedding.{said.replace(': ', '=')}", model=BARE % "")
    preset = space(tmp_path, f"model.embedding.{said.replace(': ', '=')}", preset="espa_wikitext", model="{width: 64}")
    assert left(preset) == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("own", "wrong", "meant"),
    [
        ("embeding: {std: 1, scale: 1}", "embeding", "embedding"),
        ("haed: tied", "haed", "head"),
        ("int: orthogonal", "int", "init"),
    ],
)
def test_a_misspelt_one_is_not_taken_from_the_grammar_in_silence(tmp_path: Path, own, wrong, meant) -> None:
    with pytest.raises(InputError) as refused:
        space(tmp_path, model=BARE % f", {own}")
    text = str(refused.value)
    line, column = 4, len("model: " + BARE % ", ") - len("}") + 1
    assert f"unknown key '{wrong}' in model\n --> {tmp_path / 'small.yaml'}:{line}:{column}\n" in text
    assert f"{'^' * len(wrong)} did you mean '{meant}'?" in text


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("head: untied", "haed: untied", "unknown key 'haed' in model"),
        ("head: untied", "head: united", "model.head: "),
        ("init: {normal: 0.02}", "init: {norml: 0.02}", "unknown component 'norml' for slot init"),
        ("scale: 50, dropout: 0}", "scael: 50, dropout: 0}", "unknown key 'scael' in model.embedding"),
    ],
)
def test_one_that_the_grammar_misspells_is_pointed_at_there(tmp_path: Path, right, wrong, said) -> None:
    written = (ROOT / "grammars" / "transformer.yaml").read_text(encoding="utf-8")
    assert written.count(right) == 1
    grammar = tmp_path / "mine.yaml"
    shutil.copytree(ROOT / "grammars" / "transformer", tmp_path / "transformer")
    grammar.write_text(written.replace(right, wrong), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        space(tmp_path, grammar="mine.yaml", model=BARE % "")
    line = next(n for n, text in enumerate(written.replace(right, wrong).splitlines(), 1) if wrong in text)
    assert said in str(refused.value) and f" --> {grammar}:{line}:" in str(refused.value)


@pytest.mark.fast
def test_learned_positions_have_rows_of_their_own(tmp_path: Path) -> None:
    found = model(space(tmp_path, "model.position={learned: {std: 0.02, rows: 1024}}"))
    assert (found.position_std, found.position_rows) == (parse(0.02), 1024)
    same = (
        model(space(tmp_path, f"model.position={text}"))
        for text in ("{learned: 0.02}", "{learned: {std: 0.02, rows: 16}}")
    )
    assert len(set(same)) == 1


@pytest.mark.fast
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
