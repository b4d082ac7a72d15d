"""Attention compiled around a matrix, and its pieces as arrays."""

from dataclasses import replace

import numpy as np
import torch
from builders import CATALOGUE, SIZES, default_init, node, sequence

from ablate.compiler import compile_block

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 12, 16))
SIX = replace(SIZES, n_layers=6)
ZERO = node("dense", init="zero")


def compiled(attention, *, sizes=SIZES, dtype=torch.float64, disturbed=(), **options):
    """The block, with the parameters whose addresses end in `disturbed` moved from where they start."""
    block = sequence(attention)
    model = compile_block(block, sizes, CATALOGUE, init=default_init(), dtype=dtype, **options)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(disturbed):
                parameter += 0.5 * torch.from_numpy(RNG.normal(size=parameter.shape))
    return model, {name: parameter.detach().double().numpy() for name, parameter in model.named_parameters()}


def run(model, x=X, dtype=torch.float64):
    return model(torch.from_numpy(x).to(dtype)).detach().double().numpy()


def heads(x):
    return x.reshape(2, -1, 2, 8).transpose(0, 2, 1, 3)


def joined(mixed, w):
    return mixed.transpose(0, 2, 1, 3).reshape(2, -1, 16) @ w["attention.projection.weight"].T


def parts(w, x=X):
    return [heads(x @ w[f"attention.{name}.weight"].T) for name in ("query", "key", "value")]


def softmax(scores, causal):
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def close(found, expected, tolerance=1e-10):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
