"""The record of a search from its JSON, as `json_form` wrote it when the search ran."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic import TypeAdapter

from ablate.report.searched.record import SearchRecord


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
