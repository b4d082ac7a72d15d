"""Documents: the JSON that a folder keeps, with its keys and their types, and trials and plans written as it.

What a key means stands with the value that it is made from: `plan.Plan`, `plan.Variant`, `verdict.Summary`, …, and in
the column of `tables.sql` that it becomes. A key that is not required is absent where there is nothing to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from ablate.block.architecture import Architecture
from ablate.block.catalogue import additions_at_default
from ablate.block.expression import Node, print_block, print_value
from ablate.plan.identity import SCHEME
from ablate.plan.plan import PLAIN, Comparison, Factors, Forecast, KeptProposal, Plan, Setting, Trial, Variant
from ablate.space.data import Data
from ablate.space.judge import Measure
from ablate.space.metrics import Definition
from ablate.space.recipe import Recipe
from ablate.store.durable import compact
from ablate.verdict.experiment import Seed

Specification: TypeAlias = Mapping[str, Any]
"""Everything that a trial's numbers depend on: `trial_document`."""

EffectDocument: TypeAlias = Mapping[str, Any]
"""A `verdict.Effect`; in a question also its `comparison`."""


class VariantDocument(TypedDict):
    id: str
    name: str
    names: Sequence[str]
    edits: Sequence[str]
    parameters: int
    flops: int
    spared: NotRequired[int]
    block: str
    terms: NotRequired[Sequence[str]]
    setting: NotRequired[Mapping[str, object]]
    breaks: NotRequired[Sequence[Mapping[str, str]]]
    forecast: NotRequired[Mapping[str, object]]


class ComparisonDocument(TypedDict):
    kind: str
    change: str
    detail: str
    before: str
    after: str
    weights: NotRequired[Sequence[tuple[str, float]]]
    terms: NotRequired[str]
    unpaired: NotRequired[Sequence[str]]


class ProposalDocument(TypedDict):
    """A proposal of a search; its derivation is text, since that number may exceed 64 bits."""

    k: int
    derivation: str
    variant: str
    repeat: bool
    choices: int
    random: int
    skipped: NotRequired[Sequence[tuple[str, int]]]


class TextDocument(TypedDict):
    """What planning needs of the text of a space, or of that of a treatment that makes these `changes`."""

    repetition: float | None
    changes: NotRequired[Sequence[tuple[str, Any]]]
    vocab_size: NotRequired[int]
    fingerprint: NotRequired[str]


class PlanDocument(TypedDict):
    """A plan and what is kept with it. `trials` has the id of each, its variant's id and its seed in this space."""

    space: str
    question: str
    design: str
    baseline: str
    seeds: Sequence[int]
    notes: Sequence[str]
    variants: Sequence[VariantDocument]
    comparisons: Sequence[ComparisonDocument]
    trials: Sequence[tuple[str, str, int]]
    proposals: NotRequired[Sequence[ProposalDocument]]
    open: NotRequired[bool]
    looks: NotRequired[Sequence[int]]
    factors: NotRequired[Sequence[tuple[str, Mapping[str, object]]]]
    ladders: NotRequired[Sequence[tuple[str, Mapping[str, object]]]]
    source: str
    resolved: Mapping[str, object]
    definitions: Sequence[Mapping[str, object]]
    corpus: Mapping[str, object]
    sources: NotRequired[Mapping[str, str]]
    profile: NotRequired[str]
    settings: NotRequired[Sequence[str]]
    texts: NotRequired[Sequence[TextDocument]]


class PackedSpecifications(TypedDict):
    """Specifications with each distinct value of each key once, and for each trial the place of its value, or -1."""

    values: Mapping[str, Sequence[object]]
    trials: Mapping[str, Sequence[int]]


class PlanFile(TypedDict):
    """The file of a plan; `first_seen` is when it was first requested in seconds since 1970."""

    plan: str
    first_seen: float | None
    document: PlanDocument
    specifications: PackedSpecifications


class Verdicts(TypedDict):
    """The verdicts on a plan: what was judged and how, every `verdict.Effect`, and a sentence on each variant, by its
    id; `seeds` are those it looked at.
    """

    space: str
    seeds: Sequence[Seed]
    looked: int | None
    confidence: float
    metrics: Sequence[Mapping[str, str]]
    effects: Sequence[EffectDocument]
    anova: Sequence[Mapping[str, object]]
    front: Sequence[str]
    sentences: NotRequired[Mapping[str, str]]
    ladders: NotRequired[Sequence[Mapping[str, Sequence[Mapping[str, object]]]]]
    correlations: NotRequired[Sequence[Mapping[str, Any]]]


class TableDocument(TypedDict):
    """A judged table: its `name` as it was given, where it is (`origin`), its cells (the digest of a source), what
    was asked of it, and the experiment that it was read as. `runs` have a variant, a seed, how they ended, and numbers.
    """

    space: str
    name: str
    origin: Mapping[str, str]
    rows: str
    question: Mapping[str, Any]
    design: str
    baseline: str
    variants: Sequence[str]
    comparisons: Sequence[ComparisonDocument]
    seeds: Sequence[Seed]
    runs: Sequence[tuple[str, Seed, str, Mapping[str, float]]]
    notes: Sequence[str]


class TableFile(TypedDict):
    """The file of a judged table; `first_seen` is when it was first judged in seconds since 1970."""

    table: str
    first_seen: float
    document: TableDocument


class AccountDocument(TypedDict):
    """How a comparison stood when it was judged: see `verdict.account`.

    `comparison` is its key, in which it stands with this `sign`, `of` the metric that `metric` is a function of,
    `trained` the hash of how each of its variants is trained, `measured` that of margin and evaluation and `data` that
    of its numbers ("": not kept), `before` and `left` the shares of α before and after, and `family` the comparisons
    over which it was corrected.
    """

    comparison: str
    sign: int
    metric: str
    of: str
    trained: Mapping[str, str]
    measured: str
    data: str
    state: Literal["new", "again", "continued", "settled"]
    number: int
    before: float
    left: float
    family: int


class Question(TypedDict):
    """A judgement of a question. `before` and `left` are the shares of α before and after it, `accounts` those of each
    comparison (absent in those of earlier versions). `spaces` are all that ask the question, and `plan` is the plan for
    which it was judged first, where it is read. `so_far`, `questions_asked` and `among` are as in `verdict.Judgement`.
    """

    question: str
    space: str
    number: int
    asks: str
    design: str
    baseline: str
    family: str
    metrics: Sequence[str]
    judged: Mapping[str, Mapping[str, Any]]
    seeds: Sequence[Seed]
    looks: Sequence[int]
    measured: str
    without: Sequence[Sequence[object]]
    alpha: float
    level: float
    before: float
    left: float
    effects: Sequence[EffectDocument]
    accounts: NotRequired[Sequence[AccountDocument]]
    so_far: NotRequired[float]
    questions_asked: NotRequired[int]
    among: NotRequired[float]
    at: NotRequired[float]
    spaces: NotRequired[Sequence[str]]
    plan: NotRequired[str]


class JudgementFile(TypedDict):
    """The file of a judgement. `trials` has the digest of the rows of each trial that its verdicts were computed from,
    so that a lost one is noticed, and whether anything has ended since.
    """

    space: str
    plan: str
    at: float
    trials: Mapping[str, str]
    verdicts: Verdicts | None
    questions: Sequence[Question]


# Trials and plans as documents: stable, complete, and with blocks printed as in a file


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
            made[id(part)] = _trial_part(part)
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


def _trial_part(part: Architecture | Data | Recipe | Measure) -> dict[str, object]:
    if not isinstance(part, Architecture):
        return part.model_dump(mode="json", exclude=additions_at_default(part))
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
        "variants": [_variant_document(variant, forecasts.get(variant.id)) for variant in plan.variants],
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


def _variant_document(variant: Variant, forecast: Forecast | None) -> dict[str, object]:
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
