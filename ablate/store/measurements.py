"""Measurements: the numbers of trials that have ended or go on, how long they took, and how much they vary by noise.

A trial's rows are summed up by the statement that fills the table `summaries`: one definition of each number.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet

from ablate.errors import RefusedError
from ablate.plan.plan import Plan, Trial
from ablate.space.judge import Judge, Judged
from ablate.statistics import Floor, floor_of, floor_of_edits
from ablate.store import files, journal, sealed
from ablate.store.projection import SUMMARIES
from ablate.store.query import asking, query
from ablate.verdict.experiment import Final, Finals

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
    sizes = like.work.architecture.sizes
    given = {"steps": like.work.recipe.steps, "batch": like.work.recipe.batch}
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
        """The values of the view `clocks`: medians over the measured intervals up to a step."""
        timed = [(name, value) for step, name, value in self._timings() if _within(step, None, until)]
        names = ("step_seconds", "tokens_per_second")
        return {n: statistics.median(v for name, v in timed if name == n) for n in names if n in dict(timed)}

    def seconds(self, after: int | None = None, until: int | None = None) -> float:
        """Return the seconds of steps and evaluations after one step up to another; steps trained twice count once."""
        return sum(seconds for step, seconds in self._spans() if _within(step, after, until))

    def _spans(self) -> Iterator[tuple[int, float]]:
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


def ended_rows(folder: Path, trial_id: str) -> TrialRows:
    """Read the rows of an ended trial; RefusedError where its sealed file is damaged."""
    listed = files.read_witness(folder).written.get(files.name_of(trial_id))
    return TrialRows(trial_id, pyarrow.parquet.read_table(sealed.whole(folder, trial_id, listed)))


def paused_rows(folder: Path, trial_id: str) -> TrialRows | None:
    """Read the rows of a trial that has started and not ended, as far as written; None where there are none."""
    segment = journal.read(journal.path_of(folder, trial_id))
    if segment is None:
        return None
    if segment.damaged:
        raise RefusedError(
            f"the journal of trial {trial_id} is damaged in line {', '.join(map(str, segment.damaged))}\n"
            f"  = `ablate doctor --results {folder}` repairs it"
        )
    return TrialRows(trial_id, sealed.table(segment))


# Noise: pairs of trials of any space that differ from a plan in block, seed or salt alone
#
# Pairs most similar to those to be judged tell best how much differences vary. In this order:
#
#     the edits of the plan itself, against its baseline, where one was trained at `FEWEST` seeds or more
#     any edits of that baseline under the same conditions (recipe, text, sizes, measurements)
#     A/A pairs: those of the baseline, else those of the block that has the most

NOISE_PAIRS = """
    SELECT metric, variant_id, versions_id, value, salted_value, (
        SELECT min(v.variant) FROM plan_trials m JOIN plan_variants v ON v.plan = m.plan AND v.variant_id = m.variant_id
        WHERE m.trial_id = p.trial
    ) AS whose
    FROM noise_pairs p WHERE conditions = $conditions
    ORDER BY metric, variant_id, versions_id, seed, salt
"""

EDITS = """
    WITH last AS (
        SELECT t.trial_id, t.variant_id, t.seed, t.versions_id, t.by_name_id
        FROM trials t LEFT JOIN timings c ON c.trial_id = t.trial_id AND c.name = 'began'
        WHERE t.conditions = $conditions AND t.status = 'finished' AND t.salt = 0
            AND t.split IS NOT DISTINCT FROM 'verdict'
        QUALIFY row_number() OVER (
            PARTITION BY t.variant_id, t.seed, t.versions_id ORDER BY c.seconds DESC, t.trial_id
        ) = 1
    )
    SELECT x.name, a.variant_id, x.value, y.value
    FROM last b
    JOIN last a ON a.seed = b.seed AND alike(a.versions_id, a.by_name_id, b.versions_id, b.by_name_id)
        AND a.variant_id <> b.variant_id
    JOIN summaries x ON x.trial_id = b.trial_id
    JOIN summaries y ON y.trial_id = a.trial_id AND y.name = x.name
    WHERE b.variant_id = $variant
    ORDER BY x.name, a.variant_id, a.seed, a.versions_id
"""

FEWEST = 3
"""Minimum number of pairs from which the variance of an edit's differences is taken: two tell next to nothing."""

MOST_NAMED = 3

MEANS = """
    SELECT s.name, avg(s.value ORDER BY t.seed, t.trial_id) FROM trials t JOIN summaries s USING (trial_id)
    WHERE t.conditions = $conditions AND t.variant_id = $variant AND t.status = 'finished' AND t.salt = 0
    GROUP BY s.name ORDER BY s.name
"""

Edited = tuple[str, str, float, float]  # a metric, the variant after, and its values before and after at one seed

NoisePair = tuple[str, str, str | None, float, float, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNoise:
    """The noise floors of the judged metrics under a plan's conditions, and the means of its baseline."""

    floors: tuple[Floor, ...] = ()
    means: Mapping[str, float] = field(default_factory=dict)


def noise_of(folder: Path, plan: Plan, judge: Judge) -> PlanNoise:
    """Return the noise floor of each judged metric under the conditions of a plan's baseline, where it is known."""
    like = next((t for t in plan.trials if t.variant == plan.baseline and t.split == "verdict"), None)
    if like is None or not files.has_results(folder):
        return PlanNoise()
    given = {"conditions": like.conditions}
    try:
        with asking(folder) as ask:
            pairs: Sequence[NoisePair] = ask(NOISE_PAIRS, given).rows
            edits: Sequence[Edited] = ask(EDITS, {**given, "variant": plan.baseline}).rows
            means = dict(ask(MEANS, {**given, "variant": plan.baseline}).rows)
    except RefusedError:  # another program writes to it, or it is damaged; those who need its content report that
        return PlanNoise()
    by_metric = {metric: list(rows) for metric, rows in groupby(pairs, key=itemgetter(0))}
    floors = (
        floor
        for metric, judged in judge.metrics.items()
        for floor in (
            _floor_of_edits(metric, judged, [row[1:] for row in edits if row[0] == metric], plan)
            or _floor_of_pairs(metric, judged, by_metric.get(metric, []), plan)
        )
    )
    return PlanNoise(floors=tuple(floors), means={name: mean for name, mean in means.items() if name in judge.metrics})


def _floor_of_edits(metric: str, judged: Judged, rows: list[tuple[str, float, float]], plan: Plan) -> list[Floor]:
    """The floor from pairs of the baseline's edits: the plan's own, else all; none where there are too few."""
    log, base = judged.scale == "log", plan.variant(plan.baseline).name
    of: dict[str, list[tuple[float, float]]] = {}
    for variant, before, after in rows:
        if not log or min(before, after) > 0:
            of.setdefault(variant, []).append((before, after))
    of = {variant: pairs for variant, pairs in of.items() if len(pairs) >= FEWEST}
    names = {variant.id: variant.name for variant in plan.variants}
    own = {variant: pairs for variant, pairs in of.items() if variant in names}
    taken = own or of
    if not taken:
        return []
    if own and len(own) <= MOST_NAMED:
        whose = f"{', '.join(names[variant] for variant in own)} against {base}"
    else:
        kind = "of this plan" if own else "of other plans"
        whose = f"{len(taken)} {'variant' if len(taken) == 1 else 'variants'} {kind} against {base}"
    return [floor_of_edits(metric, list(taken.values()), log=log, whose=whose)]


def _floor_of_pairs(metric: str, judged: Judged, rows: list[NoisePair], plan: Plan) -> Iterator[Floor]:
    log = judged.scale == "log"
    usable = [row for row in rows if not log or min(row[3], row[4]) > 0]
    groups = [list(group) for _, group in groupby(usable, key=itemgetter(1, 2))]
    groups = [group for group in groups if len(group) > 1]
    if not groups:
        return
    best = max(groups, key=lambda group: (group[0][1] == plan.baseline, len(group)))
    before, after = [row[3] for row in best], [row[4] for row in best]
    yield floor_of(metric, before, after, log=log, whose=best[0][5] or best[0][1])
