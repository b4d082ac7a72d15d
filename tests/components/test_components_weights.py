"""Weights against their equations in NumPy: what is constant, what is trained, what a layer has."""

import copy

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, gain, node, residual, sequence

from ablate.block.equation import equation
from ablate.compiler import compile_block, compile_model
from ablate.compiler.size import size_report
from ablate.errors import InputError
from ablate.plan.size import cost
from ablate.space.documents import AdamW
from ablate.train.optimizer import parameter_groups

pytestmark = pytest.mark.fast

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 12, 16))
ORTHOGONAL = node("orthogonal")
ADAMW = AdamW(
    lr=1e-2,
    betas=(0.9, 0.99),
    eps=1e-8,
    eps_when="after_correction",
    weight_decay=0.1,
    decays=("weights",),
    decay_when="before_update",
    embedding_lr=None,
)


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


def test_identity_values_and_projections_leave_attention_alone():
    square = dict.fromkeys(("value", "projection"), "identity")
    model, w = shaken(built(node("attention", **square)))
    q, k = (
        (X @ w[f"attention.{name}.weight"].T).reshape(2, 12, 2, 8).transpose(0, 2, 1, 3) for name in ("query", "key")
    )
    scores = np.where(np.tri(12, dtype=bool), q @ k.transpose(0, 1, 3, 2) / np.sqrt(8), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    v = X.reshape(2, 12, 2, 8).transpose(0, 2, 1, 3)
    close(output(model), (weights @ v).transpose(0, 2, 1, 3).reshape(X.shape))
    assert set(w) == {"attention.query.weight", "attention.key.weight"}


def test_identity_between_different_widths_is_refused_when_planned():
    for block in (sequence(mlp(up="identity")), sequence(mlp(down="identity"))):
        with pytest.raises(InputError, match="identity: it stands where a width of"):
            cost(architecture(block), CATALOGUE)
        with pytest.raises(InputError, match="choose another weight"):
            built(*block)


def test_frozen_is_its_matrix_in_the_state_and_in_no_group_of_the_optimiser():
    model, w = shaken(built(mlp(up=node("frozen", init=ORTHOGONAL))))
    close(output(model), X @ w["mlp.up.weight"].T @ w["mlp.down.weight"].T)
    assert {name for name, _ in model.named_parameters()} == {"mlp.down.weight"}
    placed = [p for group in parameter_groups(model, ADAMW) for p in group["params"]]
    assert [p.shape for p in placed] == [model.mlp.down.weight.shape]
    assert model.float().mlp.up.weight.dtype == torch.float32  # it moves with the model
    other = built(mlp(up=node("frozen", init=ORTHOGONAL)), seed=1)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.mlp.up.weight.float(), model.mlp.up.weight)


def test_frozen_reparameterised_and_dense_weights_of_one_init_start_from_the_same_numbers():
    dense, fixed, moved = (
        built(mlp(up=weight))
        for weight in (node("dense", init=ORTHOGONAL), node("frozen", init=ORTHOGONAL), reparameterised(gain=0.2))
    )
    assert torch.equal(dense.mlp.up.weight, fixed.mlp.up.weight)
    assert torch.equal(dense.mlp.up.weight, moved.mlp.up.start)
    assert torch.equal(dense(torch.from_numpy(X)), moved(torch.from_numpy(X)))
    assert not torch.equal(dense.mlp.up.weight, built(mlp(up=node("dense", init="normal"))).mlp.up.weight)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("skip", "change"),
    [(1, "1/sqrt(2*depth)"), (0.5, 0.25), (gain(0.7, trainable=True), gain(0.3, trainable=True)), (0, 2), (1, 0)],
    ids=["paper", "fixed", "trained", "no_skip", "no_change"],
)
def test_reparameterised_is_its_equation(skip, change, bias):
    model, w = shaken(built(mlp(up=reparameterised(skip=skip, gain=change, bias=bias))))
    values = {"1/sqrt(2*depth)": 0.5}
    alpha = w.get("mlp.up.skip.factor", skip)
    beta = w.get("mlp.up.gain.factor", values.get(change, change) if isinstance(change, str) else change)
    delta = w.get("mlp.up.delta", np.zeros((64, 16)))
    matrix = alpha * w["mlp.up.start"] + beta * delta
    close(output(model), (X @ matrix.T + w.get("mlp.up.bias", 0)) @ w["mlp.down.weight"].T)
    assert ("mlp.up.delta" in w) == (change != 0)
    assert ("mlp.up.bias" in w) == bias


def gradients(weight):
    model = built(mlp(up=weight))
    start = model.mlp.up.delta.detach().clone()
    model(torch.from_numpy(X)).square().sum().backward()
    return model.mlp.up, start


def test_what_of_a_reparameterised_weight_moves_first():
    up, start = gradients(reparameterised(gain=gain(0.2, trainable=True)))
    assert not start.any() and up.gain.factor.grad == 0 and up.delta.grad.any()
    model = built(mlp(up=node("dense", init=ORTHOGONAL)))
    model(torch.from_numpy(X)).square().sum().backward()
    torch.testing.assert_close(up.delta.grad, 0.2 * model.mlp.up.weight.grad, rtol=1e-12, atol=1e-12)
    up, _ = gradients(reparameterised(gain=gain(0, trainable=True)))
    assert up.gain.factor.grad == 0 and not up.delta.grad.any()  # neither can leave 0
    up, start = gradients(reparameterised(gain=gain(0, trainable=True), delta=node("normal", std=0.1)))
    assert start.any() and up.gain.factor.grad != 0 and not up.delta.grad.any()


def test_delta_decays_and_has_the_rate_and_the_start_does_not():
    model = built(mlp(up=reparameterised(gain=gain(0.2, trainable=True), rate="1/depth", bias=True)))
    names = {id(p): name for name, p in model.named_parameters()}
    groups = parameter_groups(model, ADAMW)
    placed = {names[id(p)]: (g["multiple"], g["weight_decay"]) for g in groups for p in g["params"]}
    assert placed["mlp.up.delta"] == (0.5, 0.1)
    assert placed["mlp.up.bias"] == placed["mlp.up.gain.factor"] == (1.0, 0.0)


def learned(weight, name, *, rate, optimizer, steps=5):
    """The matrix of `up` after some steps on one task, trained alone."""
    model = built(mlp(up=weight))
    trained = [p for n, p in model.named_parameters() if n == f"mlp.up.{name}"]
    assert len(trained) == 1
    step = optimizer(trained, rate)
    target = torch.from_numpy(np.random.default_rng(1).normal(size=X.shape))
    for _ in range(steps):
        step.zero_grad()
        (model(torch.from_numpy(X)) - target).square().mean().backward()
        step.step()
    up = model.mlp.up
    return (up.weight if name == "weight" else up.matrix).detach().numpy()


def sgd(parameters, rate):
    return torch.optim.SGD(parameters, lr=rate)


def adam(parameters, rate):
    return torch.optim.Adam(parameters, lr=rate, eps=0.0)


@pytest.mark.parametrize(("optimizer", "power"), [(sgd, 2), (adam, 1)], ids=["sgd", "adam"])
@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_a_gain_on_the_change_is_a_learning_rate(optimizer, power, beta):
    """Duality of arXiv:2311.01906, App. A: β on ΔW is the rate times β² for SGD, times β for Adam."""
    dense = node("dense", init=ORTHOGONAL)
    downweighted = learned(reparameterised(gain=beta), "delta", rate=0.1, optimizer=optimizer)
    slower = learned(dense, "weight", rate=0.1 * beta**power, optimizer=optimizer)
    whole = learned(reparameterised(gain=1), "delta", rate=0.1 * beta**power, optimizer=optimizer)
    close(downweighted, slower, rtol=1e-8)
    close(whole, slower, rtol=1e-8)
    other = learned(dense, "weight", rate=0.1 * beta ** (3 - power), optimizer=optimizer)
    assert np.abs(downweighted - other).max() > 1e-3  # the other optimiser's rule does not hold


FIRST = node("by_layer", first=reparameterised(gain=1), others="identity")


def test_the_first_layer_may_have_another_weight_at_the_same_address():
    block = sequence(residual(node("attention", value=FIRST)))
    model = compile_model(architecture(block), CATALOGUE)
    names = {name for name, _ in model.named_parameters() if "value" in name}
    assert names == {"layers.1.attention.value.delta"}
    everywhere = compile_model(
        architecture(sequence(residual(node("attention", value=reparameterised(gain=1))))), CATALOGUE
    )
    ours, theirs = (m.layers["1"].attention.value.start for m in (model, everywhere))
    assert torch.equal(ours, theirs)
    assert cost(architecture(block), CATALOGUE) == size_report(architecture(block), CATALOGUE)
    single = compile_block(block, SIZES, CATALOGUE, init=default_init(), layer=2)
    assert type(single.attention.value).__name__ == "Identity"


def test_by_layer_has_no_meaning_outside_the_layers():
    config = CATALOGUE["by_layer"].config(first=None, others=None)
    with pytest.raises(InputError, match="outside the layers"):
        config.cost(SIZES, 16, 16)


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


@pytest.mark.parametrize(
    ("weight", "line"),
    [
        ("identity", "V = X"),
        (node("frozen", init=ORTHOGONAL), "V = X W₀^V"),
        (reparameterised(gain=0.2), "V = X (W₀^V + 0.2 ΔW^V)"),
        (reparameterised(skip=0, gain=1, bias=True), "V = X (ΔW^V) + b"),
        (reparameterised(gain=0), "V = X (W₀^V)"),
        (FIRST, "V = (X (W₀^V + ΔW^V) in layer 1, else X)"),
        (node("by_layer", first="dense", others="dense"), "V = X W^V"),
        (node("spectral", bias=True), "V = (γ / σ(W^V)) X W^V + b"),
    ],
)
def test_weights_say_themselves(weight, line):
    text = equation(sequence(node("attention", value=weight)), SIZES, CATALOGUE).text
    assert line in text, text


def test_gains_of_weights_have_the_letters_of_the_paper():
    weight = reparameterised(skip=gain(1, trainable=True), gain="1/sqrt(depth)")
    text = equation(sequence(node("attention", value=weight)), SIZES, CATALOGUE).text
    assert "V = X (α^V W₀^V + β^V ΔW^V)" in text, text
