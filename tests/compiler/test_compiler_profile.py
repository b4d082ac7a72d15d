"""Data-dependent initialisation: one quiet forward pass, for those who ask, in order, and nothing else changed."""

import copy

import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, node, pre_ln, sequence
from torch import nn

from ablate.compiler import compile_model
from ablate.compiler.initialise import profile

pytestmark = pytest.mark.fast

TOKENS = torch.randint(11, (3, 12), generator=torch.Generator().manual_seed(0))
ADMIN = sequence(node("admin", branch=["attention"]), "layer_norm", node("admin", branch=["mlp"]), "layer_norm")


def model_of(block, **options):
    return compile_model(architecture(block), CATALOGUE, **options)


class Watched(nn.Module):
    """Counts how often it is run, and in which mode."""

    def __init__(self, inside):
        super().__init__()
        self.inside, self.modes = inside, []

    def forward(self, tokens):
        self.modes.append(self.training)
        return self.inside(tokens)


def test_a_model_that_asks_for_nothing_is_not_run():
    watched = Watched(model_of(pre_ln()))
    before = copy.deepcopy(watched.state_dict())
    profile(watched, TOKENS)
    assert watched.modes == []
    assert all(torch.equal(value, before[name]) for name, value in watched.state_dict().items())


def test_one_pass_without_dropout_gradients_or_random_numbers():
    dropping = sequence(
        node("admin", branch=[node("attention", dropout=0.5)]), "layer_norm", node("admin", branch=["mlp"])
    )
    watched = Watched(model_of(dropping))
    watched.inside.layers["2"].eval()
    state = torch.get_rng_state()
    profile(watched, TOKENS)
    assert watched.modes == [False] and torch.equal(torch.get_rng_state(), state)
    assert watched.training and watched.inside.layers["1"].training and not watched.inside.layers["2"].training
    assert all(p.grad is None and p.requires_grad for p in watched.parameters())
    quiet = model_of(sequence(node("admin", branch=["attention"]), "layer_norm", node("admin", branch=["mlp"])))
    profile(quiet, TOKENS)
    for ours, theirs in zip(watched.inside.parameters(), quiet.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_it_changes_what_asked_and_nothing_else():
    model = model_of(ADMIN)
    before = copy.deepcopy(model.state_dict())
    profile(model, TOKENS)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    asking = {f"layers.{n}.{part}_admin.omega" for n in (1, 2) for part in ("attention", "mlp")}
    assert changed == asking - {"layers.1.attention_admin.omega"}  # the first has nothing before it
    assert not any(module._forward_hooks for module in model.modules())


def test_it_is_deterministic_and_depends_on_the_batch():
    ones = [model_of(ADMIN) for _ in range(3)]
    for model, tokens in zip(ones, (TOKENS, TOKENS, TOKENS[:1] * 0), strict=True):
        profile(model, tokens)
    first, second, other = (model.state_dict() for model in ones)
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert not torch.equal(first["layers.2.mlp_admin.omega"], other["layers.2.mlp_admin.omega"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_profiled_model_goes_on_from_its_state(dtype):
    model = model_of(ADMIN, dtype=dtype)
    profile(model, TOKENS)
    again = model_of(ADMIN, dtype=dtype, seed=1)
    again.load_state_dict(model.state_dict())
    assert torch.equal(model(TOKENS), again(TOKENS))


class Counting(nn.Module):
    """Asks for a look, and keeps what it was told."""

    def __init__(self, label):
        super().__init__()
        self.label, self.told = label, None

    def forward(self, x):
        return x

    def measure(self, x, y):
        return self.label

    def calibrate(self, earlier):
        self.told = list(earlier)


class Other(Counting):
    pass


def test_each_is_told_what_its_own_kind_showed_before_it_in_order_of_the_pass():
    model = model_of(pre_ln())
    ask = {name: kind(name) for kind, name in ((Counting, "a"), (Other, "b"), (Counting, "c"), (Counting, "d"))}
    model.positions, model.final_norm = nn.Sequential(ask["a"], ask["b"]), nn.Sequential(ask["d"], ask["c"])
    profile(model, TOKENS)
    assert {name: module.told for name, module in ask.items()} == {"a": [], "b": [], "c": ["a", "d"], "d": ["a"]}


def test_the_sizes_of_the_tests_have_an_admin_in_every_layer():
    assert sum("omega" in name for name, _ in model_of(ADMIN).named_parameters()) == 2 * SIZES.n_layers
