"""Each mechanism of the opened algebra is one edit of Pre-LN with RMSNorm, trains in both precisions, and resumes."""

from __future__ import annotations

import math

import pytest
import torch
from builders import architecture, node
from reading import transformer

from ablate.api import load_block
from ablate.block.diff import diff
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.train.events import Checkpoint, Outcome, Row
from ablate.train.loop import train

GRAMMAR = transformer()
VOCABULARY, WIDTH, TIME = 13, 8, 6  # of the data
PLAIN = "[residual: [rms_norm, attention: {position: rope}], residual: [rms_norm, mlp]]"
NO_FIRST = "{where: {layers: first, use: dense, otherwise: %s}}"


def attention(fields: str) -> str:
    return PLAIN.replace("attention: {position: rope}", f"attention: {{position: rope, {fields}}}")


EDITS = {
    "grouped keys": (attention("kv_heads: 1"), "attention.kv_heads=1"),
    "wider heads": (attention("head_width: 6"), "attention.head_width=6"),
    "gate": (attention("gate: {sigmoid_gate: {per: head}}"), "attention.gate=sigmoid_gate"),
    "norm of the output": (attention("output_norm: rms_norm"), "attention.output_norm=rms_norm"),
    "window": (attention("mask: {window: 3}"), "attention.mask=window"),
    "documents": (attention("mask: {document: 0}"), "attention.mask=document"),
    "window in a document": (attention("mask: [{window: 3}, document]"), "attention.mask=[{window: 3}, document]"),
    "padding": (attention("mask: {padding: 0}"), "attention.mask=padding"),
    "local and global": (attention("mask: {cycle: [{window: 3}, none]}"), "attention.mask=cycle"),
    "sink": (attention("sink: learned_sink"), "attention.sink=learned_sink"),
    "clip": (attention("entropy: {qk_clip: {tau: 0.01}}"), "+qk_clip"),
    "two biases": (attention("bias: [alibi, t5]"), "attention.bias=[alibi, t5]"),
    "half a rotation": (PLAIN.replace("rope", "{rope: {share: 0.5}}"), "rope.share=0.5"),
    "keys as values": (attention("value: {from: attention.key}"), "attention.value=from"),
    "first values": (
        attention(f"value: {NO_FIRST % '{from: layers.first.attention.value}'}"),
        "attention.value=where",
    ),
    "value residual": (
        attention(f"value: {NO_FIRST % '{blend: {beside: {from: layers.first.attention.value}}}'}"),
        "attention.value=where",
    ),
    "value embedding": (attention("value: {blend: {beside: lookup}}"), "attention.value=blend"),
    "stream of the start": (PLAIN.replace("[residual", "[recall: layers.first.in, residual", 1), "+recall"),
    "average over depth": (PLAIN.replace("[residual", "[depth_average: layers.*.in, residual", 1), "+depth_average"),
    "attention over depth": (
        PLAIN.replace("[residual", "[depth_attention: layers.*.in, residual", 1),
        "+depth_attention",
    ),
    "experts": (PLAIN.replace("mlp]", "moe: {experts: 4, active: 2, shared: 1, bias_rate: 0.001}]"), "mlp->moe"),
    "squared ReLU": (PLAIN.replace("mlp]", "mlp: {activation: relu_squared}]"), "mlp.activation=relu_squared"),
    "ELU": (PLAIN.replace("mlp]", "mlp: {activation: elu}]"), "mlp.activation=elu"),
    "SELU": (PLAIN.replace("mlp]", "mlp: {activation: selu}]"), "mlp.activation=selu"),
}
CONCATENATED = (
    "[concatenation: {width: 1x, branch: [rms_norm, attention: {position: rope}]}, residual: [rms_norm, mlp]]"
)


@pytest.mark.fast
@pytest.mark.parametrize("mechanism", EDITS)
def test_it_is_one_edit(mechanism):
    text, name = EDITS[mechanism]
    before, after = load_block(PLAIN), load_block(text)
    found = diff(before, after, GRAMMAR.catalogue, defaults=GRAMMAR.defaults)
    assert [edit.name for edit in found.edits] == [name]
    assert found.apply([name]) == after


def model(text: str, seed: int = 0):
    sizes = Sizes(n_layers=3, d_model=WIDTH, n_heads=2, seq_len=TIME, vocab_size=VOCABULARY)
    whole = architecture(load_block(text), sizes=sizes, init=node("normal", std=0.2))
    return compile_model(whole, GRAMMAR.catalogue, seed=seed)


def run(model, trial, data, *, resume=None, stop_at=None):
    asked = iter(range(10_000))
    return list(train(model, trial, data, data.evaluation, resume=resume, should_stop=lambda: next(asked) == stop_at))


def rows(events):
    return [event for event in events if isinstance(event, Row)]


@pytest.mark.sampled(3, gate=20)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mechanism", [*EDITS, "concatenation"])
def test_twenty_steps_are_finite(make_trial, data, mechanism, dtype):
    text = CONCATENATED if mechanism == "concatenation" else EDITS[mechanism][0]
    trial = make_trial(measure__probes=(), recipe__steps=20, recipe__dtype=dtype)
    trained = model(text)
    start = [parameter.detach().clone() for parameter in trained.parameters()]
    events = run(trained, trial, data)
    assert events[-1] == Outcome("finished", 20)
    assert all(math.isfinite(row.value) for row in rows(events))
    assert all(parameter.isfinite().all() for parameter in trained.parameters())
    assert sum(not torch.equal(a, b) for a, b in zip(start, trained.parameters(), strict=True)) >= len(start) - 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", EDITS)
def test_it_resumes_with_the_same_bits(make_trial, data, mechanism):
    text, trial = EDITS[mechanism][0], make_trial(measure__probes=())
    undisturbed = model(text)
    whole = run(undisturbed, trial, data)
    before = run(model(text), trial, data, stop_at=4)
    assert before[-1] == Outcome("interrupted", 4)
    checkpoint = before[-2]
    assert isinstance(checkpoint, Checkpoint)
    other = model(text, seed=1)  # other parameters: all of them must come from the state
    torch.manual_seed(77)
    after = run(other, trial, data, resume=checkpoint.state)
    assert rows(before) + rows(after) == rows(whole)
    assert all(torch.equal(a, b) for a, b in zip(undisturbed.parameters(), other.parameters(), strict=True))
