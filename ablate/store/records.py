"""The types of the lines of a results folder, and what happens to a whole line of another type.

A line whose first word this version does not know is left to a newer version and ignored. A line of a known word that
lacks what this version needs, or has it with another type, is refused: no result would be right without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import ConfigDict, GetCoreSchemaHandler, Strict, TypeAdapter, ValidationError
from pydantic_core import CoreSchema
from typing_extensions import TypedDict

from ablate.errors import RefusedError
from ablate.store.schema import TABLES
from ablate.train.events import OutcomeKind

AS_WRITTEN = ConfigDict(extra="allow", strict=True)
"""No type coercion, and fields that a newer version adds are kept."""

Number: TypeAlias = float | Literal["NaN", "Infinity", "-Infinity"] | None
"""A number as JSON: the strings stand for numbers that JSON does not have."""


class EndedRecord(TypedDict):
    """An `Ending`, in a line of `outcomes.jsonl` and in the metadata of a sealed file."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    trial: str
    attempt: int
    kind: OutcomeKind
    step: int
    detail: dict[str, Any]
    rows: int
    digest: str
    began: float
    ended: float
    versions: dict[str, str]
    file: NotRequired[Annotated[tuple[int, int], Strict(False)]]


class ForgottenRecord(TypedDict):
    """A trial whose sealed file was lost."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    trial: str


class BeginRecord(TypedDict):
    """The first line of a segment."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    trial: str
    attempt: int
    began: float
    versions: dict[str, str]


class ForecastStreamRecord(TypedDict):
    """The stream behind a layer of a model, before a step."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    layer: int
    size: Number
    cosine: Number
    gradient: Number
    size_interval: NotRequired[list[Number] | None]
    cosine_interval: NotRequired[list[Number] | None]
    gradient_interval: NotRequired[list[Number] | None]


class ForecastRecord(TypedDict):
    """What a variant's model will do before a step, or why there is no forecast."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    growth: Number
    cosine: Number
    gradient: Number
    logits: Number
    context: int | None
    whole: bool
    repetition: Number
    streams: list[ForecastStreamRecord]
    dangers: list[str]
    refused: str
    theory: NotRequired[int]


class VariantRecord(TypedDict):
    """A variant of a plan."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    id: str
    name: str
    names: list[str]
    edits: list[str]
    parameters: int
    flops: int
    block: str
    spared: NotRequired[int]
    forecast: NotRequired[ForecastRecord]


class ComparisonRecord(TypedDict):
    """A comparison of a plan."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    kind: str
    change: str
    detail: str
    before: str
    after: str


class DefinitionRecord(TypedDict):
    """What a metric is."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    metric: str
    definition: str
    source: str


class ProposalRecord(TypedDict):
    """A block that a search has proposed."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    k: int
    derivation: str
    variant: str
    repeat: bool
    choices: int
    random: int
    skipped: NotRequired[list[Annotated[tuple[str, int], Strict(False)]]]


class PlanRecord(TypedDict):
    """A plan and what is kept with it, in `plans.jsonl`."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    space: str
    question: str
    design: str
    baseline: str
    seeds: list[int]
    notes: list[str]
    variants: list[VariantRecord]
    comparisons: list[ComparisonRecord]
    trials: list[Annotated[tuple[str, str, int], Strict(False)]]
    source: str
    resolved: dict[str, Any]
    definitions: list[DefinitionRecord]
    corpus: dict[str, Any]
    proposals: NotRequired[list[ProposalRecord]]
    open: NotRequired[bool]
    looks: NotRequired[list[int]]


class SeenRecord(TypedDict):
    """When a plan was first requested, in `plans.jsonl`."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    plan: str
    at: float


class SizesRecord(TypedDict):
    """The sizes of a model."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    seq_len: NotRequired[int]
    n_layers: NotRequired[int]
    d_model: NotRequired[int]


class ArchitectureRecord(TypedDict):
    """The model of a trial."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    sizes: NotRequired[SizesRecord]


class OptimizerRecord(TypedDict):
    """An optimiser's settings."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    lr: NotRequired[float]


class RecipeRecord(TypedDict):
    """How a trial is trained."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    steps: NotRequired[int]
    batch: NotRequired[int]
    optimizer: NotRequired[dict[str, OptimizerRecord]]


class PairsRecord(TypedDict):
    """A byte-pair tokenizer: how many merges it has learnt."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    bpe: int


class PieceCountRecord(TypedDict):
    """The pieces of a WordPiece tokenizer: how many, and whether case is dropped."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    size: int
    lowercase: bool


class PiecesRecord(TypedDict):
    """A WordPiece tokenizer."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    wordpiece: PieceCountRecord


class UnigramRecord(TypedDict):
    """A unigram tokenizer: how many pieces it has learnt."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    unigram: int


class TokenizerFileRecord(TypedDict):
    """A saved tokenizer, by the hash of its content."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    file: str


class DataRecord(TypedDict):
    """The text of a trial."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    tokenizer: NotRequired[str | PairsRecord | PiecesRecord | UnigramRecord | TokenizerFileRecord]


class TrialRecord(TypedDict):
    """A trial's specification, in `plans.jsonl`."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    trial: str
    variant: str
    seed: int
    salt: int
    threads: int
    corpus: str
    split: NotRequired[str]
    conditions: NotRequired[str]
    folder: NotRequired[str]
    identity: NotRequired[int]
    data: NotRequired[DataRecord]
    architecture: ArchitectureRecord
    recipe: RecipeRecord


class RunRecord(TypedDict):
    """A run as it was requested, in `runs.jsonl`."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    space: str
    path: str
    settings: list[str]
    plugins: list[str]
    profile: NotRequired[str | None]
    place: NotRequired[dict[str, Any]]
    mirror: NotRequired[bool | str]
    commit: NotRequired[str | None]
    at: NotRequired[float]


class ConditionsRecord(TypedDict):
    """The conditions under which a step was timed."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    batch: int
    dtype: str
    threads: int


class PacesRecord(TypedDict):
    """Seconds per step, in `paces.jsonl`."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    reference: str
    seconds: dict[str, float]
    conditions: ConditionsRecord
    machine: dict[str, str]
    unmeasured: NotRequired[dict[str, str]]
    middles: NotRequired[dict[str, Annotated[tuple[float, float], Strict(False)]]]
    anew: NotRequired[bool]
    at: NotRequired[float]


class MetricRecord(TypedDict):
    """A metric that was judged."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    name: str
    better: str | None


JSON_OF: Mapping[str, Any] = {"VARCHAR": str, "DOUBLE": Number, "BIGINT": int, "BOOLEAN": bool}
"""The type in a line for each SQL type."""

OF_A_PLAN = ("space", "plan", "current", "position", "better", "confidence", "seeds")
"""The columns of the table `judged` that are not of an effect: every other column is a field of an effect."""


def effect_fields() -> Mapping[str, str]:
    """Return, for each column of the table `judged` that comes from an effect, the name of its field."""
    return {name: name.removesuffix("_id") for name in TABLES["judged"].names if name not in OF_A_PLAN}


class EffectRecord:
    """The result of a comparison on a metric: a dictionary with the fields that the table `judged` has."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        columns = {column.name: column for column in TABLES["judged"].columns}
        types = {field: JSON_OF[columns[name].type] for name, field in effect_fields().items()}
        always = {field for name, field in effect_fields().items() if columns[name].required}
        fields = {name: type if name in always else NotRequired[type | None] for name, type in types.items()}
        record = TypedDict("EffectRecord", fields)  # type: ignore[misc]
        record.__pydantic_config__ = AS_WRITTEN  # type: ignore[attr-defined]
        return handler.generate_schema(record)


class JudgedRecord(TypedDict):
    """The verdicts of a space, in `verdicts.jsonl`."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    space: str
    asked: str
    seeds: list[int]
    confidence: float
    metrics: list[MetricRecord]
    effects: list[EffectRecord]


class QuestionEffectRecord(TypedDict):
    """The result of a judgement of a question for one comparison on one metric."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    comparison: str
    kind: str
    metric: str
    change: str
    before: str
    after: str
    n: int
    ended_before: int
    ended_after: int
    diverged_before: int
    diverged_after: int
    estimate: Number
    low: Number
    high: Number
    tost_low: Number
    tost_high: Number
    p: Number
    p_adjusted: Number
    scale: Literal["linear", "log"]
    margin: Number
    verdict: str
    differs: bool
    seeds_needed: int | None
    note: str
    terms: str
    level: Number
    judgement: int | None


class QuestionRecord(TypedDict):
    """A judgement of a question, in `questions.jsonl`."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    question: str
    space: str
    number: int
    metrics: list[str]
    seeds: list[int]
    looks: list[int]
    measured: str
    without: list[list[str | int]]
    alpha: float
    level: float
    before: float
    left: float
    effects: list[QuestionEffectRecord]
    at: float


class HolderRecord(TypedDict):
    """Who trains a trial, in `running/`."""

    __pydantic_config__ = AS_WRITTEN  # type: ignore[misc]

    pid: int
    host: str
    since: str
    step: int


class ForeignError(RefusedError):
    """A whole line, or a whole file, is not as this version writes it."""

    def __init__(self, path: Path, fault: str):
        super().__init__(
            f"{path} is not as this version of ablate writes it: {fault}\n"
            "  = perhaps a newer version wrote it: use that one for these results, or another folder with --results"
        )


def understood(kind: Any, record: Any, path: Path) -> Any:
    """Return a record if it is of that kind; raise ForeignError if not."""
    try:
        _adapter(kind).validate_python(record)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "its record"
        raise ForeignError(path, f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None
    return record


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
