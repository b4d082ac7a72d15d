"""Texts that MLflow accepts: names of parameters, colours, values of limited length, and descriptions in Markdown."""

from __future__ import annotations

import colorsys
import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import yaml

from ablate.output.markdown import code, code_cell, escape, fenced, paragraph
from ablate.output.words import of_profile

if TYPE_CHECKING:
    from ablate.store.mlflow.pages import MlflowVariant, Page

PARAM_LENGTH, TAG_LENGTH, NAME_LENGTH = 6000, 8000, 200
"""The longest values that MLflow keeps, and the longest name used."""
BASELINE_COLOUR = "#5f6b7a"
GOLDEN_ANGLE = 0.381966
"""As a fraction of a circle: hues this far apart stay distinguishable, however many there are."""
WIDTH = 88
"""Maximum width of a part of a block on one line."""
MEANS = (
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
        brief[edit] = _plain(f"{name}@{place}" if at and value else name)
    times, keys = Counter(brief.values()), dict[str, str]()
    for edit, name in brief.items():
        key = f"edit.{name if times[name] == 1 else _plain(edit)}"[:NAME_LENGTH]
        others = (f"{key}.{number}" for number in count(2))
        keys[edit] = key if key not in keys.values() else next(key for key in others if key not in keys.values())
    return keys


def _plain(edit: str) -> str:
    """Return the letters, digits, `_`, `-` and `.` of an edit, and other signs as words or dots."""
    text = re.sub(r"^\+", "add_", re.sub(r"^-", "remove_", edit)).replace("->", "_to_")
    text = re.sub(r"[@#+]", ".", text)
    return re.sub(r"[^\w.\-]+|_{2,}", "_", text).strip("_.") or "edit"


def colour(position: int, *, baseline: bool) -> str:
    """Return the colour of a variant's runs: grey for the baseline, else a hue of its own."""
    if baseline:
        return BASELINE_COLOUR
    red, green, blue = colorsys.hls_to_rgb((0.58 + position * GOLDEN_ANGLE) % 1, 0.45, 0.72)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def short(text: str, length: int) -> str:
    """Truncate a text with an ellipsis where it is longer than MLflow keeps."""
    return text if len(text) <= length else text[: length - 1] + "…"


def short_lines(text: str, length: int, rest: str) -> str:
    """Truncate a text after a whole line where it is too long, and append `rest`, which says where the full text is."""
    if len(text) <= length:
        return text
    room = text[: length - len(rest) - 2]
    return f"{room.rpartition(chr(10))[0] or room}\n\n{rest}"


def difference(variant: MlflowVariant, baseline: MlflowVariant) -> tuple[str, ...]:
    """Return the edits that a variant has and the baseline does not, and vice versa (`without …`)."""
    more = [edit for edit in variant.edits if edit not in baseline.edits]
    less = [f"without {edit}" for edit in baseline.edits if edit not in variant.edits]
    return (*more, *less)


def run_note(
    seed: int, ending: str, variant: MlflowVariant, baseline: MlflowVariant | None, details: Mapping[str, str]
) -> str:
    parts = [f"**{escape(variant.name)}**, seed {seed}: {ending}."]
    if baseline and baseline != variant:
        parts.append(f"Against the baseline **{escape(baseline.name)}**:")
        edits = [(edit, details.get(edit.removeprefix("without "))) for edit in difference(variant, baseline)]
        parts.append("\n".join(f"- {code(edit)}" + (f": {escape(detail)}" if detail else "") for edit, detail in edits))
        parts.append(fenced("diff", _diff(block_text(baseline.block), block_text(variant.block))))
    elif baseline:
        parts.append("The baseline: the other variants are compared with it.")
    parts += ["The block:", fenced("yaml", block_text(variant.block))]
    return "\n\n".join(part for part in parts if part)


def page_note(page: Page, links: str, report: str) -> str:
    endings = Counter(run.status for run in page.runs)
    against = f", against {code(page.baseline)}" if page.baseline else ""
    ended = f"{len(page.runs)} of {page.requested} trials have ended: {_counts(endings.most_common())}."
    parts = [
        paragraph(page.question.strip()),
        *(f"**{escape(line)}**" for line in of_profile(page.profile or None)),
        f"Design: {escape(page.design)}{against}. {ended}",
        links,
        report,
        " ".join([MEANS if report else "", LOADED if len(page.runs) > RUNS_LOADED else ""]).strip(),
        "| variant | edits | parameters | FLOPs per example | trials |\n|---|---|--:|--:|---|",
    ]
    for variant in page.variants:
        statuses = Counter(run.status for run in page.runs if run.tags["variant"] == variant.name)
        parts[-1] += (
            f"\n| {escape(variant.name)} | {', '.join(map(code_cell, variant.edits)) or 'none'} "
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


def ending(status: str, step: int, detail: str | None) -> str:
    if status == "finished":
        return f"finished at step {step}"
    known = json.loads(detail or "{}")
    where = f" in {code(str(known['address']))}" if isinstance(known, dict) and known.get("address") else ""
    return f"**{status}** at step {step}{where}"
