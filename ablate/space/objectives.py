"""Declarations of objectives: what a model learns to predict, and which families of models can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from ablate.extension.configured import Configured
from ablate.extension.kinds import OBJECTIVE, Kind

Reads: TypeAlias = Literal["text", "pairs", "records"]
"""What batches are made of: windows of a stream of text, pairs of a source and a target, or records such as images."""
Special: TypeAlias = Literal["padding", "start", "mask"]
"""What an objective may need tokens for that stand for no text: see `data/special.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveSpec(Configured):
    """An objective; `recipe.objective` chooses one.

    `models` are the kinds of models that can have it, `reads` what its batches are made of, such as text. `measures`
    are the metrics that its evaluations give beside `eval_loss`. `likelihood`: its loss is a cross-entropy, to which
    `recipe.loss` may add. `mixtures`: of an example it takes two classes [B] each, and the share of the first [B].
    """

    kind: ClassVar[Kind] = OBJECTIVE
    models: tuple[str, ...]
    reads: Reads = "text"
    measures: tuple[str, ...] = ()
    likelihood: bool = True
    mixtures: bool = False
