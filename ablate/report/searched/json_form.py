"""What a search found, as JSON and back: the record whole, what follows from it, and the sentences of the screen."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from ablate.report import json_form
from ablate.report.searched import answer, ask_next, glossary
from ablate.report.searched.analysis import BEYOND, analyse, edit_counts
from ablate.report.searched.confirmation import kept
from ablate.report.searched.record import SearchRecord
from ablate.report.searched.rows import shown_blocks


def to_json(record: SearchRecord) -> str:
    """Every entry and number in full; entries are named by their `number`. What is not finite is null."""
    analysis = analyse(record)
    numbers = [entry.number for entry in record.entries]
    best = ask_next.chosen(record, analysis)
    document = asdict(record)
    document["confirmed"] = None if record.confirmed is None else json_form.document(record.confirmed, record.defined)
    document["definitions"] = glossary.definitions(record)
    document |= {
        "answers": answer.answers(record, analysis),
        "warnings": answer.warnings(record, analysis),
        "front": [numbers[place] for place in analysis.front],
        "compared": [numbers[place] for place in analysis.compared],
        "beating": [numbers[place] for place in analysis.beating],
        "better_in": {
            objective.metric: [numbers[place] for place in better]
            for objective, better in zip(record.objectives, analysis.better_in, strict=True)
        },
        "curve": {
            "what": f"best {record.objectives[0].metric} so far" if len(record.objectives) == 1 else "hypervolume",
            "values": analysis.curve,
            "ideal": analysis.ideal,
            "worst": analysis.worst,
            "beyond_worst": BEYOND,
        },
        "edits": [asdict(one) for one in edit_counts(record, shown_blocks(record, analysis)[1:])],
        "kept": [
            {
                "block": one.name,
                "objective": one.objective.metric,
                "searched_value": one.value,
                "confirmed_mean": one.mean,
                "searched_difference": one.searched,
                "confirmed_difference": one.effect.estimate,
                "share": one.share,
            }
            for one in kept(record)
        ],
        "next": None
        if best is None
        else {
            "block": best.entry.name,
            "how": ask_next.how(record, best),
            "space": ask_next.snippet(record, best.entry),
        },
    }
    return json_form.dump(document)


def from_json(text: str) -> SearchRecord:
    """The record; ValueError where the text is none. What was not finite is NaN in it, or None where that may be."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("not an object")
    document["definitions"] = {}  # sentences there, and no mapping
    for entry in _objects(document.get("entries")):
        entry["values"] = [math.nan if value is None else value for value in entry.get("values") or ()]
    confirmed = document.get("confirmed")
    if isinstance(confirmed, dict):
        for arm in _objects(confirmed.get("arms")):
            arm["missing"] = [(one["seed"], one["why"]) for one in _objects(arm.get("missing"))]
    return TypeAdapter(SearchRecord).validate_python(document)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
