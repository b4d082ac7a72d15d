"""The name of a space is a word, so that nothing is written outside of the results."""

from __future__ import annotations

import pytest
from tiny_spaces import write_world

import ablate
from ablate.errors import InputError

NAMES = [
    "../../x",
    "/tmp/x",
    "a/b",
    "a\\\\b",
    "..",
    ".x",
    "-x",
    "x\\n",
    "a b",
    "é",
    "a" * 65,
    "a" * 300,
    "x.yaml",
    " x",
]


@pytest.mark.fast
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_leads_elsewhere_is_refused_at_its_place(tmp_path, name):
    space = write_world(tmp_path)
    space.write_text(space.read_text().replace("space: tiny", f'space: "{name}"'))
    with pytest.raises(InputError) as refused:
        ablate.check(ablate.load_space(space))
    assert "tiny.yaml:1:" in str(refused.value) and "of a-z, A-Z, 0-9" in str(refused.value)


@pytest.mark.fast
def test_a_name_that_is_set_is_refused_too(tmp_path):
    with pytest.raises(InputError, match="the name of a space"):
        ablate.load_space(write_world(tmp_path), settings=["space=../../x"])


@pytest.mark.parametrize("name", ["x", "a.b-c_1", "2026.11", "_x", "a" * 64])
def test_a_word_is_a_name(tmp_path, name):
    assert ablate.load_space(write_world(tmp_path), settings=[f"space='{name}'"]).name == name
