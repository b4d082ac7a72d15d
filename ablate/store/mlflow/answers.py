"""The results of each variant of a space, as MLflow shows them: means over seeds, and differences from the baseline.

    mean.eval_loss               the mean over finished seeds, geometric where the metric is judged on the log scale
    difference.eval_loss         the paired difference from the baseline, a ratio on the log scale
    difference_low.eval_loss     its interval, adjusted like the verdict where that was recorded
    difference_high.eval_loss
    verdict.eval_loss            a tag: better, worse, equivalent, undecided, …

MLflow's groups average numbers and drop texts. So each run of a variant has the numbers of the variant, whose average
is the number itself, and its verdicts are in the tag that runs are grouped by, which names the group: `op: better,
better, undecided`, in the order in which the metrics are judged and stand in the columns.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import duckdb

from ablate.output.words import spoken
from ablate.store.checksummed_lines import compact
from ablate.store.mlflow.texts import TAG_LENGTH, short
from ablate.store.snapshot import Snapshot

MEAN, DIFFERENCE, LOW, HIGH, VERDICT = "mean", "difference", "difference_low", "difference_high", "verdict"
NUMBERS = (MEAN, DIFFERENCE, LOW, HIGH)
GROUP = "answer"
"""The tag that runs are grouped by: the variant and its verdicts."""
INTERVAL = "interval"

EFFECTS = """
WITH shown AS (
    SELECT *, adjusted_low IS NOT NULL AND adjusted_high IS NOT NULL AS adjusted,
        [estimate, if(adjusted, adjusted_low, low), if(adjusted, adjusted_high, high)] AS numbers,
        100 * if(adjusted, coalesce(adjusted_confidence, confidence), confidence) AS percent
    FROM judged WHERE current AND kind = 'baseline'
)
SELECT space, after_id, metric, verdict, [if(scale = 'log', exp(number), number) FOR number IN numbers],
    percent, if(adjusted, 'adjusted as the verdict is', 'not adjusted for the number of comparisons')
FROM shown
QUALIFY row_number() OVER (PARTITION BY space, after_id, metric ORDER BY position) = 1
ORDER BY space, position
"""
"""The effects against the baseline: under several terms, the first."""
MEANS = """
SELECT m.space, m.variant_id, n.name, avg(n.value ORDER BY m.seed, m.trial_id) AS mean,
    CASE WHEN min(n.value) > 0 THEN
        exp(avg(ln(n.value) ORDER BY m.seed, m.trial_id) FILTER (n.value > 0)) END AS geometric
FROM (
    SELECT c.*, t.split, bool_or(t.split = 'verdict') OVER (PARTITION BY c.space, c.variant_id) AS confirmed
    FROM counted c JOIN trials t ON t.trial_id = c.trial_id AND t.status = 'finished'
    WHERE c.current
) m
JOIN numbers n ON n.trial_id = m.trial_id
WHERE m.split IS NOT DISTINCT FROM 'verdict' OR NOT coalesce(m.confirmed, false)
GROUP BY m.space, m.variant_id, n.name
"""
"""Means over the same seeds as in `leaderboard`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantAnswer:
    """The results of one variant: numbers and texts that each of its runs shows."""

    metrics: Mapping[str, float]
    tags: Mapping[str, str]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(filter(is_answer, (*self.metrics, *self.tags)))

    @property
    def digest(self) -> str:
        """A hash of its content; empty while there is no result."""
        if not self.names:
            return ""
        return sha256(compact([sorted(self.metrics.items()), sorted(self.tags.items())]).encode()).hexdigest()[:16]


def is_answer(name: str) -> bool:
    """Return whether a metric or tag of a run is a number or a verdict of an answer."""
    kind, dot, _ = name.partition(".")
    return bool(dot) and kind in (*NUMBERS, VERDICT)


class Judged:
    """The verdicts on the current plan of a space: the scale of each judged metric and, by variant id, what was found.

    `metrics` are numbers by their names in MLflow, `words` verdicts by metric, `intervals` describe those shown.
    """

    def __init__(self, scales: Mapping[str, str], sentences: Mapping[str, str]):
        self.scales, self._sentences = scales, sentences
        self.metrics: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self.words: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.intervals: defaultdict[str, set[str]] = defaultdict(set)

    def answer(self, variant: str, variant_id: str, edits: str) -> VariantAnswer:
        """Return the results of a variant; `edits` is how its block differs from the baseline's."""
        words = self.words[variant_id]
        tags = {
            GROUP: ": ".join(filter(None, [variant, ", ".join(words.values())])),  # in the order of the columns
            DIFFERENCE: ": ".join(filter(None, [edits, self._sentences.get(variant_id)])),
            INTERVAL: "; ".join(sorted(self.intervals[variant_id])),
            **{f"{VERDICT}.{name}": word for name, word in words.items()},
        }
        return VariantAnswer(
            metrics={name: number for name, number in self.metrics[variant_id].items() if math.isfinite(number)},
            tags={name: short(text, TAG_LENGTH) for name, text in tags.items() if text},
        )


def read_judged(folder: Path, connection: duckdb.DuckDBPyConnection, plans: Collection[str]) -> dict[str, Judged]:
    """Read the verdicts of each space of which one of these plans was judged."""
    judged: dict[str, Judged] = {}
    for plan, kept in Snapshot(folder).verdicts.items():
        verdicts = kept.content["verdicts"]
        if plan in plans and verdicts is not None:
            scales = {metric["name"]: metric["scale"] for metric in verdicts["metrics"]}
            judged[kept.content["space"]] = Judged(scales, verdicts.get("sentences", {}))
    if not judged:
        return judged
    for space, variant, name, mean, geometric in connection.execute(MEANS).fetchall():
        if space in judged and name in judged[space].scales:
            shown = geometric if judged[space].scales[name] == "log" else mean
            judged[space].metrics[variant] |= {} if shown is None else {f"{MEAN}.{name}": shown}
    for space, variant, metric, verdict, numbers, percent, how in connection.execute(EFFECTS).fetchall():
        if (of_space := judged.get(space)) is None:
            continue
        of_space.words[variant][metric] = spoken(verdict)
        values = zip((DIFFERENCE, LOW, HIGH), numbers, strict=True)
        there = {f"{part}.{metric}": value for part, value in values if value is not None and math.isfinite(value)}
        of_space.metrics[variant] |= there
        of_space.intervals[variant] |= {f"{percent:.4g} %, {how}"} if f"{LOW}.{metric}" in there else set()
    return judged
