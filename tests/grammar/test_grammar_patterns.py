"""Rules with patterns over layers: they derive, count and mutate as any rule does, and constraints see into them."""

from __future__ import annotations

import random

import pytest
from builders import CATALOGUE
from grammar_fixtures import grammar, texts

from ablate.block.layers import at_layer, has_patterns
from ablate.block.sizes import Sizes
from ablate.errors import InputError
from ablate.grammar.census import take_census
from ablate.grammar.mutate import crossover, mutate

pytestmark = pytest.mark.fast

RULES = """
norm: [none, layer_norm, rms_norm]
sublayer: [mlp, [layer_norm, mlp]]
which: [first, last, {every: 2}]
block:
  - [{cycle: [[$norm, attention], $sublayer]}]
  - [attention: {query: {where: {layers: $which, use: dense, otherwise: {one_of: [identity, {frozen: {init: eye}}]}}}}]
"""


def test_every_derivation_is_a_block_with_its_pattern():
    small = grammar(RULES)
    found = texts(small)
    assert small.count == len(set(found)) == 3 * 2 + 3 * 2
    assert "[cycle: [[attention], [mlp]]]" in found
    assert "[cycle: [[rms_norm, attention], [layer_norm, mlp]]]" in found
    last = "[attention: {query: {where: {layers: last, use: dense, otherwise: identity}}}]"
    assert last in [text.replace("heads: none, ", "") for text in found]
    sizes = Sizes(n_layers=2, d_model=8, n_heads=2, seq_len=4, vocab_size=5)
    for k in range(small.count):
        block = small.derive(k)
        assert has_patterns(block, CATALOGUE)
        one, other = (at_layer(block, CATALOGUE, sizes.scope(layer)) for layer in (1, 2))
        assert one != other


def test_a_mutation_changes_what_is_inside_a_pattern():
    small, chance = grammar(RULES), random.Random(0)
    start = next(k for k in range(small.count) if texts(small)[k] == "[cycle: [[attention], [mlp]]]")
    mutants = {texts(small)[mutate(small.derivations, start, chance)] for _ in range(60)}
    assert {"[cycle: [[layer_norm, attention], [mlp]]]", "[cycle: [[attention], [layer_norm, mlp]]]"} <= mutants
    assert all(crossover(small.derivations, start, k, chance) != start for k in range(small.count))


def test_a_whole_list_of_alternatives_may_be_a_choice():
    small = grammar("block: [[{cycle: {one_of: [[mlp, attention], [mlp, mlp, attention]]}}]]")
    assert texts(small) == ["[cycle: [[mlp], [attention]]]", "[cycle: [[mlp], [mlp], [attention]]]"]


def test_a_constraint_holds_for_each_alternative():
    constraint = "- {name: no_rms, forbid: {attention_norm: rms_norm}, because: the norm is compared elsewhere}"
    small = grammar(RULES, constraints=constraint)
    refused = [texts(small)[k] for k in range(small.count) if small.refusals(small.derive(k))]
    assert refused == [text for text in texts(small) if "rms_norm" in text] and len(refused) == 2
    assert take_census(small).admitted == small.count - 2
    required = "- {name: all_dense, require: {attention.query: [dense, identity]}, because: they are trained}"
    other = grammar(RULES, constraints=required)
    assert sum(bool(other.refusals(other.derive(k))) for k in range(other.count)) == 3
    assert take_census(other).admitted == other.count - 3


def test_a_slot_that_cannot_be_empty_is_told_in_a_rule_too():
    with pytest.raises(InputError, match="slot weight cannot be empty here"):
        grammar("some: [dense, none]\nblock: [[attention: {query: {cycle: [$some, identity]}}]]")
