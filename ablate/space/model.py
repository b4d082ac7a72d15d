"""Model: the model around the blocks of a space.

Some of its keys are plain values, some components. Fields of an encoder are only for models of a kind that has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from ablate.block.catalogue import Part
from ablate.block.expression import Node, Sequence
from ablate.block.layers import has_patterns
from ablate.block.reader import Invalid
from ablate.source.document import note_unknown_key, validate
from ablate.source.located import Located, Mapping, Scalar
from ablate.source.problems import Problems
from ablate.space.documents import HINTS, Arithmetic, Count, Decay, Document, Later, OrNone, Positive, SectionReader
from ablate.space.overlay import Origins

# The section `model`


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
    logit_softcap: Annotated[Positive | None, OrNone] = None
    share: Annotated[
        Literal["none"] | SharedInTurn | SharedInARow, Field(description="none, {cycle: 2} or {repeat: 3}"), Later
    ] = "none"
    ahead: Annotated[int, Field(ge=0, le=1_000), Later] = 0
    encoder_layers: Annotated[Annotated[int, Field(ge=1, le=1_000)] | None, OrNone, Later] = None
    segments: Annotated[int, Field(ge=0, le=1_000), Later] = 0
    transform: Annotated[Literal["none", "gelu", "relu", "tanh"], Later] = "none"
    source: Annotated[Annotated[int, Field(ge=1, le=10_000_000)] | None, OrNone, Later] = None
    patch: Annotated[Annotated[int, Field(ge=1, le=10_000)] | None, OrNone, Later] = None
    pooling: Annotated[Literal["class_token", "mean"] | None, OrNone, Later] = None


@dataclass(frozen=True, slots=True)
class Around:
    """The components of the model that are not in its blocks."""

    entry_norm: Node | None
    final_norm: Node | None
    init: Node
    head_init: Node | None = None


# Fields that only models of some kinds have

WITH_ENCODER: Final = "encoder_decoder"
ENCODER_ALONE: Final = "encoder"
OF_ENCODER: Final = {
    "encoder_layers": "how many layers the encoder has",
    "source": "the length of what the encoder reads",
}
"""The fields that only a model of two stacks has."""
OF_ENCODER_ALONE: Final = {
    "segments": "the rows of a table that tells the parts of a sequence apart",
    "transform": "a layer before the head of an encoder",
}
"""The fields that only an encoder has."""
NO_VALUES: Final = (None, 0, "none")  # the values of such a field where it is not set


def check_encoder(model: Model, origins: Origins, problems: Problems) -> None:
    for field, what in OF_ENCODER.items() if model.kind != WITH_ENCODER else ():
        if getattr(model, field) is not None:
            message = f"model.{field} is {what}, but a model of kind {model.kind} has none beside its own layers"
            notes = (f"leave it out, or set model.kind: {WITH_ENCODER}",)
            origins.add(problems, message, ("model", field), notes=notes)
    for field, what in OF_ENCODER_ALONE.items() if model.kind != ENCODER_ALONE else ():
        if getattr(model, field) not in NO_VALUES:
            message = f"model.{field} is {what}, but model.kind is {model.kind}"
            notes = (f"leave it out, or set model.kind: {ENCODER_ALONE}",)
            origins.add(problems, message, ("model", field), notes=notes)


def check_source(model: Model, frames: int | None, origins: Origins, problems: Problems) -> None:
    """Report an encoder whose source has no length; `frames` is the number that an example of its corpus has, if any.

    Of text any length will do.
    """
    if model.kind == WITH_ENCODER and model.source is None:
        length = "128" if frames is None else f"{frames}, the frames of an example of its corpus"
        message = f"model.kind is {model.kind}, but model.source is not given"
        notes = (f"it is {OF_ENCODER['source']}, as model.context is that of the decoder: source: {length}",)
        origins.add(problems, message, ("model", "kind"), notes=notes)


COMPONENTS = {
    "entry_norm": Part("norm", optional=True),
    "final_norm": Part("norm", optional=True),
    "init": Part("init"),
    "head_init": Part("init", optional=True),
}
"""The keys of `model` that hold components; the others are plain values."""
NOT_NEEDED = frozenset({"head_init"})  # those of them that came later: left out they are none


class ModelReader(SectionReader):
    def read(self) -> tuple[Model | None, Around | None]:
        located = self.located.get("model")
        if not isinstance(located, Mapping):
            return self.section("model", Model), None
        located = self._spelt(located)
        plain = tuple((key, value) for key, value in located.entries if key.value in Model.model_fields)
        model = validate(Model, self.opened("model", plain), self.problems, "model", HINTS)
        if model is not None and model.width % model.heads:
            self._note_heads(model)
        return model, self._around(located)

    def _spelt(self, located: Mapping) -> Mapping:
        """Note unknown keys of `model`, and read each as the one most likely meant, so that it is not missing too."""
        plain = Model.model_fields
        known = (*plain, *COMPONENTS)
        needed = [word for word in COMPONENTS if word not in NOT_NEEDED]
        required = [word for word in known if word in needed or (word in plain and plain[word].is_required())]
        entries: list[tuple[Scalar, Located]] = []
        for key, value in located.entries:
            if key.value in known:
                entries.append((key, value))
                continue
            free = [word for word in required if word not in located]
            meant = note_unknown_key(self.problems, key, "model", known, free, "model accepts", HINTS)
            if meant is not None:
                entries.append((Scalar(meant, key.text, key.span), value))
        return Mapping(tuple(entries), located.span)

    def _note_heads(self, model: Model) -> None:
        fitting = next(h for h in range(min(model.heads, model.width), 0, -1) if model.width % h == 0)
        near = model.heads * max(1, round(model.width / model.heads))
        notes = (f"heads must divide the width: set heads to {fitting}, or the width to {near}",)
        message = f"{model.heads} heads do not divide the width {model.width}"
        self.origins.add(self.problems, message, ("model", "heads"), ("model", "width"), notes=notes)

    def _around(self, located: Mapping) -> Around | None:
        reader = self.grammar.reader_for(self.problems)
        parts: dict[str, Node | None] = {}
        for name, kind in COMPONENTS.items():
            value = located.get(name)
            if value is None and name in NOT_NEEDED:
                parts[name] = None
                continue
            if value is None:
                self.problems.add(f"missing key {name!r} in model", self.located.key("model").span)
                continue
            try:
                part = reader.value(value, kind)
            except Invalid:
                continue
            assert part is None or isinstance(part, Node)
            if part is not None and has_patterns(Sequence((part,)), reader.catalogue):
                message, notes = f"{name} is outside the layers, where no pattern applies", ("give a single component",)
                self.problems.add(message, value.span, notes=notes)
                continue
            parts[name] = part
        if len(parts) < len(COMPONENTS) or parts["init"] is None:
            return None
        return Around(parts["entry_norm"], parts["final_norm"], parts["init"], parts["head_init"])
