"""From located values to documents: what is right is read, what is wrong is shown once, at its place, in our words."""

from typing import Annotated, Literal

import pytest
from data_documents import Data, Files, Hub
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from recipe_documents import Recipe

from ablate.source.annotations import described
from ablate.source.document import MANY, validate
from ablate.source.located import to_python
from ablate.source.problems import Problems
from ablate.source.yaml import overlay, parse_yaml
from ablate.space.data import Bpe
from ablate.space.judge import Judge
from ablate.space.model import Learned, Model

RECIPE = """\
steps: 300
batch: 16
clip: 1
optimizer: {adamw: {lr: 1e-2, betas: [0.9, 99.9%], eps: 1e-8, weight_decay: 0, embedding_lr: null,
                    eps_when: after_correction, decays: [weights], decay_when: before_update}}
schedule: {warmup: 5%, decay: linear, floor: 0, from_zero: false}
dtype: float32
"""


def read(model, text, where=""):
    """The document, and what was found wrong: (message, the characters marked, label)."""
    problems = Problems()
    document = validate(model, parse_yaml(text), problems, where)
    found = [(p.message, p.span.text, p.label) for p in problems]
    assert (document is None) == bool(found)
    return document, found


def wrong(model, text, where=""):
    return read(model, text, where)[1]


@pytest.mark.fast
def test_a_recipe():
    recipe, found = read(Recipe, RECIPE)
    assert found == []
    assert (recipe.steps, recipe.clip, type(recipe.clip)) == (300, 1.0, float)
    assert recipe.optimizer.adamw.lr == 0.01 and recipe.optimizer.adamw.embedding_lr is None
    assert recipe.optimizer.adamw.betas == (0.9, pytest.approx(0.999, rel=1e-15))
    assert recipe.schedule.warmup == 0.05


@pytest.mark.fast
@pytest.mark.parametrize(
    ("corpus", "tokenizer", "expected"),
    [
        ("python_stdlib", "bytes", ("python_stdlib", "bytes")),
        ("{files: [a, b]}", "{bpe: 512}", (Files(files=("a", "b")), Bpe(bpe=512))),
        ("{hub: a/b, split: train, field: text}", "bytes", (Hub(hub="a/b", split="train", field="text"), "bytes")),
    ],
)
def test_choices_of_types(corpus, tokenizer, expected):
    data, found = read(Data, f"corpus: {corpus}\ntokenizer: {tokenizer}\ntuning: 10%\nverdict: 0.1\n")
    assert found == [] and (data.corpus, data.tokenizer) == expected and data.tuning == data.verdict == 0.1


@pytest.mark.fast
@pytest.mark.parametrize(("margin", "expected"), [("1%", "1%"), ("0.02", 0.02), ("none", "none")])
def test_dictionaries(margin, expected):
    text = f"metrics: {{loss: {{margin: {margin}, scale: log, better: lower}}}}\nagainst: pre_ln\nconfidence: 0.9\n"
    judge, found = read(Judge, text)
    assert found == [] and judge.metrics["loss"].margin == expected


@pytest.mark.fast
def test_a_value_from_another_file_is_shown_there():
    recipe = overlay(parse_yaml(RECIPE, "space.yaml"), parse_yaml("batch: -2\nschedule: {decay: wild}", "smoke.yaml"))
    problems = Problems()
    assert validate(Recipe, recipe, problems, "recipe") is None
    assert [(p.span.source.name, p.span.text) for p in problems] == [("smoke.yaml", "-2"), ("smoke.yaml", "wild")]


@pytest.mark.fast
def test_a_misspelt_key_is_not_missing_as_well():
    assert wrong(Recipe, RECIPE.replace("steps", "stpes")) == [
        ("unknown key 'stpes'", "stpes", "did you mean 'steps'?")
    ]


@pytest.mark.fast
def test_a_key_that_is_there_is_suggested_too():
    label = "did you mean 'steps'?"  # as --set needs it, whose target has all its keys
    assert wrong(Recipe, RECIPE + "step: 3\n", "recipe") == [("unknown key 'step' in recipe", "step", label)]


@pytest.mark.fast
def test_very_many_unknown_keys_are_counted():
    found = wrong(Recipe, RECIPE + "".join(f"zz{number}: 1\n" for number in range(MANY + 5)))
    assert len(found) == MANY + 1 and found[-1] == ("5 more unknown keys", "zz20", "from here on")


@pytest.mark.fast
def test_one_complaint_for_a_choice_of_types():
    position = "kind: decoder\nlayers: 2\nwidth: 8\nheads: 2\ncontext: 4\ncausal: true\nposition: {}\nhead: tied\n"
    position += "embedding: {std: 0.02, scale: 1, dropout: 0}\nlogit_scale: 1\n"
    assert read(Model, position.replace("{}", "{learned: 0.02}"))[0].position == Learned(learned=0.02)
    assert wrong(Model, position.replace("{}", "{learned: 0}")) == [
        ("position.learned must be greater than 0, got 0", "0", "")
    ]
    assert read(Model, position.replace("{}", "{learned: {std: 1/width, rows: 9}}"))[0].position.learned.rows == 9
    assert wrong(Model, position.replace("{}", "{learned: {std: 1/widht, rows: 9}}")) == [
        ("position.learned.std: unknown size 'widht'", "1/widht", "")
    ]
    assert wrong(Model, position.replace("{}", "sinusodial")) == [
        (
            "position: expected one of none, sinusoidal, sine_cosine_2d, sine_cosine_2d_as_released or a mapping with "
            "key learned, got text 'sinusodial'",
            "sinusodial",
            "did you mean 'sinusoidal'?",
        )
    ]


class Strange(BaseModel):
    """What the documents of a space do not use yet."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: Literal["a", "b"] = Field(alias="from")
    pairs: list[Annotated[tuple[int, str], BeforeValidator(tuple)]] = []
    share: Annotated[float, Field(gt=0)] | Annotated[str, Field(pattern="%$", description="a share such as 5%")] = 1.0
    even: Annotated[int, AfterValidator(lambda n: n if n % 2 == 0 else _refuse("this is odd"))] = 2
    table: dict[str, int | None] = {}
    level: Literal[1, 2] = 1


def _refuse(message):
    raise ValueError(message)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{from: a}", []),
        ("{source: a}", [("missing key 'from'", "{source: a}", ""), ("unknown key 'source'", "source", "")]),
        ("{from: c}", [("from: expected one of a, b, got text 'c'", "c", "")]),
        ("{from: a, pairs: [[1, x], [y, 2]]}", [
            ("item 1 of item 2 of pairs: expected a whole number, got text 'y'", "y", ""),
            ("item 2 of item 2 of pairs: expected text, got 2", "2", ""),
        ]),
        ("{from: a, pairs: [[1]]}", [("item 1 of pairs: expected a list of 2 values, got a list of 1", "[1]", "")]),
        ("{from: a, share: -1}", [("share must be greater than 0, got -1", "-1", "")]),
        ("{from: a, share: half}", [("share: expected a number or a share such as 5%, got text 'half'", "half", "")]),
        ("{from: a, even: 3}", [("even: this is odd", "3", "")]),
        ("{from: a, table: {x: null, y: z}}", [("table.y: expected a whole number or null, got text 'z'", "z", "")]),
        ("{from: a, table: {1: 2}}", [("this key must be text", "1", "put it in quotes")]),
        ("{from: a, level: '1'}", [("level: expected one of 1, 2, got text '1'", "'1'", "remove the quotes")]),
        ("{from: a, true: 2}", [("unknown key 'true'", "true", "")]),
        ("[a]", [("expected a mapping with keys from, pairs, share, even, table, level, got a list of 1", "[a]", "")]),
        ("a", [("expected a mapping with keys from, pairs, share, even, table, level, got text 'a'", "a", "")]),
    ],
)  # fmt: skip
def test_other_documents(text, expected):
    assert sorted(wrong(Strange, text)) == sorted(expected)


@pytest.mark.fast
def test_descriptions():
    assert described(int | None) == "a whole number or null"
    assert described(tuple[str, ...]) == "a list of texts"
    assert described(Literal["a"] | Files | dict[str, int]) == "a, a mapping with key files or a mapping"
    assert described(Annotated[str, Field(pattern="^x")] | bool) == "text that matches ^x or true or false"


VALUES = st.sampled_from(
    [
        "3",
        "-1",
        "2.5",
        "1e-6",
        ".nan",
        "null",
        "true",
        "word",
        "'5%'",
        "[]",
        "[1, 2, 3]",
        "{}",
        "{a: {b: c}}",
        "{1: 2}",
        "9" * 299,
    ]
)


def leaves(tree, path=()):
    for key, value in tree.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))


@given(st.lists(st.tuples(st.sampled_from(list(leaves(to_python(parse_yaml(RECIPE))))), VALUES), max_size=3))
def test_any_value_anywhere_is_read_or_shown(changes):
    located = parse_yaml(RECIPE)
    for path, value in changes:
        nested = value
        for key in reversed(path):
            nested = f"{{{key}: {nested}}}"
        located = overlay(located, parse_yaml(nested, "change"))
    problems = Problems()
    document = validate(Recipe, located, problems, "recipe")
    assert (document is None) == (len(problems) > 0)
    assert all(problem.span is not None for problem in problems)
    assert "Input should be" not in problems.text() and "pydantic" not in problems.text()
