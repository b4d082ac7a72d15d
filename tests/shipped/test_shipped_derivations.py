"""The whole grammar: what its rules derive compiles and takes a step, or is refused by a constraint with its reason."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch
from builders import CATALOGUE, architecture, node
from reading import transformer

from ablate.block.expression import walk
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.plan.size import cost

SIZES = Sizes(n_layers=4, d_model=16, n_heads=2, seq_len=8, vocab_size=11)


def take_a_step(block) -> None:
    """Build the model, count it, and train it for one step; nothing may go wrong or become infinite."""
    whole = architecture(block, sizes=SIZES, init=node("fan_in", gain=1))
    assert cost(whole, CATALOGUE).parameters > 0
    model = compile_model(whole, CATALOGUE, seed=0)
    assert cost(whole, CATALOGUE).parameters == sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.arange(2 * SIZES.seq_len).reshape(2, -1) % SIZES.vocab_size
    before = model(tokens)
    loss = torch.nn.functional.cross_entropy(before.flatten(0, 1), tokens.flatten())
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    assert model(tokens).isfinite().all()


@pytest.mark.parametrize("draws", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_uniform_derivations_compile_and_train_or_are_refused_with_a_reason(draws):
    grammar, chance = transformer(), random.Random(0)
    outcomes: Counter[str] = Counter()
    for _ in range(draws):
        block = grammar.derive(chance.randrange(grammar.count))
        reasons = grammar.refusals(block)
        if reasons:
            assert all(len(reason.split()) > 4 for reason in reasons)
            outcomes.update(reasons)
            continue
        take_a_step(block)
        outcomes["trained"] += 1
    assert outcomes["trained"] > draws / 4
    assert len(outcomes) > 2, outcomes


@pytest.mark.fast
def test_every_component_is_reached_by_a_rule_or_a_named_block():
    """What nobody can write in this grammar would be dead."""
    grammar, chance = transformer(), random.Random(1)
    blocks = [named.block for named in grammar.blocks.values()]
    blocks += [grammar.derive(chance.randrange(grammar.count)) for _ in range(400)]
    reached = {node.name for block in blocks for node in walk(block)}
    assert {spec.name for spec in CATALOGUE} - reached <= OF_THE_USER


OF_THE_USER = {
    "blend",
    "causal",
    "cycle",
    "depth_attention",
    "depth_average",
    "dks_leaky_relu",
    "document",
    "dropout",
    "elu",
    "from",
    "full",
    "learned_sink",
    "lookup",
    "moe",
    "normal",
    "padding",
    "prefix",
    "qk_clip",
    "recall",
    "relu_squared",
    "rescaled",
    "selu",
    "sigmoid_gate",
    "where",
    "window",
}
"""Components that no shipped block has: a space's `init`, or a user's own choice in `block:` and `blocks:`."""
