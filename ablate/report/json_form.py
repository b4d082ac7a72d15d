"""Verdicts, plans and whole reports as JSON, for programs: the same content as on screens, every number in full.

JSON has no infinity and no NaN: a bound that does not exist is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, get_args

from ablate.plan.plan import Factors, Plan, Variant
from ablate.report import document as doc
from ablate.report import footnotes
from ablate.report.document import plain
from ablate.statistics import Floor
from ablate.verdict.power import ClaimPower
from ablate.verdict.summary import Stamp, Summary, Verdict

if TYPE_CHECKING:
    from ablate.data.corpus_statistics import Epochs
    from ablate.execute.machine import KernelOrder
    from ablate.store.durable import JsonValue


def to_json(summary: Summary, definitions: Mapping[str, str] | None = None, mixed: Sequence[str] = ()) -> str:
    """Return a summary with every arm, effect and definition; `before` and `after` tie effects to arms.

    `mixed` are the versions in which its trials differ, in lines.
    """
    return dump(document(summary, definitions, mixed))


def document(
    summary: Summary, definitions: Mapping[str, str] | None = None, mixed: Sequence[str] = ()
) -> dict[str, JsonValue]:
    content = asdict(summary)
    for arm, described in zip(summary.arms, content["arms"], strict=True):
        described["missing"] = [{"seed": seed, "why": why} for seed, why in arm.missing]
        described["success"] = arm.success(summary.confidence)
    for name in ("expectations", "ladders"):  # what only some spaces have
        if not content[name]:
            del content[name]
    for claim, described in zip(summary.expectations, content.get("expectations", ()), strict=True):
        described["outcome"] = claim.outcome
        described["effect"] = None if claim.effect is None else asdict(claim.effect)
        if claim.correlation is not None:
            described["correlation"]["sign"] = claim.correlation.sign
    content["factors"] = [[terms, _factors(factors)] for terms, factors in summary.factors]
    content["decided"] = summary.decided
    content["peculiarities"] = footnotes.peculiarities(summary)
    content["mixed"] = mixed
    content["definitions"] = footnotes.definitions(summary, definitions or {})
    return content


def plan_to_json(
    plan: Plan,
    known: Container[str],
    *,
    seconds: float | None = None,
    kernels: Mapping[str, Iterable[KernelOrder]] | None = None,
    alike: Sequence[str] | None = None,
    floors: Sequence[Floor] = (),
    claims: Sequence[ClaimPower] = (),
    stamps: Sequence[Stamp] = (),
    failed: Mapping[str, str] | None = None,
    epochs: Sequence[Epochs] = (),
    mixed: Sequence[str] = (),
) -> str:
    """Return a plan's variants, comparisons and trials; the rest as in `screens.plan.plan_screen`.

    `claims` are the power of each claim, `stamps` when each was made, and `epochs` how much of the text the training of
    each kind of trial reads. A `forecast` is defined in `plan/plan.py`; a refused one has only the reason. `kernels`
    are the attention backends that each variant tries, by its id, `alike` the lines on variants that start alike; None
    leaves either out.
    """
    forecasts = dict(plan.forecasts)
    ladders = [{"terms": terms} | asdict(ladder) for terms, ladder in plan.ladders]
    dated = [asdict(c) | {"stamp": asdict(s)} for c, s in zip(claims, stamps, strict=True)] if claims else []
    return dump(
        {
            "space": plan.space,
            "question": plan.question,
            "design": plan.design,
            "profile": plan.profile,
            "baseline": plan.baseline,
            "seeds": plan.seeds,
            "variants": [
                _variant(variant)
                | ({} if kernels is None else {"kernels": [asdict(use) for use in kernels.get(variant.id, ())]})
                | ({"forecast": asdict(forecasts[variant.id])} if variant.id in forecasts else {})
                for variant in plan.variants
            ],
            "comparisons": [asdict(comparison) for comparison in plan.comparisons],
            "trials": [
                {
                    "id": trial.id,
                    "variant": trial.variant,
                    "seed": trial.seed,
                    "split": trial.split,
                    "known": trial.id in known,
                    "failed": (failed or {}).get(trial.id),
                }
                for trial in plan.trials
            ],
            "looks": plan.looks,
            "open": plan.open,
            "factors": [{"terms": terms} | _factors(factors) for terms, factors in plan.factors],
            **({"ladders": ladders} if ladders else {}),
            "floors": [_floor(floor) for floor in floors],
            **({"claims": dated} if claims else {}),
            "seconds": seconds,
            "epochs": [{e.noun: e.tokens, "epochs": e.epochs, "repeated": e.repeated} for e in epochs],
            "mixed": mixed,
            **({} if alike is None else {"starting_alike": alike}),
            "notes": plan.notes,
        }
    )


def _variant(variant: Variant) -> dict[str, JsonValue]:
    return {
        "id": variant.id,
        "names": variant.names,
        "edits": variant.edits,
        "parameters": variant.parameters,
        "flops": variant.flops,
        "training_flops": variant.cost.training_flops,
        "terms": variant.terms,
        "setting": asdict(variant.setting),
        "breaks": [{"constraint": name, "because": because} for name, because in variant.breaks],
    }


def _factors(factors: Factors) -> dict[str, JsonValue]:
    content = asdict(factors)
    return content if factors.varied else {name: value for name, value in content.items() if name != "varied"}


def _floor(floor: Floor) -> dict[str, JsonValue]:
    low, high = floor.sd_interval()
    return asdict(floor) | {"sd_low": low, "sd_high": high}


def dump(document: Mapping[str, JsonValue]) -> str:
    """Numbers that are not finite are null."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return value


# A report as JSON. A part is an object whose `part` gives its kind. A plot is its caption and the key of its shades,
# without the drawing. Words that contain verdicts are the text and its `verdicts`, each with its words.


def render(document: doc.ReportDocument) -> dict[str, JsonValue]:
    """Return the content as objects, lists and texts; the same document gives the same content."""
    return {"title": document.title, "about": list(document.about), "parts": _parts(document.parts)}


def _parts(parts: Iterable[doc.Part]) -> list[dict[str, JsonValue]]:
    return [_part(part) for part in parts]


def _part(part: doc.Part) -> dict[str, JsonValue]:
    match part:
        case doc.Lead(sentences):
            return {"part": "lead", "sentences": list(sentences)}
        case doc.Statements(lines):
            return {"part": "statements", "lines": [{"mark": line.mark, "words": _words(line.words)} for line in lines]}
        case doc.Prose(text, kind):
            return {"part": "prose", "kind": kind, "text": _words(text)}
        case doc.BulletList(lines, kind):
            return {"part": "list", "kind": kind, "lines": list(lines)}
        case doc.Verbatim(text, language):
            return {"part": "verbatim", "language": language, "text": text}
        case doc.VerdictGrid(title, heading, rows):
            cells: list[JsonValue] = [{"name": name, "cells": list(map(_cell, of))} for name, of in rows]
            return {"part": "verdicts", "title": title, "heading": list(heading), "rows": cells}
        case doc.TableOf(grid):
            return _table(grid)
        case doc.GroupedTable() | doc.FrontTable():
            return _table(part.grid)
        case doc.Figure(_, caption, key):
            shades: list[JsonValue] = [{"shade": shade, "text": text} for shade, text in key]
            return {"part": "figure", "caption": caption, "key": shades}
        case doc.Group(parts):
            return {"part": "group", "parts": _parts(parts)}
        case doc.Stacked(parts):
            return {"part": "stacked", "parts": _parts(parts)}
        case doc.Fold(summary, parts, name, code):
            return {"part": "fold", "summary": summary, "name": name, "code": list(code), "parts": _parts(parts)}
        case doc.Section(title, parts, folded, note):
            return {"part": "section", "title": title, "note": note, "folded": folded, "parts": _parts(parts)}


def _cell(cell: doc.Cell) -> dict[str, str | None]:
    return {"verdict": None if cell.verdict == "none" else cell.verdict, "words": cell.words, "number": cell.number}


def _table(grid: doc.Grid) -> dict[str, JsonValue]:
    return {
        "part": "table",
        "title": grid.title,
        "note": grid.note,
        "heading": list(grid.heading),
        "rows": [list(map(_words, row)) for row in grid.rows],
        "remarks": list(grid.remarks),
        "caveats": list(grid.caveats),
    }


def _words(words: doc.Words) -> JsonValue:
    spans = () if isinstance(words, str) else words
    verdicts = [{"verdict": span.tone, "text": span.text} for span in spans if span.tone in get_args(Verdict)]
    return {"text": plain(words), "verdicts": verdicts} if verdicts else plain(words)
