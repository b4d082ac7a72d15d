"""Sameness under training: what has one normal form trains to the same bits, each side compiled as it is written."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from builders import CATALOGUE, architecture, gain, node
from component_contract import hosts
from random_blocks import respelt
from reading import read_block, transformer

from ablate.block.catalogue import Branches, ComponentSpec, FieldType, Flag, GainField, Number, Sequenced
from ablate.block.expression import Block, Gain, Node, Value, walk
from ablate.block.normal_form import fingerprint, normalise
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.errors import InputError
from ablate.grammar.grammar import Grammar

SIZES = Sizes(n_layers=2, d_model=16, n_heads=2, seq_len=8, vocab_size=17)

RULES = {
    "arithmetic is its number": (
        "[residual: {gain: 1/sqrt(4), branch: [attention, mlp]}]",
        "[residual: {gain: 0.5, branch: [attention, mlp]}]",
    ),
    "a fixed gain is one number": (
        "[residual: {gain: {init: 0.5, trainable: false, per: channel}, branch: [attention]}]",
        "[residual: {gain: 0.5, branch: [attention]}]",
    ),
    "a skipless residual is its branch": (
        "[residual: {skip: 0, branch: [rms_norm, attention]}, mlp]",
        "[rms_norm, attention, mlp]",
    ),
    "stages have an order of their own": (
        "[attention: {entropy: [{softcap: 3}, {qk_norm: rms_norm}]}]",
        "[attention: {entropy: [{qk_norm: rms_norm}, {softcap: 3}]}]",
    ),
    "an RMSNorm without gain is the simple one": (
        "[rms_norm: {scale: false, eps: 1e-8}, attention]",
        "[simple_rms_norm: {eps: 1e-8}, attention]",
    ),
    "shaped attention without skip and centre is softmax": (
        "[attention: {matrix: {shaped: {skip: 0, gain: 1, centre: 0}}}]",
        "[attention]",
    ),
    "attention without a value skip is softmax": (
        "[attention: {matrix: {value_skipinit: {skip: 0, gain: 1}}}]",
        "[attention]",
    ),
    "dropping nothing is nothing": ("[attention, dropout: 0, mlp]", "[attention, mlp]"),
}
"""Every rule of `block/normal_form.py`, and every `Transparent` and `Same` that a component declares."""

RULED = [spec for spec in CATALOGUE if spec.transparent or spec.same]


def losses(block: Block, steps: int, sizes: Sizes = SIZES) -> list[float]:
    """The training loss of each step, as it comes out."""
    model = compile_model(architecture(block, sizes=sizes), CATALOGUE, seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    words = torch.Generator().manual_seed(0)
    found = []
    torch.manual_seed(0)
    for _ in range(steps):
        tokens = torch.randint(sizes.vocab_size, (2, sizes.seq_len + 1), generator=words)
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("rule", RULES)
def test_an_admitted_rule_trains_to_the_same_bits(rule):
    one, other = (read_block(text) for text in RULES[rule])
    assert one != other
    assert fingerprint(one, CATALOGUE) == fingerprint(other, CATALOGUE)
    assert losses(one, 20) == losses(other, 20)


def test_every_declared_rule_is_tested():
    written = {node.name for texts in RULES.values() for text in texts for node in walk(read_block(text))}
    assert {spec.name for spec in RULED} <= written


NOT_ADMITTED = {
    "a trained gain on a matrix": (
        "[residual: {skip: 0, gain: {init: 1, trainable: true}, branch: [attention]}]",
        "[attention]",
    ),
    "norm after norm": (
        "[rms_norm: {eps: 0.01}, rms_norm: {eps: 0.01}, attention]",
        "[rms_norm: {eps: 0.01}, attention]",
    ),
    "the order within a stage": (
        "[attention: {entropy: [{softcap: 0.01}, {clamp: 0.009}]}]",
        "[attention: {entropy: [{clamp: 0.009}, {softcap: 0.01}]}]",
    ),
}


@pytest.mark.parametrize("case", NOT_ADMITTED)
def test_what_is_the_same_at_initialisation_only_is_not_admitted(case):
    """So that the tests above can fail: these share their start, or nearly, and part in training."""
    one, other = (read_block(text) for text in NOT_ADMITTED[case])
    assert fingerprint(one, CATALOGUE) != fingerprint(other, CATALOGUE)
    first, second = losses(one, 20), losses(other, 20)
    assert first[0] == pytest.approx(second[0], rel=1e-2)
    assert first != second


def others(value: Value, kind: FieldType) -> Iterator[Value]:
    """Other values of a field, such as no rule names; of the sequences that a rule keeps there are none."""
    match kind, value:
        case Flag(), bool():
            yield not value
        case Number(), _:
            yield 0.7
        case GainField(), Gain():
            yield gain(0.7)
            yield Gain(value.value, trainable=True)
        case ((Sequenced() | Branches()), _):
            return
        case _:
            raise AssertionError(f"no other value for a field that is {kind}")


def near_misses(spec: ComponentSpec) -> Iterator[tuple[str, Node, Node]]:
    """The component as its rule has it, and with each of its fields changed.

    Fields that the rule does not name too, so that one it forgets is seen.
    """
    rule = spec.transparent or spec.same
    assert rule is not None
    there = node(spec.name, **rule.when)
    for field, kind in spec.fields.items():
        for number, value in enumerate(others(there[field], kind)):
            yield f"{spec.name}-{field}-{number}", there, there.replace({field: value})


NEAR_MISSES = [
    pytest.param(block, near, id=name)
    for spec in RULED
    for name, there, changed in near_misses(spec)
    for block, near in zip(hosts(there, spec), hosts(changed, spec), strict=True)
]


@pytest.mark.parametrize(("block", "near"), NEAR_MISSES)
def test_a_component_is_the_same_as_another_at_the_declared_values_alone(block, near):
    other = normalise(block, CATALOGUE)
    assert other != block and losses(other, 3) == losses(block, 3)
    assert fingerprint(near, CATALOGUE) != fingerprint(block, CATALOGUE)
    assert losses(near, 3) != losses(block, 3)


def sampled(grammar: Grammar, chance: random.Random) -> tuple[Block, Block]:
    """A block of the grammar, and the same said otherwise, at sizes at which it can be built."""
    while True:
        one = grammar.sample(chance)
        other = respelt(one, chance)
        try:
            losses(one, 0)
        except InputError:
            continue
        if one != other:
            return one, other


@pytest.mark.full
@pytest.mark.parametrize("pairs", [25, pytest.param(1000, marks=pytest.mark.slow)])
def test_of_sampled_pairs_with_one_fingerprint_none_differs(pairs):
    chance = random.Random(0)
    differing = []
    for _ in range(pairs):
        one, other = sampled(transformer(), chance)
        assert fingerprint(one, CATALOGUE) == fingerprint(other, CATALOGUE)
        if losses(one, 3) != losses(other, 3):
            differing.append((one, other))
    assert not differing


def test_pairs_that_differ_are_seen():
    """The twin: another block of the same grammar nearly always gives other losses."""
    chance = random.Random(1)
    blocks = [sampled(transformer(), chance)[0] for _ in range(6)]
    assert len({tuple(losses(block, 2)) for block in blocks}) > 3
