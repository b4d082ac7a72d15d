"""Counting, listing and drawing against brute force written out in the test."""

import itertools
import random
from collections import Counter

import pytest
from grammar_fixtures import grammar, many, texts
from scipy.stats import chisquare

from ablate.errors import InputError
from ablate.grammar.grammar import Grammar

NORMS = ["", "layer_norm, ", "rms_norm, "]
NORM = "norm: [none, layer_norm, rms_norm]"


def combined(*choices: list[str]) -> list[str]:
    return ["[" + "".join(parts) + "]" for parts in itertools.product(*choices)]


@pytest.mark.fast
def test_alternatives_and_products_in_order() -> None:
    small = grammar(f"{NORM}\nblock:\n  - [$norm, attention]\n  - [$norm, $norm, mlp]")
    assert texts(small) == combined(NORMS, ["attention"]) + combined(NORMS, NORMS, ["mlp"])
    assert small.count == 3 + 9


@pytest.mark.fast
def test_a_rule_draws_anew_and_let_draws_once() -> None:
    anew = grammar(f"{NORM}\nblock:\n  - [$norm, attention, $norm, mlp]")
    once = grammar(f"{NORM}\nblock:\n  - {{let: {{n: $norm}}, in: [$n, attention, $n, mlp]}}")
    assert texts(anew) == combined(NORMS, ["attention, "], NORMS, ["mlp"])
    assert texts(once) == [f"[{n}attention, {n}mlp]" for n in NORMS]
    assert (anew.count, once.count) == (9, 3)


@pytest.mark.fast
def test_let_within_let_and_two_names() -> None:
    small = grammar(
        f"""{NORM}
block:
  - let: {{a: $norm, b: $norm}}
    in: [$a, attention, $b, {{let: {{c: $norm}}, in: [$a, $c, mlp, $c]}}]"""
    )
    wanted = [
        f"[{a}attention, {b}{a}{c}mlp{', ' + c.removesuffix(', ') if c else ''}]"
        for a, b, c in itertools.product(NORMS, NORMS, NORMS)
    ]
    assert texts(small) == wanted


@pytest.mark.fast
def test_what_is_drawn_once_fits_every_kind_of_place() -> None:
    """The same norm as a part of a sequence and in a slot of attention."""
    small = grammar("norm: [none, rms_norm]\nblock:\n  - {let: {n: $norm}, in: [$n, attention: {pre_v: $n}]}")
    assert texts(small) == ["[attention]", "[rms_norm, attention: {pre_v: rms_norm}]"]


@pytest.mark.fast
def test_parameters() -> None:
    small = grammar(
        f"""{NORM}
pre(f): [[$norm, $f]]
both(f, g): [[$pre($f), $pre($g)]]
scaled(g, f): [residual: {{gain: $g, branch: [$f]}}]
block:
  - $both(attention, mlp)
  - $scaled(0.5, $pre(mlp))"""
    )
    wanted = combined(NORMS, ["attention, "], NORMS, ["mlp"])
    wanted += [f"[residual: {{gain: 0.5, branch: [{n}mlp]}}]" for n in NORMS]
    assert texts(small) == wanted


@pytest.mark.fast
def test_an_argument_is_drawn_anew_at_each_use() -> None:
    small = grammar(f"{NORM}\ntwice(f): [[$f, mlp, $f]]\nblock: [$twice($norm)]")
    assert small.count == 9
    shared = grammar(f"{NORM}\ntwice(f): [{{let: {{x: $f}}, in: [$x, mlp, $x]}}]\nblock: [$twice($norm)]")
    assert shared.count == 3


@pytest.mark.fast
def test_an_argument_means_what_it_means_where_it_is_written() -> None:
    """`f` of `outer` is handed to a parameter that is called `f` too; a `let` outside is seen through it."""
    small = grammar(
        f"""{NORM}
inner(f): [[$f, mlp]]
outer(f): [[$inner($f), attention]]
block:
  - $outer(rms_norm)
  - {{let: {{f: $norm}}, in: [$f, $outer($f)]}}"""
    )
    assert texts(small) == ["[rms_norm, mlp, attention]", *(f"[{n}{n}mlp, attention]" for n in NORMS)]


@pytest.mark.fast
def test_the_same_argument_text_in_two_places_is_not_the_same_value() -> None:
    inner = "{let: {x: {one_of: [mlp, rms_norm]}}, in: [$wrap($x)]}"
    small = grammar(
        f"wrap(f): [residual: [$f]]\nblock: [{{let: {{x: {{one_of: [attention, mlp]}}}}, in: [$wrap($x), {inner}]}}]"
    )
    assert texts(small) == [
        f"[residual: [{a}], residual: [{b}]]" for a in ("attention", "mlp") for b in ("mlp", "rms_norm")
    ]


@pytest.mark.fast
def test_bounded_recursion() -> None:
    small = grammar("block: {max_depth: 3, one_of: [attention, [mlp, $block]]}")
    assert texts(small) == ["[attention]", "[mlp, attention]", "[mlp, mlp, attention]"]
    tree = grammar("block: {max_depth: 4, one_of: [mlp, residual: [$block, $block]]}")
    count = 0
    for _ in range(4):
        count = 1 + count**2 if count else 1
    assert tree.count == count == 26
    assert len(set(texts(tree))) == 26


@pytest.mark.fast
def test_bounded_recursion_through_another_rule() -> None:
    small = grammar("block: {max_depth: 3, one_of: [attention, $more]}\nmore: [[mlp, $block]]")
    assert texts(small) == ["[attention]", "[mlp, attention]", "[mlp, mlp, attention]"]


@pytest.mark.fast
def test_bounded_recursion_with_an_argument() -> None:
    small = grammar(
        "nest(f): {max_depth: 3, one_of: [$f, residual: [$nest($f)]]}\nblock: [$nest(mlp), $nest(attention)]"
    )
    assert texts(small) == [
        text.replace("x", f)
        for f in ("mlp", "attention")
        for text in ("[x]", "[residual: [x]]", "[residual: [residual: [x]]]")
    ]


@pytest.mark.fast
def test_lists_of_regulation_are_spliced() -> None:
    small = grammar(
        "e: [none, {softcap: 30}]\n"
        "block:\n"
        "- attention: {entropy: $e}\n"
        "- attention: {entropy: [$e, {clamp: 8}]}\n"
        "- attention: {entropy: [{clamp: 8}, $e]}"
    )
    assert texts(small) == [
        "[attention]",
        "[attention: {entropy: {softcap: 30}}]",
        "[attention: {entropy: {clamp: 8}}]",
        "[attention: {entropy: [{softcap: 30}, {clamp: 8}]}]",
        "[attention: {entropy: {clamp: 8}}]",
        "[attention: {entropy: [{clamp: 8}, {softcap: 30}]}]",
    ]


@pytest.mark.fast
def test_branches_are_chosen_one_by_one() -> None:
    small = grammar("f: [attention, [rms_norm, mlp], none]\nblock: [parallel: {branches: [$f, [$f, mlp]]}]")
    inside = ["attention", "rms_norm, mlp", ""]
    wanted = [f"[parallel: [[{a}], [{b + ', ' if b else ''}mlp]]]" for a in inside for b in inside]
    assert texts(small) == wanted


@pytest.mark.fast
def test_choices_on_the_spot_in_any_field() -> None:
    small = grammar(
        "block: [mlp: {activation: {one_of: [relu, {leaky_relu: 0.1}]}, hidden: {one_of: [2x, 64]},"
        " input_scale: {one_of: [1, 1/sqrt(width)]}}]"
    )
    assert small.count == 8
    assert len(set(texts(small))) == 8
    gains = grammar("g: [1, {init: 0, trainable: true}]\nblock: [residual: {gain: $g, skip: $g, branch: [mlp]}]")
    assert gains.count == 4
    shorthand = grammar("f: [mlp, attention]\nblock: [residual: $f]")
    assert texts(shorthand) == ["[residual: [mlp]]", "[residual: [attention]]"]


def wide(places: int) -> Grammar:
    return grammar(f"{NORM}\nblock: [[{many('$norm', places)}]]")


@pytest.mark.fast
def test_counts_are_exact_beyond_a_million_million() -> None:
    small = wide(60)
    assert small.count == 3**60 > 10**12
    assert [part.name for part in small.derive(3**60 - 1)] == ["rms_norm"] * 60
    k = sum(2 * 3**place for place in range(0, 60, 2))  # rms_norm at every second place, none elsewhere
    assert len(small.derive(k)) == 30


@pytest.mark.fast
def test_every_number_is_a_derivation_and_no_other() -> None:
    small = wide(2)
    assert len(set(texts(small))) == 7  # of nine, "a then none" and "none then a" read the same
    for k in (-1, 9, 10**30):
        with pytest.raises(IndexError):
            small.derive(k)


@pytest.mark.fast
def test_listing_is_what_constraints_leave_of_all_derivations() -> None:
    small = grammar(
        f"{NORM}\nblock: [[$norm, attention, $norm, mlp]]",
        constraints="- {when: {attention_norm: any}, require: {mlp_norm: any}, because: both or none}",
    )
    kept = [k for k in range(9) if k // 3 == 0 or k % 3 != 0]
    assert list(small.enumerate()) == [small.derive(k) for k in kept]


@pytest.mark.fast
def test_draws_are_uniform_over_what_is_admitted() -> None:
    """Alternatives of unequal size: a draw rule by rule would give the first derivation half the time."""
    small = grammar(
        f"{NORM}\nblock: [mlp, [$norm, $norm, attention]]",
        constraints="- {forbid: {attention_norm: layer_norm}, because: not this one}",
    )
    admitted = list(small.enumerate())
    rng = random.Random(5)
    n = 3000
    drawn = Counter(small.sample(rng) for _ in range(n))
    assert set(drawn) <= set(admitted)
    times = Counter(admitted)  # two derivations may read the same
    kinds = list(times)
    expected = [n * times[block] / len(admitted) for block in kinds]
    assert chisquare([drawn[block] for block in kinds], expected).pvalue > 0.001
    halves = [n / 2, *[n / 2 / (len(kinds) - 1)] * (len(kinds) - 1)]
    assert chisquare([drawn[block] for block in kinds], halves).pvalue < 1e-6  # the test above can fail


@pytest.mark.fast
def test_drawing_gives_up_where_constraints_leave_nothing() -> None:
    small = grammar(
        "block: [[mlp], [mlp, attention]]", constraints="- {forbid: {mlp: any}, because: no block without one}"
    )
    with pytest.raises(InputError, match="refused 10,000 blocks in a row"):
        small.sample(random.Random(0))
