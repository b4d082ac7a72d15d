"""How to repeat a search, and how to ask which edit of a block matters: an ablation of it, ready to paste."""

from __future__ import annotations

from typing import Any

import yaml

from ablate.report.searched.analysis import SearchAnalysis
from ablate.report.searched.confirmation import Pick, pick
from ablate.report.searched.record import Entry, SearchRecord
from ablate.source.located import to_python
from ablate.source.yaml import parse_yaml


def snippet(record: SearchRecord, entry: Entry) -> str:
    """Return YAML for a space: the block, the values around it, and a path to both from the reference, one edit at a
    time.
    """
    block = f"{entry.name}_block" if entry.around else entry.name
    document: dict[str, Any] = {"blocks": {block: to_python(parse_yaml(entry.block, entry.name))}}
    if entry.around:
        values = {address: to_python(parse_yaml(text, address)) for address, text in entry.around}
        document["variants"] = {entry.name: {"block": block, "set": values}}
    document["design"] = {"path": {"from": record.reference, "to": entry.name}}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=None, width=76)


def how(record: SearchRecord, chosen: Pick) -> str:
    """Return what to do with the snippet."""
    name = chosen.entry.name
    return (
        f"Which edit of {name} matters ({why(record, chosen)})? Copy the space, give it another name and enough seeds, "
        "replace its design with this, check with `ablate plan` what it would train, and `ablate run` it. A line of "
        f"its `block:` that changes neither {record.reference} nor {name} would be refused as having no effect: leave "
        "it out of the copy."
    )


def briefly(record: SearchRecord, chosen: Pick) -> str:
    """Return the question, and where the snippet is."""
    return (
        f"To ask which edit of {chosen.entry.name} matters ({why(record, chosen)}), replace the design of a copy of "
        "the space with the YAML on the page:"
    )


COMMANDS = ("ablate plan COPY.yaml", "ablate run COPY.yaml")
"""The commands to run with the copy."""


def why(record: SearchRecord, chosen: Pick) -> str:
    """Return why this block is chosen for the question."""
    several = len(record.objectives) > 1
    best = "best balanced" if several else "largest gain"
    if chosen.better is None:
        one_of = f"one of {chosen.alike}" if chosen.alike > 1 else "the one"
        return (
            f"on the Pareto front, {one_of} with the largest minimum gain"
            if several
            else f"{one_of} best in the search"
        )
    if len(record.chosen) == 1:
        return "the one that was confirmed" if chosen.better else "the one chosen; it was not found better"
    of_them = f"the {best} of them" if several else f"the one with the {best} of them"
    if not chosen.better:
        return f"of those confirmed none was found better; {of_them}"
    if chosen.alike > 1:
        return f"one of {chosen.alike} that did best of those confirmed; {of_them}"
    return "of those confirmed, it did best"


def chosen(record: SearchRecord, analysis: SearchAnalysis) -> Pick | None:
    """Return the block to ask about, if there is one with edits."""
    candidate = pick(record, analysis)
    return candidate if candidate is not None and candidate.entry.edits else None
