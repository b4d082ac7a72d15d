"""`model.kind: encoder_decoder` in a space: what its model is, and that a decoder's is what it was."""

from __future__ import annotations

import pytest
from reading import ROOT

import ablate
from ablate.train.divergence import _layer

WRITTEN = f"""\
space: pairs
question: Which edit matters?
grammar: {ROOT / "grammars" / "transformer.yaml"}
model:   {{kind: encoder_decoder, layers: 4, width: 32, heads: 4, context: 16, source: 24, MORE init: {{normal: 0.02}}}}
data:    {{corpus: code_docstrings}}
recipe:  {{steps: 20, batch: 4, objective: sequence_to_sequence, optimizer: {{adamw: {{lr: 1e-2}}}}}}
design:  {{compare: [pre_ln_cross, post_ln_cross]}}
seeds:   2
measure: {{every: 5, probes: [kurtosis], evaluation: {{every: 10, windows: 8}}}}
judge:   {{against: pre_ln_cross, metrics: {{eval_loss: {{margin: 1%}}}}}}
"""


def architecture(tmp_path, more="", written=WRITTEN):
    (tmp_path / "pairs.yaml").write_text(written.replace("MORE", more), encoding="utf-8")
    space = ablate.load_space(tmp_path / "pairs.yaml")
    return space.architecture(next(iter(space.blocks.values())), 77)


def test_the_lengths_and_the_layers_of_both_stacks(tmp_path):
    plain, more = architecture(tmp_path), architecture(tmp_path, "encoder_layers: 6,")
    assert (plain.kind, plain.sizes.seq_len, plain.sizes.source_len, plain.sizes.causal) == (
        "encoder_decoder",
        16,
        24,
        True,
    )
    for found, layers in ((plain, 4), (more, 6)):
        encoder = found.of_encoder().sizes
        assert (encoder.n_layers, encoder.seq_len, encoder.source_len, encoder.causal) == (layers, 24, None, False)
    assert architecture(tmp_path, "encoder_layers: none,") == plain


def test_learned_positions_are_enough_for_the_longer_of_both(tmp_path):
    found = architecture(tmp_path, "position: {learned: 0.02},")
    assert found.rows() == 24
    short = architecture(tmp_path, "position: {learned: {std: 0.02, rows: 20}},")
    with pytest.raises(ablate.InputError, match=r"20 rows for a source of 24 positions"):
        short.rows()


def test_a_layer_of_either_stack_is_named_where_a_trial_diverges():
    assert [_layer(address) for address in ("encoder.2.mlp", "layers.3", "encoder_norm", "head")] == [2, 3, None, None]
