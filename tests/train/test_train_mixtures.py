"""Mixtures of two classes: classification and regression learn from them what a target of both would teach."""

import numpy as np
import pytest
import torch
from builders import SIZES
from scipy.special import log_softmax

from ablate.data.batch import Batch
from ablate.space.recipe import Loss
from ablate.testing import ObjectiveContract
from ablate.train.objectives import classification, regression
from ablate.train.objectives.declare import Given

pytestmark = pytest.mark.fast

N = SIZES.vocab_size
DRAWN = np.random.default_rng(0)
OUTPUTS = DRAWN.normal(0, 2, (7, N))
ONE, OTHER = DRAWN.integers(0, N, (2, 7))
SHARE = DRAWN.random(7)
SOFT = SHARE[:, None] * np.eye(N)[ONE] + (1 - SHARE[:, None]) * np.eye(N)[OTHER]
MIXED = Batch(torch.zeros(7, 1, 2, 2), (torch.from_numpy(ONE), torch.from_numpy(OTHER), torch.from_numpy(SHARE)))


def loss_and_gradient(objective):
    outputs = torch.tensor(OUTPUTS, requires_grad=True)
    loss = sum(term.mean for term in objective.terms(outputs, MIXED))
    (gradient,) = torch.autograd.grad(loss, outputs)
    return loss.item(), gradient.numpy()


@pytest.mark.parametrize("ε", [0.0, 0.1])
def test_the_cross_entropy_is_that_of_a_target_of_both_classes(ε):
    objective = classification.Objective(classification.Classification(), Given(SIZES, Loss(label_smoothing=ε)))
    wanted = (1 - ε) * SOFT + ε / N
    loss, gradient = loss_and_gradient(objective)
    assert loss == pytest.approx(-(wanted * log_softmax(OUTPUTS, axis=1)).sum(1).mean(), rel=1e-12)
    assert gradient == pytest.approx((np.exp(log_softmax(OUTPUTS, axis=1)) - wanted) / 7, abs=1e-12)


def test_squares_have_the_gradient_of_those_to_a_vector_of_both_classes():
    objective = regression.Objective(regression.Regression(), Given(SIZES, Loss()))
    loss, gradient = loss_and_gradient(objective)
    assert gradient == pytest.approx(2 * (OUTPUTS - SOFT) / (7 * N), abs=1e-12)
    apart = (SHARE * (1 - SHARE) * 2 * (ONE != OTHER)).mean() / N
    assert loss == pytest.approx(((OUTPUTS - SOFT) ** 2).mean() + apart, rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_mixture_of_one_class_is_that_class(share):
    for module, settings in ((classification, "Classification"), (regression, "Regression")):
        objective = module.Objective(getattr(module, settings)(), Given(SIZES, Loss()))
        shares = torch.full((7,), share, dtype=torch.float64)
        mixed = Batch(MIXED.inputs, (*MIXED.targets[:2], shares))
        plain = Batch(MIXED.inputs, torch.from_numpy(ONE if share else OTHER))
        outputs = torch.from_numpy(OUTPUTS)
        found, expected = (next(iter(objective.terms(outputs, batch))).mean.item() for batch in (mixed, plain))
        assert found == pytest.approx(expected, rel=1e-14)


class TestOfMixtures(ObjectiveContract):
    """Parts of a batch add up, and gradients are finite; evaluations are of no mixtures."""

    @pytest.fixture(autouse=True, params=["classification", "regression: {weight: 15, value: 30}"])
    def named(self, request):
        self.objective = request.param

    def drawn(self):
        drawn = torch.Generator().manual_seed(1)
        classes = (torch.randint(11, (6,), generator=drawn) for _ in range(2))
        share = torch.rand(6, generator=drawn, dtype=torch.float64)
        return Batch(torch.randn(6, 3, 4, 4, generator=drawn), (*classes, share))

    def test_an_evaluation_measures_what_it_declares(self):
        """Held by batches of classes."""
