"""How to repeat a search, and how to ask which edit of a found block matters: an ablation of it, to be pasted."""

from __future__ import annotations

import yaml

from ablate.report.searched.held import shown_first
from ablate.report.searched.reckoned import Reckoned
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


def how(record: SearchRecord, entry: Entry) -> str:
    """What to do with the snippet."""
    why = _BALANCED if len(record.objectives) > 1 else "the best in the search"
    if record.confirmed is not None and record.chosen:
        why = "of those confirmed, it did best"
    return (
        f"Which edit of {entry.name} matters ({why})? Copy the space, give it another name and enough seeds, put this "
        "in place of its design, ask `ablate plan` what it would train, and `ablate run` it:"
    )


_BALANCED = "on the front, the one whose least gain is largest"


def chosen(record: SearchRecord, found: Reckoned) -> Entry | None:
    """The block to ask about, if there is one with edits to ask about."""
    entry = shown_first(record, found)
    return entry if entry is not None and entry.edits else None
