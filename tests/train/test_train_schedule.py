"""The schedule against its formula, and its corners."""

import math

import pytest

from ablate.space.documents import EndRate, Schedule
from ablate.train.schedule import relative_rate

pytestmark = pytest.mark.fast


def rates(steps, *, lr=1e-3, **schedule):
    schedule = Schedule(**{"from_zero": False, **schedule})
    return [relative_rate(step, steps, schedule, lr) for step in range(steps)]


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


@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.25])
def test_from_zero_is_the_count_of_finished_steps(warmup):
    """Linear warm-up, then linear decay to an absolute rate, as functions of how many steps are done."""
    steps, lr, end = 40, 1e-3, 1e-7
    n_warmup = round(warmup * steps)

    def expected(done):
        if done < n_warmup:
            return lr * done / n_warmup
        return (lr - end) * (steps - done) / (steps - n_warmup) + end

    found = rates(steps, warmup=warmup, decay="linear", floor=EndRate(rate=end), from_zero=True, lr=lr)
    assert [lr * share for share in found] == pytest.approx([expected(step) for step in range(steps)], rel=1e-12)
    assert found[0] == (0.0 if n_warmup else 1.0)
    assert found != pytest.approx(rates(steps, warmup=warmup, decay="linear", floor=EndRate(rate=end), lr=lr))


def test_from_zero_reads_the_same_line_one_step_earlier():
    plain = rates(21, warmup=0.0, decay="cosine", floor=0.1)
    assert rates(20, warmup=0.0, decay="cosine", floor=0.1, from_zero=True) == pytest.approx(plain[:20])


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_a_floor_that_is_a_rate_is_reached_whatever_the_peak(decay):
    for lr in (1e-3, 3e-2):
        found = rates(100, warmup=0.05, decay=decay, floor=EndRate(rate=1e-5), lr=lr)
        assert lr * found[-1] == pytest.approx(1e-5, rel=1e-9)
        assert lr * rates(100, warmup=0.05, decay=decay, floor=0.1, lr=lr)[-1] == pytest.approx(0.1 * lr)
