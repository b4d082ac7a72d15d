"""The measurements of a step, as rows and as the last statistics of a trial."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from ablate.probes.reading import Reading
from ablate.train.events import Row, Timing


def rows_of(step: int, numbers: dict[str, float], rates: dict[str, float], readings: list[Reading]) -> Iterator[Row]:
    """Yield the whole model's numbers, the rates, and the readings of the probes as rows."""
    for metric, value in numbers.items():
        yield Row(step, metric, "", value)
    for group, rate in rates.items():
        yield Row(step, "learning_rate", "" if group == "weights" else group, rate)
    for reading in readings:
        yield Row(step, reading.metric, reading.address, reading.value.item())


def statistics(last: dict[str, Any], step: int, numbers: dict[str, float], rows: list[Row]) -> dict[str, Any]:
    """Update the statistics of the last healthy step, and the last measurements, as JSON-able data."""
    latest = {"measured_at": step, "measured": _by_metric(rows)} if rows else {}
    return {**last, **latest, "step": step, **numbers}


def evaluated(last: dict[str, Any], step: int, rows: list[Row], what: str = "evaluated") -> dict[str, Any]:
    """Update the last readings on the evaluation windows, after `step` updates."""
    return {**last, "evaluated_at": step, what: _by_metric(rows)}


def _by_metric(rows: list[Row]) -> dict[str, dict[str, float | None]]:
    values: dict[str, dict[str, float | None]] = {}
    for row in rows:
        values.setdefault(row.metric, {})[row.address] = row.value if math.isfinite(row.value) else None
    return values


class Clock:
    """A clock of training steps alone, without evaluations and without the consumer of the events."""

    def __init__(self) -> None:
        self.seconds, self.steps, self.tokens, self.started = 0.0, 0, 0, 0.0

    def start(self) -> None:
        """Start a step."""
        self.started = time.perf_counter()

    def stop(self, tokens: int) -> None:
        """Finish a step of `tokens` tokens."""
        self.seconds += time.perf_counter() - self.started
        self.steps += 1
        self.tokens += tokens

    def timings(self, step: int) -> Iterator[Timing]:
        """Yield the means since the last call."""
        yield Timing(step, "step_seconds", self.seconds / self.steps)
        yield Timing(step, "tokens_per_second", self.tokens / self.seconds)
        self.seconds, self.steps, self.tokens = 0.0, 0, 0
