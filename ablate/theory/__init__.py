"""Theory: what a model does before a single step, from the effect of each of its components on token kernels.

    blocks.py             a block as a map of signals, in one layer, with the values of other layers that it reads
    models.py             a whole model: its embedding, its token kernel layer by layer, and the gradient on the way
                          back
    sequences.py          a model that reads the sequences of a text, or random ones for a block without a text
    through_layers.py     the kernels behind each layer, and the gradient in front of each; deep models by strides
                          over layers
    initial_state.py      the numbers of a model before a step, forecast or measured; their intervals, and blocks that
                          have too narrow ones
    fixed_points.py       where correlations come to rest in a deep Post-LN model with dropout, and how fast
    diagnostics.py        dangers, a score of them, laws of depth, sensitivity, and the kurtosis at a start

The catalogue of components is handed in; arithmetic is that of `ablate/signal`. Never here: torch, or anything that
trains.
"""
