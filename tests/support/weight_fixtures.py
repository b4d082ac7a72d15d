"""Small models of weights, and their outputs as arrays."""

import numpy as np
import torch
from builders import CATALOGUE, SIZES, default_init, node, sequence
from recipes import adamw

from ablate.compiler import compile_block

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 12, 16))
ORTHOGONAL = node("orthogonal")
ADAMW = adamw(betas=(0.9, 0.99), decays=("weights",))


def mlp(**weights):
    """A linear network of two layers: x ↦ down(up(x))."""
    return node("mlp", activation=node("leaky_relu", slope=1.0), **weights)


def built(*parts, dtype=torch.float64, **options):
    return compile_block(sequence(*parts), SIZES, CATALOGUE, init=default_init(), dtype=dtype, **options)


def shaken(model):
    """The model with every parameter moved, so that none hides at its start; and all its state as arrays."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.from_numpy(RNG.normal(size=parameter.shape))
    return model, {name: value.detach().numpy() for name, value in model.state_dict().items()}


def output(model, x=X):
    return model(torch.from_numpy(x)).detach().numpy()


def close(actual, expected, rtol=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-12)


def reparameterised(**fields):
    return node("reparameterised", **{"init": ORTHOGONAL, **fields})
