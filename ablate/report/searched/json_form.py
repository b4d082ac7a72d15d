"""The results of a search as JSON and back: the whole record, its analysis, and the sentences of the screen."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from ablate.report import json_form
from ablate.report.searched import answer, confirmation, sections
from ablate.report.searched.analysis import BEYOND, analyse, edit_counts
from ablate.report.searched.record import SearchRecord
from ablate.report.searched.rows import shown_blocks

if TYPE_CHECKING:
    from ablate.store.durable import JsonValue


def to_json(record: SearchRecord) -> str:
    """Return every entry and number in full; what is not finite is null. Entries are named by their `number`."""
    analysis = analyse(record)
    numbers = [entry.number for entry in record.entries]
    best = confirmation.block_to_ask_about(record, analysis)
    document = asdict(record)
    if not record.varied:
        del document["varied"]
        for entry in document["entries"]:
            del entry["around"]
    document["confirmed"] = None if record.confirmed is None else json_form.document(record.confirmed, record.defined)
    document["definitions"] = sections.definitions(record)
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
        "edits": [asdict(count) for count in edit_counts(record, shown_blocks(record, analysis)[1:])],
        "kept": [
            {
                "block": pair.name,
                "objective": pair.objective.metric,
                "searched_value": pair.value,
                "confirmed_mean": pair.mean,
                "searched_difference": pair.searched,
                "confirmed_difference": pair.effect.estimate,
                "share": pair.share,
            }
            for pair in confirmation.confirmed_differences(record)
        ],
        "next": None
        if best is None
        else {
            "block": best.entry.name,
            "how": confirmation.how_to_ask(record, best),
            "space": confirmation.path_snippet(record, best.entry),
        },
    }
    return json_form.dump(document)


def from_json(text: str) -> SearchRecord:
    """Return the record; ValueError if the text is not one. What was not finite becomes NaN, or None where allowed."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("not an object")
    document["definitions"] = {}  # there these are sentences, not a mapping
    for entry in _objects(document.get("entries")):
        values = entry.get("values") or []
        entry["values"] = [math.nan if v is None else v for v in values] if isinstance(values, list) else values
    confirmed = document.get("confirmed")
    if isinstance(confirmed, dict):
        for arm in _objects(confirmed.get("arms")):
            arm["missing"] = [(lost["seed"], lost["why"]) for lost in _objects(arm.get("missing"))]
    return TypeAdapter(SearchRecord).validate_python(document)


def _objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
