"""Descriptions in Markdown for the pages of runs and experiments."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import yaml

from ablate.output.markdown import code, code_cell, escape, fenced, paragraph

if TYPE_CHECKING:
    from ablate.store.mlflow.values import MlflowVariant, Page

WIDTH = 88
"""Maximum width of a part of a block on one line."""
MEANS = (
    "Verdicts pair the seeds of two variants and compare some metrics as ratios; "
    "MLflow's own averages of a group are plain means over its finished seeds."
)
RUNS_LOADED = 100
LOADED = f"MLflow loads {RUNS_LOADED} runs at a time: its groups are complete when no button `Load more` is left."


def difference(variant: MlflowVariant, baseline: MlflowVariant) -> tuple[str, ...]:
    """Return the edits that a variant has and the baseline does not, and vice versa (`without …`)."""
    more = [edit for edit in variant.edits if edit not in baseline.edits]
    less = [f"without {edit}" for edit in baseline.edits if edit not in variant.edits]
    return (*more, *less)


def run_note(
    row: Mapping[str, Any], variant: MlflowVariant, baseline: MlflowVariant | None, details: Mapping[str, str]
) -> str:
    """Describe how a trial ended, how its block differs from the baseline's, and the block itself."""
    parts = [f"**{escape(variant.name)}**, seed {row['seed']}: {_ending(row)}."]
    if baseline and baseline != variant:
        parts.append(f"Against the baseline **{escape(baseline.name)}**:")
        parts.append("\n".join(_edit(edit, details) for edit in difference(variant, baseline)))
        parts.append(fenced("diff", _diff(block_text(baseline.block), block_text(variant.block))))
    elif baseline:
        parts.append("The baseline: the other variants are compared with it.")
    parts.append("The block:")
    parts.append(fenced("yaml", block_text(variant.block)))
    return "\n\n".join(part for part in parts if part)


def page_note(page: Page, links: str, report: str) -> str:
    """Describe the question, the design, the status of the trials, and the verdicts."""
    ended = Counter(run.status for run in page.runs)
    endings = ", ".join(f"{count} {status}" for status, count in sorted(ended.items(), key=lambda item: -item[1]))
    against = f", against {code(page.baseline)}" if page.baseline else ""
    parts = [
        paragraph(page.question.strip()),
        f"Design: {escape(page.design)}{against}. {len(page.runs)} of {page.requested} trials have ended: {endings}.",
        links,
        report,
        " ".join([MEANS if report else "", LOADED if len(page.runs) > RUNS_LOADED else ""]).strip(),
        _variant_table(page),
    ]
    return "\n\n".join(part for part in parts if part)


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


def _edit(edit: str, details: Mapping[str, str]) -> str:
    detail = details.get(edit.removeprefix("without "))
    return f"- {code(edit)}" + (f": {escape(detail)}" if detail else "")


def _ending(row: Mapping[str, Any]) -> str:
    steps = f"step {row['ended_step']}"
    if row["status"] == "finished":
        return f"finished at {steps}"
    detail = json.loads(row["detail"] or "{}")
    where = f" in {code(str(detail['address']))}" if isinstance(detail, dict) and detail.get("address") else ""
    return f"**{row['status']}** at {steps}{where}"


def _variant_table(page: Page) -> str:
    lines = ["| variant | edits | parameters | FLOPs per example | trials |", "|---|---|--:|--:|---|"]
    for variant in page.variants:
        ended = Counter(run.status for run in page.runs if run.tags["variant"] == variant.name)
        lines.append(
            f"| {escape(variant.name)} | {', '.join(map(code_cell, variant.edits)) or 'none'} "
            f"| {variant.parameters:,} | {variant.flops / 1e6:,.1f} M | {_counts(ended.items())} |"
        )
    return "\n".join(lines)


def _counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts) or "none ended"
