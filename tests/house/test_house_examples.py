"""Every example in a docstring gives what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import ablate

PACKAGE = Path(ablate.__file__).parent
WITH_EXAMPLES = sorted(
    path.relative_to(PACKAGE.parent)
    for path in PACKAGE.rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8") and path.parent.name != "grammars"
)


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples_give_what_they_say(path):
    module = importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    assert doctest.testmod(module).failed == 0


def test_a_wrong_example_is_found():
    module = type(doctest)("wrong", ">>> 1 + 1\n3\n")
    assert doctest.testmod(module, report=False, verbose=False).failed == 1
