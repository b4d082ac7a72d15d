"""What is seldom meant is told in the plan: margins of whole nats, hidden layers of a few units."""

from __future__ import annotations

import pytest
from space_worlds import space

from ablate.plan.build import build_plan


def told(folder, start: str, **sections: str) -> list[str]:
    asked = space(folder, design="{compare: [pre_ln, op]}", **sections)
    return [note for note in build_plan(asked, vocab_size=256, corpus="c").notes if note.startswith(start)]


@pytest.mark.parametrize(("margin", "said"), [("1", True), ("0.6", True), ("0.02", False), ("1%", False)])
def test_a_margin_of_whole_nats_is_told(tmp_path, margin, said):
    judge = f"{{against: pre_ln, metrics: {{eval_loss: {{margin: {margin}}}}}}}"
    notes = told(tmp_path, "margin:", judge=judge)
    assert bool(notes) == said
    assert all(f"margin: {margin} of eval_loss is in nats" in note and "ln 256" in note for note in notes)


@pytest.mark.parametrize(("margin", "said"), [("1", True), ("0.7", False), ("1%", False)])
def test_a_margin_of_whole_bits_is_told(tmp_path, margin, said):
    judge = f"{{against: pre_ln, metrics: {{eval_bits_per_byte: {{margin: {margin}}}}}}}"
    notes = told(tmp_path, "margin:", judge=judge)
    assert bool(notes) == said
    assert all("1 of eval_bits_per_byte is in bits, 12 % of what guessing bytes loses (8)" in note for note in notes)


@pytest.mark.parametrize(("hidden", "said"), [("4", True), ("3x", False)])
def test_a_hidden_layer_narrower_than_the_model_is_told(tmp_path, hidden, said):
    notes = told(tmp_path, "hidden:", block=f"{{mlp.hidden: {hidden}, attention.position: rope}}")
    assert bool(notes) == said
    assert all("hidden: 4 is 4 units, fewer than" in note and "pre_ln" in note and "4x" in note for note in notes)
