"""Trials and plans as JSON: stable, complete, and with blocks printed as in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from ablate.block.added import untold
from ablate.block.architecture import Architecture
from ablate.block.expression import Node
from ablate.block.printer import print_block, print_value
from ablate.plan.forecast import Forecast
from ablate.plan.identity import SCHEME
from ablate.plan.plan import Comparison, Factors, KeptProposal, Plan, Variant
from ablate.plan.setting import PLAIN, Setting
from ablate.plan.trial import Trial
from ablate.space.documents import Data, Measure, Recipe
from ablate.space.metrics import Definition
from ablate.store.checksummed_lines import compact
from ablate.store.documents import Specification


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What is kept with a plan.

    `source` is the text of the space's file, `resolved` the complete space with all defaults, `corpus` the corpus
    report, all of it as JSON values. `sources` are the files that decided it, by name, each with its hash,
    `profile` and `settings` what was laid over the space. `texts` say what planning needs of the texts: the
    first is that of the space, the others are those of treatments that change it.
    """

    source: str
    resolved: Mapping[str, object] = field(default_factory=dict)
    definitions: Iterable[Definition] = ()
    corpus: Mapping[str, object] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None
    settings: tuple[str, ...] = ()
    texts: tuple[Mapping[str, object], ...] = ()


def trial_document(trial: Trial, parts: dict[int, object] | None = None) -> dict[str, object]:
    """Return everything that a trial's numbers depend on; `parts` has what trials share, by identity, made once."""
    made = {} if parts is None else parts
    for part in (trial.architecture, trial.data, trial.recipe, trial.measure):
        if id(part) not in made:
            made[id(part)] = _part(part)
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
        "architecture": made[id(trial.architecture)],
        "data": made[id(trial.data)],
        "recipe": made[id(trial.recipe)],
        "measure": made[id(trial.measure)],
    }


def _part(part: Architecture | Data | Recipe | Measure) -> dict[str, object]:
    if not isinstance(part, Architecture):
        return part.model_dump(mode="json", exclude=untold(part))
    architecture = part
    return {
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
        **_given(ahead=architecture.ahead, encoder_layers=architecture.encoder_layers),
        **_given(input_shape=architecture.input_shape),
        **_given(patch=architecture.patch, pooling=architecture.pooling, head_layer=architecture.head_layer),
        **({} if architecture.head_init is None else {"head_init": _node(architecture.head_init)}),
    }


def trained_as(document: Specification) -> str:
    """Return a short hash of how a trial is trained, apart from its block and seed: recipe, text, sizes and what is
    around the blocks; not of what is measured, of threads, or of versions.
    """
    around = {name: value for name, value in document["architecture"].items() if name != "block"}
    return digest([document["corpus"], document["split"], document["recipe"], around])


def plan_document(plan: Plan, documents: Documents) -> dict[str, object]:
    """Return a plan and what is kept with it; what is empty is left out where earlier versions did not have it."""
    forecasts = dict(plan.forecasts)
    return {
        "space": plan.space,
        "question": plan.question,
        "design": plan.design,
        # The plan may call its baseline by any of its names.
        "baseline": next((v.id for v in plan.variants if plan.baseline in (v.id, *v.names)), plan.baseline),
        "seeds": plan.seeds,
        "notes": plan.notes,
        "variants": [_variant(variant, forecasts.get(variant.id)) for variant in plan.variants],
        "comparisons": [_filled(comparison, "weights", "terms", "unpaired") for comparison in plan.comparisons],
        "trials": [(trial.id, trial.variant, trial.seed) for trial in plan.trials],
        "proposals": [
            {**_filled(proposal, "skipped"), "derivation": str(proposal.derivation)} for proposal in plan.proposals
        ],
        "open": plan.open,
        **_given(looks=plan.looks, factors=[(terms, _filled(factors, "varied")) for terms, factors in plan.factors]),
        **_given(ladders=[(terms, asdict(ladder)) for terms, ladder in plan.ladders]),
        "source": documents.source,
        "resolved": documents.resolved,
        "definitions": [asdict(definition) for definition in documents.definitions],
        "corpus": documents.corpus,
        **_given(sources=documents.sources, profile=documents.profile, settings=documents.settings),
        **_given(texts=documents.texts),
    }


def digest(document: object) -> str:
    """Return a short hash of a document as written: equal text, equal digest."""
    return hashlib.sha256(compact(document).encode()).hexdigest()[:16]


def plan_id(space: str, *, asked: str) -> str:
    """Return the id of a plan: the digest of its space's name and of `asked`, the digest of the resolved space."""
    return digest([space, asked])


def _variant(variant: Variant, forecast: Forecast | None) -> dict[str, object]:
    setting = None if variant.setting == PLAIN else _filled(variant.setting, "changes")
    made = (
        {}
        if forecast is None
        else {name: value for name, value in asdict(forecast).items() if name not in ("kinds", "quick")}
    )
    return {
        "id": variant.id,
        "name": variant.name,
        "names": variant.names,
        "edits": variant.edits,
        "parameters": variant.parameters,
        "flops": variant.flops,
        **_given(spared=variant.spared),
        "block": print_block(variant.block),
        **_given(terms=variant.terms, setting=setting, forecast=made),
        **_given(breaks=[{"constraint": name, "because": because} for name, because in variant.breaks]),
    }


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value}


def _filled(value: Comparison | Factors | KeptProposal | Setting, *optional: str) -> dict[str, object]:
    """Return the fields of a value, without the optional ones that are empty."""
    return {name: field for name, field in asdict(value).items() if field or name not in optional}


def _node(node: Node | None) -> str | None:
    return None if node is None else print_value(node)
