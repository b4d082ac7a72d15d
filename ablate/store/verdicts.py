"""What was made of the numbers: `verdicts.jsonl`, a line for each time a space was judged.

["judged", digest, {"space": …, "asked": …, "seeds": […], "metrics": […], "effects": […], …}]

The latest line of a space counts. The numbers in it are worked out from those of trials and can be worked out again:
the next run of a space whose line is lost writes it anew. `asked` is a hash of the space as it was resolved.

Between them stand judgements of questions, for the second time: see `questions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ablate.store import lines
from ablate.store.describe import digest
from ablate.store.lines import Appender
from ablate.store.records import ForeignError, JudgedRecord, understood

FILE = "verdicts.jsonl"

Verdicts: TypeAlias = Mapping[str, tuple[str, Mapping[str, Any]]]
"""For each space the latest document with its digest."""

OF_EFFECTS = (
    "kind",
    "change",
    "terms",
    "metric",
    "before",
    "after",
    "n",
    "estimate",
    "low",
    "high",
    "sd",
    "p",
    "p_adjusted",
    "q",
    "p_equivalent",
    "p_equivalent_adjusted",
    "method",
    "df",
    "scale",
    "margin",
    "verdict",
    "differs",
    "seeds_needed",
    "note",
    "ranked",
    "level",
    "judgement",
)
"""What the table `judged` has of an effect, in its order."""


def read(folder: Path) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """The latest verdicts of each space."""
    found = {}
    for record in lines.read(folder / FILE).records:
        match record:
            case ["judged", str(mark), document]:
                found[understood(JudgedRecord, document, folder / FILE)["space"]] = (mark, document)
            case ["judged", *_]:
                raise ForeignError(folder / FILE, "verdicts without their digest")
    return found


def lost(folder: Path, judged: Mapping[str, str]) -> list[str]:
    """The spaces that were judged, by the digest of what was `judged` last, and that no line says this of any more."""
    marks: set[str] = set()
    for record in lines.read(folder / FILE).records:
        match record:
            case ["judged", str(mark), *_]:
                marks.add(mark)
    return sorted(space for space, mark in judged.items() if mark not in marks)


def record(folder: Path, document: Mapping[str, Any]) -> None:
    """Add verdicts, unless the latest of that space are the same; needs the folder's lock."""
    mark = digest(dict(document))
    if read(folder).get(document["space"], ("", {}))[0] == mark:
        return
    appender = Appender(folder / FILE)
    try:
        appender.write([["judged", mark, dict(document)]])
        appender.sync()
    finally:
        appender.close()


def rows(space: str, document: Mapping[str, Any], resolved: Any) -> list[tuple[Any, ...]]:
    """The rows of the table `judged` for a space that is now resolved so."""
    current = document["asked"] == digest(resolved)
    better = {metric["name"]: metric["better"] for metric in document["metrics"]}
    about = (better, document["confidence"], len(document["seeds"]), current)
    return [(space, position, *_row(effect, *about)) for position, effect in enumerate(document["effects"], 1)]


def _row(
    effect: Mapping[str, Any], better: Mapping[str, str], confidence: float, seeds: int, current: bool
) -> tuple[Any, ...]:
    values = (_number(effect.get(name)) for name in OF_EFFECTS)
    return (*values, better.get(effect["metric"]), confidence, seeds, current)


def _number(value: Any) -> Any:
    """What JSON has no number for stands in a line as text."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
