"""A learned sink in attention equals softmax over one logit more, in NumPy float64, beside whatever else acts on it."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, node, sequence

from ablate.block.equation import equation
from ablate.compiler import compile_block, size_report
from ablate.errors import InputError
from ablate.plan.size import cost

X = np.random.default_rng(11).normal(size=(2, 12, 16))
LOGITS = (0.75, -1.5)


def built(part, *, dtype=torch.float64):
    model = compile_block(sequence(part), SIZES, CATALOGUE, init=default_init(), dtype=dtype)
    numbers = np.random.default_rng(12)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("sink.logit"):
                parameter.copy_(torch.tensor(LOGITS[: len(parameter)]))
            else:
                parameter += 0.3 * torch.from_numpy(numbers.normal(size=parameter.shape)).to(dtype)
    return model


def reference(model, *, window=None, cap=None, slopes=None, kv_heads=2, skip=0.0, gain=1.0):
    """One query after another."""
    w = {n.removeprefix("attention."): p.detach().numpy() for n, p in model.named_parameters()}
    y = np.zeros((2, 12, 16))
    for b in range(2):
        for h in range(2):
            mine, g = slice(8 * h, 8 * h + 8), h // (2 // kv_heads)
            shared = slice(8 * g, 8 * g + 8)
            weights = (w["query.weight"][mine], w["key.weight"][shared], w["value.weight"][shared])
            q, k, v = (X[b] @ weight.T for weight in weights)
            for t in range(12):
                keys = range(max(0, t - window + 1) if window else 0, t + 1)
                scores = np.array([q[t] @ k[s] / math.sqrt(8) for s in keys])
                scores = cap * np.tanh(scores / cap) if cap else scores
                scores = scores - slopes[h] * (t - np.array(keys)) if slopes else scores
                both = np.exp(np.append(scores, LOGITS[h]))
                mixed = (both / both.sum())[:-1] @ v[list(keys)]
                y[b, t, mine] = skip * v[t] + gain * mixed
    return y @ w["projection.weight"].T


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({}, {}),
        ({"mask": node("window", size=4.0)}, {"window": 4}),
        ({"entropy": (node("softcap", cap=1.5),)}, {"cap": 1.5}),
        ({"bias": "alibi"}, {"slopes": (2**-4, 2**-8)}),
        ({"kv_heads": 1}, {"kv_heads": 1}),
        ({"matrix": node("value_skipinit", skip=0.5, gain=2)}, {"skip": 0.5, "gain": 2.0}),
        ({"matrix": node("shaped", skip=0.5, gain=2, centre=0)}, {"skip": 0.5, "gain": 2.0}),
        (
            {"bias": "alibi", "mask": node("window", size=4.0), "entropy": (node("softcap", cap=1.5),)},
            {"slopes": (2**-4, 2**-8), "window": 4, "cap": 1.5},
        ),
    ],
    ids=str,
)
def test_against_numpy(fields, known):
    model = built(node("attention", sink="learned_sink", **fields))
    y = model(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(y, reference(model, **known), rtol=1e-9, atol=1e-11)
    plain = built(node("attention", **fields))
    plain.load_state_dict({n: p for n, p in model.state_dict().items() if "sink" not in n})
    assert np.abs(plain(torch.from_numpy(X)).detach().numpy() - y).max() > 1e-2


def test_it_starts_where_it_is_told_and_is_trained():
    for init, start in ((0, 0.0), (-2.5, -2.5), ("depth/4", 0.5)):
        part = node("attention", sink=node("learned_sink", init=init))
        model = compile_block(sequence(part), SIZES, CATALOGUE, init=default_init(), dtype=torch.float64)
        logit = model.attention.sink.logit
        assert logit.tolist() == [start, start]
        model(torch.from_numpy(X)).square().sum().backward()
        assert (logit.grad != 0).all()
        twin = copy.deepcopy(model)
        with torch.no_grad():
            twin.attention.sink.logit += 3
        assert not torch.equal(twin(torch.from_numpy(X)), model(torch.from_numpy(X)))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"heads": 4, "kv_heads": 2},
        {"bias": "t5", "mask": node("window", size=4.0)},
        {"dropout": 0.1, "matrix": "value_skipinit"},
    ],
    ids=str,
)
def test_size_as_counted(fields):
    part = sequence(node("attention", sink="learned_sink", **fields))
    counted = cost(architecture(part), CATALOGUE)
    without = cost(architecture(sequence(node("attention", **fields))), CATALOGUE)
    assert counted.parameters - without.parameters == SIZES.n_layers * fields.get("heads", 2)
    assert (counted.flops, counted.spared) == (without.flops, without.spared)
    assert size_report(architecture(part), CATALOGUE) == counted


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (node("shaped"), "shaped subtracts attention at zero query-key product"),
        (node("value_skipinit", gain=0), "value_skipinit computes no softmax"),
        (node("e_spa", decay=0.1), "the matrix e_spa is solved for rows that sum to 1"),
    ],
    ids=("centred", "no attention", "solved"),
)
def test_matrices_without_a_place_for_one(matrix, message):
    block = sequence(node("attention", sink="learned_sink", matrix=matrix))
    with pytest.raises(InputError, match=message):
        cost(architecture(block), CATALOGUE)
    with pytest.raises(InputError, match=message):
        compile_block(block, SIZES, CATALOGUE, init=default_init())


def test_the_equation_names_it():
    text = equation(sequence(node("attention", sink="learned_sink")), replace(SIZES, d_model=32), CATALOGUE).text
    assert "A = softmax([S + M, b]) without its last column" in text
    assert "b ∈ ℝ^H,  at first 0" in text
