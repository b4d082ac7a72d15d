"""The documents that a folder keeps, as JSON: the keys of each and the types of their values.

What a key means stands with the value that it is made from: `plan.Plan`, `plan.Variant`, `verdict.Summary`, …, and in
the column of `tables.sql` that it becomes. A key that is not required is absent where there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from ablate.verdict.seeds import Seed

Specification: TypeAlias = Mapping[str, Any]
"""Everything that a trial's numbers depend on: `serialise.trial_document`."""

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
