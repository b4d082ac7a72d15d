"""A recipe as one document all the way down: nested documents, unions, lists, shares and bounds."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field

from ablate.space.documents import Count, Decay, Document, NotNegative, Positive, Share, as_tuple

Kind = Literal["weights", "embedding", "head", "positions", "gains", "scales", "biases"]


class AdamW(Document):
    lr: Positive
    betas: Annotated[tuple[Decay, Decay], BeforeValidator(as_tuple)]
    eps: Positive
    eps_when: Literal["after_correction", "before_correction"]
    weight_decay: NotNegative
    decays: Annotated[
        tuple[Kind, ...], BeforeValidator(as_tuple), Field(description=f"a list of {', '.join(get_args(Kind))}")
    ]
    decay_when: Literal["before_update", "after_update"]
    embedding_lr: Positive | None


class Optimizer(Document):
    adamw: AdamW


class EndRate(Document):
    rate: NotNegative


class Schedule(Document):
    warmup: Share
    decay: Literal["linear", "cosine", "constant"]
    floor: Share | EndRate
    from_zero: bool


class Recipe(Document):
    steps: Count
    batch: Count
    clip: Positive | None
    optimizer: Optimizer
    schedule: Schedule
    dtype: Literal["float32", "float64", "bfloat16"]
