"""Every kind of mistake, as the user sees it: `golden/<case>.yaml` and the text it gives, `golden/<case>.txt`.

The first word of a case says what the file is read as. A text that `pytest --update-goldens` has written is
read as a user would before it is kept.
"""

import re
from pathlib import Path

import pytest
from data_documents import Data
from recipe_documents import Recipe

from ablate.errors import InputError
from ablate.source.document import validate
from ablate.source.problems import Problems
from ablate.source.yaml import read_yaml
from ablate.space.judge import Judge

pytestmark = pytest.mark.fast

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.stem for path in GOLDEN.glob("*.yaml"))
DOCUMENTS = {"recipe": Recipe, "data": Data, "judge": Judge}


def shown(case):
    problems = Problems()
    kind = case.split("_")[0]
    try:
        located = read_yaml(f"{case}.yaml")
    except InputError as refusal:
        return str(refusal)
    assert kind in DOCUMENTS, f"{case}.yaml is read without a complaint"
    assert validate(DOCUMENTS[kind], located, problems, kind) is None
    return problems.text()


@pytest.mark.parametrize("case", CASES)
def test_text(case, monkeypatch, golden):
    monkeypatch.chdir(GOLDEN)
    golden(GOLDEN / f"{case}.txt", shown(case) + "\n")


def columns(text):
    """How wide a terminal shows a text, for the characters used in the cases."""
    return sum(0 if c == "\u0301" else 2 if c in "漢字" else 1 for c in text)


EXCERPT = re.compile(r"^ *(?:-->|:::) \S+:(\d+):(\d+)\n *\|\n *\1 \|(?: (.*))?\n *\| ( *)\^", re.MULTILINE)


@pytest.mark.parametrize("case", CASES)
def test_carets_stand_under_the_place_that_is_named(case):
    source = (GOLDEN / f"{case}.yaml").read_text(encoding="utf-8").split("\n")
    excerpts = EXCERPT.findall((GOLDEN / f"{case}.txt").read_text(encoding="utf-8"))
    assert excerpts
    for line, column, drawn, indent in excerpts:
        before, under = source[int(line) - 1][: int(column) - 1], source[int(line) - 1][int(column) - 1 :]
        if drawn.startswith("…"):
            assert drawn[len(indent)] == under[0]
        else:
            assert columns(before) == len(indent)


def test_no_text_without_its_case():
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == CASES
