"""The schedule against its formula, and its corners."""

import math

import pytest

from ablate.space.documents import Schedule
from ablate.train.schedule import relative_rate

pytestmark = pytest.mark.fast


def rates(steps, **schedule):
    return [relative_rate(step, steps, Schedule(**schedule)) for step in range(steps)]


@pytest.mark.parametrize("decay", ["linear", "cosine", "constant"])
@pytest.mark.parametrize(
    ("steps", "warmup", "floor"), [(40, 0.1, 0.0), (41, 0.25, 0.1), (10, 0.0, 0.5), (1, 0.05, 0.0)]
)
def test_schedule_is_its_formula(decay, steps, warmup, floor):
    n_warmup = round(warmup * steps)
    peak = max(n_warmup - 1, 0)
    for step, rate in enumerate(rates(steps, warmup=warmup, decay=decay, floor=floor)):
        if step < n_warmup:
            expected = (step + 1) / n_warmup
        elif decay == "constant" or step == peak:
            expected = 1.0
        else:
            left = (steps - 1 - step) / (steps - 1 - peak)
            shape = left if decay == "linear" else math.sin(math.pi / 2 * left) ** 2
            expected = floor + (1 - floor) * shape
        assert rate == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_the_corners(decay):
    found = rates(100, warmup=0.05, decay=decay, floor=0.1)
    assert found[0] == pytest.approx(1 / 5)  # not zero
    assert found[4] == 1.0
    assert max(found) == 1.0
    assert found[-1] == pytest.approx(0.1)
    assert found[4:] == sorted(found[4:], reverse=True)


def test_all_warm_up_and_a_single_step():
    assert rates(4, warmup=1.0, decay="linear", floor=0.0) == [0.25, 0.5, 0.75, 1.0]
    assert rates(1, warmup=0.0, decay="cosine", floor=0.0) == [1.0]
