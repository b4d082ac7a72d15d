"""The orders of a moment's update against the double sums of He et al. 2024, App. I, in NumPy float64."""

import numpy as np
import pytest
import torch

from ablate.probes.registry import probes
from ablate.probes.update import changes, streams
from ablate.testing import ProbeContract

pytestmark = pytest.mark.fast


class TestMomentUpdate(ProbeContract):
    probe = "moment_update"


def read(x, after):
    found = probes()["moment_update"].measure(torch.from_numpy(x), torch.from_numpy(after))
    return {name.removeprefix("moment_update_"): value.item() for name, value in found.items()}


def sample(change=0.3, tokens=7, width=5):
    random = np.random.default_rng(0)
    x = random.normal(size=(tokens, width)) * np.exp(random.normal(size=width))
    return x, x + change * random.normal(size=x.shape)


def double_sums(x, d):
    """Eq. 8, 11 and 12 as they are printed, with the factors of Eq. 7 and 10."""
    n, width = x.shape
    sums = dict.fromkeys(("2_1", "2_2", "4_1", "4_2", "4_3", "4_4"), 0.0)
    for j in range(width):
        for α in range(n):
            sums["2_1"] += 2 * d[α, j] * x[α, j]
            sums["2_2"] += d[α, j] ** 2
            for β in range(n):
                sums["4_1"] += 4 * d[α, j] * x[α, j] * x[β, j] ** 2
                sums["4_2"] += 2 * d[α, j] ** 2 * x[β, j] ** 2 + 4 * d[α, j] * x[α, j] * d[β, j] * x[β, j]
                sums["4_3"] += 4 * x[α, j] * d[α, j] * d[β, j] ** 2
                sums["4_4"] += d[α, j] ** 2 * d[β, j] ** 2
    return {name: value / (n * width if name[0] == "2" else n**2 * width) for name, value in sums.items()}


def moment(x, p):
    return np.mean(np.mean(x**2, axis=0) ** (p / 2))


def test_each_order_equals_its_double_sum():
    x, after = sample()
    assert read(x, after) == pytest.approx(double_sums(x, after - x), rel=1e-12)
    other = read(after, x)  # the step undone
    assert all(
        other[name] != pytest.approx(value, rel=1e-3)
        for name, value in read(x, after).items()
        if name != "2_2" and name != "4_4"
    ), "else this could not fail"


@pytest.mark.parametrize("p", [2, 4])
def test_the_orders_add_up_to_what_the_step_does_to_the_moment(p):
    x, after = sample()
    orders = [value for name, value in read(x, after).items() if name[0] == str(p)]
    assert len(orders) == p
    assert sum(orders) == pytest.approx(moment(after, p) - moment(x, p), rel=1e-12)
    assert sum(orders[:-1]) != pytest.approx(moment(after, p) - moment(x, p), rel=1e-3), "else this could not fail"


def test_an_order_grows_as_that_power_of_the_step_and_even_ones_are_never_negative():
    once, thrice = read(*sample(0.1)), read(*sample(0.3))
    for name, value in once.items():
        assert thrice[name] == pytest.approx(3 ** int(name[-1]) * value, rel=1e-9)
    assert min(once["2_2"], once["4_2"], once["4_4"]) > 0


def test_it_reads_what_enters_blocks_and_head_before_and_after(build, tokens):
    model, moved = build(), build()
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter += 0.01
    before, after = (streams(each, lambda each=each: each(tokens)) for each in (model, moved))
    read_there = {(r.metric, r.address): r.value.item() for r in changes([probes()["moment_update"]], before, after)}
    assert {address for _, address in read_there} == {"layers.1", "layers.2", "head"}
    for model_of, x in ((model, before), (moved, after)):
        stream = model_of.embedding(tokens)
        for name, block in model_of.layers.items():
            assert torch.equal(x[f"layers.{name}"], stream)
            stream = block(stream)
        assert torch.equal(x["head"], model_of.final_norm(stream))
    for address, x in before.items():
        flat, then = (each.numpy().reshape(-1, each.shape[-1]) for each in (x, after[address]))
        for name, value in double_sums(flat, then - flat).items():
            assert read_there[f"moment_update_{name}", address] == pytest.approx(value, rel=1e-9)


class Drawing(torch.nn.Module):
    """Moves a buffer in each pass, and drops out where it trains."""

    def __init__(self):
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes += 1
        return torch.nn.functional.dropout(x, 0.5, self.training)


def test_a_pass_leaves_no_trace(build, tokens):
    model = build()
    model.layers["1"].mlp = torch.nn.Sequential(model.layers["1"].mlp, Drawing())
    drawn = torch.get_rng_state()
    first, second = (streams(model, lambda: model(tokens)) for _ in range(2))
    assert all(torch.equal(first[address], x) for address, x in second.items())
    assert torch.equal(torch.get_rng_state(), drawn)
    assert model.training and model.layers["1"].mlp[1].passes == 0
    assert not any(module._forward_pre_hooks for module in model.modules())
    model(tokens)
    assert model.layers["1"].mlp[1].passes == 1 and not torch.equal(torch.get_rng_state(), drawn), (
        "else it could not fail"
    )
