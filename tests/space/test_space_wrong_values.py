"""Whatever is written in the place of a value, the answer is in our words, at the value, and never a traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import CATALOGUE

from ablate.errors import InputError
from ablate.source.located import Mapping
from ablate.space.load import load_space

ERRORS = Path(__file__).parents[1] / "errors"
PATTERN = ERRORS / "space_setting_width_beside_heads_of_the_file" / "space.yaml"
VALUES = ("null", "-1", "1.5", "many", "'2'", "[a, b]", "{a: 1}", "1/(width", "50%")
A_LIBRARYS = re.compile(r"Value error|Input should|pydantic|validation error|Traceback|\(s\)")


def paths(located, so_far=""):
    """Every place of a resolved space that --set can name."""
    for key, value in located.entries if isinstance(located, Mapping) else ():
        path = f"{so_far}.{key.text}" if so_far else key.text
        yield path
        yield from paths(value, path)


@pytest.fixture(scope="module")
def written():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ERRORS)
        yield load_space(PATTERN, CATALOGUE)


SECTIONS = (
    "model",
    "data",
    "recipe",
    "design",
    "seeds",
    "measure",
    "judge",
    "threads",
    "fair",
    "noise",
    "block",
    "blocks",
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("section", SECTIONS)
def test_every_wrong_value_is_answered_in_our_words_at_its_place(written, section, monkeypatch):
    monkeypatch.chdir(ERRORS)
    asked = [section, *(path for path in paths(written.located) if path.startswith(f"{section}."))]
    refused = 0
    for path in asked:
        for value in VALUES:
            try:
                load_space(PATTERN, CATALOGUE, settings=[f"{path}={value}"])
            except InputError as error:
                refused += 1
                assert not A_LIBRARYS.search(str(error)), (path, value, str(error))
                assert any(mistake.file == "--set" for mistake in error.mistakes), (path, value, str(error))
    assert refused >= len(asked)
