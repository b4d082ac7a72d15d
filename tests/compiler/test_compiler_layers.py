"""A layer that a model does not have is refused, wherever it is named: what is built instead would be another block."""

from __future__ import annotations

import pytest
from builders import CATALOGUE
from reading import transformer

import ablate
from ablate.block.sizes import Sizes
from ablate.errors import InputError
from ablate.plan.size import block_costs

pytestmark = pytest.mark.fast

SIZES = Sizes(n_layers=6, d_model=16, n_heads=2, seq_len=8, vocab_size=256)
SAS = transformer().block("sas")


@pytest.mark.parametrize("layer", [0, -1, 7, 1.5, True])
def test_a_layer_that_is_not_there_is_refused_with_those_that_are(layer):
    with pytest.raises(InputError, match=r"there is no layer .* in a model of 6 layers\n  = .* from 1 to 6"):
        ablate.compile_block(SAS, SIZES, init="normal: {std: 0.02}", layer=layer)
    with pytest.raises(InputError, match="there is no layer"):
        block_costs(SAS, SIZES, CATALOGUE, layer)


def test_the_first_and_the_last_layer_are_built_as_they_are():
    """The twin: SAS has values of its own in the first layer alone, so that a wrong layer is another block."""
    first, last = (ablate.compile_block(SAS, SIZES, init="normal: {std: 0.02}", layer=layer) for layer in (1, 6))
    assert sum(p.numel() for p in first.parameters()) > sum(p.numel() for p in last.parameters())


@pytest.mark.parametrize("layers", [0, -3, 2.0, True, "6"])
def test_a_model_has_a_whole_number_of_layers_at_least_one(layers):
    with pytest.raises(
        InputError, match=r"n_layers is .*, d_model is 0\n  = each must be a whole number of at least 1"
    ):
        Sizes(n_layers=layers, d_model=0, n_heads=2, seq_len=8, vocab_size=256)
