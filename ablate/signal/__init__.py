"""Signal: how signals propagate at initialisation, in closed form; initialisations are derived from it.

    moments.py               mean, variance and correlation between tokens through each component, and backwards
    sublayers.py             the moments through an attention block and an MLP block as a whole
    weight_gradients.py      the gradient of each kind of weight, from the moments of its input and behind it
    deep_scale.py            DeepScaleLM: the correlation, layer by layer, that weights are scaled by
    kernel_maps.py           the effect of an activation on size and correlation of wide layers' signals
    propagation.py           token kernels through any network of random weights, and those of gradients back
    finite_width.py          how far the mean square of one network is from its mean over random weights
    attention_kernel.py      random softmax attention: its effect on token kernels, and on those of gradients
    sampled_attention.py     the same as means over draws, where there is no closed form
    attention_start.py       attention before a step: the variance of its scores, the entropy of its weights
    side_by_side.py          signals as more channels or more tokens, with what they have in common
    routing.py               a mixture of experts: which tokens its router sends to the same ones
    sink.py                  attention with one more key, whose value is 0
    mixing.py                how attention mixes values, as gains of the matrices that it is made of
    gaussian_activations.py  the token kernel of an activation's outputs, for inputs of any variances
    affine.py                the affine maps around an activation
    shaping.py               the affine maps that give a deep network chosen kernel maps
    leaky_relu_shaping.py    a leaky ReLU shaped by its own slope
    subnetworks.py           from the maps of a whole network to those of one nonlinear layer
    skipless.py              how similar tokens may be after each layer, so that rank does not collapse
    skipless_exponential.py  E-SPA's attention matrices
    skipless_uniform.py      U-SPA's attention matrices
    skipless_mlp.py          attention that undoes the effect of an MLP on the similarity of tokens
    skipless_softmax.py      a given attention matrix as the output of a softmax

Float64 numbers by numpy and scipy. Never here: torch, a component, or anything that trains.
"""
