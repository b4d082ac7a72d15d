"""The numbers of trials: those that have ended, how long they took, and those of one, ended or paused, up to a step.

A trial's rows are summed up by the statement that fills the table `summaries`, so that a number has one definition
wherever it is read.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet

from ablate.errors import RefusedError
from ablate.plan.trial import Trial
from ablate.store import files, open_trial, sealed
from ablate.store.projection import SUMMARIES
from ablate.store.query import query
from ablate.verdict.finals import Final, Finals

ENDS = """
    SELECT t.trial_id, t.status, t.ended_step, t.versions_id, t.by_name_id,
        map_from_entries(list((s.name, s.value) ORDER BY s.name) FILTER (s.name IS NOT NULL))
    FROM trials t LEFT JOIN numbers s USING (trial_id)
    WHERE t.trial_id IN (SELECT unnest($trials)) AND t.digest IS NOT NULL GROUP BY ALL ORDER BY t.trial_id
"""

DURATION = """
    SELECT median(ended.seconds - began.seconds) FROM trials
    JOIN timings began ON began.trial_id = trials.trial_id AND began.name = 'began'
    JOIN timings ended ON ended.trial_id = trials.trial_id AND ended.name = 'ended'
    WHERE status = 'finished' AND steps = $steps AND batch = $batch AND seq_len = $seq_len
      AND d_model = $d_model AND n_layers = $n_layers
      AND ended.seconds > began.seconds
"""


def finals(folder: Path, trial_ids: Collection[str]) -> Finals:
    """Return how each of these trials that has ended did so, with its numbers by the names of the view `numbers`."""
    answer = query(folder, ENDS, parameters={"trials": sorted(trial_ids)})
    return {
        trial: Final(status=status, step=step, metrics=metrics or {}, versions=versions, by_name=by_name)
        for trial, status, step, versions, by_name, metrics in answer.rows
    }


def trial_seconds(folder: Path, like: Trial) -> float | None:
    """Return the median seconds of finished trials with the steps and sizes of `like`; None if there are none."""
    sizes = like.architecture.sizes
    given = {"steps": like.recipe.steps, "batch": like.recipe.batch}
    given |= {"seq_len": sizes.seq_len, "d_model": sizes.d_model, "n_layers": sizes.n_layers}
    if not files.has_results(folder):
        return None
    try:
        ((seconds,),) = query(folder, DURATION, parameters=given).rows
    except RefusedError:  # another program writes to it, or it is damaged; those who need its content report that
        return None
    return None if seconds is None else float(seconds)


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
        """Return the seconds of steps and evaluations after one step up to another; steps trained twice count once."""
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


def ended(folder: Path, trial_id: str) -> TrialRows:
    """Read the rows of an ended trial; a RefusedError where its sealed file is damaged."""
    listed = files.read_witness(folder).written.get(files.name_of(trial_id))
    return TrialRows(trial_id, pyarrow.parquet.read_table(sealed.whole(folder, trial_id, listed)))


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
