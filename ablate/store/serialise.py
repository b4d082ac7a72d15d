"""A trial, a plan and what goes with it as JSON: stable, complete, and with the blocks printed as one writes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ablate.block.expression import Node
from ablate.block.printer import print_block, print_value
from ablate.plan.identity import SCHEME
from ablate.plan.plan import Comparison, KeptProposal, Plan, Variant
from ablate.plan.setting import PLAIN
from ablate.plan.trial import Trial
from ablate.space.metrics import Definition
from ablate.store.checksummed_lines import compact


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What is kept with a plan.

    `source` is the text of the space's file, `resolved` the whole of what it meant with nothing left out, `corpus` the
    corpus report. All of it as JSON would hold it.
    """

    source: str
    resolved: Mapping[str, Any] = field(default_factory=dict)
    definitions: Iterable[Definition] = ()
    corpus: Mapping[str, Any] = field(default_factory=dict)


def trial_document(trial: Trial) -> dict[str, Any]:
    """Everything a trial's numbers depend on."""
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
        },
        "data": trial.data.model_dump(mode="json"),
        "recipe": trial.recipe.model_dump(mode="json"),
        "measure": trial.measure.model_dump(mode="json"),
    }


def plan_document(plan: Plan, documents: Documents) -> dict[str, Any]:
    """A plan and what is kept with it; its trials by id, with the variant and seed they have in this space."""
    return {
        "space": plan.space,
        "question": plan.question,
        "design": plan.design,
        "baseline": _baseline(plan),
        "seeds": list(plan.seeds),
        "notes": list(plan.notes),
        "variants": [_variant(variant) for variant in plan.variants],
        "comparisons": [_comparison(comparison) for comparison in plan.comparisons],
        "trials": [[trial.id, trial.variant, trial.seed] for trial in plan.trials],
        "proposals": [_proposal(one) for one in plan.proposals],
        "open": plan.open,
        **_given(looks=list(plan.looks), factors=[[terms, asdict(factors)] for terms, factors in plan.factors]),
        "source": documents.source,
        "resolved": dict(documents.resolved),
        "definitions": [asdict(definition) for definition in documents.definitions],
        "corpus": dict(documents.corpus),
    }


def digest(document: Any) -> str:
    """A short hash of a document as it would be written: equal text, equal digest."""
    return hashlib.sha256(compact(document).encode()).hexdigest()[:16]


def plan_id(space: str, *, asked: str) -> str:
    """What tells a plan from the others of its space: the digest of all that its file, grammar and `--set` came to."""
    return digest([space, asked])


def _baseline(plan: Plan) -> str:
    """The id of the variant that the plan compares with, which it may call by any of its names."""
    return next((v.id for v in plan.variants if plan.baseline == v.id or plan.baseline in v.names), plan.baseline)


def _proposal(one: KeptProposal) -> dict[str, Any]:
    """The derivation as text: its number may be beyond 64 bits."""
    return {**asdict(one), "derivation": str(one.derivation)}


def _given(**values: Any) -> dict[str, Any]:
    """What is not empty: a plan that has none of it is written as it was before there was such a thing."""
    return {name: value for name, value in values.items() if value}


def _comparison(comparison: Comparison) -> dict[str, Any]:
    told = asdict(comparison)
    weights, terms = told.pop("weights"), told.pop("terms")
    return {**told, **_given(weights=[list(one) for one in weights], terms=terms)}


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
        **_given(terms=list(variant.terms), setting=None if variant.setting == PLAIN else asdict(variant.setting)),
        **_given(breaks=[{"constraint": name, "because": because} for name, because in variant.breaks]),
    }


def _node(node: Node | None) -> str | None:
    return None if node is None else print_value(node)
