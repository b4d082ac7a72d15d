"""Texts of MLflow: names, colours, values of limited length and descriptions; the answers and runs of a page."""

from __future__ import annotations

import colorsys
import difflib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TypeAlias

import duckdb
import yaml

from ablate.output.escape import for_markdown, markdown_code, markdown_code_cell, markdown_fence, markdown_paragraph
from ablate.output.words import of_profile, spoken
from ablate.store.durable import compact
from ablate.store.snapshot import Snapshot

PARAM_LENGTH, TAG_LENGTH, NAME_LENGTH = 6000, 8000, 200
"""The longest values that MLflow keeps, and the longest name used."""
BASELINE_COLOUR = "#5f6b7a"
GOLDEN_ANGLE = 0.381966  # as a fraction of a circle: hues this far apart stay distinguishable, however many there are
WIDTH = 88  # maximum width of a part of a block on one line
MEANS_NOTE = (
    "Verdicts pair the seeds of two variants and compare some metrics as ratios; "
    "MLflow's own averages of a group are plain means over its finished seeds."
)
RUNS_LOADED = 100
LOADED = f"MLflow loads {RUNS_LOADED} runs at a time: its groups are complete when no button `Load more` is left."


def edit_keys(edits: Iterable[str]) -> dict[str, str]:
    """Return for each edit the name of its parameter, which is `yes` or `no` in every run.

    >>> edit_keys(["+qk_norm", "residual.gain=0.5", "-layer_norm@mlp_norm", "a->b"])
    {'+qk_norm': 'edit.add_qk_norm', 'residual.gain=0.5': 'edit.residual.gain', \
'-layer_norm@mlp_norm': 'edit.remove_layer_norm.mlp_norm', 'a->b': 'edit.a_to_b'}

    The new value of a field is left out where the field has only one, since names are column headers.
    """
    brief = {}
    for edit in edits:
        name, _, value = edit.partition("=")
        value, at, place = value.rpartition("@")  # where it acts, which may stand after the value
        brief[edit] = _edit_name(f"{name}@{place}" if at and value else name)
    times, keys = Counter(brief.values()), dict[str, str]()
    for edit, name in brief.items():
        key = f"edit.{name if times[name] == 1 else _edit_name(edit)}"[:NAME_LENGTH]
        others = (f"{key}.{number}" for number in count(2))
        keys[edit] = key if key not in keys.values() else next(key for key in others if key not in keys.values())
    return keys


def _edit_name(edit: str) -> str:
    text = re.sub(r"^\+", "add_", re.sub(r"^-", "remove_", edit)).replace("->", "_to_")
    text = re.sub(r"[@#+]", ".", text)
    return re.sub(r"[^\w.\-]+|_{2,}", "_", text).strip("_.") or "edit"


def colour(position: int, *, baseline: bool) -> str:
    if baseline:
        return BASELINE_COLOUR
    red, green, blue = colorsys.hls_to_rgb((0.58 + position * GOLDEN_ANGLE) % 1, 0.45, 0.72)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def short_lines(text: str, length: int, rest: str) -> str:
    """Truncate a text after a whole line where it is too long, and append `rest`, which says where the full text is."""
    if len(text) <= length:
        return text
    room = text[: length - len(rest) - 2]
    return f"{room.rpartition(chr(10))[0] or room}\n\n{rest}"


def edit_difference(variant: MlflowVariant, baseline: MlflowVariant) -> tuple[str, ...]:
    """Return the edits that a variant has and the baseline does not, and vice versa (`without …`)."""
    more = [edit for edit in variant.edits if edit not in baseline.edits]
    less = [f"without {edit}" for edit in baseline.edits if edit not in variant.edits]
    return (*more, *less)


def run_note(
    seed: int, ending: str, variant: MlflowVariant, baseline: MlflowVariant | None, details: Mapping[str, str]
) -> str:
    parts = [f"**{for_markdown(variant.name)}**, seed {seed}: {ending}."]
    if baseline and baseline != variant:
        parts.append(f"Against the baseline **{for_markdown(baseline.name)}**:")
        edits = [(edit, details.get(edit.removeprefix("without "))) for edit in edit_difference(variant, baseline)]
        parts.append(
            "\n".join(
                f"- {markdown_code(edit)}" + (f": {for_markdown(detail)}" if detail else "") for edit, detail in edits
            )
        )
        parts.append(markdown_fence("diff", _diff(block_text(baseline.block), block_text(variant.block))))
    elif baseline:
        parts.append("The baseline: the other variants are compared with it.")
    parts += ["The block:", markdown_fence("yaml", block_text(variant.block))]
    return "\n\n".join(part for part in parts if part)


def page_note(page: Page, links: str, report: str) -> str:
    endings = Counter(run.status for run in page.runs)
    against = f", against {markdown_code(page.baseline)}" if page.baseline else ""
    ended = f"{len(page.runs)} of {page.requested} trials have ended: {_counts(endings.most_common())}."
    parts = [
        markdown_paragraph(page.question.strip()),
        *(f"**{for_markdown(line)}**" for line in of_profile(page.profile or None)),
        f"Design: {for_markdown(page.design)}{against}. {ended}",
        links,
        report,
        " ".join([MEANS_NOTE if report else "", LOADED if len(page.runs) > RUNS_LOADED else ""]).strip(),
        "| variant | edits | parameters | FLOPs per example | trials |\n|---|---|--:|--:|---|",
    ]
    for variant in page.variants:
        statuses = Counter(run.status for run in page.runs if run.tags["variant"] == variant.name)
        parts[-1] += (
            f"\n| {for_markdown(variant.name)} | {', '.join(map(markdown_code_cell, variant.edits)) or 'none'} "
            f"| {variant.parameters:,} | {variant.flops / 1e6:,.1f} M | {_counts(statuses.items()) or 'none ended'} |"
        )
    return "\n\n".join(part for part in parts if part)


def _counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{number} {status}" for status, number in counts)


@cache
def block_text(block: str) -> str:
    """Return a block as YAML of several lines: what fits on a line stays on it.

    >>> print(block_text("[residual: {gain: 1, branch: [layer_norm, attention]}]"))
    - {residual: {gain: 1, branch: [layer_norm, attention]}}
    """
    if not block:
        return ""
    root = yaml.compose(block)
    if isinstance(root, yaml.CollectionNode):
        _spread(root, 0)
    return str(yaml.serialize(root, width=10_000, allow_unicode=True)).rstrip("\n")


def _spread(node: yaml.Node, indent: int) -> int:
    """Choose block or flow style for a node and everything in it; return the length of its text on one line."""
    if not isinstance(node, yaml.CollectionNode):
        return len(node.value)
    if isinstance(node, yaml.SequenceNode):
        length = sum(_spread(child, indent + 2) + 2 for child in node.value)
    else:
        length = sum(len(key.value) + 2 + _spread(value, indent + 2) + 2 for key, value in node.value)
    node.flow_style = length + indent <= WIDTH and indent > 0
    return length


@cache
def _diff(before: str, after: str) -> str:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm=""))[2:]
    return "\n".join(line for line in lines if not line.startswith("@@"))


def ending_text(status: str, step: int, detail: str | None) -> str:
    if status == "finished":
        return f"finished at step {step}"
    known = json.loads(detail or "{}")
    where = f" in {markdown_code(str(known['address']))}" if isinstance(known, dict) and known.get("address") else ""
    return f"**{status}** at step {step}{where}"


# Answers: the results of each variant of a space, means over seeds and differences from the baseline
#
#     mean.eval_loss               the mean over finished seeds, geometric where the metric is judged on the log scale
#     difference.eval_loss         the paired difference from the baseline, a ratio on the log scale
#     difference_low.eval_loss     its interval, adjusted like the verdict where that was recorded
#     difference_high.eval_loss
#     verdict.eval_loss            a tag: better, worse, equivalent, undecided, …
#
# MLflow's groups average numbers and drop texts. So each run of a variant has the variant's numbers, and its verdicts
# are in the tag that names the group: `op: better, better, undecided`, in the order of the metrics.

MEAN, DIFFERENCE, LOW, HIGH, VERDICT = "mean", "difference", "difference_low", "difference_high", "verdict"
NUMBERS = (MEAN, DIFFERENCE, LOW, HIGH)
GROUP = "answer"  # the tag that runs are grouped by: the variant and its verdicts
INTERVAL = "interval"

EFFECTS_SQL = """
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
MEANS_SQL = """
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


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantAnswer:
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
    kind, dot, _ = name.partition(".")
    return bool(dot) and kind in (*NUMBERS, VERDICT)


# An experiment: the variants and the runs of a space.

FORM = 6  # incremented when runs of the same trials show something different: then every run is sent again

ForecastValue: TypeAlias = float | str | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class MlflowVariant:
    """One variant of a space; `position` is its place in the plan, from 1."""

    space: str
    id: str
    name: str
    position: int
    edits: Sequence[str]
    parameters: int
    flops: int
    block: str
    terms: Sequence[str]
    forecast: Mapping[str, ForecastValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowRun:
    """One ended trial of a space. `began` and `ended` are milliseconds since 1970."""

    trial: str
    name: str
    status: str
    began: int
    ended: int
    params: Mapping[str, str]
    tags: Mapping[str, str]
    answer: VariantAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One space: an experiment. `requested` counts all its trials; `keys` has the parameter of each edit."""

    space: str
    question: str
    design: str
    profile: str
    baseline: str
    requested: int
    variants: tuple[MlflowVariant, ...]
    keys: Mapping[str, str]
    runs: tuple[MlflowRun, ...]
    judged: tuple[str, ...]

    @property
    def by_trial(self) -> Mapping[str, MlflowRun]:
        return {run.trial: run for run in self.runs}

    @property
    def digest(self) -> str:
        """A hash of everything that the experiment's page shows, except for the report."""
        variants = [[v.name, v.edits, v.parameters, v.flops] for v in self.variants]
        head = [FORM, self.question, self.design, self.profile, self.baseline, self.requested, variants]
        content = [head, [[run.name, sorted(run.tags.items()), run.answer.digest] for run in self.runs]]
        return sha256(compact(content).encode()).hexdigest()[:16]


class SpaceVerdicts:
    """The verdicts on the current plan of a space: the scale of each metric and the findings by variant id.

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


def read_verdicts(
    folder: Path, connection: duckdb.DuckDBPyConnection, plans: Collection[str]
) -> dict[str, SpaceVerdicts]:
    judged: dict[str, SpaceVerdicts] = {}
    for plan, kept in Snapshot(folder).verdicts.items():
        verdicts = kept.content["verdicts"]
        if plan in plans and verdicts is not None:
            scales = {metric["name"]: metric["scale"] for metric in verdicts["metrics"]}
            judged[kept.content["space"]] = SpaceVerdicts(scales, verdicts.get("sentences", {}))
    if not judged:
        return judged
    for space, variant, name, mean, geometric in connection.execute(MEANS_SQL).fetchall():
        if space in judged and name in judged[space].scales:
            shown = geometric if judged[space].scales[name] == "log" else mean
            judged[space].metrics[variant] |= {} if shown is None else {f"{MEAN}.{name}": shown}
    for space, variant, metric, verdict, numbers, percent, how in connection.execute(EFFECTS_SQL).fetchall():
        if (of_space := judged.get(space)) is None:
            continue
        of_space.words[variant][metric] = spoken(verdict)
        values = zip((DIFFERENCE, LOW, HIGH), numbers, strict=True)
        there = {f"{part}.{metric}": value for part, value in values if value is not None and math.isfinite(value)}
        of_space.metrics[variant] |= there
        of_space.intervals[variant] |= {f"{percent:.4g} %, {how}"} if f"{LOW}.{metric}" in there else set()
    return judged
