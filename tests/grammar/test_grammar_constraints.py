"""Constraints: what they refuse, with the reason; and how many blocks they leave."""

import math
import random
import sys
import time
from itertools import product

import pytest
from builders import CATALOGUE
from grammar_fixtures import grammar, many
from reading import GRAMMARS, read_block, transformer

from ablate.errors import InputError
from ablate.grammar.census import EXACT_UP_TO, take_census, wilson
from ablate.grammar.grammar import Grammar, load_grammar

ANY_BLOCK = "block: [mlp]"


def refused(constraint: str, block: str) -> bool:
    small = grammar(ANY_BLOCK, constraints=f"- {{{constraint}, because: a reason}}")
    reasons = small.refusals(read_block(block))
    assert reasons in ((), ("a reason",))
    return bool(reasons)


CASES = [
    # require, with and without when
    ("require: {mlp.activation: relu}", "[mlp: {activation: relu}]", False),
    ("require: {mlp.activation: relu}", "[mlp]", True),
    ("require: {mlp.activation: [relu, gelu]}", "[mlp]", False),
    ("when: {mlp.activation: relu}, require: {mlp_norm: any}", "[mlp]", False),
    ("when: {mlp.activation: relu}, require: {mlp_norm: any}", "[mlp: {activation: relu}]", True),
    ("when: {mlp.activation: relu}, require: {mlp_norm: any}", "[rms_norm, mlp: {activation: relu}]", False),
    # every part at the address, and no part at all
    ("require: {mlp*.activation: relu}", "[mlp: {activation: relu}, mlp]", True),
    ("require: {mlp.activation: relu}", "[attention]", True),
    ("require: {mlp.activation: [relu, none]}", "[attention]", False),
    ("require: {mlp_norm: none}", "[mlp]", False),
    ("require: {mlp_norm: none}", "[rms_norm, mlp]", True),
    # when: some part; all of them
    ("when: {mlp*.activation: relu}, require: {attention: any}", "[mlp: {activation: relu}, mlp]", True),
    ("when: {mlp: any, attention: any}, require: {mlp_norm: any}", "[mlp]", False),
    ("when: {mlp: any, attention: any}, require: {mlp_norm: any}", "[mlp, attention]", True),
    ("when: {attention.position: none}, require: {mlp: any}", "[attention]", True),
    # forbid: all of its addresses
    ("forbid: {attention_norm: rms_norm}", "[rms_norm, attention]", True),
    ("forbid: {attention_norm: rms_norm}", "[layer_norm, attention]", False),
    ("forbid: {attention_norm: any, mlp_norm: any}", "[rms_norm, attention, mlp]", False),
    ("forbid: {attention_norm: any, mlp_norm: any}", "[rms_norm, attention, rms_norm, mlp]", True),
    ("forbid: {attention.pre_qk: none}", "[attention]", True),
    # require: one of a list of alternatives
    ("require: [{mlp.activation: relu}, {mlp_norm: any}]", "[mlp]", True),
    ("require: [{mlp.activation: relu}, {mlp_norm: any}]", "[rms_norm, mlp]", False),
    ("require: [{mlp.activation: relu}, {mlp_norm: any}]", "[mlp: {activation: relu}]", False),
    ("require: [{mlp.activation: relu, mlp_norm: any}, {mlp.gate: any}]", "[rms_norm, mlp]", True),
    ("require: [{mlp.activation: relu}, {mlp_norm: any}], forbid: {mlp_norm: rms_norm}", "[rms_norm, mlp]", True),
    # numbers, words, lists
    ("forbid: {attention_residual.gain: 0.5}", "[residual: {gain: 1/2, branch: attention}]", False),
    ("forbid: {attention_residual.gain: 0.5}", "[residual: {gain: 0.5, branch: attention}]", True),
    (
        "forbid: {attention_residual.gain: 1/sqrt(2*depth)}",
        "[residual: {gain: 1/sqrt(2 * depth), branch: attention}]",
        True,
    ),
    ("forbid: {attention_residual.gain: trainable}", "[residual: {gain: {init: 1}, branch: attention}]", True),
    ("forbid: {attention_residual.gain: fixed}", "[residual: {gain: {init: 1}, branch: attention}]", False),
    ("forbid: {mlp.hidden: 4.0x}", "[mlp]", True),
    ("forbid: {mlp.hidden: 512}", "[mlp]", False),
    ("forbid: {mlp.hidden: 16/6x}", "[mlp: {hidden: 8/3x}]", True),
    ("forbid: {mlp.hidden: 8/2x}", "[mlp]", True),
    ("forbid: {mlp.hidden: 8/3x}", "[mlp]", False),
    ("forbid: {attention.query.bias: true}", "[attention: {query: {dense: {bias: true}}}]", True),
    ("forbid: {attention.entropy: softcap}", "[attention: {entropy: [{softcap: 30}, {clamp: 8}]}]", True),
    ("forbid: {attention.entropy: softcap}", "[attention: {entropy: {clamp: 8}}]", False),
    ("forbid: {attention.entropy: none}", "[attention]", True),
    ("forbid: {attention.entropy: any}", "[attention]", False),
    ("forbid: {layers.*.attention.query.init: zero}", "[attention: {query: {dense: {init: zero}}}]", True),
]


@pytest.mark.fast
@pytest.mark.parametrize(("constraint", "block", "expected"), CASES)
def test_what_is_refused(constraint: str, block: str, expected: bool) -> None:
    assert refused(constraint, block) is expected


@pytest.mark.fast
@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ("{forbid: {atention: any}, because: x}", "no part is ever named 'atention'"),
        ("{forbid: {attention.pre_qkk: any}, because: x}", "there is no field 'pre_qkk'"),
        ("{forbid: {attention.query.slope: any}, because: x}", "there is no field 'slope'"),
        ("{forbid: {attention.entropy.cap: 30}, because: x}", "there is no field 'cap'"),
        ("{forbid: {attention.pre_qk: rms_nrom}, because: x}", "attention.pre_qk is never 'rms_nrom'"),
        ("{forbid: {attention.pre_qk: rope}, because: x}", "attention.pre_qk is never 'rope'"),
        ("{forbid: {attention_norm: attention}, because: x}", "attention_norm is never 'attention'"),
        ("{forbid: {layer_norm.bias: yes}, because: x}", "no part is ever named 'layer_norm'"),
        ("{forbid: {attention_residual.gain: much}, because: x}", "attention_residual.gain is never 'much'"),
        ("{forbid: {mlp: {hidden: 4x}}, because: x}", "a condition must name a component"),
        ("{forbid: {.: any}, because: x}", "'.' is not an address"),
        ("{forbid: [attention], because: x}", "conditions must map addresses"),
        ("{forbid: {mlp: any}}", "a constraint must give a reason"),
        ("{forbid: {mlp: any}, because: ''}", "a constraint must give a reason"),
        ("{when: {mlp: any}, because: x}", "a constraint needs `require` or `forbid`"),
        ("{forbids: {mlp: any}, because: x}", "a constraint has no 'forbids'"),
        ("no", "a constraint must be a mapping"),
        ("{name: Exact Start, forbid: {mlp: any}, because: x}", "the name of a constraint must be a word"),
        ("{name: [a], forbid: {mlp: any}, because: x}", "the name of a constraint must be a word"),
        ("{require: [], because: x}", "require lists no alternative"),
        ("{require: [mlp], because: x}", "conditions must map addresses"),
    ],
)
def test_a_constraint_that_says_nothing_is_a_mistake(constraint: str, said: str) -> None:
    with pytest.raises(InputError) as mistake:
        grammar(ANY_BLOCK, constraints=f"- {constraint}")
    assert said in str(mistake.value)


NORM = "norm: [none, layer_norm, rms_norm]"
WORLDS = {
    "parts": (
        f"{NORM}\nblock: [[$norm, attention, $norm, mlp], [residual: [$norm, mlp]]]",
        "- {when: {attention: any}, require: {attention_norm: rms_norm}, because: x}",
    ),
    "fields and multiplicities": (
        "a: [relu, gelu, silu]\ng: [1, 0.5]\n"
        "block: [[residual: {gain: $g, skip: $g, branch: [mlp: {activation: $a}]}]]",
        "- {when: {mlp_residual.gain: 0.5}, forbid: {mlp.activation: relu}, because: x}",
    ),
    "drawn once": (
        f"{NORM}\nblock: [{{let: {{n: $norm}}, in: [$n, attention: {{pre_v: $n}}, $norm, mlp]}}]",
        "- {when: {attention.pre_v: any}, require: {mlp_norm: none}, because: x}",
    ),
    "choices in slots of slots": (
        "e: [none, {softcap: 30}, [{qk_norm: rms_norm}, {softcap: 30}]]\n"
        "w: [dense, {dense: {init: zero}}]\n"
        "block: [[attention: {entropy: $e, query: $w, key: $w}, mlp: {hidden: {one_of: [4x, 2x, 64]}}]]",
        "- {when: {attention.entropy: softcap}, require: {attention.query.init: zero}, because: x}\n"
        "- {forbid: {mlp.hidden: 64, attention.key.init: zero}, because: y}",
    ),
    "recursion and branches": (
        f"{NORM}\nseq(f): {{max_depth: 3, one_of: [$f, residual: [$norm, $seq($f)]]}}\n"
        "block: [[parallel: {branches: [[$norm, $seq(attention)], [$seq(mlp)]]}], $seq(mlp)]",
        "- {forbid: {'*_norm': layer_norm, mlp: any}, because: x}\n- {forbid: {attention_residual_2: any}, because: y}",
    ),
    "order": (
        f"{NORM}\nblock: [[{{one_of: [[$norm, mlp], [mlp, $norm]]}}, attention]]",
        "- {forbid: {mlp_norm: any}, because: x}",
    ),
}


def world(name: str) -> Grammar:
    rules, constraints = WORLDS[name]
    return grammar(rules, constraints=constraints)


@pytest.mark.fast
@pytest.mark.parametrize("name", WORLDS)
def test_the_census_is_what_listing_one_by_one_gives(name: str) -> None:
    small = world(name)
    listed = sum(not small.refusals(small.derive(k)) for k in range(small.count))
    assert 0 < listed < small.count  # the constraints do something, and not everything
    found = take_census(small)
    assert (found.derivations, found.admitted, found.exact) == (small.count, listed, True)
    assert found.low == found.high == listed


@pytest.mark.fast
def test_a_census_that_cannot_list_says_so_and_holds_the_truth() -> None:
    small = world("parts")
    truth = take_census(small).admitted
    sampled = take_census(small, exact_up_to=5, samples=400, seed=1)
    assert not sampled.exact
    assert sampled.samples == 400
    assert sampled.low <= truth <= sampled.high
    assert sampled.low <= sampled.admitted <= sampled.high
    assert sampled.low < sampled.high
    assert take_census(small, exact_up_to=5, samples=400, seed=1) == sampled


@pytest.mark.fast
def test_a_census_of_more_than_floats_hold() -> None:
    """1000^100 blocks and three norms: a third of them have no norm before attention."""
    widths = ", ".join(str(width) for width in range(1, 1001))
    huge = grammar(
        f"{NORM}\nwide: [mlp: {{hidden: {{one_of: [{widths}]}}}}]\nblock: [[$norm, attention, {many('$wide', 100)}]]",
        constraints="- {require: {attention_norm: none}, because: x}",
    )
    found = take_census(huge, samples=60)
    assert found.derivations == 3 * 1000**100
    assert found.low <= 1000**100 <= found.high
    assert not found.exact


@pytest.mark.fast
def test_without_constraints_the_census_is_the_count() -> None:
    free = take_census(grammar(f"{NORM}\nblock: [[{many('$norm', 50)}]]"))
    assert (free.derivations, free.admitted, free.exact) == (3**50, 3**50, True)


@pytest.mark.fast
def test_wilsons_interval() -> None:
    """Against its definition: the shares p at which (hits/n - p)² = z² p (1 - p) / n."""
    z = 1.959963984540054
    for hits, n in product((0, 1, 37, 99, 100), (100, 2000)):
        for p in wilson(hits, n):
            assert math.isclose((hits / n - p) ** 2, z * z * p * (1 - p) / n, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.fast
@pytest.mark.parametrize("path", GRAMMARS, ids=lambda path: path.stem)
def test_the_census_of_a_shipped_grammar_is_quick_and_exact_where_it_can_be(path) -> None:
    shipped = load_grammar(path, CATALOGUE)
    start = time.perf_counter()
    found = take_census(shipped)
    assert time.perf_counter() - start < 10
    assert found.exact == (found.derivations <= EXACT_UP_TO or not shipped.constraints)
    sampled = take_census(shipped, exact_up_to=0, samples=300)
    assert sampled.low <= found.admitted <= sampled.high


@pytest.mark.fast
def test_named_blocks_of_the_shipped_grammar_are_admitted() -> None:
    shipped = transformer()
    assert {name: shipped.refusals(named.block) for name, named in shipped.blocks.items()} == dict.fromkeys(
        shipped.blocks, ()
    )
    both = read_block("[residual: [rms_norm, attention: {pre_qk: rms_norm}], residual: [mlp]]")
    assert any("already normalises" in reason for reason in shipped.refusals(both))


# Many constraints

CHOICES = ("relu", "gelu", "silu")
MANY_PARTS = f"a: [{', '.join(CHOICES)}]\nblock: [[{', '.join(['mlp: {activation: $a}'] * 4)}, attention]]"
PLACES = ("mlp", "mlp_2", "mlp_3", "mlp_4", "mlp*", "attention", "mlp_5")
WORDS = (*CHOICES, "any", "none")


def many_constraints(count: int, seed: int) -> list[dict[str, dict[str, list[str]]]]:
    """Random constraints on which activation stands where; nothing is said of attention but whether it is there."""
    rng = random.Random(seed)

    def conditions(least: int) -> dict[str, list[str]]:
        places = rng.sample(PLACES, rng.randint(least, 3))
        sets = {p: ["any", "none"] if p == "attention" else list(WORDS) for p in places}
        return {
            (p if p == "attention" else f"{p}.activation"): rng.sample(sets[p], rng.randint(1, len(sets[p]) - 1))
            for p in places
        }

    return [{"when": conditions(0), rng.choice(["forbid", "require"]): conditions(1)} for _ in range(count)]


def written(constraints: list[dict[str, dict[str, list[str]]]]) -> str:
    return "\n".join(f"- {one | {'because': f'number {number}'}}" for number, one in enumerate(constraints))


def refuses(one: dict[str, dict[str, list[str]]], activations: tuple[str, ...]) -> bool:
    """A constraint read by its definition, of a block of four MLPs with these activations and attention."""
    names = ("mlp", "mlp_2", "mlp_3", "mlp_4")

    def there(address: str) -> list[str]:
        part = address.partition(".")[0]
        if part == "attention":
            return ["attention"]
        return [value for name, value in zip(names, activations, strict=True) if part in (name, "mlp*")]

    def meets(value: str, accepted: list[str]) -> bool:
        return value in accepted or "any" in accepted

    def some(address: str, accepted: list[str]) -> bool:
        found = there(address)
        return any(meets(value, accepted) for value in found) if found else "none" in accepted

    def every(address: str, accepted: list[str]) -> bool:
        found = there(address)
        return all(meets(value, accepted) for value in found) if found else "none" in accepted

    if not all(some(*condition) for condition in one["when"].items()):
        return False
    if "forbid" in one:
        return all(some(*condition) for condition in one["forbid"].items())
    return not all(every(*condition) for condition in one["require"].items())


@pytest.mark.parametrize("seed", range(3))
def test_many_constraints_refuse_what_each_refuses_by_its_definition(seed: int) -> None:
    constraints = many_constraints(150, seed)
    large = grammar(MANY_PARTS, constraints=written(constraints))
    refused_at_all: set[str] = set()
    for k, activations in enumerate(product(CHOICES, repeat=4)):
        reasons = large.refusals(large.derive(k))
        assert reasons == tuple(f"number {n}" for n, one in enumerate(constraints) if refuses(one, activations))
        refused_at_all |= {*reasons}
    assert 20 < len(refused_at_all) < 150  # some do something, and some nothing


def calls_to_ask(constraints: int) -> int:
    """Calls of Python functions until 81 blocks are asked, of constraints that refuse none and look where others do."""
    places = PLACES[:4]
    text = "\n".join(
        f"- {{when: {{{places[n % 4]}.activation: relu}}, "
        f"require: {{{places[n * 7 % 4]}.activation: [any], attention: any}}, because: number {n}}}"
        for n in range(constraints)
    )
    large = grammar(MANY_PARTS, constraints=text)
    blocks = [large.derive(k) for k in range(large.count)]
    assert large.refusals(blocks[0]) == ()
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        refused = [large.refusals(block) for block in blocks]
    finally:
        sys.setprofile(before)
    assert not any(refused)
    return calls


def test_more_constraints_on_the_same_places_are_not_more_work() -> None:
    """500 constraints on 4,096 derivations took 40 seconds: each looked for the parts at its address by itself."""
    few, many_more = calls_to_ask(20), calls_to_ask(400)
    assert many_more < 1.5 * few
