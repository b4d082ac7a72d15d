"""The shipped grammar at its start `opened`: what it derives compiles, or is refused with a reason."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from builders import CATALOGUE, architecture, node

import ablate
from ablate.block.expression import walk
from ablate.block.sizes import Sizes
from ablate.compiler import size_report
from ablate.errors import InputError
from ablate.grammar.grammar import Grammar, load_grammar
from ablate.grammar.mutate import crossover, mutate
from ablate.plan.size import cost

SHIPPED = Path(ablate.__file__).parents[1] / "grammars"
SIZES = Sizes(n_layers=4, d_model=32, n_heads=4, seq_len=16, vocab_size=17)
NEW = {
    "from",
    "blend",
    "lookup",
    "where",
    "cycle",
    "window",
    "sigmoid_gate",
    "learned_sink",
    "recall",
    "moe",
    "elu",
    "qk_clip",
}


@pytest.fixture(name="grown", scope="module")
def grown_grammar() -> Grammar:
    return load_grammar(SHIPPED / "transformer.yaml", CATALOGUE).starting("opened")


def check(grammar: Grammar, k: int) -> str:
    """Whether a derivation is refused by a constraint, at the sizes, or compiles to what is declared."""
    block = grammar.derive(k)
    if grammar.refusals(block):
        return "constraint"
    whole = architecture(block, sizes=SIZES, init=node("normal", std=0.02))
    try:
        declared = cost(whole, grammar.catalogue)
    except InputError as refused:
        assert "\n  = " in str(refused), "each reason has a way out"
        return "sizes"
    assert declared == size_report(whole, grammar.catalogue), str(block)
    return "compiles"


@pytest.mark.sampled(1, gate=8)
@pytest.mark.parametrize("first", range(25))
def test_what_it_derives_compiles_or_is_refused_with_a_reason(grown: Grammar, first: int) -> None:
    chance = random.Random(first)
    met = [check(grown, chance.randrange(grown.count)) for _ in range(20)]
    assert "compiles" in met


@pytest.mark.full
def test_each_new_mechanism_is_among_what_compiles(grown: Grammar) -> None:
    chance, met = random.Random(99), set()
    for _ in range(400):
        block = grown.derive(chance.randrange(grown.count))
        if not grown.refusals(block):
            met |= {each.name for each in walk(block)}
    assert met >= NEW


@pytest.mark.parametrize("pairs", [5, pytest.param(60, marks=pytest.mark.full)])
def test_mutations_and_crossovers_are_derivations_that_compile_or_are_refused(grown: Grammar, pairs: int) -> None:
    chance, met = random.Random(5), set()
    template = grown.derivations
    for _ in range(pairs):
        one, other = chance.randrange(grown.count), chance.randrange(grown.count)
        changed = mutate(template, one, chance)
        assert 0 <= changed < grown.count and changed != one
        crossed = crossover(template, one, other, chance)
        assert crossed is None or (0 <= crossed < grown.count and crossed != one)
        met |= {check(grown, k) for k in (changed, crossed) if k is not None}
    assert "compiles" in met
