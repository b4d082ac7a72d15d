"""Every optimiser that ships holds the contract, with the defaults that its grammar shows; each part of it can fail."""

import pytest
from recipes import written

from ablate.extension.declaration import OPTIMIZER
from ablate.extension.loader import shipped
from ablate.testing import OptimizerContract

SHIPPED = [spec.name for spec in shipped(OPTIMIZER)]


@pytest.fixture(params=SHIPPED)
def optimizer(request):
    return written(request.param)


class TestShipped(OptimizerContract):
    @pytest.fixture(autouse=True)
    def named(self, optimizer):
        self.optimizer = optimizer


PLUGIN = '''
"""Sign descent: θ ← θ - η sign(g)."""
from ablate.train.optimizers.declare import Settings, Trained, groups, implements, optimizer

@optimizer("sign", source="Bernstein et al. 2018, arXiv:1802.04434")
class Sign(Settings):
    """Sign descent has no settings of its own."""

import torch
from torch import optim
from ablate.train.optimizers.by_parameter import ByParameter

class SignDescent(ByParameter):
    def update(self, parameter, gradient, state, group):
        rate = group["lr"]
        parameter.mul_(1 - rate * group["weight_decay"]).sub_(rate * gradient.sign())

@implements(Sign)
def build(parameters: list[Trained], settings: Sign) -> optim.Optimizer:
    return SignDescent(groups(parameters), {"lr": settings.lr})
'''
BROKEN = {
    "moves_every_trained_parameter": ("groups(parameters)", "groups(p for p in parameters if p.kind != 'gains')"),
    "finite_in_float32": ("gradient.sign()", "gradient / gradient.abs().max()"),
    "deterministic": ("gradient.sign()", "torch.rand(gradient.shape)"),
    "resumes_to_the_same_bits": (
        "        parameter.mul_",
        "        self.count = getattr(self, 'count', 0) + 1; rate /= self.count\n        parameter.mul_",
    ),
    "rate_zero_moves_nothing": ('rate = group["lr"]', 'rate = group["lr"] + 1e-4'),
    "honours_multiples_of_the_rate": ('rate = group["lr"]', 'rate = group["lr"] / group["multiple"]'),
    "decays_the_kinds_that_it_is_told": ('group["weight_decay"]', "0.1"),
}


def of_plugin(folder, text):
    path = folder / "sign.py"
    path.write_text(text, encoding="utf-8")
    of = type("Of", (OptimizerContract,), {})()
    of.plugins = (path,)
    of.optimizer = "sign: {lr: 1e-2, embedding_lr: 1e-3, weight_decay: 0.1, decays: [weights, gains]}"
    return of


@pytest.mark.full
def test_one_of_a_plugin_holds_it(tmp_path):
    of_plugin(tmp_path, PLUGIN).check_all()


@pytest.mark.parametrize("broken", BROKEN)
def test_each_part_of_it_can_fail(tmp_path, broken):
    before, after = BROKEN[broken]
    assert before in PLUGIN
    with pytest.raises(AssertionError):
        getattr(of_plugin(tmp_path, PLUGIN.replace(before, after)), f"test_{broken}")()


@pytest.mark.fast
def test_there_is_a_twin_for_each_part():
    assert {f"test_{name}" for name in BROKEN} == {name for name in dir(OptimizerContract) if name.startswith("test_")}


@pytest.mark.fast
def test_settings_that_are_wrong_are_told():
    of = OptimizerContract()
    of.optimizer = "adamw: {lr: 0}"
    with pytest.raises(Exception, match=r"optimizer\.adamw\.lr must be greater than 0"):
        of.check_all()
