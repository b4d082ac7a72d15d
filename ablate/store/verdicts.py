"""The verdicts: `verdicts.jsonl`, a line for each time a space was judged.

["judged", digest, {"space": …, "asked": …, "seeds": […], "metrics": […], "effects": […], …}]

The latest line of a plan counts; a plan is identified by its space and by `asked`, a hash of the space as it was
resolved. `ended` is a hash of how its trials had ended.
The numbers in it are computed from those of trials and can be computed again: the next run of a plan whose line is lost
rewrites it.

Between them are second copies of the judgements of questions: see `questions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ablate.store import checksummed_lines
from ablate.store.checksummed_lines import Appender, Reading
from ablate.store.records import ForeignError, JudgedRecord, effect_fields, understood
from ablate.store.schema import TABLES
from ablate.store.serialise import digest, plan_id

FILE = "verdicts.jsonl"
HEAD = re.compile(rb'\["judged","([^"]*)"')

Verdicts: TypeAlias = Mapping[str, Mapping[str, tuple[str, Mapping[str, Any]]]]
"""For each space, and each of its judged plans, the latest document with its digest."""


def read(folder: Path) -> dict[str, dict[str, tuple[str, Mapping[str, Any]]]]:
    """Read the latest verdicts of each space, by the ids of its plans."""
    latest: dict[str, dict[str, tuple[str, Mapping[str, Any]]]] = {}
    for record in checksummed_lines.read(folder / FILE).records:
        match record:
            case ["judged", str(mark), document]:
                space = understood(JudgedRecord, document, folder / FILE)["space"]
                latest.setdefault(space, {})[plan_of(document)] = mark, document
            case ["judged", *_]:
                raise ForeignError(folder / FILE, "verdicts without their digest")
    return latest


def marks(reading: Reading) -> set[str]:
    """Return the digests of all verdicts."""
    return {head[1].decode() for body in reading.bodies if (head := HEAD.match(body))}


def record(folder: Path, document: Mapping[str, Any]) -> None:
    """Add verdicts, unless the latest ones of that plan are the same; needs the folder's lock."""
    mark = digest(dict(document))
    if read(folder).get(document["space"], {}).get(plan_of(document), ("", {}))[0] == mark:
        return
    appender = Appender(folder / FILE)
    try:
        appender.write([["judged", mark, dict(document)]])
        appender.sync()
    finally:
        appender.close()


def ended_digest(states: Mapping[str, str]) -> str:
    """Return a hash of how trials, by id, have ended."""
    return digest(sorted(states.items()))


def plan_of(document: Mapping[str, Any]) -> str:
    """Return the id of the plan that was judged."""
    return plan_id(document["space"], asked=document["asked"])


def rows(document: Mapping[str, Any], *, current: bool) -> list[tuple[Any, ...]]:
    """Return the rows of the table `judged` for a plan; `current` says whether it is its space's current one."""
    judged, fields = TABLES["judged"], effect_fields()
    better = {metric["name"]: metric["better"] for metric in document["metrics"]}
    whole = {"space": document["space"], "plan": plan_of(document), "current": current}
    whole |= {"confidence": document["confidence"], "seeds": len(document["seeds"])}
    return [
        judged.row(
            {name: number(effect.get(field)) for name, field in fields.items()}
            | {**whole, "position": position, "better": better.get(effect["metric"])}
        )
        for position, effect in enumerate(document["effects"], 1)
    ]


def size_rows(document: Mapping[str, Any], *, current: bool) -> list[tuple[Any, ...]]:
    """Return the rows of the table `sizes` for a plan: none where it has no ladder."""
    table, whole = TABLES["sizes"], {"space": document["space"], "plan": plan_of(document), "current": current}
    every = [(ladder, size) for ladder in document.get("ladders", ()) for size in ladder["sizes"]]
    rows = []
    for position, (ladder, size) in enumerate(every, 1):
        of_both = {**ladder, **size, "before_id": size["before"], "after_id": size["after"]}
        known = {name: number(of_both.get(name)) for name in table.names}
        rows.append(table.row({**known, **whole, "position": position}))
    return rows


def number(value: Any) -> Any:
    """Convert NaN and infinities, which a line holds as text."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
