"""Regression: the class of each example as a vector of numbers, by least squares.

    L = mean_b 1/C ( weight (y_b,class_b - value)² + Σ_{c ≠ class_b} y_bc² )

y are the outputs of the model, C their number. With weight 1 and value 1 this is the mean squared error to one-hot
vectors; Hui & Belkin 2021 take the larger weight and value k and M for many classes, as weight 15 and value 30 of
ImageNet. `eval_accuracy` is the share of examples whose largest output is that of their class. A model that knows only
how frequent the classes are, p_c, gives y_c = weight value p_c / (weight p_c + 1 - p_c), and so at weight 1 reaches
L = value²/C (1 - Σ_c p_c²): 0.09 of ten classes that are equally frequent.

    Hui & Belkin 2021, arXiv:2006.07322, Sec. 3; He et al. 2024, arXiv:2405.19279, App. G
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ablate.train.objectives.declare import Settings, implements, objective

Above = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]


@objective(
    "regression",
    models=("vit", "mlp"),
    reads="records",
    measures=("eval_accuracy",),
    likelihood=False,
    mixtures=True,
    source="Hui & Belkin 2021, arXiv:2006.07322",
    version=1,
)
class Regression(Settings):
    """`regression`, or `regression: {weight: 15, value: 30}`: what the output of the class weighs, and is to be."""

    weight: Above = 1.0
    value: Above = 1.0


from collections.abc import Iterator, Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ablate.data.batch import Batch, Tensors, first
from ablate.data.uniform import Uniform
from ablate.train.loss import each_mixed
from ablate.train.objectives.declare import Given, Term


@implements(Regression)
class Objective:
    """[B, …] examples and their classes [B], or mixtures of two (see `train/loss.py`)."""

    measured: Mapping[str, str] = {"eval_loss": "", "eval_accuracy": ""}

    def __init__(self, settings: Regression, given: Given):
        self.settings = settings

    def batch(self, drawn: Batch, uniform: Uniform) -> Batch:
        return drawn

    def targets(self, batch: Batch) -> Mapping[str, int]:
        return {"": batch.examples}

    def terms(self, output: Tensors, batch: Batch, ahead: Sequence[Tensor] = ()) -> Iterator[Term]:
        yield Term("", each_mixed(batch.targets, lambda class_B: self._squares(output, class_B)).mean())

    def measures(self, output: Tensors, batch: Batch) -> Iterator[Tensor]:
        yield self._squares(output, first(batch.targets)).double().sum()
        yield (first(output).argmax(-1) == first(batch.targets)).double().sum()

    def _squares(self, output: Tensors, class_B: Int[Tensor, "B"]) -> Float[Tensor, "B"]:
        """The loss of each example, in float32 at least."""
        y_BC = first(output)
        y_BC = y_BC.to(torch.promote_types(y_BC.dtype, torch.float32))
        right_BC = torch.nn.functional.one_hot(class_B, y_BC.shape[-1]).to(y_BC.dtype)
        weights_BC = 1 + (self.settings.weight - 1) * right_BC
        return (weights_BC * (y_BC - self.settings.value * right_BC).square()).mean(-1)
