"""Trials and plans as JSON: stable, complete, and with blocks printed as in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ablate.block.added import untold
from ablate.block.expression import Node
from ablate.block.printer import print_block, print_value
from ablate.plan.forecast import Forecast
from ablate.plan.identity import SCHEME
from ablate.plan.plan import Comparison, Factors, KeptProposal, Plan, Variant
from ablate.plan.setting import PLAIN, Setting
from ablate.plan.trial import Trial
from ablate.space.metrics import Definition
from ablate.store.checksummed_lines import compact


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What is kept with a plan.

    `source` is the text of the space's file, `resolved` the complete space with all defaults, `corpus` the corpus
    report, all of it as JSON values.
    """

    source: str
    resolved: Mapping[str, Any] = field(default_factory=dict)
    definitions: Iterable[Definition] = ()
    corpus: Mapping[str, Any] = field(default_factory=dict)


def trial_document(trial: Trial) -> dict[str, Any]:
    """Return everything that a trial's numbers depend on."""
    architecture = trial.architecture
    return {
        "trial": trial.id,
        "variant": trial.variant,
        "seed": trial.seed,
        "salt": trial.salt,
        "threads": trial.threads,
        "corpus": trial.corpus,
        "conditions": trial.conditions,
        "identity": SCHEME,
        "split": trial.split,
        "folder": trial.folder,
        "architecture": {
            "kind": architecture.kind,
            "sizes": asdict(architecture.sizes),
            "block": print_block(architecture.block),
            "positions": architecture.positions,
            "position_std": None,
            **architecture.numbers(),
            "embedding_dropout": architecture.embedding_dropout,
            "position_rows": architecture.position_rows,
            "tied": architecture.tied,
            "entry_norm": _node(architecture.entry_norm),
            "final_norm": _node(architecture.final_norm),
            "init": _node(architecture.init),
            **_given(logit_softcap=architecture.logit_softcap),
            **({} if architecture.share is None else {"share": str(architecture.share)}),
            **({"ahead": architecture.ahead} if architecture.ahead else {}),
            **_given(encoder_layers=architecture.encoder_layers, input_shape=architecture.input_shape),
            **_given(patch=architecture.patch, pooling=architecture.pooling, head_layer=architecture.head_layer),
            **({} if architecture.head_init is None else {"head_init": _node(architecture.head_init)}),
        },
        "data": trial.data.model_dump(mode="json", exclude=untold(trial.data)),
        "recipe": trial.recipe.model_dump(mode="json", exclude=untold(trial.recipe)),
        "measure": trial.measure.model_dump(mode="json", exclude=untold(trial.measure)),
    }


def plan_document(plan: Plan, documents: Documents) -> dict[str, Any]:
    """Return a plan and what is kept with it; its trials by id, with their variant and seed in this space."""
    forecasts = dict(plan.forecasts)
    return {
        "space": plan.space,
        "question": plan.question,
        "design": plan.design,
        "baseline": _baseline(plan),
        "seeds": list(plan.seeds),
        "notes": list(plan.notes),
        "variants": [_variant(variant) | _forecast(forecasts.get(variant.id)) for variant in plan.variants],
        "comparisons": [_comparison(comparison) for comparison in plan.comparisons],
        "trials": [[trial.id, trial.variant, trial.seed] for trial in plan.trials],
        "proposals": [_proposal(proposal) for proposal in plan.proposals],
        "open": plan.open,
        **_given(looks=list(plan.looks), factors=[[terms, _factors(factors)] for terms, factors in plan.factors]),
        **_given(ladders=[[terms, asdict(ladder)] for terms, ladder in plan.ladders]),
        "source": documents.source,
        "resolved": dict(documents.resolved),
        "definitions": [asdict(definition) for definition in documents.definitions],
        "corpus": dict(documents.corpus),
    }


def digest(document: Any) -> str:
    """Return a short hash of a document as written: equal text, equal digest."""
    return hashlib.sha256(compact(document).encode()).hexdigest()[:16]


def plan_id(space: str, *, asked: str) -> str:
    """Return the id of a plan: the digest of its space's name and of `asked`, the digest of the resolved space."""
    return digest([space, asked])


def _baseline(plan: Plan) -> str:
    """Return the id of the plan's baseline, which the plan may call by any of its names."""
    return next((v.id for v in plan.variants if plan.baseline == v.id or plan.baseline in v.names), plan.baseline)


def _proposal(proposal: KeptProposal) -> dict[str, Any]:
    """Return a proposal, its derivation as text, since that number may exceed 64 bits."""
    document = {**asdict(proposal), "derivation": str(proposal.derivation)}
    skipped = [list(pair) for pair in document.pop("skipped")]
    return {**document, **_given(skipped=skipped)}


def _given(**values: Any) -> dict[str, Any]:
    """Return the values that are not empty, so that plans without them are written as by earlier versions."""
    return {name: value for name, value in values.items() if value}


def _factors(factors: Factors) -> dict[str, Any]:
    """Return a factorial, without factors of several levels where there are none."""
    document = asdict(factors)
    varied = document.pop("varied")
    return {**document, **_given(varied=varied)}


def _comparison(comparison: Comparison) -> dict[str, Any]:
    document = asdict(comparison)
    weights, terms, unpaired = (document.pop(name) for name in ("weights", "terms", "unpaired"))
    return {**document, **_given(weights=[list(pair) for pair in weights], terms=terms, unpaired=list(unpaired))}


def _variant(variant: Variant) -> dict[str, Any]:
    return {
        "id": variant.id,
        "name": variant.name,
        "names": list(variant.names),
        "edits": list(variant.edits),
        "parameters": variant.parameters,
        "flops": variant.flops,
        **_given(spared=variant.spared),
        "block": print_block(variant.block),
        **_given(terms=list(variant.terms), setting=_setting(variant.setting)),
        **_given(breaks=[{"constraint": name, "because": because} for name, because in variant.breaks]),
    }


def _forecast(forecast: Forecast | None) -> dict[str, Any]:
    """Return a forecast; nothing of a plan without, which is written as by earlier versions."""
    if forecast is None:
        return {}
    return {"forecast": {name: value for name, value in asdict(forecast).items() if name != "kinds"}}


def _setting(setting: Setting) -> dict[str, Any] | None:
    """Return a setting, without changes where there are none, so that plans are written as by earlier versions."""
    if setting == PLAIN:
        return None
    document = asdict(setting)
    changes = document.pop("changes")
    return {**document, **_given(changes=[list(change) for change in changes])}


def _node(node: Node | None) -> str | None:
    return None if node is None else print_value(node)
