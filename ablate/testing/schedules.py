"""The contract of a schedule, to inherit: five checks over lengths of training, warm-up and hold.

    from ablate.testing import ScheduleContract

    class TestHalf(ScheduleContract):
        plugins = ("half.py",)
        schedule = "half"

pytest finds the tests of such a class; without pytest, `TestHalf().check_all()` runs them. The schedule is written as
in `recipe.schedule.decay`.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ablate import api
from ablate.extension.kinds import SCHEDULE
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.batch_ramp import counted
from ablate.space.choice import read_choice
from ablate.space.documents import Schedule
from ablate.space.optimizers import ScheduleSpec
from ablate.space.rate_schedule import relative_rate
from ablate.space.ways import HINTS

LENGTHS = tuple(itertools.product((1, 2, 37), (0, 0.25, 1.0), (0, 3), (False, True)))
"""Steps, warm-up, hold, and whether the rate starts from zero (finished steps are counted)."""
FLOORS = (0.0, 0.25)


class ScheduleContract:
    """Five tests of one schedule: `schedule` is YAML, `plugins` are the files to read."""

    schedule: str = ""
    plugins: Sequence[str | Path] = ()

    def test_rates_are_shares_of_the_peak(self) -> None:
        """Every rate is a finite number from 0 to 1."""
        for told, floor, rates in self._every():
            for step, rate in enumerate(rates):
                known = math.isfinite(rate) and 0 <= rate <= 1 + 1e-12
                assert known, f"step {step} has the rate {rate} (floor {floor}, {told})"

    def test_never_below_the_floor(self) -> None:
        """No step after the warm-up has a rate below the floor; nothing to test without a floor."""
        spec, _ = self._settings()
        for told, floor, rates in self._every() if spec.has_floor else ():
            steps, warmup, *_ = told
            for step in range(min(counted(warmup, steps), steps), steps):
                assert rates[step] >= floor - 1e-12, f"step {step} falls below {floor} to {rates[step]} ({told})"

    def test_begins_at_the_peak(self) -> None:
        """The step that ends the warm-up and the hold has the peak rate."""
        for told, _, rates in self._every():
            steps, warmup, hold, from_zero = told
            peak = max(counted(warmup, steps) + hold - (not from_zero), 0)
            if peak < steps:
                assert math.isclose(rates[peak], 1.0), f"step {peak} has {rates[peak]}, not the peak ({told})"

    def test_a_function_of_the_step_alone(self) -> None:
        """Rates do not depend on the order in which steps are queried."""
        for told, floor, rates in self._every():
            backwards = [self._rate(step, told, floor) for step in reversed(range(told[0]))]
            assert backwards[::-1] == rates, f"queried in another order, the rates differ ({told})"

    def test_free_of_torch(self) -> None:
        """Its file does not import torch: planning computes rates without it."""
        spec, _ = self._settings()
        named = vars(sys.modules[spec.module])
        assert "torch" not in named, f"{spec.path} imports torch"

    def check_all(self) -> None:
        """Run every test in turn; the first AssertionError says what does not hold."""
        for name in dir(self):
            if name.startswith("test_"):
                getattr(self, name)()

    def _every(self) -> Iterator[tuple[tuple[int, float, int, bool], float, list[float]]]:
        for told in LENGTHS:
            for floor in FLOORS:
                yield told, floor, [self._rate(step, told, floor) for step in range(told[0])]

    def _rate(self, step: int, told: tuple[int, float, int, bool], floor: float) -> float:
        spec, settings = self._settings()
        steps, warmup, hold, from_zero = told
        timed = Schedule(warmup=warmup, hold=hold, decay=spec.name, floor=floor, from_zero=from_zero)  # type: ignore[arg-type]
        return relative_rate(step, steps, timed, settings, 1e-3)

    def _settings(self) -> tuple[ScheduleSpec, Any]:
        """Return the schedule and its settings; InputError for a mistake in their YAML."""
        problems = Problems()
        known = api.catalogue(self.plugins).of_kind(ScheduleSpec)
        written = parse_yaml(self.schedule, "the schedule of the contract")
        chosen = read_choice(written, SCHEDULE, known, "schedule", problems, HINTS)
        problems.raise_if_any()
        assert chosen is not None
        return known[chosen.name], known[chosen.name].read(chosen.settings)
