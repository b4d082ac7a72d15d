"""How to repeat a search, and how to ask which edit of a found block matters: an ablation of it, to be pasted."""

from __future__ import annotations

import yaml

from ablate.report.searched.analysis import SearchAnalysis
from ablate.report.searched.confirmation import Pick, pick
from ablate.report.searched.record import Entry, SearchRecord
from ablate.source.located import to_python
from ablate.source.yaml import parse_yaml


def snippet(record: SearchRecord, entry: Entry) -> str:
    """YAML for a space: the block, and a path to it from the reference, an edit at a time."""
    said = {
        "blocks": {entry.name: to_python(parse_yaml(entry.block, entry.name))},
        "design": {"path": {"from": record.reference, "to": entry.name}},
    }
    return yaml.safe_dump(said, sort_keys=False, allow_unicode=True, default_flow_style=None, width=76)


def how(record: SearchRecord, chosen: Pick) -> str:
    """What to do with the snippet."""
    name = chosen.entry.name
    return (
        f"Which edit of {name} matters ({why(record, chosen)})? Copy the space, give it another name and enough seeds, "
        "put this in place of its design, ask `ablate plan` what it would train, and `ablate run` it. A line of its "
        f"`block:` that changes neither {record.reference} nor {name} would be refused there, as having no effect: "
        "leave it out of the copy."
    )


def briefly(record: SearchRecord, chosen: Pick) -> str:
    """The question, and where the snippet is."""
    return (
        f"To ask which edit of {chosen.entry.name} matters ({why(record, chosen)}), put the YAML that the page gives "
        "in place of the design of a copy of the space:"
    )


COMMANDS = ("ablate plan COPY.yaml", "ablate run COPY.yaml")
"""What to do with the copy."""


def why(record: SearchRecord, chosen: Pick) -> str:
    """Why it is this block that is asked about."""
    several = len(record.objectives) > 1
    best = "best balanced" if several else "largest gain"
    if chosen.better is None:
        one_of = f"one of {chosen.alike}" if chosen.alike > 1 else "the one"
        return f"on the front, {one_of} whose least gain is largest" if several else f"{one_of} best in the search"
    if len(record.chosen) == 1:
        return "the one that was confirmed" if chosen.better else "the one chosen; it was not found better"
    of_them = f"the {best} of them" if several else f"the one with the {best} of them"
    if not chosen.better:
        return f"of those confirmed none was found better; {of_them}"
    if chosen.alike > 1:
        return f"one of {chosen.alike} that did best of those confirmed; {of_them}"
    return "of those confirmed, it did best"


def chosen(record: SearchRecord, analysis: SearchAnalysis) -> Pick | None:
    """The block to ask about, if there is one with edits to ask about."""
    one = pick(record, analysis)
    return one if one is not None and one.entry.edits else None
