"""What is known of noise: A/A pairs of any space, where all was as it is here but the block, the seed and the salt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from ablate.errors import RefusedError
from ablate.plan.identity import conditions_of
from ablate.plan.plan import Plan
from ablate.space.documents import Judge, Judged
from ablate.statistics import Floor, floor_of
from ablate.store.projection import DATABASE, is_ours, reading

STATEMENT = """
    SELECT metric, variant_id, versions_id, value, salted_value, (
        SELECT min(v.variant) FROM memberships m JOIN variants v ON v.space = m.space AND v.variant_id = m.variant_id
        WHERE m.trial_id = p.trial
    ) AS whose
    FROM noise_pairs p WHERE conditions = $conditions
    ORDER BY metric, variant_id, versions_id, seed, salt
"""

MEANS = """
    SELECT s.name, avg(s.value ORDER BY t.seed, t.trial_id) FROM trials t JOIN summaries s USING (trial_id)
    WHERE t.conditions = $conditions AND t.variant_id = $variant AND t.status = 'finished' AND t.salt = 0
    GROUP BY s.name ORDER BY s.name
"""

Row = tuple[str, str, str | None, float, float, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What is known of the judged metrics under a plan's conditions: their noise floors, and the baseline's means."""

    floors: tuple[Floor, ...] = ()
    means: Mapping[str, float] = field(default_factory=dict)


def noise_of(folder: Path, plan: Plan, judge: Judge) -> Noise:
    """The noise floor of each judged metric under the conditions of a plan's baseline, where one was measured.

    Of the pairs of several blocks those of the baseline count, else those of the block that has most. The DuckDB file
    as it is has to do; a folder that has none yet gives none.
    """
    like = next((t for t in plan.trials if t.variant == plan.baseline and t.split == "verdict"), None)
    if like is None or not (folder / DATABASE).exists():
        return Noise()
    given = {"conditions": conditions_of(like)}
    try:
        with reading(folder / DATABASE) as connection:
            if not is_ours(connection):
                return Noise()
            found: list[Row] = connection.execute(STATEMENT, given).fetchall()
            means = dict(connection.execute(MEANS, {**given, "variant": plan.baseline}).fetchall())
    except RefusedError:  # another program writes to it, or it is damaged; whoever needs its content says so
        return Noise()
    by_metric = {metric: list(rows) for metric, rows in groupby(found, key=itemgetter(0))}
    floors = (
        floor
        for metric, judged in judge.metrics.items()
        for floor in _floor(metric, judged, by_metric.get(metric, []), plan)
    )
    return Noise(floors=tuple(floors), means={name: mean for name, mean in means.items() if name in judge.metrics})


def _floor(metric: str, judged: Judged, rows: list[Row], plan: Plan) -> Iterator[Floor]:
    log = judged.scale == "log"
    usable = [row for row in rows if not log or min(row[3], row[4]) > 0]
    groups = [list(group) for _, group in groupby(usable, key=itemgetter(1, 2))]
    groups = [group for group in groups if len(group) > 1]
    if not groups:
        return
    best = max(groups, key=lambda group: (group[0][1] == plan.baseline, len(group)))
    before, after = [row[3] for row in best], [row[4] for row in best]
    yield floor_of(metric, before, after, log=log, whose=best[0][5] or best[0][1])
