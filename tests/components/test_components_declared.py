"""What is wrong with a declaration is told at its place in the file, all of it at once, with the way out."""

from __future__ import annotations

import re

import pytest

import ablate
from ablate import api
from ablate.errors import InputError

pytestmark = pytest.mark.fast

FINE = '''\
"""A norm of one's own."""
from ablate.components.declare import (
    Cost, arithmetic, branches, component, flag, implements, number, part, parts, scaling, sequence, width, word
)

@component("odd", slots=("part", "norm"), source="nowhere")
class Config:
    eps: float = number(at_least=0.0)

    def cost(self, sizes, width=None):
        return Cost()

from torch import nn

@implements(Config)
class Odd(nn.Module):
    pass
'''
EPS, DECORATOR = "eps: float = number(at_least=0.0)", '@component("odd", slots=("part", "norm"), source="nowhere")'


@pytest.fixture
def told(tmp_path, monkeypatch):
    """From replacements in the fine file to the error that reading it gives."""
    monkeypatch.chdir(tmp_path)

    def read(*changes, name="odd.py"):
        text = FINE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(InputError) as refused:
            api.catalogue([name])
        return str(refused.value)

    return read


def test_the_fine_one_is_read(tmp_path):
    (tmp_path / "odd.py").write_text(FINE)
    assert "odd" in api.catalogue([tmp_path / "odd.py"])


def test_a_plain_field_is_told_with_file_line_caret_reason_and_way_out(told):
    assert (
        told((EPS, "bias: float = -1.0"))
        == """\
error: field 'bias' is not made by one of the field makers: it has a plain value
 --> odd.py:8:5
  |
8 |     bias: float = -1.0
  |     ^^^^^^^^^^^^^^^^^^ write bias: … = number()
  = a field is made by one of: number(), arithmetic(), own_size(), scaling(), width(), flag(), word(), earlier(), \
part(), parts(), sequence(), branches()
  = its value is written in YAML: in a block, or for all blocks under `defaults:` of the grammar"""
    )


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        (EPS, "eps: bool = True", "8:5", "write eps: … = flag()"),
        (EPS, "eps: str = 'pre'", "8:5", "write eps: … = word('pre', …)"),
        (EPS, "eps: list = []", "8:5", "it has a plain value"),
        (EPS, "eps: float", "8:5", "is not made by one of the field makers"),
        (EPS, "eps: bool = flag", "8:5", "write eps: … = flag()"),
        (EPS, "eps = number()", "8:5", "field 'eps' has no type"),
        (EPS, "eps: float = number(at_lest=0)", "8:5", "unexpected keyword argument 'at_lest'"),
        (EPS, "eps: object = part('nrom')", "8:5", "no component fits the slot 'nrom' of field 'eps'"),
        ('"norm")', '"nrom")', "6:34", "did you mean 'norm'?"),
        ('("part", "norm")', '"norm"', "6:25", "which slots it may fill"),
        ('slots=("part", "norm"), ', "", "6:2", "which slots it may fill"),
        (', source="nowhere"', "", "6:2", "where it is from"),
        ('"odd"', '"odd one"', "6:12", "must be a word, not 'odd one'"),
        (', source', ', role="a.b", source', "6:48", "the role of a component must be a word"),
        (', source', ', shorthand="esp", source', "6:53", "did you mean 'eps'?"),
        ("def cost", "def costs", "7:1", "this class has no cost"),
        ("@implements(Config)", "", "7:1", "component 'odd' has no module"),
        (DECORATOR, "", "7:1", "declares no component"),
        (DECORATOR, "@component", "6:2", "needs a name, slots and a source"),
        ("@component(", "@komponent(", "6:1", "NameError: name 'komponent' is not defined"),
        ("class Config:", "class Config", "7:13", "this is not Python: expected ':'"),
        ('"""A norm of one\'s own."""', "1 // 0", "1:1", "ZeroDivisionError"),
        ('"""A norm of one\'s own."""', "raise SystemExit(3)", "1:1", "SystemExit: 3"),
        ('"odd"', '"mlp"', "6:12", "component 'mlp' is declared twice"),
    ],
)  # fmt: skip
def test_each_mistake_is_told_at_its_place(told, old, new, place, said):
    text = told((old, new))
    assert f"--> odd.py:{place}\n" in text and said in text, text
    assert text.count("error: ") == 1 and re.search(r"^ *= ", text, re.MULTILINE), text


def test_all_mistakes_of_all_files_are_told_at_once(told, tmp_path):
    (tmp_path / "other.py").write_text(FINE.replace("def cost", "def price"))
    second = FINE[FINE.index("@component") : FINE.index("from torch")].replace("Config", "Second").replace("odd", "two")
    text = told(
        ("from torch import nn", second.replace('"nowhere"', '""') + "from torch import nn"),
        (EPS, "a: float = 1\n    b: bool = False"),
    )
    assert [said.partition("\n")[0] for said in text.split("error: ")[1:]] == [
        "field 'a' is not made by one of the field makers: it has a plain value",
        "field 'b' is not made by one of the field makers: it has a plain value",
        "a component must say where it is from",
        "field 'a' is not made by one of the field makers: it has a plain value",
        "field 'b' is not made by one of the field makers: it has a plain value",
    ]


def test_one_below_the_first_import_of_torch_is_told(told):
    text = told(("@implements", f"{DECORATOR.replace('odd', 'even')}\nclass Even:\n    pass\n\n@implements"))
    assert "error: a component is declared below the first import of torch" in text and "--> odd.py:16:1" in text


def test_two_of_one_name_are_told_with_both_places(told, tmp_path):
    again = FINE[FINE.index("@component") : FINE.index("from torch")].replace("Config", "Again")
    text = told(
        ("from torch import nn", f"{again}from torch import nn"),
        ("@implements(Config)", "@implements(Again)\n@implements(Config)"),
    )
    assert "error: component 'odd' is declared twice\n  --> odd.py:13:12" in text and "::: odd.py:6:12" in text


def test_a_class_of_the_same_name_hides_none(told):
    again = FINE[FINE.index("@component") : FINE.index("from torch")].replace("odd", "even")
    assert "class Config is defined twice" in told(("from torch import nn", f"{again}from torch import nn"))


def test_a_constant_of_the_class_and_an_inherited_field_are_fine(tmp_path):
    (tmp_path / "odd.py").write_text(inherited("@dataclass(frozen=True, kw_only=True)"))
    assert list(api.catalogue([tmp_path / "odd.py"])["odd"].fields) == ["eps"]


def inherited(decorator):
    """The fine file with a constant, and a field in a class of its own below the decorator."""
    base = f"from dataclasses import dataclass\nfrom typing import ClassVar\n{decorator}\nclass Base:\n    {EPS}\n"
    text = FINE.replace(EPS, "K: ClassVar[int] = 3").replace("class Config:", "class Config(Base):")
    return text.replace(DECORATOR, f"{base}\n{DECORATOR}")


def test_a_field_of_a_class_that_is_no_dataclass_would_be_lost_and_is_told(told):
    assert "field 'eps' is not inherited" in told((FINE, inherited("")))


def test_the_command_line_exits_with_2_and_no_traceback(tmp_path, capsys):
    from ablate.cli import main

    (tmp_path / "odd.py").write_text(FINE.replace(EPS, "bias: float = -1.0"))
    with pytest.raises(SystemExit) as left, pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", ["ablate", "list", "components", "--plugin", str(tmp_path / "odd.py")])
        main()
    said = capsys.readouterr().err
    assert left.value.code == 2 and "Traceback" not in said and "odd.py:8:5" in said
    assert ablate.__name__ == "ablate"
