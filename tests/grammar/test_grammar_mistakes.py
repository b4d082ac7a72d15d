"""Mistakes in grammars: refused, with the place and the way out. The full texts are in tests/errors."""

import time
from pathlib import Path

import pytest
from builders import CATALOGUE
from grammar_fixtures import grammar
from reading import ROOT, transformer

from ablate.errors import InputError
from ablate.grammar.grammar import load_grammar, read_grammar
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml


def mistakes(rules: str, start: str = "block") -> str:
    with pytest.raises(InputError) as found:
        grammar(rules, start=start)
    return str(found.value)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("rules", "cycle"),
    [
        ("block: [mlp, [mlp, $block]]", "block → block"),
        ("block: [$a]\na: [mlp, residual: [$b]]\nb: [attention, $a]", "a → b → a"),
        ("wrap(f): [residual: [$f]]\nblock: [mlp, $wrap($block)]", "block → block"),
        ("wrap(f): [$f, $wrap($f)]\nblock: [$wrap(mlp)]", "wrap → wrap"),
        ("a(f): [$b($f)]\nb(f): [$f, $a($f)]\nblock: [$a(mlp)]", "a → b → a"),
        ("block: [{let: {x: $block}, in: [$x, mlp]}]", "block → block"),
        ("block: [mlp, {one_of: [$block]}]", "block → block"),
        # One bounded way through a rule does not bound another.
        ("block: [$a]\na: [$b, $c, mlp]\nb: {max_depth: 2, one_of: [$a, mlp]}\nc: [$a]", "a → c → a"),
    ],
)
def test_unbounded_recursion_names_the_cycle(rules: str, cycle: str) -> None:
    text = mistakes(rules)
    assert f"unbounded recursion: {cycle}\n" in text
    assert "max_depth" in text


@pytest.mark.fast
def test_a_rule_used_twice_within_itself_is_no_recursion() -> None:
    assert grammar("seq(f): [residual: [$f]]\nblock: [$seq($seq(mlp))]").count == 1


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("block: [$nrom]\nnorm: [rms_norm]", "unknown rule $nrom"),
        ("block: [mlp]\nnorm: [rms_norm]", "rule 'norm' is never used"),
        ("block: [$two(mlp)]\ntwo(f, g): [$f, $g]", "$two takes 2 arguments, got 1"),
        ("block: [$one]\none(f): [$f]", "$one takes 1 argument, got 0"),
        ("block: [$one(mlp)]\none: [mlp]", "$one takes no arguments, got 1"),
        ("block: [$one(mlp)]\none(f): [$f(mlp)]", "$f stands for a value here and takes no arguments"),
        ("block: [$]", "'$' is not a reference"),
        ("block: [{let: {n: mlp}, in: [attention]}]", "$n is bound here but never used"),
        ("block: [{let: n, in: [attention]}]", "let needs a mapping of names"),
        ("block: [{one_of: mlp}]", "one_of needs a list of alternatives"),
        ("block: []", "rule 'block' has no alternatives"),
        ("block: {max_depth: 0, one_of: [mlp]}", "max_depth must be a whole number from 1 to 50"),
        ("block: {max_depth: 2, oneof: [mlp]}", "a rule has no 'oneof'"),
        ("block: {max_depth: 2}", "needs its alternatives under one_of"),
        ("block: {max_depth: 2, one_of: [[mlp, $block]]}", "'block' derives no block at all"),
        ("block(f): [mlp]", "$block takes 1 argument, got 0"),
        ("2nd: [mlp]\nblock: [mlp]", "'2nd' is not a rule name"),
        ("block: [$a, $b]\na(f): [mlp]\n'a( f )': [mlp]", "rule 'a' is declared twice"),
        ("block: [mlpp]", "unknown component 'mlpp' for slot part"),
        ("g: [mlp]\nblock: [residual: {gain: $g, branch: [mlp]}]", "unknown size 'mlp'"),
        ("e: [none, {softcap: 30}]\nblock: [attention: {entropy: [$e, {softcap: 20}]}]", "softcap may appear twice"),
        (
            "e: [{softcap: 30}]\nblock: [{let: {x: $e}, in: [attention: {entropy: [$x, $x]}]}]",
            "softcap may appear twice",
        ),
        ("block: {max_depth: 14, one_of: [mlp, residual: [$block, $block]]}", "more than 10^1000 derivations"),
        ("block: [$f(1e999)]\nf(x): [residual: {gain: $x, branch: [mlp]}]", "this number is too large"),
    ],
)
def test_a_mistake_is_named(rules: str, said: str) -> None:
    assert said in mistakes(rules)


@pytest.mark.fast
def test_rules_that_nest_too_deeply_are_refused_not_a_crash() -> None:
    rules = "".join(f"r{i}: {{max_depth: 50, one_of: [mlp, residual: [$r{(i + 1) % 9}]]}}\n" for i in range(9))
    assert "nest too deeply" in mistakes(f"{rules}block: [$r0]")


@pytest.mark.fast
def test_a_recursion_that_doubles_is_refused_at_once() -> None:
    """A rule that could not be read is not read again: it would be 2^50 times."""
    start = time.perf_counter()
    assert "more than 10^1000" in mistakes("block: {max_depth: 30, one_of: [mlp, residual: [$block, $block]]}")
    assert mistakes("block: {max_depth: 30, one_of: [mlpp, residual: [$block, $block]]}").count("error: ") == 1
    assert time.perf_counter() - start < 5


@pytest.mark.fast
def test_an_unused_rule_is_no_news_beside_a_mistake() -> None:
    """A rule may be unreached because the alternative that reaches it could not be read."""
    text = mistakes("block: [[mlpp, $norm]]\nnorm: [rms_norm]\nnever: [mlp]")
    assert "mlpp" in text
    assert "never used" not in text


@pytest.mark.fast
def test_a_start_that_is_none() -> None:
    assert "unknown rule $blok" in mistakes("block: [mlp]", start="blok")
    assert "start must name a rule" in mistakes("block: [mlp]", start="{a: block}")
    assert "each start must name a rule" in mistakes("block: [mlp]", start="[block, 3]")


@pytest.mark.fast
def test_a_default_that_contains_itself() -> None:
    text = (ROOT / "grammars" / "transformer.yaml").read_text()
    broken = text.replace("branch: []", "branch: [residual]", 1)
    assert broken != text
    with pytest.raises(InputError, match=r"the default of residual\.branch contains itself"):
        load_text(broken)


def load_text(text: str) -> None:
    problems = Problems()
    read_grammar(parse_yaml(text, "broken.yaml"), Path("broken.yaml"), CATALOGUE, problems)
    problems.raise_if_any()


@pytest.mark.fast
def test_a_named_block_that_is_not_there() -> None:
    with pytest.raises(KeyError, match="did you mean 'pre_ln'"):
        transformer().block("pre_nl")
    assert transformer().block("pre_ln")


@pytest.mark.fast
def test_a_grammar_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        load_grammar(tmp_path / "none.yaml", CATALOGUE)
