"""The rows of one trial, ended or paused: its numbers up to a step, and the time that took.

Uses the statement that fills the table `summaries`, so that a number has one definition wherever it is read.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet

from ablate.errors import RefusedError
from ablate.store import open_trial, sealed
from ablate.store.ending import Ending
from ablate.store.loading import SUMMARIES


@dataclass(frozen=True, slots=True)
class TrialRows:
    """The rows and timings of a trial, as in its sealed file."""

    trial_id: str
    rows: pyarrow.Table

    def numbers(self, until: int | None = None) -> Mapping[str, float]:
        """Return its summaries as if it had finished with what was measured at step `until` (None: as it ended)."""
        rows = self.rows if until is None else self.rows.filter(compute.less_equal(self.rows["step"], until))
        with duckdb.connect(":memory:") as connection:
            connection.register("incoming", rows)
            connection.execute("CREATE TABLE trials AS SELECT ? AS trial_id, 'finished' AS status", [self.trial_id])
            summaries = connection.execute(f"SELECT name, value FROM ({SUMMARIES}) ORDER BY ALL").fetchall()
        return {**dict(summaries), **self._clocks(until)}

    def _clocks(self, until: int | None) -> dict[str, float]:
        """Return the values of the view `clocks`: medians over the measured intervals up to a step."""
        timed = [(name, value) for step, name, value in self._timings() if _within(step, None, until)]
        names = ("step_seconds", "tokens_per_second")
        return {n: statistics.median(v for name, v in timed if name == n) for n in names if n in dict(timed)}

    def seconds(self, after: int | None = None, until: int | None = None) -> float:
        """Return the seconds of its steps and evaluations after step `after`, up to step `until`, without pauses.

        Steps trained twice, because of an interruption between two checkpoints, count once.
        """
        return sum(seconds for step, seconds in self._spans() if _within(step, after, until))

    def _spans(self) -> Iterator[tuple[int, float]]:
        """Yield the seconds between two measurements, and those of each evaluation, with the step of each."""
        before = -1
        for step, name, value in self._timings():
            if name == "step_seconds":
                yield step, value * (step - before)
                before = step
            elif name == "evaluation_seconds":
                yield step, value

    def _timings(self) -> list[tuple[int, str, float]]:
        timed = self.rows.filter(compute.equal(self.rows["kind"], "timing"))
        columns = (timed[name].to_pylist() for name in ("step", "metric", "value"))
        return sorted(zip(*columns, strict=True))


def _within(step: int, after: int | None, until: int | None) -> bool:
    return (after is None or step > after) and (until is None or step <= until)


def ended(folder: Path, ending: Ending) -> TrialRows:
    """Read the rows of an ended trial; a RefusedError where its sealed file is damaged."""
    return TrialRows(ending.trial_id, pyarrow.parquet.read_table(sealed.whole(folder, ending)))


def paused(folder: Path, trial_id: str) -> TrialRows | None:
    """Read the rows of a trial that has started and not ended, as far as written; None where there are none."""
    segment = open_trial.read(open_trial.path_of(folder, trial_id))
    if segment is None:
        return None
    if segment.damaged:
        raise RefusedError(
            f"the journal of trial {trial_id} is damaged in line {', '.join(map(str, segment.damaged))}\n"
            f"  = `ablate doctor --results {folder}` repairs it"
        )
    return TrialRows(trial_id, sealed.table(segment))
