"""Plain scalars are YAML 1.2's: what is a number, and what only looked like one in YAML 1.1."""

import json
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ablate.errors import InputError
from ablate.output.escape import DIRECTIONS
from ablate.source.located import Scalar, to_python
from ablate.source.yaml import parse_yaml

pytestmark = pytest.mark.fast


def value(written):
    return to_python(parse_yaml(f"a: {written}"))["a"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1e-6", 1e-6),
        ("3e-4", 3e-4),
        ("1E5", 1e5),
        (".5", 0.5),
        ("2.", 2.0),
        ("-0.0", -0.0),
        ("+3", 3),
        ("017", 17),
        ("0o17", 15),
        ("0xff", 255),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("", None),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("+.Inf", math.inf),
    ],
)
def test_core_schema_values(written, expected):
    found = value(written)
    assert found == expected
    assert type(found) is type(expected)
    assert not isinstance(expected, float) or math.copysign(1, found) == math.copysign(1, expected)


def test_not_a_number():
    assert math.isnan(value(".nan"))


WORDS = ["off", "on", "yes", "no", "y", "n", "tRue", "nUll", "2024-01-01", "1:30", "1_000", "0b11", "0O17", "0XFF"]
WORDS += ["1e", "1.e", "1.2.3", "e5", ".", "-.nan", ".Nan", "4x", "5%", "="]


@pytest.mark.parametrize("word", WORDS)
def test_everything_else_is_text(word):
    assert value(word) == word


def test_yaml_1_1_reads_them_otherwise():  # the two tests above can fail: this is what PyYAML's own loader says
    assert yaml.safe_load("1e-6") == "1e-6"
    assert sum(yaml.safe_load(word) != word for word in WORDS if word != "=") >= 8


@given(st.integers(-(10**299), 10**299))
def test_whole_numbers(number):
    assert value(number) == number
    assert value(hex(number) if number >= 0 else number) == number
    assert value(f"0o{number:o}" if number >= 0 else number) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_real_numbers(number):
    found = value(repr(number))
    assert (found, math.copysign(1, found)) == (number, math.copysign(1, number))


# U+2028 and U+2029 are left out: PyYAML folds them like line breaks, as YAML 1.1 did. Directions are refused.
SEEN = st.characters(
    min_codepoint=0x20, max_codepoint=0x2FFF, exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters=DIRECTIONS
)


@given(st.text(SEEN))
def test_quoted_scalars_are_text(text):
    double = parse_yaml(json.dumps(text, ensure_ascii=False))
    single = parse_yaml("'" + text.replace("'", "''") + "'")
    assert isinstance(double, Scalar)
    assert double.value == double.text == to_python(single) == text


@pytest.mark.parametrize("written", ["1e999", "-1e999", "1e-999", "1" * 301, "0x" + "f" * 290, "1" * 5000])
def test_numbers_beyond_a_float_are_refused(written):
    with pytest.raises(InputError, match=r"this number is too (large|small)"):
        value(written)


@pytest.mark.parametrize("written", ["0e999", "0.0e-999", "1e308", "5e-324", "9" * 299])
def test_numbers_within_a_float_are_not(written):
    assert float(value(written)) == float(written)


@pytest.mark.parametrize(("written", "expected"), [("!!str 1e-6", "1e-6"), ("!!int 0o17", 15), ("!!float 3", 3.0)])
def test_tags_of_the_core_schema(written, expected):
    assert value(written) == expected


@pytest.mark.parametrize(
    "written", ["! 3", "!!int 3.5", "!!bool off", "!custom 3", "!!python/name:os.system x", "!!timestamp 2024-01-01"]
)
def test_other_tags_are_refused(written):
    with pytest.raises(InputError, match="tag"):
        value(written)
