"""A declaration of settings that is wrong is told at its place in the file, every mistake at once."""

import pytest

from ablate.components.registry import declarations
from ablate.errors import InputError

pytestmark = pytest.mark.fast

PLUGIN = '''\
"""Sign descent."""
from ablate.train.optimizers.declare import Document, Settings, groups, implements, optimizer


@optimizer("sign", source="this test")
class Sign(Settings):
    """No settings of its own."""


import torch


@implements(Sign)
def build(parameters, settings):
    return torch.optim.SGD(groups(parameters))
'''
WRONG = {
    "a name of two words": ('"sign"', '"sign descent"', "the name of an optimiser must be a word", '"sign descent"'),
    "no source": (', source="this test"', "", "an optimiser must say where it is from", "optimizer("),
    "no version": ('"this test"', '"this test", version=0', "the version of an optimiser must be a whole number", "0"),
    "a default": ("    \"\"\"No", "    heat: float = 1\n    \"\"\"No", "field 'heat' has a default", "heat: float"),
    "no rate": ("Sign(Settings)", "Sign(Document)", "an optimiser must have a field 'lr'", "class Sign"),
    "open": ("Sign(Settings)", "Sign(Settings, extra='ignore')", "must be frozen and forbid other keys", "class Sign"),
    "no settings": ("Sign(Settings)", "Sign", "must be declared on the class of its settings", "class Sign"),
    "nothing below": ("@implements(Sign)", "", "optimiser 'sign' has no update", "class Sign"),
}  # fmt: skip


def read(folder, text):
    path = folder / "sign.py"
    path.write_text(text, encoding="utf-8")
    return declarations((path,))


def test_a_plugin_brings_an_optimiser(tmp_path):
    spec = read(tmp_path, PLUGIN).others["optimizers"]["sign"]
    assert (spec.summary, spec.source, spec.version) == ("Sign descent.", "this test", 1)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_is_shown_with_line_and_caret(tmp_path, wrong):
    before, after, message, marked = WRONG[wrong]
    assert before in PLUGIN
    with pytest.raises(InputError) as error:
        read(tmp_path, PLUGIN.replace(before, after, 1))
    text = str(error.value)
    assert message in text and "sign.py:" in text
    line, carets = next(
        (line, below) for line, below in zip(text.splitlines(), text.splitlines()[1:], strict=False) if "^" in below
    )
    assert line[carets.index("^") :].startswith(marked), text


def test_one_of_a_name_that_is_taken_is_told(tmp_path):
    with pytest.raises(InputError, match="optimiser 'lion' is declared twice"):
        read(tmp_path, PLUGIN.replace('"sign"', '"lion"'))


def test_every_mistake_at_once(tmp_path):
    with pytest.raises(InputError) as error:
        read(tmp_path, PLUGIN.replace('"sign", source="this test"', "3, version=None"))
    assert str(error.value).count("error:") == 3
