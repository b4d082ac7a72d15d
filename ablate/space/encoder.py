"""The check that a model has what an encoder needs where it has one, and nothing of it where it has none."""

from __future__ import annotations

from typing import Final

from ablate.source.problems import Problems
from ablate.space.documents import Model
from ablate.space.origin import Origins

WITH_ENCODER: Final = "encoder_decoder"
OF_ENCODER: Final = {
    "encoder_layers": "how many layers the encoder has",
    "source": "the length of what the encoder reads",
}
"""The fields that only a model of two stacks has."""


def check_encoder(model: Model, origins: Origins, problems: Problems) -> None:
    """Report fields of an encoder in a model without one, and an encoder whose source has no length."""
    if model.kind == WITH_ENCODER:
        if model.source is None:
            message = f"model.kind is {model.kind}, but model.source is not given"
            notes = (f"it is {OF_ENCODER['source']}, as model.context is that of the decoder: source: 128",)
            origins.add(problems, message, ("model", "kind"), notes=notes)
        return
    for field, what in OF_ENCODER.items():
        if getattr(model, field) is not None:
            message = f"model.{field} is {what}, but a model of kind {model.kind} has none beside its own layers"
            notes = (f"leave it out, or set model.kind: {WITH_ENCODER}",)
            origins.add(problems, message, ("model", field), notes=notes)
