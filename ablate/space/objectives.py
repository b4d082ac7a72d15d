"""Declarations of objectives: what a model learns to predict, and which families of models can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ablate.extension.configured import Configured
from ablate.extension.kinds import OBJECTIVE, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveSpec(Configured):
    """An objective; `recipe.objective` chooses one.

    `models` are the kinds of models that can have it. `measures` are the metrics that its evaluations give beside
    `eval_loss`. `special` are the tokens that it needs and that stand for no text (`data/special.py`): a tokenizer that
    lacks one gets it as one more id. `likelihood`: its loss is a cross-entropy, to which `recipe.loss` may add.
    """

    kind: ClassVar[Kind] = OBJECTIVE
    models: tuple[str, ...]
    measures: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    likelihood: bool = True
