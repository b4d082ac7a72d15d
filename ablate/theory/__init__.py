"""Theory: what a model does before a single step, from what each of its components does to token kernels.

    blocks.py         a block as a map of signals, in one layer
    elsewhere.py      what a layer knows of the rest of its model: values that it reads, a profiling pass
    models.py         a whole model: its token kernel layer by layer, and the gradient on the way back
    initial_state.py  the numbers of a model before a step, forecast or measured
    depth_laws.py     how its numbers go with depth: as a power, as an exponential, or not at all
    dangers.py        what in a forecast is a reason not to train the model as it is

The catalogue of components is handed in; arithmetic is that of `ablate/signal`. Never here: torch, or anything that
trains.
"""
