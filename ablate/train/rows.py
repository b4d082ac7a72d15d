"""What a step has measured, as rows and as the last statistics of a trial."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from ablate.probes.reading import Reading
from ablate.train.events import Row, Timing


def rows_of(step: int, numbers: dict[str, float], rates: dict[str, float], readings: list[Reading]) -> Iterator[Row]:
    """The whole model's numbers, the rates, and what the probes read."""
    for metric, value in numbers.items():
        yield Row(step, metric, "", value)
    for group, rate in rates.items():
        yield Row(step, "learning_rate", "" if group == "weights" else group, rate)
    for reading in readings:
        yield Row(step, reading.metric, reading.address, reading.value.item())


def statistics(last: dict[str, Any], step: int, numbers: dict[str, float], rows: list[Row]) -> dict[str, Any]:
    """What is known of the last healthy step, and what was last measured, as JSON-able data."""
    latest = {"measured_at": step, "measured": _by_metric(rows)} if rows else {}
    return {**last, **latest, "step": step, **numbers}


def evaluated(last: dict[str, Any], step: int, rows: list[Row]) -> dict[str, Any]:
    """The same with what was last read on the evaluation windows, after `step` updates."""
    return {**last, "evaluated_at": step, "evaluated": _by_metric(rows)}


def _by_metric(rows: list[Row]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for row in rows:
        found.setdefault(row.metric, {})[row.address] = row.value if math.isfinite(row.value) else None
    return found


class Clock:
    """The time of steps alone, without evaluations and without whoever takes the events."""

    def __init__(self) -> None:
        self.seconds, self.steps, self.tokens, self.started = 0.0, 0, 0, 0.0

    def start(self) -> None:
        """A step begins."""
        self.started = time.perf_counter()

    def stop(self, tokens: int) -> None:
        """It is done, over so many tokens."""
        self.seconds += time.perf_counter() - self.started
        self.steps += 1
        self.tokens += tokens

    def timings(self, step: int) -> Iterator[Timing]:
        """Means since the last call."""
        yield Timing(step, "step_seconds", self.seconds / self.steps)
        yield Timing(step, "tokens_per_second", self.tokens / self.seconds)
        self.seconds, self.steps, self.tokens = 0.0, 0, 0
