"""Classification and regression: their values, what a model reaches that knows only the frequencies, and settings."""

import numpy as np
import pytest
import torch
from builders import SIZES
from scipy.optimize import minimize
from scipy.special import softmax

from ablate.data.batch import Batch
from ablate.data.uniform import Uniform
from ablate.space.recipe import Loss
from ablate.train.objectives import classification, regression
from ablate.train.objectives.declare import Given

pytestmark = pytest.mark.fast

CLASSES = SIZES.vocab_size
DRAWN = np.random.default_rng(0)
OUTPUTS, OF = DRAWN.normal(0, 2, (7, CLASSES)), DRAWN.integers(0, CLASSES, 7)
BATCH = Batch(torch.zeros(7, 1, 2, 2), torch.from_numpy(OF))


def classes(loss=None):
    return classification.Objective(classification.Classification(), Given(SIZES, loss or Loss()))


def squares(**settings):
    return regression.Objective(regression.Regression(**settings), Given(SIZES, Loss()))


def total(objective, outputs=OUTPUTS, batch=BATCH):
    return sum(float(term.mean) for term in objective.terms(torch.as_tensor(outputs), batch))


@pytest.mark.parametrize("ε", [0.0, 0.1, 0.9])
def test_a_class_has_the_probability_that_smoothing_leaves_it(ε):
    wanted = np.full(OUTPUTS.shape, ε / CLASSES)
    wanted[np.arange(7), OF] += 1 - ε
    expected = -(wanted * np.log(softmax(OUTPUTS, axis=1))).sum(1).mean()
    assert total(classes(Loss(label_smoothing=ε))) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("weight", "value"), [(1.0, 1.0), (15.0, 30.0)])
def test_squares_are_those_of_weighed_one_hot_vectors(weight, value):
    expected = []
    for outputs, right in zip(OUTPUTS, OF, strict=True):
        each = [
            (weight if c == right else 1) * (outputs[c] - (value if c == right else 0)) ** 2 for c in range(CLASSES)
        ]
        expected.append(np.mean(each))
    assert total(squares(weight=weight, value=value)) == pytest.approx(np.mean(expected), rel=1e-12)
    if (weight, value) == (1, 1):
        assert total(squares()) == pytest.approx(torch.nn.functional.mse_loss(
            torch.as_tensor(OUTPUTS), torch.eye(CLASSES, dtype=torch.float64)[OF]).item(), rel=1e-12)  # fmt: skip


def test_an_evaluation_counts_right_answers():
    right = np.mean(OUTPUTS.argmax(1) == OF)
    for objective in (classes(), squares()):
        loss, accuracy = (float(each) / 7 for each in objective.measures(torch.as_tensor(OUTPUTS), BATCH))
        assert accuracy == pytest.approx(right) and loss == pytest.approx(total(objective), rel=1e-12)
        assert tuple(objective.measured) == ("eval_loss", "eval_accuracy") and objective.targets(BATCH) == {"": 7}


EACH = [0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 5, 5, 6, 7, 8, 9, 10]
FREQUENT = np.bincount(EACH, minlength=CLASSES) / 18
ALIKE = Batch(torch.zeros(18, 1), torch.tensor(EACH))


def best(objective):
    """The least loss of outputs that are the same for every example."""

    def of(outputs):
        y = torch.tensor(outputs, requires_grad=True)
        loss = sum(term.mean for term in objective.terms(y.expand(18, -1), ALIKE))
        loss.backward()
        return loss.item(), y.grad.numpy()

    return minimize(of, np.zeros(CLASSES), jac=True, tol=1e-12)


def test_what_a_model_reaches_that_knows_only_the_frequencies():
    assert best(classes()).fun == pytest.approx(-(FREQUENT * np.log(FREQUENT)).sum(), rel=1e-9)
    assert best(squares(value=2.0)).fun == pytest.approx(4 / CLASSES * (1 - (FREQUENT**2).sum()), rel=1e-9)
    weighed = best(squares(weight=15.0, value=30.0)).x
    assert weighed == pytest.approx(15 * 30 * FREQUENT / (15 * FREQUENT + 1 - FREQUENT), rel=1e-5)


def test_a_batch_is_what_is_drawn():
    for objective in (classes(), squares()):
        assert objective.batch(BATCH, Uniform("any")) is BATCH


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_losses_are_those_of_float32_at_least(dtype):
    low = torch.as_tensor(OUTPUTS).to(dtype)
    for objective in (classes(), squares(weight=3, value=2)):
        (term,) = objective.terms(low, BATCH)
        assert term.mean.dtype == torch.float32
        assert term.mean.item() == pytest.approx(total(objective, low.double()), rel=1e-5)
