"""Arithmetic: print and parse are inverse, values are those of an evaluator of the test's own, nothing else gets in."""

import contextlib
import math
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_blocks import examples

from ablate.block.arithmetic import FUNCTIONS, MAX_LENGTH, NAMES, ArithmeticProblem, Expression, parse

SCOPE = {"depth": 6.0, "layer": 2.0, "width": 128.0, "heads": 4.0, "head_width": 32.0, "context": 64.0}
SCOPE |= {"vocabulary": 256.0, "repetition": 0.05}

Tree = tuple
"""(operator or name, children …), or a number: the test's own form, which knows no Python syntax."""

numbers = st.one_of(st.integers(0, 100), st.sampled_from([0.5, 1e-6, 2.25, 1e20, 0.1]))
leaves = st.one_of(numbers, st.sampled_from(NAMES).map(lambda name: (name,)))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*/"), inner, inner),
        st.tuples(st.just("**"), inner, inner),
        st.tuples(st.sampled_from(["neg", "pos"]), inner),
        st.tuples(st.sampled_from(["sqrt", "exp", "log"]), inner),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner),
    ),
    max_leaves=8,
)


def written(tree: object) -> str:
    """The tree with every bracket, so that no rule of precedence is needed to read it."""
    if not isinstance(tree, tuple):
        return repr(tree)
    head, *children = tree
    texts = [written(child) for child in children]
    if head in ("neg", "pos"):
        return f"({'-' if head == 'neg' else '+'}{texts[0]})"
    if head in FUNCTIONS:
        return f"{head}( {' , '.join(texts)})"
    return f"({texts[0]} {head} {texts[1]})" if texts else head


def value(tree: object) -> float:
    """What the tree is, in float64; raises what float64 raises."""
    if not isinstance(tree, tuple):
        return float(tree)
    head, *children = tree
    given = [value(child) for child in children]
    match head:
        case "+":
            return given[0] + given[1]
        case "-":
            return given[0] - given[1]
        case "*":
            return given[0] * given[1]
        case "/":
            return given[0] / given[1]
        case "**":
            return given[0] ** given[1]
        case "neg":
            return -given[0]
        case "pos":
            return given[0]
        case "sqrt" | "exp" | "log":
            return getattr(math, head)(given[0])
        case "min" | "max":
            return sorted(given)[0 if head == "min" else -1]
    return SCOPE[head]


def expected(tree: object) -> float | None:
    try:
        found = value(tree)
    except (ZeroDivisionError, OverflowError, ValueError, TypeError):
        return None
    return found if isinstance(found, float) and math.isfinite(found) else None


def read(tree: object) -> Expression:
    text = written(tree)
    assume(len(text) <= MAX_LENGTH)
    try:
        return parse(text)
    except ArithmeticProblem as problem:
        assume("has no value" not in str(problem) and "written out" not in str(problem))
        raise


@examples
@given(trees)
def test_the_value_is_that_of_an_evaluator_that_shares_no_code(tree: object) -> None:
    expression, right = read(tree), expected(tree)
    if right is None:
        with pytest.raises(ArithmeticProblem):
            expression.at(SCOPE)
    else:
        assert expression.at(SCOPE) == right


@examples
@given(trees)
def test_what_is_printed_reads_back_the_same(tree: object) -> None:
    expression = read(tree)
    assert parse(expression.text) == expression
    assert len(expression.text) <= MAX_LENGTH


@examples
@given(trees)
def test_the_printed_text_means_the_same(tree: object) -> None:
    right = expected(tree)
    assume(right is not None)
    assert parse(read(tree).text).at(SCOPE) == right


@pytest.mark.fast
def test_brackets_that_matter_are_kept() -> None:  # the tests above can fail: these four differ without brackets
    texts = ["(1-2)-3", "1-(2-3)", "(2**3)**2", "2**3**2", "(-2)**2", "-2**2", "8/(4/2)", "8/4/2", "-(1+2)*3"]
    assert [parse(text).at({}) for text in texts] == [-4, 2, 64, 512, 4, -4, 4, 1, -9]
    assert [parse(text).text for text in texts] == [
        "1-2-3",
        "1-(2-3)",
        "(2**3)**2",
        "2**3**2",
        "(-2)**2",
        "-2**2",
        "8/(4/2)",
        "8/4/2",
        "-(1+2)*3",
    ]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "said", "wrong"),
    [
        ("depht", "unknown size 'depht'", "depht"),
        ("1/ sqrt( depht )", "unknown size 'depht'", "depht"),
        ("  2*foo(depth)", "unknown function 'foo'", "foo"),
        ("depth.real", "only arithmetic is allowed", "depth.real"),
        ("depth if layer else 1", "only arithmetic is allowed", "depth if layer else 1"),
        ("not depth", "only + and - are known here", "not depth"),
        ("depth//2", "only + - * / ** are known here", "depth//2"),
        ("1 or 2", "only arithmetic is allowed", "1 or 2"),
        ("(depth, 1)", "only arithmetic is allowed", "(depth, 1)"),
        ("True", "True is not a number", "True"),
        ("1j", "1j is not a number", "1j"),
        ("1e999", "this number is too large", "1e999"),
        ("sqrt", "unknown size 'sqrt'", "sqrt"),
        ("sqrt(depth, 2)", "sqrt takes one argument", "sqrt(depth, 2)"),
        ("max(depth)", "max takes at least two arguments", "max(depth)"),
        ("min(*depth, 1)", "only arithmetic is allowed", "*depth"),
        ("(sqrt)(2)(3)", "only arithmetic is allowed", "(sqrt)(2)(3)"),
        ("lambda: 1", "':' is not allowed", ":"),
        ("depth<1", "'<' is not allowed", "<"),
        ("depth[0]", "'[' is not allowed", "["),
        ("'a'", '"\'" is not allowed', "'"),
        ("1 # note", "'#' is not allowed", "#"),
        ("1\n+1", "'\\n' is not allowed", "\n"),
        ("ｄepth", "'ｄ' is not allowed", "ｄ"),
        ("depth*π", "'π' is not allowed", "π"),
        ("", "is not arithmetic", ""),
        ("1 +", "is not arithmetic", "1 +"),
        ("1" * 201, "at most 200 characters", "1" * 201),
        ("+".join(["1e14"] * 40), "written out, this has more than 200", "+".join(["1e14"] * 40)),
        ("(" * 190 + "1", "is not arithmetic", "(" * 190 + "1"),
        ("1/0", "1/0 has no value: it divides by zero", "1/0"),
        ("sqrt(-1)", "a root or logarithm in it does not exist", "sqrt(-1)"),
        ("(-8)**(1/3)", "a root in it is not a real number", "(-8)**(1/3)"),
        ("exp(1000)", "a number in it is too large", "exp(1000)"),
        ("1e300*1e300", "it is not a finite number", "1e300*1e300"),
    ],
)
def test_anything_but_arithmetic_is_refused_at_its_place(text: str, said: str, wrong: str) -> None:
    with pytest.raises(ArithmeticProblem) as refused:
        parse(text)
    problem = refused.value
    assert said in str(problem)
    assert text[problem.start : problem.end] == wrong


@pytest.mark.fast
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_must_be_finite(number: float) -> None:
    with pytest.raises(ArithmeticProblem, match="finite"):
        parse(number)


@pytest.mark.fast
@pytest.mark.parametrize("text", ["9**9**9", "9**9**9**9**9**9", "9**9**9*depth", "2**-9**9**9", "-" * 199 + "1"])
def test_nothing_takes_long(text: str) -> None:
    start = time.perf_counter()
    with contextlib.suppress(ArithmeticProblem):
        parse(text).at(SCOPE)
    assert time.perf_counter() - start < 0.5


@pytest.mark.fast
def test_a_number_has_one_text_however_it_is_written() -> None:
    assert {parse(form).text for form in (1, 1.0, "1", "1.0", "1e0", "0x1", " 1 ")} == {"1"}
    assert parse(1e-5).text == parse("0.00001").text == "1e-05"
    assert parse(1e22).text == parse("1e22").text
    assert parse("1e22").at({}) == 1e22


@pytest.mark.fast
def test_a_size_that_is_not_known_here_has_no_value() -> None:
    with pytest.raises(ArithmeticProblem, match="layer is not known here"):
        parse("1/layer").at({"depth": 2})
    with pytest.raises(ArithmeticProblem, match="divides by zero"):
        parse("1/(layer-1)").at({"layer": 1})


@pytest.mark.fast
def test_names_and_constants() -> None:
    assert parse("sqrt(depth)/max(layer,2)").names() == {"depth", "layer"}
    assert parse("depth*0").constant is None
    assert parse("sqrt(4)/2").constant == 1.0
