"""Documents: the kinds of values that sections of a space hold, and the reader of a section.

A document is frozen and strict, and every field is required: what is left out comes from the grammar. Values that it
refuses have hints, by their addresses.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, JsonValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from ablate.block.arithmetic import Expression, parse
from ablate.block.catalogue import additions_at_default
from ablate.extension.declaration import ADDED, Configured, Kind
from ablate.grammar.grammar import Grammar
from ablate.source.document import Hints, validate
from ablate.source.located import Located, Mapping, Scalar
from ablate.source.problems import Problems, drawn, quote
from ablate.space.overlay import Origins, replaced

# A choice among the things of one kind, with its settings: `optimizer: {sgd: {lr: 0.1, …}}`, `sampler: tpe`.
#
# The settings of a corpus stand side by side, and its name is the key of one: `corpus: {hub: NAME, split: train, …}`.


@dataclass(frozen=True, slots=True)
class Choice:
    """A thing of some kind by its name, with its settings: `{name: settings}`, or just the name if it has none.

    The settings are plain JSON values, so that a trial can be sent to any machine; `Configured.read` turns them into
    the document that the thing declares.
    """

    name: str
    settings: Map[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        settings = ", ".join(f"{name}: {value}" for name, value in self.settings.items())
        return f"{self.name} ({settings})" if settings else self.name

    def plain(self) -> str | dict[str, JsonValue]:
        return {self.name: dict(self.settings)} if self.settings else self.name

    @classmethod
    def of(cls, value: object) -> Choice:
        """Read the form of a document; PydanticCustomError for anything else."""
        if isinstance(value, Choice):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Map) and len(value) == 1:
            ((name, settings),) = value.items()
            if isinstance(settings, Map):
                return cls(str(name), dict(settings))
        raise PydanticCustomError("choice", "expected one name with its settings")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.of, serialization=core_schema.plain_serializer_function_ser_schema(cls.plain)
        )


class CorpusChoice(Choice):
    __slots__ = ()

    def plain(self) -> str | dict[str, JsonValue]:
        return dict(self.settings) if self.settings else self.name

    @classmethod
    def of(cls, value: object) -> CorpusChoice:
        if isinstance(value, CorpusChoice):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Map) and value:
            return cls(str(next(iter(value))), dict(value))
        raise PydanticCustomError("corpus", "expected the name of a corpus, or a mapping that begins with it")


def read_choice(
    located: Located, kind: Kind, known: Map[str, Configured], where: str, problems: Problems, hints: Hints
) -> Choice | None:
    """Read the choice, at the address `where`, among the `known` things; None after a mistake, which is noted."""
    body: Located
    if isinstance(located, Scalar) and isinstance(located.value, str):
        name, body, key = located.value, Mapping((), located.span), located
    elif isinstance(located, Mapping) and len(located.entries) == 1:
        ((key, value),) = located.entries
        name, body = str(key.value), value
    else:
        names = ", ".join(key.text for key, _ in located.entries) if isinstance(located, Mapping) else ""
        message = f"{where} must name one {kind.noun}" + (f", not {names}" if names else "")
        listing = (f"one of: {', '.join(known)}",) if len(known) <= 12 else (f"`ablate list {kind.plural}` lists them",)
        problems.add(message, located.span, notes=listing)
        return None
    if name not in known:
        message, command = f"unknown {kind.noun} {quote(key.text)}", f"ablate list {kind.plural}"
        notes: tuple[str, ...] = ()
        if has := [name for name, each in known.items() if key.text in each.settings.model_fields]:
            notes = (f"{key.text} is a setting: {where.rpartition('.')[2]}: {{{has[0]}: {{{key.text}: …}}}}",)
        problems.add_unknown(message, key.span, key.text, known, f"{where} accepts", command=command, notes=notes)
        return None
    if not isinstance(body, Mapping):
        fields = ", ".join(known[name].settings.model_fields) or "it has none"
        problems.add(f"{where}.{name} must be a mapping of its settings", body.span, notes=(f"its settings: {fields}",))
        return None
    settings = validate(known[name].settings, Mapping(body.entries, key.span), problems, f"{where}.{name}", hints)
    if settings is None:
        return None
    return Choice(name, settings.model_dump(mode="json", exclude=additions_at_default(settings)))


# Paths that a space names: they stay in its folder unless they are absolute, and files from elsewhere are reported.
#
# So someone else's space reads only what lies beside it, unless it says otherwise explicitly.

ELSEWHERE = "give an absolute path for a file elsewhere: it is then read, and reported"


def checked_pattern(pattern: str) -> str:
    """Return a glob pattern as it is; ValueError if it could lead out of its folder without being absolute."""
    if "\0" in pattern:
        raise ValueError("a path cannot hold a null character")
    try:
        absolute = Path(pattern).expanduser().is_absolute()
    except RuntimeError:
        raise ValueError(f"the home folder in {quote(pattern)} is not known; write out the path") from None
    if not absolute and ".." in PurePath(pattern).parts:
        raise ValueError("'..' leads out of the folder of the space; give an absolute path for files elsewhere")
    return pattern


def is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def from_elsewhere(names: tuple[str, ...], folder: Path, what: str) -> tuple[str, ...]:
    """Return a note for each absolute path or pattern among `names` that does not start in `folder`."""
    absolute = (name for name in names if Path(name).expanduser().is_absolute())
    return tuple(
        f"{what} {drawn(name)} is from outside the folder of the space"
        for name in absolute
        if not is_inside(before_wildcards(Path(name).expanduser()), folder)
    )


def before_wildcards(pattern: Path) -> Path:
    wild = next((n for n, part in enumerate(pattern.parts) if any(sign in part for sign in "*?[")), len(pattern.parts))
    return Path(*pattern.parts[:wild])


class Document(BaseModel):
    """A frozen, strict document: a key that is not declared is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def as_share(value: object) -> object:
    """Convert `5%` to 0.05; return anything else as it is."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100
        except ValueError:
            return value
    return value


def as_real(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _arithmetic(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    expression = parse(value)
    if expression.constant is not None and expression.constant <= 0:
        raise PydanticKnownError("greater_than", {"gt": 0})
    return expression


def none_as_null(value: object) -> object:
    return None if value == "none" else value


PERCENT = r"^\d*[1-9]\d*(\.\d+)?%$|^\d+\.\d*[1-9]\d*%$"  # a share above 0 %, as it is written


Real = Annotated[float, BeforeValidator(as_real), Field(allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(as_real), Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, BeforeValidator(as_real), Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(as_real), BeforeValidator(as_share), Field(ge=0, le=1)]
Decay = Annotated[float, BeforeValidator(as_real), BeforeValidator(as_share), Field(ge=0, lt=1)]
PositiveDecay = Annotated[float, BeforeValidator(as_real), BeforeValidator(as_share), Field(gt=0, lt=1)]
OrNone = BeforeValidator(none_as_null)
Later = Field(json_schema_extra={ADDED: True})
"""Marks a field that came later: identities leave it out at its default."""
Count = Annotated[int, Field(ge=1)]
Length = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[float, BeforeValidator(as_share), Field(ge=0, le=1)],
    Field(description="a number of steps such as 100, or a share of them such as 5%"),
]
"""A whole number is a number of steps, anything else a share of all steps: 1 is one step, 1.0 and 100% are all."""


def counted(length: int | float, steps: int) -> int:
    """Convert a length to steps: an integer is a number of steps, a float a share of `steps`, rounded.

    >>> counted(100, 2000), counted(0.05, 2000), counted(1, 2000), counted(1.0, 2000)
    (100, 100, 1, 2000)
    """
    return length if isinstance(length, int) else round(length * steps)


Arithmetic = Annotated[
    Expression,
    BeforeValidator(_arithmetic),
    Field(description="a number, or arithmetic in the sizes such as 1/sqrt(width)"),
]
"""Above 0. An expression that names a size is evaluated and checked when a model is planned."""


# Hints for values that documents refuse: what is accepted, and what other programs call it

PAIR = "{from: pre_ln, to: op}"

WAYS: Final = {
    "data": "such as data: {corpus: python_stdlib, tokenizer: bytes}",
    "data.corpus": "of the hub: {hub: NAME, split: train, field: text}; images: {hub_images: NAME, split: train, "
    "image: img, label: label, size: 32, classes: 10}; files of your own: {files: ['texts/**/*.txt']}",
    "data.corpus.files": "such as files: ['texts/**/*.txt']",
    "data.corpus.jsonl": "such as jsonl: ['texts/**/*.jsonl'], with field: the key that holds the text",
    "data.corpus.parquet": "such as parquet: ['texts/**/*.parquet'], with field: the column that holds the text",
    "data.corpus.at_most": "the most that is read of it: a number of bytes, or a size such as 4 GiB; if left out, "
    "1 GiB, and all of local files",
    "data.tokenizer": "bytes, {bpe: 32000}, {wordpiece: 32768}, {unigram: 8000}, or a saved one: {file: "
    "tokenizer.json}. A space has one; across tokenizers `ablate sql @across_tokenizers` compares bits per byte",
    "data.tokenizer.file": "a file that the library tokenizers saved, beside the space: tokenizer.json",
    "data.tokenizer.bpe": "the size of the vocabulary: 256 bytes, a separator, and the merges",
    "data.tokenizer.unigram": "the size of the vocabulary, from 262 to 65536",
    "data.tokenizer.wordpiece": "the size of the vocabulary, from 6 to 65536, or {size: 32768, lowercase: false}",
    "data.tuning": "a share of the text: 5% or 0.05",
    "data.verdict": "a share of the text: 5% or 0.05",
    "design": f"such as design: {{path: {PAIR}}}, or design: {{compare: [pre_ln, op]}}",
    "design.compare": "such as compare: [pre_ln, op]",
    "design.path": f"such as path: {PAIR}",
    "design.leave_one_out": f"such as leave_one_out: {PAIR}",
    "design.add_one_in": f"such as add_one_in: {PAIR}",
    "design.factorial": f"such as factorial: {PAIR}",
    "design.factorial.vary": "such as vary: {model.layers: [4, 8, 16]}",
    "design.search.start": "a rule that the grammar lists under start",
    "design.search.vary": "such as vary: {recipe.optimizer.adamw.lr: {from: 1e-4, to: 1e-1, scale: log}}",
    "design.fractional": "such as fractional: {from: pre_ln, to: op, resolution: IV}",
    "design.fractional.resolution": (
        "III aliases edits with pairs, IV pairs with each other, V neither; for no aliasing at all: factorial"
    ),
    "design.*.interactions": "pairs: also interactions of two edits; none: only the effect of each edit",
    "design.plackett_burman": f"such as plackett_burman: {PAIR}",
    "design.d_optimal": "such as d_optimal: {from: pre_ln, to: op, runs: 12}",
    "design.*.split": "name edits to split place by place: [-layer_norm], or true for all",
    "design.ladder": "such as ladder: {compare: [pre_ln, op], sizes: [{model.width: 32}, {model.width: 48}, …]}",
    "design.ladder.compare": "such as compare: [pre_ln, op]",
    "design.ladder.law": "power: a·C^-b; saturating: E + a·C^-b, from four sizes on",
    "design.search": "such as search: {from: pre_ln, objective: {eval_loss: min}, budget: {trials: 60}}",
    "design.search.objective": "such as objective: {eval_loss: min}",
    "design.search.objective.*": "min: lower is better; max: higher is better",
    "design.search.budget": "such as budget: {trials: 60}, {hours: 8} or {flops: 1e18}",
    "design.search.pruner": "such as pruner: {asha: {first: 25%, factor: 2}}, or pruner: none",
    "design.search.pruner.*": "such as {first: 25%, factor: 2}: the best half continue after a quarter of the steps",
    "design.search.beforehand": "such as beforehand: {veto: {parameters: 110%}, order: null}",
    "design.search.beforehand.veto": "such as veto: {parameters: 110%}",
    "design.search.beforehand.veto.*": "a share of the reference's value such as 110%, or a number above 0",
    "design.search.beforehand.forecast": "avoid skips what a forecast finds in danger; ignore trains it like any other",
    "design.search.beforehand.order": "such as order: {by: parameters, of: 4}: of 4 proposals the smallest is trained",
    "design.search.beforehand.order.of": "the number of proposals of which one is trained",
    "design.search.confirm": "such as confirm: {blocks: 3, seeds: 5}, or confirm: none",
    "fair": "such as fair: {budget: flops}, or fair: {match: {parameters: 1%, by: width}}",
    "fair.budget": "wallclock is equal time; steps and tokens are the same, since all batches have one size",
    "fair.match": "such as match: {parameters: 1%, by: width}",
    "fair.*match.by": "what is changed to make the parameters equal: the model's width or depth, or its MLPs",
    "fair.*match.parameters": "how far from equal they may be, such as 1%",
    "fair.tune": "such as tune: {lr: [1e-3, 3e-3, 1e-2], seeds: 2}",
    "fair.under": "name the terms: under: {equal steps: {}, equal FLOPs: {budget: flops}}",
    "fair.under.*": "such as {budget: flops}, or {match: {parameters: 1%, by: width}}",
    "judge": "such as judge: {against: pre_ln, metrics: {eval_loss: {margin: 1%}}}",
    "judge.against": "one block that the others are compared with: against: pre_ln",
    "judge.confidence": "the confidence level of the intervals, such as 0.95",
    "judge.expect": "such as expect: [{claim: Fig. 6, of: hot, metric: eval_loss, verdict: better}]",
    "judge.expect*.verdict": (
        "better, worse or equivalent (higher or lower where neither is better), or a list of what the claim allows"
    ),
    "judge.expect*.order": "variants, the lowest first: order: a < b < c",
    "judge.expect*.equivalent": "variants that are all equivalent: equivalent: [a, b, c]",
    "judge.expect*.correlation": "another metric, of which the correlation over the variants is meant",
    "judge.expect*.by": "a share of the baseline's mean such as 2%, or a number such as 0.05: what its power is for",
    "judge.pairing": "possible: by seed, where both sides see the same batches; required: of every comparison",
    "judge.budget": "question: each has an account of its own; folder: one for all that share a training",
    "judge.family": "metric: the comparisons on one metric; page: those on all metrics",
    "judge.metrics": "such as metrics: {eval_loss: {margin: 1%}, peak_kurtosis: {scale: log}}",
    "judge.metrics.*.margin": "a share of the baseline's mean such as 1%, a number such as 0.01, or none",
    "judge.metrics.*.scale": "log: differences are ratios",
    "judge.metrics.*.better": "which side is better: lower, higher, or none for one that is only higher or lower",
    "judge.metrics.*": "such as {margin: 1%}; {} for the defaults",
    "measure": "such as measure: {every: 25, probes: [kurtosis], evaluation: {every: 100, windows: 64}}",
    "measure.evaluation": "such as evaluation: {every: 100, windows: 64}",
    "measure.probes": "`ablate list probes` lists them",
    "measure.train_loss_ema": "the decay of its moving average, such as train_loss_ema: 0.99; none: it is not measured",
    "model": "such as model: {layers: 6, width: 128, heads: 4, context: 64, head: untied, init: {normal: 0.02}}",
    "model.ahead": "a number of blocks, one for each weight of recipe.loss.ahead; 0: none",
    "model.embedding": "such as embedding: {std: 0.02, scale: 1}",
    "model.encoder_layers": "a number of layers, or none: as many as the decoder's",
    "model.source": "the length of what the encoder reads, such as 128; none of a model without an encoder",
    "model.head": "tied: the embedding's matrix is the head's",
    "model.logit_softcap": "a bound such as 30, or none",
    "model.share": "such as share: {cycle: 2} for layers A B A B, {repeat: 2} for A A B B, or none",
    "model.position": "learned ones: {learned: 0.02}; rope is the attention's: block: {attention.position: rope}",
    "noise": "such as noise: {seeds: 5}",
    "recipe": "such as recipe: {steps: 200, batch: 8, optimizer: {adamw: {lr: 1e-3}}}",
    "recipe.average": "such as average: {last: 10, every: 500} or average: {ema: 0.999}; none: no average",
    "recipe.batch_ramp": "such as batch_ramp: {from: 32, until: 60%}, or none",
    "recipe.batch_ramp.from": "the sequences of the first batch; recipe.batch is where the ramp ends",
    "recipe.batch_ramp.until": "steps such as 100, or a share of all of them: 60% or 0.6",
    "recipe.clip": "a norm such as 1.0, or null for no clipping",
    "recipe.dtype": "half precision is bfloat16, or float16, whose loss is scaled: recipe.loss_scale",
    "recipe.loss_scale": "of float16, such as loss_scale: {initial: 65536, every: 2000}; none: these",
    "recipe.loss": "such as loss: {label_smoothing: 0.1, z: 1e-4, ahead: [0.5, 0.25]}",
    "recipe.optimizer": "such as optimizer: {adamw: {lr: 1e-3}}",
    "recipe.optimizer.adamw": "such as adamw: {lr: 1e-3, betas: [0.9, 0.95], weight_decay: 0.1}",
    "recipe.optimizer.adamw.betas": "such as betas: [0.9, 0.95]",
    "recipe.optimizer.adamw.decays": "such as decays: [weights, embedding, head]",
    "recipe.schedule": "such as schedule: {warmup: 5%, decay: cosine}",
    "recipe.schedule.floor": "a share of the rate: 10%; or a rate: {rate: 1e-5}",
    "recipe.schedule.warmup": "steps such as 100, or a share of all of them: 5% or 0.05",
    "recipe.schedule.hold": "steps at the peak, such as 100, or a share of all of them: 5% or 0.05",
    "recipe.schedule.decay.wsd.over": "a share of all steps: 20% or 0.2",
    "seeds.auto": "such as seeds: auto, or seeds: {auto: {looks: [4, 8, 12]}}",
    "seeds.auto.looks": "such as looks: [4, 8, 12]",
}
"""By the name of the value, where the error message alone does not show what to write."""

CONFIGURED_ELSEWHERE: Final = {
    "model.layers": "n_layer n_layers num_layers num_hidden_layers depth",
    "model.width": "n_embd hidden_size d_model dim embed_dim hidden_dim",
    "model.heads": "n_head n_heads num_heads num_attention_heads",
    "model.context": "block_size seq_len seq_length max_seq_len sequence_length context_length n_ctx "
    "max_position_embeddings n_positions",
    "model.head, tied or untied": "tie_word_embeddings tie_embeddings tie_weights weight_tying",
    "the vocabulary is the tokenizer's: data.tokenizer": "vocab_size vocabulary",
    "for every block: block: {mlp.hidden: 4x}": "intermediate_size ffn_dim d_ff",
    "for every block: block: {mlp.activation: relu}": "activation hidden_act activation_function",
    "for every block: block: {attention.dropout: 0.1}; of the embedding: model.embedding.dropout": "dropout",
    "recipe.optimizer.adamw.lr": "lr learning_rate max_lr peak_lr",
    "recipe.batch_ramp": "batch_size_ramp rampup_batch_size batch_size_rampup",
    "recipe.batch": "batch_size train_batch_size per_device_train_batch_size bs",
    "recipe.steps": "max_steps max_iters num_steps n_steps iterations train_steps",
    "there are no epochs: recipe.steps, of recipe.batch each": "epochs num_epochs num_train_epochs",
    "recipe.clip": "grad_clip gradient_clip max_grad_norm clip_grad_norm gradient_clip_val",
    "recipe.schedule.warmup": "warmup_steps warmup_iters warmup_ratio num_warmup_steps warmup_fraction",
    "recipe.schedule.decay": "lr_scheduler lr_scheduler_type scheduler lr_schedule",
    "recipe.schedule.floor": "min_lr final_lr end_lr",
    "recipe.optimizer.adamw.betas": "beta1 beta2 adam_beta1 adam_beta2",
    "recipe.optimizer.adamw.weight_decay": "weight_decay",
    "recipe.dtype": "precision mixed_precision fp16 bf16",
    "recipe.loss_scale": "init_scale initial_scale_power grad_scaler",
    "measure.evaluation.every": "eval_interval eval_steps eval_every",
    "measure.evaluation.windows": "eval_iters eval_batches",
    "measure.checkpoint_every": "save_steps save_interval checkpoint_interval",
    "measure.every": "log_interval logging_steps log_every",
    "data.corpus": "dataset train_data data_dir",
    "here it is data: {corpus: {files: ['texts/**/*.txt']}}": "files",
    "here it is data: {corpus: {hub: NAME, split: train, field: text}}": "hub",
    "here it is data: {corpus: {hub: NAME, split: train, field: text, at_most: 4 GiB}}": "at_most",
    "all variants of a space share one: data.tokenizer": "tokenizer",
    "space": "name",
    "recipe": "training train trainer training_args",
    "where trials run is not part of the question: see ablate run --help": "device gpus num_gpus num_workers "
    "accelerator strategy workers executor",
    "runs are mirrored to MLflow: ablate run --mlflow": "wandb logger logging tracker mlflow",
    "the kind is a key, with its settings as the value: {adamw: {lr: 1e-3}}": "type _target_",
    "what a space leaves out comes from its grammar": "defaults",
}
"""The way to write a thing here, and the keys for it in configurations of GPT, Transformers, Lightning and Hydra."""
OTHER_NAMES: Final = {name: here for here, names in CONFIGURED_ELSEWHERE.items() for name in names.split()}
HINTS: Final = Hints(WAYS, OTHER_NAMES)


T = TypeVar("T", bound=BaseModel)
C = TypeVar("C", bound=Configured)


class AsRead:
    """A value that its own reader reads: a document takes it without validation."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        return core_schema.is_instance_schema(cls)


class SectionReader:
    """Reads from a resolved space: mistakes are noted at their places, and what has one, or is missing, is None."""

    def __init__(self, located: Mapping, grammar: Grammar, problems: Problems, origins: Origins):
        self.located, self.grammar, self.problems, self.origins = located, grammar, problems, origins

    def section(self, name: str, document: type[T]) -> T | None:
        located = self.located.get(name)
        if isinstance(located, Mapping):
            located = self.opened(name, located.entries)
        return None if located is None else validate(document, located, self.problems, name, HINTS)

    def opened(self, name: str, entries: tuple[tuple[Scalar, Located], ...]) -> Mapping:
        """Locate a section at its own key, so that missing keys are reported there, not at its first entry."""
        return Mapping(entries, self.located.key(name).span)

    def chosen(self, located: Mapping, spec: type[C], where: str) -> Choice | None:
        """Read a choice among the things of a kind, at the last key of an address; None if that is missing."""
        value = located.get(where.rpartition(".")[2])
        known = self.grammar.catalogue.of_kind(spec)
        return None if value is None else read_choice(value, spec.kind, known, where, self.problems, HINTS)

    def whole(self, name: str) -> int | None:
        located = self.located.get(name)
        if located is None:
            return None
        if not isinstance(located, Scalar) or type(located.value) is not int or located.value < 1:
            extra = ", a list of different ones, or auto" if name == "seeds" else ""
            notes = ("such as seeds: 3, seeds: [7, 8] or seeds: auto",) if name == "seeds" else ()
            self.problems.add(f"{name} must be a whole number of at least 1{extra}", located.span, notes=notes)
            return None
        return located.value


def without_settings(located: Mapping, key: str) -> Mapping:
    """Put a bare word at a key of a mapping: the choice there is read separately, with its settings."""
    return replaced(located, key, Scalar("chosen", "chosen", located[key].span)) if key in located else located
