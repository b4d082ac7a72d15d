"""The schedule against its formula, and its corners."""

import math

import pytest
from builders import CATALOGUE
from pydantic import ValidationError

from ablate.space.recipe import EndRate, Schedule, ScheduleSpec
from ablate.space.schedule import relative_rate

pytestmark = pytest.mark.fast


def rates(steps, *, lr=1e-3, **schedule):
    schedule = Schedule(**{"hold": 0, "from_zero": False, **schedule})
    decay = CATALOGUE.of_kind(ScheduleSpec)[schedule.decay.name].read(schedule.decay.settings)
    return [relative_rate(step, steps, schedule, decay, lr) for step in range(steps)]


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
    actual = rates(100, warmup=0.05, decay=decay, floor=0.1)
    assert actual[0] == pytest.approx(1 / 5)  # not zero
    assert actual[4] == 1.0
    assert max(actual) == 1.0
    assert actual[-1] == pytest.approx(0.1)
    assert actual[4:] == sorted(actual[4:], reverse=True)


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

    actual = rates(steps, warmup=warmup, decay="linear", floor=EndRate(rate=end), from_zero=True, lr=lr)
    assert [lr * share for share in actual] == pytest.approx([expected(step) for step in range(steps)], rel=1e-12)
    assert actual[0] == (0.0 if n_warmup else 1.0)
    assert actual != pytest.approx(rates(steps, warmup=warmup, decay="linear", floor=EndRate(rate=end), lr=lr))


def test_from_zero_reads_the_same_line_one_step_earlier():
    plain = rates(21, warmup=0.0, decay="cosine", floor=0.1)
    assert rates(20, warmup=0.0, decay="cosine", floor=0.1, from_zero=True) == pytest.approx(plain[:20])


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_a_floor_that_is_a_rate_is_reached_whatever_the_peak(decay):
    for lr in (1e-3, 3e-2):
        found = rates(100, warmup=0.05, decay=decay, floor=EndRate(rate=1e-5), lr=lr)
        assert lr * found[-1] == pytest.approx(1e-5, rel=1e-9)
        assert lr * rates(100, warmup=0.05, decay=decay, floor=0.1, lr=lr)[-1] == pytest.approx(0.1 * lr)


def test_a_whole_number_counts_steps_and_anything_else_is_a_share():
    plain = {"decay": "linear", "floor": 0.0}
    assert rates(100, warmup=5, **plain) == rates(100, warmup=0.05, **plain) == rates(100, warmup="5%", **plain)
    assert rates(100, warmup=1, **plain)[:2] == pytest.approx([1.0, 98 / 99])
    assert rates(100, warmup=1.0, **plain) == rates(100, warmup="100%", **plain) == [(s + 1) / 100 for s in range(100)]
    assert rates(40, warmup=1, **plain) != rates(40, warmup=1.0, **plain)


@pytest.mark.parametrize("wrong", [-1, 1.5, "101%", "many", True, None])
def test_what_is_neither_is_refused(wrong):
    with pytest.raises(ValidationError):
        Schedule(warmup=wrong, hold=0, decay="linear", floor=0.0, from_zero=False)


@pytest.mark.parametrize("decay", ["linear", "cosine"])
@pytest.mark.parametrize(("warmup", "hold"), [(4, 6), (0, 6), (4, 0.15), (0, 1), (10, 30)])
def test_a_hold_is_a_pause_at_the_peak(decay, warmup, hold):
    """What comes after it is what would come after a warm-up as long as both, to the bit."""
    actual = rates(40, warmup=warmup, hold=hold, decay=decay, floor=0.1)
    held = hold if isinstance(hold, int) else 6
    assert actual[:warmup] == [(step + 1) / warmup for step in range(warmup)]
    assert actual[warmup : warmup + held] == [1.0] * held
    assert actual[warmup + held :] == rates(40, warmup=warmup + held, decay=decay, floor=0.1)[warmup + held :]


def formula(name, step, *, steps, warmup, hold, floor, from_zero, power=2.0, over=0.2, shape="linear"):
    """The schedules by the number of finished steps n, the peak being at n = P and the floor at n = E."""
    n = step + (not from_zero)
    peak, end = max(warmup + hold, 0 if from_zero else 1), steps
    if step < warmup + hold:
        return min(n / warmup if warmup else 1.0, 1.0)
    left = (end - n) / (end - peak) if end > peak else 1.0
    shapes = {
        "linear": lambda left: left,
        "cosine": lambda left: math.sin(math.pi / 2 * left) ** 2,
        "polynomial": lambda left: left**power,
        "sqrt": lambda left: 1 - math.sqrt(max(1 - left, 0)),
    }
    if name == "constant":
        return 1.0
    if name == "inverse_sqrt":
        before = max(warmup + hold, 1)
        return max(floor, math.sqrt(before / (before + n - peak)))
    if name == "wsd":
        length = min(max(round(over * steps), 1), max(end - peak, 1))
        return floor + (1 - floor) * shapes[shape](min((end - n) / length, 1.0) if end > peak else 1.0)
    return floor + (1 - floor) * shapes[name](left)


DECAYS = [
    ("linear", {}),
    ("cosine", {}),
    ("constant", {}),
    ("polynomial", {"power": 2.0}),
    ("polynomial", {"power": 0.5}),
    ("inverse_sqrt", {}),
    ("wsd", {"over": 0.2, "shape": "linear"}),
    ("wsd", {"over": 0.35, "shape": "sqrt"}),
    ("wsd", {"over": 0.5, "shape": "cosine"}),
]


@pytest.mark.parametrize("from_zero", [False, True])
@pytest.mark.parametrize(("steps", "warmup", "hold"), [(40, 4, 0), (41, 0, 0), (40, 5, 7), (30, 0, 3), (1, 0, 0)])
@pytest.mark.parametrize(("name", "settings"), DECAYS, ids=str)
def test_every_schedule_is_its_formula(name, settings, steps, warmup, hold, from_zero):
    decay = {name: settings} if settings else name
    common = {"warmup": warmup, "hold": hold, "floor": 0.1, "from_zero": from_zero}
    found = rates(steps, decay=decay, **common)
    expected = [formula(name, step, steps=steps, **common, **settings) for step in range(steps)]
    assert found == pytest.approx(expected, abs=1e-12)
    if steps > 1:  # the formulas can be told apart
        others = [
            rates(steps, decay={other: more} if more else other, **common)
            for other, more in DECAYS
            if (other, more) != (name, settings)
        ]
        assert all(other != pytest.approx(found, abs=1e-3) for other in others)


def test_every_formula_is_of_a_schedule_that_ships():
    assert {name for name, _ in DECAYS} <= set(CATALOGUE.of_kind(ScheduleSpec))
