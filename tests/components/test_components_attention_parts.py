"""Attention with heads of its own, shared keys, a gate and a norm of its output equals NumPy in float64."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, node, sequence

from ablate.block.equation import equation
from ablate.block.normal_form import fingerprint
from ablate.compiler import compile_block, size_report
from ablate.errors import InputError
from ablate.plan.identity import model_identity
from ablate.plan.size import cost

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 12, 16))
PLAIN = node("attention")

pytestmark = pytest.mark.fast


def built(part, *, dtype=torch.float64):
    """The block, none of its parameters at a value that hides it."""
    model = compile_block(sequence(part), SIZES, CATALOGUE, init=default_init(), dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.from_numpy(RNG.normal(size=parameter.shape)).to(dtype)
    return model


def arrays(model):
    return {name.removeprefix("attention."): p.detach().double().numpy() for name, p in model.named_parameters()}


def reference(w, n_heads, kv_heads, width, *, gate=None, norm=None, x=X):
    """Causal attention, one head after another."""
    batch, length, _ = x.shape
    y = np.zeros((batch, length, n_heads * width))
    for b in range(batch):
        for h in range(n_heads):
            g = h // (n_heads // kv_heads)
            mine, shared = slice(h * width, (h + 1) * width), slice(g * width, (g + 1) * width)
            q, k, v = (
                x[b] @ w["query.weight"][mine].T,
                x[b] @ w["key.weight"][shared].T,
                x[b] @ w["value.weight"][shared].T,
            )
            for t in range(length):
                scores = np.array([q[t] @ k[s] / math.sqrt(width) for s in range(t + 1)])
                weights = np.exp(scores - scores.max())
                y[b, t, mine] = weights @ v[: t + 1] / weights.sum()
    if norm is not None:
        y = y / np.sqrt((y**2).mean(-1, keepdims=True) + norm) * w["output_norm.scale"]
    if gate is not None:
        y = y * gate(w["gate.weight.weight"])
    return y @ w["projection.weight"].T


@pytest.mark.parametrize(
    ("n_heads", "kv_heads", "width"),
    [(2, 1, 8), (4, 2, 4), (4, 1, 4), (8, 4, 5), (3, 3, 6), (2, 2, 8), (1, 1, 24)],
    ids=str,
)
def test_heads_of_its_own(n_heads, kv_heads, width):
    model = built(node("attention", heads=n_heads, kv_heads=kv_heads, head_width=width))
    y = model(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(y, reference(arrays(model), n_heads, kv_heads, width), rtol=1e-9, atol=1e-11)


def test_a_twin_with_keys_shared_wrongly_is_seen():
    model = built(node("attention", heads=4, kv_heads=2))
    w = arrays(model)
    w["key.weight"] = w["key.weight"].reshape(2, 4, 16)[::-1].reshape(8, 16)
    y = model(torch.from_numpy(X)).detach().numpy()
    assert np.abs(y - reference(w, 4, 2, 4)).max() > 1e-3


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("per", ["channel", "head"])
@pytest.mark.parametrize("inputs", [16, 5])
def test_gate(per, inputs):
    gate = node("sigmoid_gate", per=per, inputs=inputs_of(inputs), factor=2.0)
    model = built(node("attention", gate=gate))

    def factors(weight):
        open_by = 2 * sigmoid(X[..., :inputs] @ weight.T)
        return open_by if per == "channel" else np.repeat(open_by, 8, axis=-1)

    y = model(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(y, reference(arrays(model), 2, 2, 8, gate=factors), rtol=1e-9, atol=1e-11)


def inputs_of(units):
    from ablate.block.expression import Size

    return Size(units=units)


def test_a_closed_gate_of_factor_two_starts_open():
    closed = node("sigmoid_gate", factor=2.0, weight=node("dense", init="zero"))
    plain, gated = (
        compile_block(sequence(part), SIZES, CATALOGUE, init=default_init(), dtype=torch.float64)
        for part in (PLAIN, node("attention", gate=closed))
    )
    x = torch.from_numpy(X)
    torch.testing.assert_close(plain(x), gated(x), rtol=0, atol=0)


def test_norm_of_the_output_is_before_the_gate():
    norm = node("rms_norm", eps=0.1, scale=True)
    model = built(node("attention", output_norm=norm, gate="sigmoid_gate"))
    w = arrays(model)
    y = model(torch.from_numpy(X)).detach().numpy()
    gate = node("sigmoid_gate")
    assert gate["per"] == "channel"

    def factors(weight):
        return gate["factor"] * sigmoid(X[..., : weight.shape[1]] @ weight.T)

    np.testing.assert_allclose(y, reference(w, 2, 2, 8, gate=factors, norm=0.1), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("share", "turned"), [(0.5, 4), (0.25, 2), (1.0, 8)])
def test_rope_turns_a_share_of_the_channels(share, turned):
    model = built(node("attention", position=node("rope", base=100.0, share=share)))
    q, k = (torch.from_numpy(RNG.normal(size=(2, 2, 12, 8))) for _ in range(2))
    for x, y in zip((q, k), model.get_submodule("attention.position")(q, k), strict=True):
        x, y = x.numpy(), y.numpy()
        angle = np.arange(12)[:, None] * 100.0 ** (-2 * np.arange(turned // 2) / turned)
        expected = (x[..., :turned:2] + 1j * x[..., 1:turned:2]) * np.exp(1j * angle)
        np.testing.assert_allclose(y[..., :turned:2] + 1j * y[..., 1:turned:2], expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(y[..., turned:], x[..., turned:])


def test_gradients_against_differences():
    model = built(node("attention", heads=4, kv_heads=2, gate="sigmoid_gate", output_norm="rms_norm"))
    x = torch.from_numpy(X[:1, :5]).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: model(x), (x,), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    "fields",
    [
        {"heads": 4, "kv_heads": 2},
        {"heads": 1, "kv_heads": 1, "head_width": 24},
        {"kv_heads": 1, "gate": "sigmoid_gate"},
        {"head_width": 4, "output_norm": "layer_norm", "entropy": ("sigma_reparam",)},
        {"head_width": 6, "bias": "t5", "matrix": "shaped"},
        {"heads": 4, "bias": "transformer_xl"},
        {"head_width": 4, "entropy": ("qk_norm",), "position": "rope"},
    ],
    ids=str,
)
def test_the_closed_form_is_what_pytorch_counts(fields):
    whole = architecture(sequence(node("attention", **fields)))
    assert cost(whole, CATALOGUE) == size_report(whole, CATALOGUE)


def test_the_scale_is_that_of_its_own_heads():
    narrow = node("attention", head_width=2)
    model = compile_block(sequence(narrow), SIZES, CATALOGUE, init=default_init())
    assert model.get_submodule("attention.attend").scale == pytest.approx(1 / math.sqrt(2))


def test_no_field_of_its_own_is_the_attention_of_before():
    assert all(PLAIN[field] is None for field in CATALOGUE["attention"].added)
    model = compile_block(sequence(PLAIN), SIZES, CATALOGUE, init=default_init())
    assert [name for name, _ in model.named_parameters()] == [
        f"attention.{weight}.weight" for weight in ("query", "key", "value", "projection")
    ]


def test_the_models_own_heads_written_out_are_the_same_numbers():
    """Heads as many as the model's, and as wide, are another text but the same tensors."""
    written = node("attention", heads="heads", kv_heads="heads", head_width="head_width")
    x = torch.from_numpy(X)
    plain, other = (
        compile_block(sequence(part), SIZES, CATALOGUE, init=default_init(), dtype=torch.float64)
        for part in (PLAIN, written)
    )
    torch.testing.assert_close(plain(x), other(x), rtol=0, atol=0)


def test_arithmetic_inside_sees_its_own_heads():
    """Two blocks whose scales differ only because their heads do are different models."""
    by_name = node("attention", head_width=4, scale="1/sqrt(head_width)")
    as_models = node("attention", head_width=4, scale="1/sqrt(width/2)")
    identities = [model_identity(architecture(sequence(part)), CATALOGUE) for part in (by_name, as_models)]
    assert identities[0] != identities[1]
    assert fingerprint(sequence(by_name), CATALOGUE) != fingerprint(sequence(as_models), CATALOGUE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kv_heads": 3, "heads": 4}, "4 heads of queries do not divide evenly among 3 heads of keys"),
        ({"heads": 3}, "a width of 16 does not divide into 3 heads"),
        ({"heads": "heads/4"}, "attention.heads is heads/4"),
        ({"head_width": 5, "position": "rope"}, "rope rotates pairs of channels, but a head has 5"),
        ({"position": node("rope", share=0.375)}, r"rope.share is 0.375, which turns 3 of a head's 8 channels"),
        ({"head_width": 4, "value": "identity"}, "identity is used where a width of 16 becomes 8"),
        ({"gate": node("sigmoid_gate", inputs=inputs_of(17))}, "the model is 16 wide"),
    ],
    ids=str,
)
def test_heads_that_do_not_fit(fields, message):
    block = sequence(node("attention", **fields))
    with pytest.raises(InputError, match=message):
        cost(architecture(block), CATALOGUE)
    with pytest.raises(InputError, match=message):
        compile_block(block, SIZES, CATALOGUE, init=default_init())


def test_the_equation_names_them():
    fields = {"heads": 4, "kv_heads": 2, "gate": "sigmoid_gate", "output_norm": "rms_norm"}
    text = equation(sequence(node("attention", **fields)), replace(SIZES, d_model=32), CATALOGUE).text
    assert "σ(X W^G)" in text
    assert "RMSNorm(Concat(A V))" in text
    assert "over 4 heads of 2 keys and values" in text
