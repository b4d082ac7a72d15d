"""Derivations as named choices, and new ones from known ones, against brute force written out in the test."""

import random
from collections import Counter
from itertools import product

import pytest
from example_counts import examples_of
from grammar_fixtures import grammar, printed, texts
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import transformer
from scipy.stats import chisquare

from ablate.errors import InputError
from ablate.grammar.choices import Derived, OpenChoice, choices, decide, subtrees
from ablate.grammar.derivation import Template
from ablate.grammar.grammar import Grammar
from ablate.grammar.mutate import crossover, draw, like, mutate

NORM = "norm: [none, layer_norm, rms_norm]"
RULES = {
    "product": f"{NORM}\nblock:\n  - [$norm, attention]\n  - [$norm, $norm, mlp]",
    "once": f"{NORM}\nblock:\n  - {{let: {{n: $norm}}, in: [$n, attention, $n, mlp]}}\n  - [$norm, mlp]",
    "two lets": f"{NORM}\nblock:\n  - let: {{a: $norm, b: $norm}}\n    in: [$a, attention, $b, "
    "{let: {c: $norm}, in: [$a, $c, mlp, $c]}]",
    "let in let": f"{NORM}\nblock: [{{let: {{a: $norm}}, in: {{let: {{a: [$a, $norm]}}, in: [$a, mlp, $a]}}}}]",
    "arguments": f"{NORM}\npre(f): [[$norm, $f], [$f]]\nblock: [[$pre(attention), $pre(mlp), $pre($norm)]]",
    "one_of": "block:\n  - [residual: {gain: {one_of: [1, 2]}, branch: [mlp]}]\n"
    "  - [residual: {gain: {one_of: [1, 2, 3]}, skip: {one_of: [0, 1]}, branch: [mlp]}]",
    "recursion": "block: {max_depth: 4, one_of: [mlp, residual: [$block, $block]]}",
    "between": "g: [1, {between: [0.1, 0.7], points: 3, scale: linear}, {init: $start}]\n"
    "start: {between: [0.01, 1], points: 3, scale: log}\n"
    f"{NORM}\nblock: [mlp, {{let: {{n: $g}}, in: [residual: {{gain: $n, skip: $n, branch: [$norm, mlp]}}]}}]",
    "single": "inner: [$deeper]\ndeeper: [mlp, attention]\nblock: [[$inner, $inner]]",
}
SMALL = {name: grammar(rules) for name, rules in RULES.items()}
kinds = pytest.mark.parametrize("small", SMALL.values(), ids=SMALL)


def taken(small: Grammar, k: int) -> dict[str, int]:
    return {made.name: made.taken for made in choices(small.derivations, k)}


def remade(template: Template, answers: dict[str, int]) -> Derived:
    return decide(template, lambda asked: answers[asked.name])


@pytest.mark.fast
@kinds
def test_choices_and_numbers_are_inverse(small: Grammar) -> None:
    """Every derivation is its choices and no other's, and asking for them again makes it."""
    found = [taken(small, k) for k in range(small.count)]
    assert len({tuple(sorted(one.items())) for one in found}) == small.count
    for k, one in enumerate(found):
        made = remade(small.derivations, one)
        assert made.index == k
        assert made.decisions == choices(small.derivations, k)


@pytest.mark.fast
@kinds
def test_names_are_unique_and_mean_one_choice(small: Grammar) -> None:
    meant: dict[str, OpenChoice] = {}
    for k in range(small.count):
        made = choices(small.derivations, k)
        assert len({one.name for one in made}) == len(made)
        for one in made:
            assert meant.setdefault(one.name, one.choice) == one.choice
            assert len(one.choice.words) == len(one.choice.counts) > 1


@pytest.mark.fast
@kinds
def test_a_chooser_that_tries_every_answer_makes_every_derivation(small: Grammar) -> None:
    made, pending = set(), [()]
    while pending:
        answers = pending.pop()
        asked = []

        def chooser(one: OpenChoice, answers: tuple[int, ...] = answers, asked: list[OpenChoice] = asked) -> int:
            asked.append(one)
            return answers[len(asked) - 1] if len(asked) <= len(answers) else 0

        derived = decide(small.derivations, chooser)
        assert derived.index not in made or any(answers[-1:])
        made.add(derived.index)
        for place in range(len(answers), len(asked)):
            start = tuple(one.taken for one in derived.decisions[:place])
            pending += [(*start, other) for other in range(1, len(asked[place].words))]
    assert made == set(range(small.count))


@pytest.mark.fast
def test_names_by_rule_and_place() -> None:
    assert list(taken(SMALL["product"], 3)) == ["block", "block/norm", "block/norm#2"]
    assert list(taken(SMALL["once"], 0)) == ["block", "block/n=norm"]
    assert list(taken(SMALL["arguments"], 0)) == [
        *("block/pre(attention)", "block/pre(attention)/norm", "block/pre(mlp)", "block/pre(mlp)/norm"),
        *("block/pre($norm)", "block/pre($norm)/norm", "block/pre($norm)/norm#2"),
    ]
    assert list(taken(SMALL["one_of"], 7)) == ["block", "block/skip:one_of#2", "block/gain:one_of#3"]
    assert list(taken(SMALL["single"], 0)) == ["block/inner/deeper", "block/inner#2/deeper"]


@pytest.mark.fast
def test_words_are_the_alternatives_as_written() -> None:
    first, second = choices(SMALL["product"].derivations, 1)
    assert (first.word, second.word) == ("[$norm, attention]", "layer_norm")
    assert second.choice.words == ("none", "layer_norm", "rms_norm")
    assert first.choice.counts == (3, 9)


@pytest.mark.fast
def test_an_answer_that_is_not_there() -> None:
    with pytest.raises(IndexError, match="alternative 2 of 2 for block"):
        decide(SMALL["product"].derivations, lambda asked: 2)


@pytest.mark.fast
@settings(max_examples=examples_of(60), deadline=None)
@given(st.integers(0, transformer().count - 1))
def test_the_shipped_grammar_is_taken_apart_and_made_again(k: int) -> None:
    made = choices(transformer().derivations, k)
    assert len({one.name for one in made}) == len(made)
    assert remade(transformer().derivations, {one.name: one.taken for one in made}).index == k


@pytest.mark.fast
def test_the_shipped_grammar_has_one_parameter_for_each_choice() -> None:
    """Conditional: the kind of norm of QK-norm is asked only with it, and what a norm stands in does not rename it."""
    rng, meant = random.Random(3), {}
    for _ in range(400):
        for one in choices(transformer().derivations, rng.randrange(transformer().count)):
            assert meant.setdefault(one.name, one.choice) == one.choice
    assert {"block", "block/sublayer($attention)/norm", "block/sublayer($attention)/attention/matrix/skip:head"} <= set(
        meant
    )


@pytest.mark.sampled(3)
@kinds
def test_mutation_reaches_each_other_derivation_of_a_subtree_equally(small: Grammar) -> None:
    k, rng, n = small.count // 2, random.Random(7), 4000
    expected: Counter[int] = Counter()
    places = list(subtrees(small.derivations, k))
    for place in places:
        others = [j for j in range(place.template.count) if j != place.index]
        for j in others:
            expected[k + (j - place.index) * place.stride] += n / len(places) / len(others)
    assert all(0 <= other < small.count and other != k for other in expected)
    found = Counter(mutate(small.derivations, k, rng) for _ in range(n))
    assert set(found) <= set(expected)
    pvalue = chisquare([found[key] for key in expected], list(expected.values())).pvalue if len(expected) > 1 else 1
    assert pvalue > 1e-4


@pytest.mark.fast
def test_mutation_changes_what_it_says_and_no_more() -> None:
    """Of `[$norm, $norm, mlp]` with both norms kept or one changed, or anything at all from the start rule."""
    small = SMALL["product"]
    k = small.count - 1
    seen = {texts(small)[mutate(small.derivations, k, random.Random(seed))] for seed in range(300)}
    assert {"[mlp]", "[attention]", "[rms_norm, mlp]", "[layer_norm, rms_norm, mlp]"} <= seen
    assert texts(small)[k] == "[rms_norm, rms_norm, mlp]" not in seen
    lonely = grammar("block: [mlp]")
    assert mutate(lonely.derivations, 0, random.Random(0)) == 0


@pytest.mark.fast
def test_subtrees_move_the_number_by_their_stride() -> None:
    small = SMALL["two lets"]
    for k in range(small.count):
        for place in subtrees(small.derivations, k):
            start = k - place.index * place.stride
            inside = [small.derivations.at(start + j * place.stride, {}) for j in range(place.template.count)]
            assert small.derive(k) in inside
            assert len(set(map(printed, inside))) > 1


@pytest.mark.fast
def test_crossover_takes_like_rules_only() -> None:
    """Attention's norm may come from attention's sublayer, not from the MLP's: the arguments differ."""
    small = grammar(f"{NORM}\npre(f): [[$norm, $f]]\nblock: [[$pre(attention), $pre(mlp)]]")
    lines = texts(small)
    k, other = lines.index("[layer_norm, attention, mlp]"), lines.index("[attention, rms_norm, mlp]")
    pairs = {(mine.path, theirs.path) for mine, theirs in like(small.derivations, k, other)}
    norm_a, norm_m = "block/pre(attention)/norm", "block/pre(mlp)/norm"
    assert ("block/pre(attention)", "block/pre(attention)") in pairs
    assert ("block/pre(attention)", "block/pre(mlp)") not in pairs
    assert {(norm_a, norm_m), (norm_m, norm_m)} <= pairs  # the rule `norm` takes no argument: it is like itself
    children = {lines[crossover(small.derivations, k, other, random.Random(seed))] for seed in range(200)}
    assert children == {"[attention, mlp]", "[layer_norm, attention, rms_norm, mlp]", "[rms_norm, attention, mlp]"}


@pytest.mark.fast
def test_crossover_of_what_shares_nothing() -> None:
    small = grammar("a: [mlp, residual: [mlp]]\nb: [attention, residual: [attention]]\nblock: [$a, $b]")
    assert crossover(small.derivations, 0, 2, random.Random(0)) is None


@pytest.mark.fast
@settings(max_examples=examples_of(60), deadline=None)
@given(st.integers(0, 2**63), st.integers(0, transformer().count - 1), st.integers(0, transformer().count - 1))
def test_crossover_and_mutation_of_the_shipped_grammar(seed: int, k: int, other: int) -> None:
    """Each gives a derivation; the child has each choice from one of its parents, or asks what only it asks."""
    shipped = transformer()
    child = crossover(shipped.derivations, k, other, random.Random(seed))
    again = crossover(shipped.derivations, k, other, random.Random(seed))
    assert child == again
    assert child is None or (0 <= child < shipped.count and child not in (k, other))
    mutant = mutate(shipped.derivations, k, random.Random(seed))
    assert 0 <= mutant < shipped.count
    assert mutant != k


@pytest.mark.fast
def test_what_constraints_removed_is_counted_by_reason() -> None:
    small = grammar(
        f"{NORM}\nblock: [[$norm, attention, $norm, mlp]]",
        constraints="- {forbid: {attention_norm: any}, because: no first}\n"
        "- {forbid: {mlp_norm: any}, because: no second}",
    )
    rng, twin = random.Random(11), random.Random(11)
    for _ in range(20):
        found = draw(small, rng)
        expected, tried = Counter(), 0
        while True:
            first, second = divmod(twin.randrange(9), 3)
            tried += 1
            if first == second == 0:
                break
            expected.update(["no first"] * (first > 0) + ["no second"] * (second > 0))
        assert (found.index, found.tried, found.refused) == (0, tried, dict(expected))
        assert found.block == small.derive(0)


@pytest.mark.fast
def test_constraints_that_leave_nothing() -> None:
    nothing = "- {forbid: {mlp: any}, because: no block without one}"
    small = grammar("block: [[mlp], [mlp, attention]]", constraints=nothing)
    with pytest.raises(InputError) as raised:
        draw(small, random.Random(0))
    assert str(raised.value).splitlines() == [
        f"grammar {small.name}: 10,000 blocks in a row were refused",
        "  = 10,000 of them because no block without one: "
        "offer fewer such alternatives in the rules, or relax the constraint",
    ]


@pytest.mark.fast
def test_draws_are_uniform() -> None:
    small = SMALL["once"]
    found = Counter(draw(small, random.Random(seed)).index for seed in range(1200))
    assert chisquare([found[k] for k in range(small.count)]).pvalue > 1e-3


@pytest.mark.fast
def test_brute_force_of_counts() -> None:
    """The numbers behind the rest, by hand."""
    n = 3
    assert SMALL["product"].count == n + n * n
    assert SMALL["once"].count == n + n
    assert SMALL["two lets"].count == len(list(product(range(n), repeat=3)))
    assert SMALL["let in let"].count == n * n
    assert SMALL["one_of"].count == 2 + 3 * 2
    assert SMALL["arguments"].count == (n + 1) * (n + 1) * (n * n + n)
