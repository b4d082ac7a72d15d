"""Weights divided by their spectral norm, and σReparam, against singular values from NumPy."""

import copy

import numpy as np
import pytest
import torch
from builders import node
from weight_fixtures import ORTHOGONAL, X, built, close, mlp, output, reparameterised, shaken

from ablate.errors import InputError

pytestmark = pytest.mark.fast


def spectral_output(w, x=X, name="mlp.up"):
    sigma = np.linalg.svd(w[f"{name}.weight"], compute_uv=False)[0]
    matrix = w[f"{name}.gamma"] / sigma * w[f"{name}.weight"]
    return (x @ matrix.T + w.get(f"{name}.bias", 0)) @ w["mlp.down.weight"].T


@pytest.mark.parametrize("bias", [False, True])
def test_spectral_divides_by_the_largest_singular_value(bias):
    model = built(mlp(up=node("spectral", bias=bias)))
    start = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    close(output(model), spectral_output(start))  # exact from the first pass
    model, w = shaken(model)
    for _ in range(200):
        model(torch.from_numpy(X))
    w = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    close(output(model), spectral_output(w), rtol=1e-8)
    assert ("mlp.up.bias" in w) == bias


def test_power_iteration_runs_in_training_and_stands_still_in_evaluation():
    model, _ = shaken(built(mlp(up="spectral")))
    with torch.no_grad():
        model.mlp.up.weight.mul_(torch.linspace(0.5, 2, 16))
    weight = model.mlp.up.weight.detach().numpy()
    before = model.mlp.up.sigma.left.clone()
    first = output(model.eval())
    assert torch.equal(model.mlp.up.sigma.left, before)
    np.testing.assert_array_equal(first, output(model))
    model.train()
    right = weight.T @ before.numpy()
    right /= np.linalg.norm(right)
    left = weight @ right
    output(model)
    close(model.mlp.up.sigma.right.numpy(), right)
    close(model.mlp.up.sigma.left.numpy(), left / np.linalg.norm(left))
    true = np.linalg.svd(weight, compute_uv=False)[0]
    estimates = []
    for _ in range(50):
        estimates.append(model.mlp.up.sigma(model.mlp.up.weight).item())
    assert estimates == sorted(estimates) and estimates[-1] == pytest.approx(true, rel=1e-3) and estimates[-1] <= true


def test_the_gradient_of_spectral_flows_through_its_norm():
    model = built(mlp(up="spectral")).eval()
    w = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    model(torch.from_numpy(X)).square().sum().backward()
    found = model.mlp.up.weight.grad.numpy()
    direction = np.random.default_rng(2).normal(size=found.shape)

    def loss(step):
        moved = {**w, "mlp.up.weight": w["mlp.up.weight"] + step * direction}
        return (spectral_output(moved) ** 2).sum()

    slope = (loss(1e-6) - loss(-1e-6)) / 2e-6
    assert (found * direction).sum() == pytest.approx(slope, rel=1e-6)
    assert (found * w["mlp.up.weight"]).sum() == pytest.approx(0, abs=1e-8)  # the scale of W does not act
    scale = w["mlp.up.gamma"] / np.linalg.svd(w["mlp.up.weight"], compute_uv=False)[0]
    y = X @ (scale * w["mlp.up.weight"]).T @ w["mlp.down.weight"].T
    constant = scale * np.einsum("bto,btd->od", 2 * y @ w["mlp.down.weight"], X)  # as if σ were a number
    assert abs((constant * direction).sum() - slope) > 1e-2 * abs(slope)


def test_spectral_norms_of_zeros_are_refused():
    with pytest.raises(InputError, match="starts at 0"):
        built(mlp(up=node("spectral", init="zero")))
    with pytest.raises(InputError, match="start at 0"):
        built(node("attention", entropy=("sigma_reparam",), query=node("dense", init="zero")))


def sigma_attention(w, x=X):
    def divided(name):
        weight = w[f"attention.{name}.weight"]
        sigma = np.linalg.svd(weight, compute_uv=False)[0]
        return w[f"attention.entropy.sigma_reparam.{name}_gamma"] / sigma * weight

    q, k, v = (
        (x @ matrix.T).reshape(2, 12, 2, 8).transpose(0, 2, 1, 3)
        for matrix in (divided("query"), divided("key"), w["attention.value.weight"])
    )
    scores = np.where(np.tri(12, dtype=bool), q @ k.transpose(0, 1, 3, 2) / np.sqrt(8), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ w["attention.projection.weight"].T


def sigma_model():
    return built(node("attention", entropy=("sigma_reparam",)))


def test_sigma_reparam_is_attention_of_the_divided_weights():
    model = sigma_model()
    w = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    close(output(model), sigma_attention(w))
    with torch.no_grad():
        model.attention.entropy["sigma_reparam"].query_gamma.fill_(3.0)
    w["attention.entropy.sigma_reparam.query_gamma"] = 3.0
    close(output(model), sigma_attention(w))
    plain = built("attention")
    assert np.abs(output(plain) - output(model)).max() > 1e-2


def test_the_scale_of_the_queries_weight_no_longer_acts():
    model = sigma_model().eval()
    before = output(model)
    with torch.no_grad():
        model.attention.query.weight.mul_(7)
    close(output(model), before)
    loss = model(torch.from_numpy(X)).square().sum()
    loss.backward()
    query = model.attention.query.weight
    assert (query.grad * query).sum().item() == pytest.approx(0, abs=1e-9)


def test_sigma_reparam_does_not_own_the_weights_and_a_copy_has_its_own():
    model = sigma_model()
    names = [name for name, _ in model.named_parameters()]
    assert sum("query.weight" in name for name in names) == 1
    copied = copy.deepcopy(model)
    with torch.no_grad():
        copied.attention.query.weight.mul_(2).add_(1)
    regulation = copied.attention.entropy["sigma_reparam"]
    assert regulation.weights[0] is copied.attention.query and regulation.weights[1] is copied.attention.key
    close(output(model), output(sigma_model()))
    for _ in range(100):
        copied(torch.from_numpy(X))
    w = {name: value.detach().numpy() for name, value in copied.state_dict().items()}
    close(output(copied), sigma_attention(w), rtol=1e-6)


@pytest.mark.parametrize(
    "weight", ["identity", "spectral", node("dense", bias=True), node("frozen", init=ORTHOGONAL), reparameterised()]
)
@pytest.mark.parametrize("which", ["query", "key"])
def test_sigma_reparam_refuses_weights_that_are_no_plain_matrix(weight, which):
    with pytest.raises(InputError, match=f"the {which} weight is not a plain trained matrix"):
        built(node("attention", entropy=("sigma_reparam",), **{which: weight}))


def test_autocast_leaves_the_spectral_norm_in_full_precision():
    model = built(mlp(up="spectral"), dtype=torch.float32).eval()
    up = model.mlp.up
    with torch.autocast("cpu", torch.bfloat16):
        sigma = up.sigma(up.weight)
    assert sigma.dtype == torch.float32
    assert sigma.item() == pytest.approx(
        np.linalg.svd(up.weight.detach().double().numpy(), compute_uv=False)[0], rel=1e-6
    )
