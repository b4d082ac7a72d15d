"""A transformer's layers by NumPy in float64, of blocks with attention, cross-attention and an MLP of SiLU."""

import numpy as np
import torch

HEADS = 2


def perturbed(model):
    """Move every parameter from its start, so that a norm's scale and bias, all 1 and 0, count."""
    drawn = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=drawn, dtype=parameter.dtype)
    return model


def weights_of(model):
    return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


def norm(x, w, name):
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return w[f"{name}.scale"] * centred / deviation + w[f"{name}.bias"]


def attention(x, c, seen, w, name):
    """Queries of x, keys and values of c; `seen` is [B, T, S]."""
    q, k, v = (
        (y @ w[f"{name}.{which}.weight"].T).reshape(*y.shape[:2], HEADS, -1).swapaxes(1, 2)
        for which, y in (("query", x), ("key", c), ("value", c))
    )
    weights = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) * seen[:, None]
    y = weights / weights.sum(-1, keepdims=True) @ v
    return y.swapaxes(1, 2).reshape(*x.shape) @ w[f"{name}.projection.weight"].T


def mlp(x, w, name):
    hidden = x @ w[f"{name}.up.weight"].T
    return hidden / (1 + np.exp(-hidden)) @ w[f"{name}.down.weight"].T


def pre_layer(x, c, own, other, w, name, layer, depth):
    inside = norm(x, w, f"{name}.attention_norm")
    x = x + attention(inside, inside, own, w, f"{name}.attention") / np.sqrt(2 * depth)
    if c is not None:
        x = x + attention(norm(x, w, f"{name}.attention_2_norm"), c, other, w, f"{name}.attention_2")
    return x + mlp(norm(x, w, f"{name}.mlp_norm"), w, f"{name}.mlp") / layer


def post_layer(x, c, own, other, w, name, layer, depth):
    x = norm(x + attention(x, x, own, w, f"{name}.attention"), w, f"{name}.attention_post_norm")
    if c is not None:
        x = norm(x + attention(x, c, other, w, f"{name}.attention_2"), w, f"{name}.attention_2_post_norm")
    return norm(x + mlp(x, w, f"{name}.mlp"), w, f"{name}.mlp_post_norm")


def sines(n_times, width):
    table = np.zeros((n_times, width))
    for t in range(n_times):
        for i in range(0, width, 2):
            table[t, i], table[t, i + 1] = np.sin(t / 10000 ** (i / width)), np.cos(t / 10000 ** (i / width))
    return table
