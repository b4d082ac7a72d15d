"""Numbers in order: which they are, where they stand, and that they are a choice like others."""

import itertools
import json
import math
import random
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import pytest
from builders import CATALOGUE
from example_counts import examples_of
from grammar_fixtures import grammar, printed, texts
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import read_block, transformer

from ablate.block.normal_form import fingerprint
from ablate.errors import InputError
from ablate.grammar.census import take_census
from ablate.grammar.choices import Decision, choices, decide
from ablate.grammar.derivation import ordered
from ablate.grammar.grammar import Grammar
from ablate.grammar.mutate import crossover, mutate
from ablate.grammar.rules import spaced
from ablate.report.screens import check


def gains(written: str) -> list[str]:
    """The gains that a choice between numbers derives, as they are printed; 1 is not printed."""
    found = texts(grammar(f"block: [residual: {{gain: {written}, branch: [mlp]}}]"))
    return [text.removeprefix("[residual: {gain: ").removesuffix(", branch: [mlp]}]") for text in found]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        ("{between: [0.1, 0.9], points: 5, scale: linear}", "0.1 0.3 0.5 0.7 0.9"),
        ("{between: [-0.1, 0.2], points: 4, scale: linear}", "-0.1 0 0.1 0.2"),
        ("{between: [0, 0.5], points: 4, scale: linear}", "0 0.166667 0.333333 0.5"),
        ("{between: [1e-4, 0.1], points: 4, scale: log}", "0.0001 0.001 0.01 0.1"),
        ("{between: [2, 64], points: 6, scale: log}", "2 4 8 16 32 64"),
        ("{between: [0.5, 0.8], points: 2, scale: log}", "0.5 0.8"),
        ("{between: [0.01, 0.02], points: 3, scale: log}", "0.01 0.0141421 0.02"),
    ],
)
def test_the_numbers(written: str, numbers: str) -> None:
    assert gains(written) == numbers.split()


def ends() -> st.SearchStrategy[tuple[Decimal, Decimal]]:
    """Two different numbers of at most six digits, the lower one first."""
    number = st.builds(lambda digits, power: Decimal(digits).scaleb(power), st.integers(1, 999_999), st.integers(-9, 3))
    return st.lists(number, min_size=2, max_size=2, unique=True).map(lambda pair: (min(pair), max(pair)))


@settings(max_examples=examples_of(50), deadline=None)
@given(ends(), st.integers(2, 200), st.sampled_from([1, -1]))
def test_linear_numbers_are_the_nearest_of_six_digits(pair: tuple[Decimal, Decimal], points: int, sign: int) -> None:
    """Against fractions, which are exact."""
    low, high = sorted(sign * one for one in pair)
    found = spaced(low, high, points, "linear")
    assert (found[0], found[-1], len(found)) == (low, high, points)
    for i, number in enumerate(found):
        exact = Fraction(low) + (Fraction(high) - Fraction(low)) * i / (points - 1)
        assert abs(Fraction(number) - exact) <= abs(exact) * Fraction(1, 10**5) / 2
        assert len(number.normalize().as_tuple().digits) <= 6
    assert list(found) == sorted(found)


@pytest.mark.fast
@settings(max_examples=examples_of(50), deadline=None)
@given(ends(), st.integers(2, 200))
def test_log_numbers_have_equal_ratios(pair: tuple[Decimal, Decimal], points: int) -> None:
    low, high = pair
    found = spaced(low, high, points, "log")
    assert (found[0], found[-1], len(found)) == (low, high, points)
    for i, number in enumerate(found):
        exact = math.exp(math.log(low) + (math.log(high) - math.log(low)) * i / (points - 1))
        assert float(number) == pytest.approx(exact, rel=6e-6)
    assert list(found) == sorted(found)


FIVE = "{between: [0.1, 0.9], points: 5, scale: linear}"
THREE = "{between: [0.01, 1], points: 3, scale: log}"
SMALL = grammar(
    f"""norm: [none, layer_norm, rms_norm]
gain: [2, {FIVE}, {{init: {THREE}, trainable: true}}]
block:
  - [residual: {{gain: $gain, skip: $gain, branch: [$norm, mlp]}}]
  - {{let: {{g: {FIVE}}}, in: [residual: {{gain: $g, branch: [attention]}}, residual: {{gain: $g, branch: [mlp]}}]}}"""
)


@pytest.mark.fast
def test_it_is_counted_and_listed_like_any_choice() -> None:
    fixed = ["2", "0.1", "0.3", "0.5", "0.7", "0.9"]
    gain = [*fixed, *(f"{{init: {start}, trainable: true}}" for start in ("0.01", "0.1", "1"))]
    norms = ["", "layer_norm, ", "rms_norm, "]
    first = [
        f"[residual: {{skip: {skip}, gain: {g}, branch: [{norm}mlp]}}]"
        for skip, g, norm in itertools.product(gain, gain, norms)
    ]
    second = [
        f"[residual: {{gain: {g}, branch: [attention]}}, residual: {{gain: {g}, branch: [mlp]}}]" for g in fixed[1:]
    ]
    assert SMALL.count == 9 * 9 * 3 + 5
    assert texts(SMALL) == first + second


@pytest.mark.fast
def test_what_it_derives_reads_back_and_is_a_block_of_its_own() -> None:
    blocks = [SMALL.derive(k) for k in range(SMALL.count)]
    assert [read_block(printed(block)) for block in blocks] == blocks
    assert len({fingerprint(block, CATALOGUE) for block in blocks}) == SMALL.count


@pytest.mark.fast
def test_it_says_that_it_is_ordered() -> None:
    scales = {one.name: (one.choice.scale, one.choice.words) for k in range(SMALL.count) for one in _choices(SMALL, k)}
    five, three = ("0.1", "0.3", "0.5", "0.7", "0.9"), ("0.01", "0.1", "1")
    assert {name: found for name, found in scales.items() if found[0]} == {
        "block/skip:gain/between": ("linear", five),
        "block/skip:gain/init:between#2": ("log", three),
        "block/gain/between": ("linear", five),
        "block/gain/init:between#2": ("log", three),
        "block/g=between": ("linear", five),
    }
    assert all(one.choice.ordered == bool(one.choice.scale) for k in range(SMALL.count) for one in _choices(SMALL, k))
    assert [(one.words, one.scale) for one in ordered(SMALL.derivations)] == [(five, "linear"), (three, "log")]
    assert not ordered(grammar("block: [{one_of: [mlp, attention]}]").derivations)


def _choices(small: Grammar, k: int) -> tuple[Decision, ...]:
    return choices(small.derivations, k)


@pytest.mark.fast
def test_places_count_up() -> None:
    """The next place is the next derivation: what a search calls near is near."""
    small = grammar(f"block: [residual: {{gain: {FIVE}, branch: [mlp]}}]")
    made = [decide(small.derivations, lambda asked, place=place: place) for place in range(5)]
    assert [one.index for one in made] == [0, 1, 2, 3, 4]
    assert [one.decisions[0].word for one in made] == ["0.1", "0.3", "0.5", "0.7", "0.9"]
    with pytest.raises(IndexError):
        decide(small.derivations, lambda asked: 5)


@pytest.mark.fast
def test_every_kind_of_number() -> None:
    """A bounded number, arithmetic, a gain of one, a width, and numbers by a rule and by its argument."""
    small = grammar(
        """cap: [{between: [10, 30], points: 3, scale: linear}]
wide(w): [mlp: {hidden: $w, input_scale: {between: [0.5, 2], points: 3, scale: log}}]
units: {between: [64, 256], points: 3, scale: log}
block:
  - [attention: {entropy: {softcap: $cap}, dropout: {between: [0, 0.5], points: 2, scale: linear}}, $wide($units)]"""
    )
    assert small.count == 3 * 2 * 3 * 3
    assert texts(small)[-2:] == [
        "[attention: {entropy: {softcap: 30}, dropout: 0.5}, mlp: {hidden: 256}]",
        "[attention: {entropy: {softcap: 30}, dropout: 0.5}, mlp: {hidden: 256, input_scale: 2}]",
    ]


@pytest.mark.fast
def test_a_start_may_be_any_rule_of_numbers() -> None:
    small = grammar(
        "start: [0, 1/depth]\nblock: [residual: {gain: {init: $start, trainable: true, per: channel}, branch: [mlp]}]"
    )
    assert texts(small) == [
        f"[residual: {{gain: {{init: {start}, trainable: true, per: channel}}, branch: [mlp]}}]"
        for start in ("0", "1/depth")
    ]


@pytest.mark.fast
def test_mutation_and_crossover_reach_it() -> None:
    small = grammar(f"block: [residual: {{gain: {FIVE}, skip: {FIVE}, branch: [mlp]}}]")
    rng = random.Random(3)
    assert {mutate(small.derivations, 12, rng) for _ in range(300)} == set(range(25)) - {12}
    assert {crossover(small.derivations, 0, 24, rng) for _ in range(100)} == {4, 20}


@pytest.mark.fast
def test_what_constraints_leave_of_numbers_is_counted_exactly() -> None:
    small = grammar(
        f"""rate: [0.15, {{between: [0, 0.3], points: 4, scale: linear}}]
block:
  - [attention: {{dropout: $rate}}, residual: {{gain: {FIVE}, branch: [mlp]}}]
  - [residual: {{gain: {{init: {THREE}, trainable: true}}, skip: {FIVE}, branch: [mlp]}}]""",
        constraints="- {when: {attention.dropout: [0.15, 0.3]}, forbid: {mlp_residual.gain: [0.1, 0.3]}, because: no}\n"
        "- {forbid: {mlp_residual.gain: 0.01}, because: starts too low}",
    )
    admitted = sum(not small.refusals(small.derive(k)) for k in range(small.count))
    assert small.count == 5 * 5 + 3 * 5
    assert take_census(small).admitted == admitted == 5 * 5 - 2 * 2 + 2 * 5


@pytest.mark.fast
def test_the_shipped_grammar_has_one_and_each_number_is_drawn() -> None:
    shipped = transformer()
    assert [(one.words[0], one.words[-1], len(one.words)) for one in ordered(shipped.derivations)] == [
        ("0.05", "0.95", 10)
    ]
    rng = random.Random(0)
    drawn = Counter(
        one.word
        for _ in range(500)
        for one in choices(shipped.derivations, rng.randrange(shipped.count))
        if one.choice.ordered
    )
    assert set(drawn) == set(ordered(shipped.derivations)[0].words)


@pytest.mark.fast
def test_check_says_which_numbers_there_are() -> None:
    assert str(check.grammar(SMALL)).splitlines()[1:] == [
        "  numbers in order: 5 from 0.1 to 0.9, linear",
        "  numbers in order: 3 from 0.01 to 1, log",
    ]
    said = json.loads(str(check.grammar(SMALL, as_json=True)))["ordered"]
    assert said[1] == {"numbers": [0.01, 0.1, 1], "scale": "log"}
    assert "numbers" not in str(check.grammar(grammar("block: [mlp]")))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[0, 1], points: 3, scale: log", "a log scale needs numbers above 0"),
        ("[0, 1], points: 3, scale: linear, step: 1", "a choice between numbers has no 'step'"),
        ("[1, 1.00001], points: 3, scale: linear", "these 3 numbers are not distinct at 6 significant digits"),
        ("[1e-322, 2e-322], points: 50, scale: log", "these 50 numbers are not distinct"),
    ],
)
def test_a_mistake_is_said_once_wherever_it_is_read(written: str, said: str) -> None:
    """As a gain and as a bounded number."""
    with pytest.raises(InputError) as found:
        grammar(
            f"number: {{between: {written}}}\n"
            "block: [[residual: {gain: $number, branch: [attention: {dropout: $number, entropy: {softcap: $number}}]}]]"
        )
    assert str(found.value).count("error: ") == str(found.value).count(said) == 1


@pytest.mark.fast
def test_a_number_out_of_bounds_is_named() -> None:
    with pytest.raises(InputError, match="expected a number above 0, got -1"):
        grammar("block: [attention: {entropy: {softcap: {between: [-1, 1], points: 3, scale: linear}}}]")
