"""The results of each variant of a space, as MLflow shows them: means over seeds, and differences from the baseline.

    mean.eval_loss               the mean over finished seeds, geometric where the metric is judged on the log scale
    difference.eval_loss         the paired difference from the baseline, a ratio on the log scale
    difference_low.eval_loss     its interval, adjusted like the verdict where that was recorded
    difference_high.eval_loss
    verdict.eval_loss            a tag: better, worse, equivalent, undecided, …

MLflow's groups average numbers and drop texts. So each run of a variant has the numbers of the variant, whose average
is the number itself, and its verdicts are in the tag that runs are grouped by, which names the group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import duckdb

from ablate.output.words import spoken
from ablate.store.checksummed_lines import compact
from ablate.store.mlflow.naming import TAG_LENGTH, short

MEAN, DIFFERENCE, LOW, HIGH, VERDICT = "mean", "difference", "difference_low", "difference_high", "verdict"
NUMBERS = (MEAN, DIFFERENCE, LOW, HIGH)
GROUP = "answer"
"""The tag that runs are grouped by: the variant and its verdicts."""
INTERVAL = "interval"
"""The tag that names the interval shown."""

ADJUSTED, PLAIN = "adjusted as the verdict is", "not adjusted for the number of comparisons"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantAnswer:
    """The results of one variant: numbers and texts that each of its runs shows."""

    metrics: Mapping[str, float]
    tags: Mapping[str, str]

    @property
    def names(self) -> frozenset[str]:
        """The names of its numbers and verdicts."""
        return frozenset(filter(is_answer, (*self.metrics, *self.tags)))

    @property
    def digest(self) -> str:
        """A hash of its content; empty while there is no result."""
        if not self.names:
            return ""
        return sha256(compact([sorted(self.metrics.items()), sorted(self.tags.items())]).encode()).hexdigest()[:16]


def unanswered(variant: str, edits: str) -> VariantAnswer:
    """Return what a variant shows before it is judged: its name and how it differs from the baseline."""
    return VariantAnswer(metrics={}, tags={GROUP: short(variant, TAG_LENGTH), DIFFERENCE: short(edits, TAG_LENGTH)})


def answer(
    variant: str, variant_id: str, edits: str, document: Mapping[str, Any], means: Mapping[str, float]
) -> VariantAnswer:
    """Return the results of a variant from the recorded verdicts of its space.

    `edits` is how its block differs from the baseline's, `means` are those of `read_means`.
    """
    effects = _against_baseline(document["effects"], variant_id)
    metrics = {f"{MEAN}.{name}": mean for name, mean in means.items()}
    kinds: set[str] = set()
    for effect in effects:
        numbers, kind = _difference(effect, document["confidence"])
        metrics |= {f"{part}.{effect['metric']}": number for part, number in numbers.items()}
        kinds |= {kind} if LOW in numbers else set()
    words = {effect["metric"]: spoken(effect["verdict"]) for effect in effects}
    sentence = document.get("sentences", {}).get(variant_id, "")
    tags = {
        GROUP: ": ".join(filter(None, [variant, ", ".join(f"{name} {word}" for name, word in words.items())])),
        DIFFERENCE: ": ".join(filter(None, [edits, sentence])),
        INTERVAL: "; ".join(sorted(kinds)),
        **{f"{VERDICT}.{name}": word for name, word in words.items()},
    }
    return VariantAnswer(
        metrics={name: number for name, number in metrics.items() if math.isfinite(number)},
        tags={name: short(text, TAG_LENGTH) for name, text in tags.items() if text},
    )


def judged_metrics(document: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the metrics that a space was judged by, in order."""
    return tuple(metric["name"] for metric in document["metrics"]) if document else ()


def is_answer(name: str) -> bool:
    """Return whether a metric or tag of a run is a number or a verdict of an answer."""
    kind, dot, _ = name.partition(".")
    return bool(dot) and kind in (*NUMBERS, VERDICT)


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


def read_means(
    connection: duckdb.DuckDBPyConnection, documents: Mapping[str, Mapping[str, Any]]
) -> dict[tuple[str, str], dict[str, float]]:
    """Return, for each judged space and each variant id, the mean of every judged metric on its scale."""
    if not documents:
        return {}
    scales = {
        (space, metric["name"]): metric["scale"]
        for space, document in documents.items()
        for metric in document["metrics"]
    }
    means: dict[tuple[str, str], dict[str, float]] = {}
    for space, variant, name, mean, geometric in connection.execute(MEANS).fetchall():
        scale = scales.get((space, name))
        shown = geometric if scale == "log" else mean
        if scale is not None and shown is not None:
            means.setdefault((space, variant), {})[name] = shown
    return means


def _against_baseline(effects: Iterable[Mapping[str, Any]], variant_id: str) -> Sequence[Mapping[str, Any]]:
    """Return the effects of a variant against the baseline, one for each metric: under several terms, the first."""
    first: dict[str, Mapping[str, Any]] = {}
    for effect in effects:
        if effect["kind"] == "baseline" and effect["after"] == variant_id:
            first.setdefault(effect["metric"], effect)
    return tuple(first.values())


def _difference(effect: Mapping[str, Any], confidence: float) -> tuple[dict[str, float], str]:
    """Return a difference and its interval as MLflow metrics, and a description of the interval."""
    adjusted = effect.get("adjusted_low") is not None and effect.get("adjusted_high") is not None
    ends = ("adjusted_low", "adjusted_high") if adjusted else ("low", "high")
    level = effect.get("adjusted_confidence") if adjusted else confidence
    texts = {DIFFERENCE: effect.get("estimate"), LOW: effect.get(ends[0]), HIGH: effect.get(ends[1])}
    numbers = {part: _shown(float(value), effect["scale"]) for part, value in texts.items() if value is not None}
    share = f"{100 * (level if level is not None else confidence):.4g} %, "
    return {part: number for part, number in numbers.items() if math.isfinite(number)}, share + (
        ADJUSTED if adjusted else PLAIN
    )


def _shown(value: float, scale: str) -> float:
    """Return a difference as it is, or a difference of logarithms as a ratio; infinite where that overflows."""
    if scale != "log":
        return value
    return math.exp(value) if value < 700 else math.inf
