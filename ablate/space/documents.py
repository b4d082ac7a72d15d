"""What a space may say, as frozen documents. Every field is required: what is left out comes from the grammar."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Document(BaseModel):
    """Frozen, and strict: a key that is not declared is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _share(value: object) -> object:
    """`5%` as 0.05; anything else as it is."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100
        except ValueError:
            return value
    return value


def _real(value: object) -> object:
    """A whole number where a real one is meant."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Real = Annotated[float, BeforeValidator(_real), Field(allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(_real), Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, BeforeValidator(_real), Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(_real), BeforeValidator(_share), Field(ge=0, le=1)]
Decay = Annotated[float, BeforeValidator(_real), BeforeValidator(_share), Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


class AdamW(Document):
    """AdamW; `embedding_lr` is the rate of embeddings and an untied head (null: the same as `lr`).

    Weight decay is decoupled and acts on matrices alone: never on gains, norms, biases or the embeddings' positions.
    """

    lr: Positive
    betas: Annotated[tuple[Decay, Decay], BeforeValidator(_tuple)]
    eps: Positive
    weight_decay: NotNegative
    embedding_lr: Positive | None


class Optimizer(Document):
    """The optimiser; one key names it."""

    adamw: AdamW


class Schedule(Document):
    """Linear warm-up over `warmup` (a share of the steps), then `decay` to `floor` times the rate at the last step."""

    warmup: Share
    decay: Literal["linear", "cosine", "constant"]
    floor: Share


class Recipe(Document):
    """How a model is trained. `clip` bounds the global gradient norm (null: no clipping)."""

    steps: Count
    batch: Count
    clip: Positive | None
    optimizer: Optimizer
    schedule: Schedule
    dtype: Literal["float32", "float64", "bfloat16"]


class Files(Document):
    """Local text files: glob patterns relative to the space's folder."""

    files: Annotated[tuple[str, ...], BeforeValidator(_tuple), Field(min_length=1)]


class Hub(Document):
    """A data set of the Hugging Face hub; `field` holds the text."""

    hub: str
    split: str
    field: str


class Bpe(Document):
    """Byte-level BPE trained on the training split."""

    bpe: Annotated[int, Field(ge=257, le=65536)]


class Data(Document):
    """The text: a corpus, cut into tokens, with the share of folders held out for the tuning and verdict splits."""

    corpus: Literal["python_stdlib"] | Files | Hub
    tokenizer: Literal["bytes"] | Bpe
    tuning: Share
    verdict: Share


class Evaluation(Document):
    """Loss on `windows` fixed windows of the verdict split, every `every` steps and after the last."""

    every: Count
    windows: Count


class Measure(Document):
    """Which probes run, every how many steps (and on the first and last)."""

    every: Count
    probes: Annotated[tuple[str, ...], BeforeValidator(_tuple)]
    evaluation: Evaluation
    checkpoint_every: Count


class Learned(Document):
    """Learned absolute positions, one vector a position, from N(0, learned²)."""

    learned: Positive


class Embedding(Document):
    """The embedding: weights from N(0, std²), its output multiplied by `scale`."""

    std: Positive
    scale: Positive


class Model(Document):
    """What stands around the blocks, but for the parts that are components (entry_norm, final_norm, init)."""

    kind: Literal["decoder"]
    layers: Annotated[int, Field(ge=1, le=1_000)]
    width: Annotated[int, Field(ge=1, le=1_000_000)]
    heads: Annotated[int, Field(ge=1, le=1_000_000)]
    context: Annotated[int, Field(ge=1, le=10_000_000)]
    causal: bool
    position: Literal["none", "sinusoidal"] | Learned
    embedding: Embedding
    head: Literal["tied", "untied"]


class Judged(Document):
    """How a metric is judged: a margin of equivalence (`1%` of the baseline's mean, or an absolute number) and a scale.

    On the `log` scale differences are ratios, and a margin of 5 % means a factor of 1.05.
    """

    margin: (
        Annotated[float, Field(gt=0, allow_inf_nan=False)]
        | Annotated[
            str,
            Field(pattern=r"^\d*[1-9]\d*(\.\d+)?%$|^\d+\.\d*[1-9]\d*%$", description="a share above 0 % such as 1%"),
        ]
        | Literal["none"]
    )
    scale: Literal["linear", "log"]
    better: Literal["lower", "higher"]


class Judge(Document):
    """What is compared, and against which block. `confidence` is that of the intervals printed."""

    metrics: Annotated[dict[str, Judged], Field(min_length=1)]
    against: str
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
