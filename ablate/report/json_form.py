"""The plan table and the screen as JSON, for `--json`: the same content, every number in full.

JSON has no infinity and no NaN: a bound that does not exist is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ablate.plan.plan import Factors, Plan
from ablate.report import footnotes
from ablate.statistics import Floor
from ablate.verdict.power import ClaimPower
from ablate.verdict.summary import Stamp, Summary

if TYPE_CHECKING:
    from ablate.data.corpus_statistics import Epochs


def to_json(summary: Summary, definitions: Mapping[str, str] | None = None, mixed: Sequence[str] = ()) -> str:
    """Return a summary with every arm, effect and definition; `before` and `after` tie effects to arms.

    `mixed` are the versions in which its trials differ, in lines.
    """
    return dump(document(summary, definitions, mixed))


def document(
    summary: Summary, definitions: Mapping[str, str] | None = None, mixed: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the content of `to_json`."""
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
    kernels: Mapping[str, Iterable[Any]] | None = None,
    alike: Sequence[str] | None = None,
    floors: Sequence[Floor] = (),
    claims: Sequence[ClaimPower] = (),
    stamps: Sequence[Stamp] = (),
    failed: Mapping[str, str] | None = None,
    epochs: Sequence[Epochs] = (),
    mixed: Sequence[str] = (),
) -> str:
    """Return a plan's variants, comparisons and trials; the rest as in `screens.plan.plan_screen`.

    `claims` are what is known of the power of each claim, `stamps` when each was made. `epochs` are how much of the
    text the training of each kind of trial reads. The numbers of a variant's `forecast` are defined in
    `ablate/plan/plan.py`; one that is refused has none of them, and the reason.

    `kernels` are the attention backends that each variant tries, by its id, as dataclasses; None leaves them out.
    `alike` are the lines on variants that start alike, likewise.
    """
    forecasts = dict(plan.forecasts)
    return dump(
        {
            "space": plan.space,
            "question": plan.question,
            "design": plan.design,
            "profile": plan.profile,
            "baseline": plan.baseline,
            "seeds": plan.seeds,
            "variants": [
                {
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
            **(
                {"ladders": [{"terms": terms} | asdict(ladder) for terms, ladder in plan.ladders]}
                if plan.ladders
                else {}
            ),
            "floors": [_floor(floor) for floor in floors],
            **(
                {
                    "claims": [
                        asdict(claim) | {"stamp": asdict(stamp)} for claim, stamp in zip(claims, stamps, strict=True)
                    ]
                }
                if claims
                else {}
            ),
            "seconds": seconds,
            "epochs": [{e.noun: e.tokens, "epochs": e.epochs, "repeated": e.repeated} for e in epochs],
            "mixed": mixed,
            **({} if alike is None else {"starting_alike": alike}),
            "notes": plan.notes,
        }
    )


def _factors(factors: Factors) -> dict[str, Any]:
    """Return a factorial; `varied` only where it has factors with several levels."""
    content = asdict(factors)
    return content if factors.varied else {name: value for name, value in content.items() if name != "varied"}


def _floor(floor: Floor) -> dict[str, Any]:
    low, high = floor.sd_interval()
    return asdict(floor) | {"sd_low": low, "sd_high": high}


def dump(document: Mapping[str, object]) -> str:
    """Return a document as JSON; numbers that are not finite are null."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return value
