"""The sections of a space, as frozen documents. Every field is required: what is left out comes from the grammar."""

from __future__ import annotations

from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_serializer,
)
from pydantic_core import PydanticKnownError

from ablate.block.arithmetic import Expression, parse
from ablate.extension.configured import ADDED
from ablate.space.choice import Choice, CorpusChoice
from ablate.space.metrics import Better
from ablate.space.paths import checked_pattern


class Document(BaseModel):
    """A frozen, strict document: a key that is not declared is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _share(value: object) -> object:
    """Convert `5%` to 0.05; return anything else as it is."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100
        except ValueError:
            return value
    return value


def _real(value: object) -> object:
    """Convert a whole number to a float, where a real number is meant."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def as_tuple(value: object) -> object:
    """Convert a list to a tuple; return anything else as it is."""
    return tuple(value) if isinstance(value, list) else value


def _arithmetic(value: object) -> object:
    """Parse a number, which must be above 0, or `1/sqrt(width)`; return anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    expression = parse(value)
    if expression.constant is not None and expression.constant <= 0:
        raise PydanticKnownError("greater_than", {"gt": 0})
    return expression


def _cap(value: object) -> object:
    """Read `none` as null."""
    return None if value == "none" else value


PERCENT = r"^\d*[1-9]\d*(\.\d+)?%$|^\d+\.\d*[1-9]\d*%$"
"""How a share above 0 % is written."""


Real = Annotated[float, BeforeValidator(_real), Field(allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(_real), Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, BeforeValidator(_real), Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(_real), BeforeValidator(_share), Field(ge=0, le=1)]
Decay = Annotated[float, BeforeValidator(_real), BeforeValidator(_share), Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Length = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)],
    Field(description="a number of steps such as 100, or a share of them such as 5%"),
]
"""A whole number is a number of steps, anything else a share of all steps: 1 is one step, 1.0 and 100% are all."""
Arithmetic = Annotated[
    Expression,
    BeforeValidator(_arithmetic),
    Field(description="a number, or arithmetic in the sizes such as 1/sqrt(width)"),
]
"""Above 0. An expression that names a size is evaluated and checked when a model is planned."""


class EndRate(Document):
    """A rate that the optimiser's `lr` ends at, instead of a share of the peak; other rates end at the same share."""

    rate: NotNegative


class Schedule(Document):
    """The learning rate: linear warm-up over `warmup`, the peak over `hold`, then `decay` to `floor` times the peak.

    The floor is reached at the last step. `from_zero` counts finished steps, so that the first step's rate is 0.
    """

    warmup: Length
    hold: Length
    decay: Annotated[Choice, Field(description="one schedule, such as cosine, or {polynomial: {power: 2}}")]
    floor: Share | EndRate
    from_zero: bool


NEXT_TOKEN: Final = Choice("next_token")
"""The objective of a recipe that names none."""


class Loss(Document):
    """What is minimised beside the cross-entropy: a share `label_smoothing` of it is of all tokens, equally likely, and
    `z` weighs the mean square of the logits' log normaliser. `ahead` weighs what else is predicted: the second token
    ahead, the third, and so on, by the same logits, or by blocks of their own (`ahead` of the model).
    """

    label_smoothing: Decay = 0.0
    z: NotNegative = 0.0
    ahead: Annotated[tuple[NotNegative, ...], BeforeValidator(as_tuple)] = ()


class RandAugment(Document):
    """Random transformations of an image: how many after one another, and their magnitude, from 0 to 30."""

    operations: Annotated[int, Field(ge=1, le=14)] = 2
    magnitude: Annotated[int, Field(ge=0, le=30)] = 9


class Augment(Document):
    """What is changed at random in the images of training batches: see `data/augmentation.py`.

    `mixup` is α of Beta(α, α), from which the share of each of two images that are mixed is drawn (0: not mixed).
    """

    randaugment: Annotated[RandAugment | None, BeforeValidator(_cap)] = None
    mixup: Annotated[float, BeforeValidator(_real), Field(ge=0, le=1000, allow_inf_nan=False)] = 0.0


class BatchRamp(Document):
    """A batch that grows: `from` sequences in the first step, then linearly in steps, `batch` after `until` of them
    (see `batch_ramp.py`).
    """

    from_: Annotated[Count, Field(alias="from")]
    until: Length

    @model_serializer
    def _serialised(self) -> dict[str, Any]:
        return {"from": self.from_, "until": self.until}


class LossScale(Document):
    """What the loss is multiplied by in float16 (see `train/loss_scale.py`): `initial` at first, twice as much after
    `every` steps in a row without an overflow, and half as much after one.
    """

    initial: Annotated[int, Field(ge=1, le=2**24)] = 65536
    every: Count = 2000


class AverageOfLast(Document):
    """The mean of the weights at `last` checkpoints, `every` so many steps, the last at the end."""

    last: Annotated[int, Field(ge=2)]
    every: Count


class MovingAverage(Document):
    """The exponential moving average of the weights after every step, of decay `ema`."""

    ema: Annotated[float, BeforeValidator(_real), BeforeValidator(_share), Field(gt=0, lt=1)]


class Recipe(Document):
    """How a model is trained. `clip` bounds the global gradient norm (null: no clipping).

    `objective` is what is learned, `loss` what is minimised beside it, `augment` what is changed in training images.
    `batch_ramp` lets the batch grow to `batch`. On the `average` of the weights a trial is evaluated once more at its
    end. `loss_scale` is how the loss is scaled in float16 (none: as it is by default). They came later: a recipe that
    minimises the cross-entropy of the next token alone, in batches of one size, is the same with and without them.
    """

    steps: Count
    batch: Count
    clip: Positive | None
    optimizer: Annotated[Choice, Field(description="one optimiser, such as {adamw: {lr: 1e-3}}")]
    schedule: Schedule
    dtype: Literal["float32", "float64", "bfloat16", "float16"]
    loss: Loss = Field(default=Loss(), json_schema_extra={ADDED: True})
    objective: Annotated[
        Choice,
        Field(description="one objective, such as next_token or {masked_words: {}}", json_schema_extra={ADDED: True}),
    ] = NEXT_TOKEN
    augment: Augment = Field(default=Augment(), json_schema_extra={ADDED: True})
    batch_ramp: Annotated[
        BatchRamp | None,
        BeforeValidator(_cap),
        Field(description="none, or {from: 32, until: 60%}", json_schema_extra={ADDED: True}),
    ] = None
    average: Annotated[
        AverageOfLast | MovingAverage | None,
        BeforeValidator(_cap),
        Field(description="none, {last: 10, every: 500} or {ema: 0.999}", json_schema_extra={ADDED: True}),
    ] = None
    loss_scale: Annotated[
        LossScale | None,
        BeforeValidator(_cap),
        Field(description="none, or {initial: 65536, every: 2000}", json_schema_extra={ADDED: True}),
    ] = None

    @field_validator("loss_scale")
    @classmethod
    def _as_none(cls, scale: LossScale | None, info: ValidationInfo) -> LossScale | None:
        """Read the default, written out, as none: the same trial. With another type it stays, and is refused."""
        return None if scale == LossScale() and info.data.get("dtype") == "float16" else scale


class Bpe(Document):
    """Byte-level BPE trained on the training split."""

    bpe: Annotated[int, Field(ge=257, le=65536)]


class Pieces(Document):
    """WordPiece: `size` pieces at most, five special tokens included; `lowercase` drops case and accents."""

    size: Annotated[int, Field(ge=6, le=65536)]
    lowercase: bool


def _pieces(value: object) -> object:
    """Read a bare number of pieces as WordPiece that drops case and accents, as BERT's first release does."""
    return value if isinstance(value, dict | Pieces) else {"size": value, "lowercase": True}


class WordPiece(Document):
    """WordPiece trained on the training split: `wordpiece: 32768`, or `wordpiece: {size: 32768, lowercase: false}`."""

    wordpiece: Annotated[Pieces, BeforeValidator(_pieces)]

    @property
    def separator(self) -> int:
        """The token that ends a document: `[SEP]`."""
        return 3

    @property
    def loses(self) -> str:
        """What is lost of the text, in words."""
        return "WordPiece loses white space and unknown words"


class Unigram(Document):
    """Unigram pieces trained on the training split: `unigram: 8000`, with five special tokens and the 256 bytes."""

    unigram: Annotated[int, Field(ge=262, le=65536)]

    @property
    def separator(self) -> int:
        """The token that ends a document: `</s>`."""
        return 3


class Saved(Document):
    """A tokenizer that was trained elsewhere: `file: tokenizer.json`, as the library `tokenizers` saves one.

    The path is absolute, or relative to the space's folder, which it must not leave.
    """

    file: Annotated[str, AfterValidator(checked_pattern)]

    @model_serializer
    def _serialised(self) -> dict[str, Any]:
        return self.told()

    def told(self) -> dict[str, Any]:
        """Return what a document tells of it."""
        return {"file": self.file}

    @property
    def separator(self) -> int:
        """The token that ends a document; known once the file is read."""
        raise AssertionError(f"{self.file} is read with its space: see space/saved_tokenizer.py")

    @property
    def special(self) -> dict[str, int]:
        """Its other tokens that stand for no text; known once the file is read."""
        return {}

    @property
    def loses(self) -> str:
        """What is lost of the text, in words, or nothing; known once the file is read."""
        return ""


TokenizerChoice: TypeAlias = Literal["bytes"] | Bpe | WordPiece | Unigram | Saved
"""How text is cut into tokens."""


class Data(Document):
    """The text: a corpus, cut into tokens, with the share of folders held out for the tuning and verdict splits.

    A corpus of images may be whitened by PCA, with `whiten` added to each variance (see `data/whitening.py`).
    """

    corpus: Annotated[CorpusChoice, Field(description="a corpus, such as {files: ['texts/**/*.txt']}")]
    tokenizer: TokenizerChoice
    tuning: Share
    verdict: Share
    whiten: Annotated[NotNegative | None, BeforeValidator(_cap), Field(json_schema_extra={ADDED: True})] = None

    @property
    def separator(self) -> int:
        """The token that ends a document: `[SEP]` of WordPiece, `</s>` of unigram, that of a file, else 0."""
        return self.tokenizer.separator if isinstance(self.tokenizer, WordPiece | Unigram | Saved) else 0

    @property
    def special(self) -> dict[str, int]:
        """The tokens of the tokenizer that stand for no text, beside the separator."""
        match self.tokenizer:
            case WordPiece() | Unigram():
                return {"padding": 0, "start": 2, "mask": 4}
            case Saved():
                return self.tokenizer.special
        return {}

    @property
    def loses(self) -> str:
        """What is lost of the text, so that its tokens have no bytes, in words; empty if tokens give the text back."""
        return self.tokenizer.loses if isinstance(self.tokenizer, WordPiece | Saved) else ""


class Evaluation(Document):
    """Loss on `windows` windows of a held-out split, every `every` steps and after the last.

    Each seed draws its windows, the same for all variants and at every step (see `data/batches.py`).
    """

    every: Count
    windows: Count


class Measure(Document):
    """What is measured during training, and when.

    Probes of activations are read at each evaluation. The metrics of a training step, and the probes of parameters and
    gradients, are measured every `every` steps, and on the first and last. `train_loss_ema` is the decay of a moving
    average of the training loss, which came later (none: it is not measured).
    """

    every: Count
    probes: Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
    evaluation: Evaluation
    checkpoint_every: Count
    train_loss_ema: Annotated[
        Annotated[float, BeforeValidator(_real), BeforeValidator(_share), Field(gt=0, lt=1)] | None,
        BeforeValidator(_cap),
        Field(description="none, or a decay between 0 and 1 such as 0.99", json_schema_extra={ADDED: True}),
    ] = None


class PositionTable(Document):
    """Learned positions: `rows` of them (null: as many as the context) from N(0, std²)."""

    std: Arithmetic
    rows: Count | None


def _table(value: object) -> object:
    """Read a bare standard deviation as a table with one row per position of the context."""
    return value if value is None or isinstance(value, dict | list | PositionTable) else {"std": value, "rows": None}


class Learned(Document):
    """Learned absolute positions, one vector per position: `learned: 0.02`, or `learned: {std: 0.02, rows: 1024}`."""

    learned: Annotated[PositionTable, BeforeValidator(_table)]


class Embedding(Document):
    """The embedding: weights from N(0, std²), its output multiplied by `scale`.

    `dropout` is the share of its output, with positions added, that is dropped in training.
    """

    std: Arithmetic
    scale: Arithmetic
    dropout: Decay


class SharedInTurn(Document):
    """Layers l and l + `cycle` share their parameters: A B A B."""

    cycle: Annotated[int, Field(ge=1, le=1_000)]


class SharedInARow(Document):
    """`repeat` layers in a row share their parameters: A A A B B B."""

    repeat: Annotated[int, Field(ge=2, le=1_000)]


class Model(Document):
    """The model around the blocks, except the parts that are components (entry_norm, final_norm, init).

    `logit_scale` multiplies the logits, `logit_softcap` bounds them (none: it does not). `share` says which layers have
    the same parameters. `ahead` is how many blocks more predict a token further ahead each, in training. Of an
    encoder-decoder `encoder_layers` is how many layers the encoder has (none: as many as the decoder), and `source` the
    length of what it reads. Of an encoder `segments` are the rows of the table that tells the parts of a sequence
    apart, and `transform` the activation of a layer between the last norm and the head. Of a model of images, `patch`
    is the side of the patches that they are cut into, and `pooling` what the head is given. `head: mlp` puts a layer
    before the matrix of the head.
    """

    kind: Literal["decoder", "encoder", "encoder_decoder", "vit", "mlp"]
    layers: Annotated[int, Field(ge=1, le=1_000)]
    width: Annotated[int, Field(ge=1, le=1_000_000)]
    heads: Annotated[int, Field(ge=1, le=1_000_000)]
    context: Annotated[int, Field(ge=1, le=10_000_000)]
    causal: bool
    position: Literal["none", "sinusoidal", "sine_cosine_2d", "sine_cosine_2d_as_released"] | Learned
    embedding: Embedding
    head: Literal["tied", "untied", "mlp"]
    logit_scale: Arithmetic
    logit_softcap: Annotated[Positive | None, BeforeValidator(_cap)] = None
    share: Annotated[
        Literal["none"] | SharedInTurn | SharedInARow,
        Field(description="none, {cycle: 2} or {repeat: 3}", json_schema_extra={ADDED: True}),
    ] = "none"
    ahead: Annotated[int, Field(ge=0, le=1_000, json_schema_extra={ADDED: True})] = 0
    encoder_layers: Annotated[
        Annotated[int, Field(ge=1, le=1_000)] | None, BeforeValidator(_cap), Field(json_schema_extra={ADDED: True})
    ] = None
    segments: Annotated[int, Field(ge=0, le=1_000, json_schema_extra={ADDED: True})] = 0
    transform: Annotated[Literal["none", "gelu", "relu", "tanh"], Field(json_schema_extra={ADDED: True})] = "none"
    source: Annotated[
        Annotated[int, Field(ge=1, le=10_000_000)] | None, BeforeValidator(_cap), Field(json_schema_extra={ADDED: True})
    ] = None
    patch: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | None, BeforeValidator(_cap), Field(json_schema_extra={ADDED: True})
    ] = None
    pooling: Annotated[
        Literal["class_token", "mean"] | None, BeforeValidator(_cap), Field(json_schema_extra={ADDED: True})
    ] = None


Size: TypeAlias = (
    Annotated[float, Field(gt=0, allow_inf_nan=False)]
    | Annotated[str, Field(pattern=PERCENT, description="a share above 0 % such as 1%")]
)
"""The size of a difference: absolute, or a share of the baseline's mean."""


class Judged(Document):
    """How a metric is judged: a margin of equivalence (`1%` of the baseline's mean, or an absolute number) and a scale.

    On the `log` scale differences are ratios, and a margin of 5 % means a factor of 1.05. Where neither side is better
    (`none`), a difference is higher or lower.
    """

    margin: Size | Literal["none"]
    scale: Literal["linear", "log"]
    better: Better


Foreseen = Literal["better", "worse", "higher", "lower", "equivalent"]
"""A verdict that a claim foresees."""

Sign = Literal["positive", "negative"]
"""The sign of a correlation that a claim foresees."""

STEP = "<"
"""Stands between the names of an order, the lower first."""
FORECAST = "forecast."
"""Stands before the name of a number of a forecast, with which a metric may be claimed to correlate."""
FORECAST_NUMBERS = ("growth", "cosine", "gradient", "logits")
"""These numbers: see `plan/forecast.py`."""
FORMS = ("of", "order", "equivalent", "correlation")
"""The forms of a claim, each by its key: a claim has exactly one of them."""


class Expected(Document):
    """A claim, written before it is run, in one of four forms.

    `of` is a variant, judged against the baseline, or an edit: the verdict on the metric is one of `verdict`, which are
    `higher` and `lower` in place of `better` and `worse` where neither side of the metric is better. `order` is
    `a < b < c` of variants, the lowest first, and `equivalent` a list of them: each step of it holds. `correlation` is
    another metric, or a number of the forecast such as `forecast.cosine`, whose correlation with `metric` over the
    variants, within each seed, has the sign `verdict`.
    `by` is the size of the difference (of each step), or of the correlation, that its power is reported for, written as
    a margin is; it has no part in the verdict.
    """

    claim: Annotated[str, Field(min_length=1)]
    of: str | None = None
    metric: str
    verdict: (
        Literal["better", "worse", "higher", "lower", "equivalent", "positive", "negative"]
        | Annotated[
            tuple[Foreseen, ...],
            BeforeValidator(as_tuple),
            Field(min_length=1, description="a list such as [better, equivalent]"),
        ]
    ) = ()
    by: Size | None = None
    order: str | None = None
    equivalent: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] | None = None
    correlation: str | None = None

    @property
    def verdicts(self) -> tuple[Foreseen | Sign, ...]:
        """The verdicts of which one is expected; none of an order or of equivalents, which say it themselves."""
        return self.verdict if isinstance(self.verdict, tuple) else (self.verdict,)

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms that it has; of a claim that was checked exactly one."""
        return tuple(form for form in FORMS if getattr(self, form) is not None)

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants that an order or equivalents name; of an order the lowest first."""
        if self.order is not None:
            return tuple(name.strip() for name in self.order.split(STEP))
        return self.equivalent or ()

    @property
    def about(self) -> str:
        """Its subject in words."""
        if self.correlation is not None:
            return f"with {self.correlation}"
        return (
            self.of
            if self.of is not None
            else f" {STEP} ".join(self.variants)
            if self.order
            else ", ".join(self.variants)
        )


class Judge(Document):
    """What is compared, and against which block. `confidence` is that of the intervals printed.

    `family` is the set over which the chance of any false verdict is bounded: the comparisons on one metric, or on all.
    `budget`: each question has an account of its own, or all those on a metric in the results `folder` that share a
    training have one.
    `pairing` by seed is used where it is possible, or required of every comparison. `expect` are the claims that the
    space is to test.
    """

    metrics: Annotated[dict[str, Judged], Field(min_length=1)]
    against: str
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    family: Literal["metric", "page"] = "metric"
    budget: Literal["question", "folder"] = "question"
    pairing: Literal["possible", "required"] = "possible"
    expect: Annotated[tuple[Expected, ...], BeforeValidator(as_tuple)] = ()


class Noise(Document):
    """A/A arms: the baseline trained again at `seeds` seeds with another initialisation and the same batches.

    The differences are noise: the floor below which no difference between blocks can be detected.
    """

    seeds: Annotated[int, Field(ge=2, le=1_000)]


class Auto(Document):
    """Seeds are added until every comparison is decided, with an interim analysis at each of these numbers of seeds."""

    looks: Annotated[tuple[Annotated[int, Field(ge=2, le=1_000)], ...], BeforeValidator(as_tuple), Field(min_length=1)]


LOOKS = (4, 6, 9, 13, 20)
"""The looks of `seeds: auto`."""
