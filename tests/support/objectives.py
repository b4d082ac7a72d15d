"""The objectives of models that are built by hand."""

from ablate.block.sizes import Sizes
from ablate.space.recipe import Loss
from ablate.train.objectives.declare import Given
from ablate.train.objectives.next_token import NextToken, Objective

SIZES = Sizes(n_layers=2, d_model=8, n_heads=2, seq_len=6, vocab_size=13)


def next_token(loss=None):
    """What minimises the cross-entropy of the next token, and what `loss` adds to it."""
    return Objective(NextToken(), Given(SIZES, loss or Loss()))
