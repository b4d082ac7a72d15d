"""Signal: how signals propagate at initialisation, in closed form; initialisations are derived from it.

    moments.py               mean, variance and correlation between tokens through components and sublayers, and
                             backwards; DeepScaleLM
    kernel_maps.py           the effect of an activation on size and correlation, and the affine maps that give a deep
                             network chosen ones
    propagation.py           token kernels through any network of random weights, and those of gradients back; sinks,
                             and signals side by side
    attention_kernel.py      random softmax attention: its effect on token kernels, and on those of gradients
    sampled_attention.py     attention as means over draws; its scores and entropy before a step; the routers of
                             mixtures of experts
    gaussian_activations.py  the token kernel of an activation's outputs, for inputs of any variances
    finite_width.py          how far the mean square of one network of finite width is from its mean over weights
    network_shaping.py       affine maps and gains, from the maps of a whole network to those of one layer, and leaky
                             ReLUs solved for these
    skipless.py              how similar tokens may be after each layer, so that rank does not collapse
    skipless_matrices.py     E-SPA's and U-SPA's attention matrices, also behind an MLP, and as the output of a
                             softmax

Float64 numbers by numpy and scipy. Never here: torch, a component, or anything that trains.
"""
