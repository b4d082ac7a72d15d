"""What is known of noise: pairs of any space that differ from this plan in block, seed or salt alone.

Pairs most similar to those to be judged tell best how much differences vary. In this order:

    the edits of the plan itself, against its baseline, where one was trained at `FEWEST` seeds or more
    any edits of that baseline under the same conditions (recipe, text, sizes, measurements)
    A/A pairs: those of the baseline, else those of the block that has the most
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from ablate.errors import RefusedError
from ablate.plan.plan import Plan
from ablate.space.documents import Judge, Judged
from ablate.statistics import Floor, floor_of, floor_of_edits
from ablate.store import files
from ablate.store.query import asking

STATEMENT = """
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

Edited = tuple[str, str, float, float]
"""A metric, the variant after, and its values before and after at one seed."""

Row = tuple[str, str, str | None, float, float, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNoise:
    """What is known of the judged metrics under a plan's conditions: their noise floors, and the baseline's means."""

    floors: tuple[Floor, ...] = ()
    means: Mapping[str, float] = field(default_factory=dict)


def noise_of(folder: Path, plan: Plan, judge: Judge) -> KnownNoise:
    """Return the noise floor of each judged metric under the conditions of a plan's baseline, where it is known."""
    like = next((t for t in plan.trials if t.variant == plan.baseline and t.split == "verdict"), None)
    if like is None or not files.has_results(folder):
        return KnownNoise()
    given = {"conditions": like.conditions}
    try:
        with asking(folder) as ask:
            pairs: Sequence[Row] = ask(STATEMENT, given).rows
            edits: Sequence[Edited] = ask(EDITS, {**given, "variant": plan.baseline}).rows
            means = dict(ask(MEANS, {**given, "variant": plan.baseline}).rows)
    except RefusedError:  # another program writes to it, or it is damaged; those who need its content report that
        return KnownNoise()
    by_metric = {metric: list(rows) for metric, rows in groupby(pairs, key=itemgetter(0))}
    floors = (
        floor
        for metric, judged in judge.metrics.items()
        for floor in (
            _of_edits(metric, judged, [row[1:] for row in edits if row[0] == metric], plan)
            or _floor(metric, judged, by_metric.get(metric, []), plan)
        )
    )
    return KnownNoise(floors=tuple(floors), means={name: mean for name, mean in means.items() if name in judge.metrics})


def _of_edits(metric: str, judged: Judged, rows: list[tuple[str, float, float]], plan: Plan) -> list[Floor]:
    """Return the floor from pairs of the baseline's edits: the plan's own, else all; none where there are too few."""
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
