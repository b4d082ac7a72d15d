"""The check that a model has what its kind needs, and nothing that only another kind has."""

from __future__ import annotations

from typing import Final

from ablate.source.problems import Problems
from ablate.space.documents import Model
from ablate.space.origin import Origins

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
NOTHING: Final = (None, 0, "none")
"""The values of such fields that say that there is none."""


def check_encoder(model: Model, origins: Origins, problems: Problems) -> None:
    """Report fields of an encoder in a model without one."""
    if model.kind != WITH_ENCODER:
        for field, what in OF_ENCODER.items():
            if getattr(model, field) is not None:
                message = f"model.{field} is {what}, but a model of kind {model.kind} has none beside its own layers"
                notes = (f"leave it out, or set model.kind: {WITH_ENCODER}",)
                origins.add(problems, message, ("model", field), notes=notes)
    if model.kind != ENCODER_ALONE:
        for field, what in OF_ENCODER_ALONE.items():
            if getattr(model, field) not in NOTHING:
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
