"""Training with layers that share parameters, and with patterns: it learns, and resumes with the same bits."""

from __future__ import annotations

import pytest
import torch
from builders import CATALOGUE, architecture
from reading import read_block

from ablate.block.architecture import Sharing
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.train.events import Checkpoint, Outcome, Row
from ablate.train.loop import train

VOCABULARY, WIDTH, TIME = 13, 8, 6  # of the data
BLOCK = (
    "[residual: [layer_norm, attention: {position: {cycle: [rope, none]}, dropout: 0.1}], residual: [layer_norm, mlp]]"
)


def model(seed: int, share: Sharing | None = Sharing(cycle=2)):
    sizes = Sizes(n_layers=4, d_model=WIDTH, n_heads=2, seq_len=TIME, vocab_size=VOCABULARY)
    return compile_model(architecture(read_block(BLOCK), sizes=sizes, share=share), CATALOGUE, seed=seed)


def run(model, trial, data, *, resume=None, stop_at=None):
    asked = iter(range(10_000))
    return list(train(model, trial, data, data.evaluation, resume=resume, should_stop=lambda: next(asked) == stop_at))


def rows(events):
    return [event for event in events if isinstance(event, Row)]


@pytest.mark.parametrize("stop_at", [1, 4])
def test_layers_that_share_resume_with_the_same_bits(make_trial, data, stop_at):
    trial, undisturbed = make_trial(), model(0)
    whole = run(undisturbed, trial, data)
    before = run(model(0), trial, data, stop_at=stop_at)
    assert before[-1] == Outcome("interrupted", stop_at)
    checkpoint = before[-2]
    assert isinstance(checkpoint, Checkpoint)
    other = model(1)  # other parameters: all of them must come from the state
    torch.manual_seed(77)
    after = run(other, trial, data, resume=checkpoint.state)
    assert rows(before) + rows(after) == rows(whole)
    assert all(torch.equal(a, b) for a, b in zip(undisturbed.parameters(), other.parameters(), strict=True))
    for one, three in zip(other.layers["1"].parameters(), other.layers["3"].parameters(), strict=True):
        assert one is three
    assert rows(run(model(0, share=None), trial, data)) != rows(whole)
