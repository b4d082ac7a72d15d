"""What was made of the numbers: `verdicts.jsonl`, a line for each time a space was judged.

["judged", digest, {"space": …, "asked": …, "seeds": […], "metrics": […], "effects": […], …}]

The latest line of a plan counts, which is known by its space and by `asked`, a hash of the space as it was resolved;
`ended` is a hash of how its trials had ended.
The numbers in it are worked out from those of trials and can be worked out again: the next run of a plan whose line is
lost writes it anew.

Between them stand judgements of questions, for the second time: see `questions`.
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
"""For each space, and each of its plans that was judged, the latest document with its digest."""


def read(folder: Path) -> dict[str, dict[str, tuple[str, Mapping[str, Any]]]]:
    """The latest verdicts of each space, by the ids of its plans."""
    found: dict[str, dict[str, tuple[str, Mapping[str, Any]]]] = {}
    for record in checksummed_lines.read(folder / FILE).records:
        match record:
            case ["judged", str(mark), document]:
                space = understood(JudgedRecord, document, folder / FILE)["space"]
                found.setdefault(space, {})[plan_of(document)] = mark, document
            case ["judged", *_]:
                raise ForeignError(folder / FILE, "verdicts without their digest")
    return found


def marks(reading: Reading) -> set[str]:
    """The digests of all that was judged."""
    return {head[1].decode() for body in reading.bodies if (head := HEAD.match(body))}


def record(folder: Path, document: Mapping[str, Any]) -> None:
    """Add verdicts, unless the latest of that plan are the same; needs the folder's lock."""
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
    """A hash of how trials, by id, have ended."""
    return digest(sorted(states.items()))


def plan_of(document: Mapping[str, Any]) -> str:
    """The id of the plan that was judged."""
    return plan_id(document["space"], asked=document["asked"])


def rows(document: Mapping[str, Any], *, current: bool) -> list[tuple[Any, ...]]:
    """The rows of the table `judged` for a plan, which may be the one that its space was last asked as."""
    judged, fields = TABLES["judged"], effect_fields()
    better = {metric["name"]: metric["better"] for metric in document["metrics"]}
    whole = {"space": document["space"], "plan": plan_of(document), "current": current}
    whole |= {"confidence": document["confidence"], "seeds": len(document["seeds"])}
    return [
        judged.row(
            {name: _number(effect.get(field)) for name, field in fields.items()}
            | {**whole, "position": position, "better": better.get(effect["metric"])}
        )
        for position, effect in enumerate(document["effects"], 1)
    ]


def _number(value: Any) -> Any:
    """What JSON has no number for stands in a line as text."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
