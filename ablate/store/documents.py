"""Documents: the JSON that a folder keeps, with its keys and their types, and trials and plans written as it.

Keys mean what they mean in the value that they are made from (`plan.Plan`, `verdict.Summary`, …) and in `tables.sql`.
A key that is not required is absent where there is nothing to say.
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
from ablate.space.metrics import Better, Definition
from ablate.space.recipe import Recipe
from ablate.store.durable import JsonObject, compact
from ablate.verdict.experiment import Seed

Specification: TypeAlias = Mapping[str, Any]  # everything that a trial's numbers depend on: `trial_document`

ResolvedSpace: TypeAlias = JsonObject  # a complete space with all defaults, as JSON values: what identifies its plan

EffectDocument: TypeAlias = Mapping[str, Any]  # a `verdict.Effect`; in a question also its `comparison`


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
    setting: NotRequired[JsonObject]
    breaks: NotRequired[Sequence[Mapping[str, str]]]
    forecast: NotRequired[JsonObject]


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
    """The facts about the text of a space, or of a treatment that makes these `changes`, that planning needs."""

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
    factors: NotRequired[Sequence[tuple[str, JsonObject]]]
    ladders: NotRequired[Sequence[tuple[str, JsonObject]]]
    source: str
    resolved: ResolvedSpace
    definitions: Sequence[JsonObject]
    corpus: JsonObject
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
    """The verdicts on a plan. `sentences` has one on each variant, by its id; `seeds` are those that were looked at."""

    space: str
    seeds: Sequence[Seed]
    looked: int | None
    confidence: float
    metrics: Sequence[Mapping[str, str]]
    effects: Sequence[EffectDocument]
    anova: Sequence[JsonObject]
    front: Sequence[str]
    sentences: NotRequired[Mapping[str, str]]
    ladders: NotRequired[Sequence[Mapping[str, Sequence[JsonObject]]]]
    correlations: NotRequired[Sequence[JsonObject]]


class TableReading(TypedDict):
    """The experiment that a table is read as. `runs` have a variant, a seed, how they ended, and numbers."""

    design: str
    baseline: str
    variants: Sequence[str]
    comparisons: Sequence[ComparisonDocument]
    seeds: Sequence[Seed]
    runs: Sequence[tuple[str, Seed, str, Mapping[str, float]]]
    notes: Sequence[str]


class TableDocument(TableReading):
    """A judged table: its `name` as given, where it is (`origin`), the digest of the source with its cells (`rows`),
    the question to it, and the experiment that it was read as."""

    space: str
    name: str
    origin: Mapping[str, str]
    rows: str
    question: JsonObject


class TableFile(TypedDict):
    """The file of a judged table; `first_seen` is when it was first judged in seconds since 1970."""

    table: str
    first_seen: float
    document: TableDocument


class AccountDocument(TypedDict):
    """The account of a comparison when it was judged: see `verdict.judgement`.

    `comparison` is its key, in which it stands with this `sign`, `of` the metric that `metric` is a function of.
    `trained` hashes how each variant is trained, `measured` margin and evaluation, `data` the numbers ("": not kept).
    `before` and `left` are the shares of α before and after, `family` the comparisons over which it was corrected.
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


class JudgedDocument(TypedDict):
    """A `space.judge.Judged`."""

    margin: float | str
    scale: Literal["linear", "log"]
    better: Better


class Question(TypedDict):
    """A judgement of a question; `so_far`, `questions_asked` and `among` are as in `verdict.Judgement`.

    `before` and `left` are the shares of α before and after it, `accounts` those of each comparison (absent in earlier
    versions). `spaces` are all that ask the question, and `plan` is the plan for which it was judged first.
    """

    question: str
    space: str
    number: int
    asks: str
    design: str
    baseline: str
    family: str
    metrics: Sequence[str]
    judged: Mapping[str, JudgedDocument]
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
    """The file of a judgement; `trials` has the digest of the rows of each trial behind its verdicts, so that a lost
    one is noticed, and whether anything has ended since."""

    space: str
    plan: str
    at: float
    trials: Mapping[str, str]
    verdicts: Verdicts | None
    questions: Sequence[Question]


# Trials and plans as documents: stable, complete, and with blocks printed as in a file


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """The documents kept with a plan.

    `source` is the text of the space's file, `resolved` the complete space, `corpus` the corpus report. `sources` are
    the files that decided it, by name, each with its hash; `profile` and `settings` were laid over the space. The first
    of `texts` is that of the space, the others those of treatments.
    """

    source: str
    resolved: ResolvedSpace = field(default_factory=dict)
    definitions: Iterable[Definition] = ()
    corpus: JsonObject = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None
    settings: tuple[str, ...] = ()
    texts: tuple[TextDocument, ...] = ()


def trial_document(trial: Trial, parts: dict[int, JsonObject] | None = None) -> JsonObject:
    """Everything that a trial's numbers depend on; `parts` has what trials share, by identity, made once."""
    made = {} if parts is None else parts
    for part in (trial.work.architecture, trial.work.data, trial.work.recipe, trial.work.measure):
        if id(part) not in made:
            made[id(part)] = _trial_part(part)
    return {
        "trial": trial.id,
        "variant": trial.variant,
        "seed": trial.seed,
        "salt": trial.salt,
        "threads": trial.work.threads,
        "corpus": trial.work.corpus,
        "conditions": trial.conditions,
        "identity": SCHEME,
        "split": trial.split,
        "architecture": made[id(trial.work.architecture)],
        "data": made[id(trial.work.data)],
        "recipe": made[id(trial.work.recipe)],
        "measure": made[id(trial.work.measure)],
    }


def _trial_part(part: Architecture | Data | Recipe | Measure) -> JsonObject:
    if not isinstance(part, Architecture):
        return part.model_dump(mode="json", exclude=additions_at_default(part))
    return {
        "kind": part.kind,
        "sizes": asdict(part.sizes),
        "block": print_block(part.block),
        "positions": part.positions,
        "position_std": None,
        **part.numbers(),
        "embedding_dropout": part.embedding_dropout,
        "position_rows": part.position_rows,
        "tied": part.tied,
        "entry_norm": _node(part.entry_norm),
        "final_norm": _node(part.final_norm),
        "init": _node(part.init),
        **_given(logit_softcap=part.logit_softcap),
        **({} if part.share is None else {"share": str(part.share)}),
        **_given(ahead=part.ahead, encoder_layers=part.encoder_layers),
        **_given(input_shape=part.input_shape),
        **_given(patch=part.patch, pooling=part.pooling, head_layer=part.head_layer),
        **({} if part.head_init is None else {"head_init": _node(part.head_init)}),
    }


def trained_as(document: Specification) -> str:
    """Return a short hash of how a trial is trained, apart from its block and seed: recipe, text, sizes and what is
    around the blocks; not of metrics, threads or versions."""
    around = {name: value for name, value in document["architecture"].items() if name != "block"}
    return digest([document["corpus"], document["split"], document["recipe"], around])


def plan_document(plan: Plan, documents: Documents) -> JsonObject:
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


def judge_in(document: PlanDocument) -> Mapping[str, Any]:
    """The judge of the resolved space; empty where it has none."""
    judge = document["resolved"].get("judge")
    return judge if isinstance(judge, Mapping) else {}


def digest(document: object) -> str:
    """Return a short hash of a document as written: equal text, equal digest."""
    return hashlib.sha256(compact(document).encode()).hexdigest()[:16]


def plan_id(space: str, *, asked: str) -> str:
    """Return the id of a plan: the digest of its space's name and of `asked`, the digest of the resolved space."""
    return digest([space, asked])


def _variant_document(variant: Variant, forecast: Forecast | None) -> JsonObject:
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


def _given(**values: Any) -> JsonObject:
    return {name: value for name, value in values.items() if value}


def _filled(value: Comparison | Factors | KeptProposal | Setting, *optional: str) -> JsonObject:
    return {name: field for name, field in asdict(value).items() if field or name not in optional}


def _node(node: Node | None) -> str | None:
    return None if node is None else print_value(node)
