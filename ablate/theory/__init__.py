"""Theory: what a model does before a single step, from what each of its components does to token kernels.

    blocks.py             a block as a map of signals, in one layer
    elsewhere.py          what a layer knows of the rest of its model: values that it reads, a profiling pass
    models.py             a whole model: its token kernel layer by layer, and the gradient on the way back
    sequences.py          a model that reads the sequences of a text
    token_patterns.py     random sequences of tokens, for a block without a text
    embedding.py          the stream in front of the first layer, of tokens or of other inputs
    through_layers.py     the kernels behind each layer, and the gradient in front of each
    strides.py            the states of a deep model from a few of its layers
    initial_state.py      the numbers of a model before a step, forecast or measured
    intervals.py          how far one network of a width may be from a forecast
    shortfalls.py         blocks of which fewer starts lie within these intervals than they say
    depth_laws.py         how its numbers go with depth: as a power, as an exponential, or not at all
    sensitivity.py        by how much the output changes if the stream, or the weights of a layer, are changed
    kurtosis_bound.py     what a token kernel says of outlier features
    fixed_points.py       where correlations come to rest in a deep Post-LN model with dropout, and how fast
    dangers.py            what in a forecast is a reason not to train the model as it is
    danger_score.py       one number that is the larger, the likelier a model is to fail

The catalogue of components is handed in; arithmetic is that of `ablate/signal`. Never here: torch, or anything that
trains.
"""
