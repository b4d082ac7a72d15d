"""The cross-entropy of the targets, for the objectives that minimise it.

    L = - mean_n log softmax(logits_n)[target_n]        over the targets n of a batch

and what `recipe.loss` adds to it (`train/loss.py`). `eval_accuracy` is the share of the targets that have the largest
logit, the first of several equal ones.

Dimension key: B batch, N targets, C classes or tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from ablate.data.batch import NO_TARGET, Batch, Tensors, first
from ablate.train.loss import added_by_recipe, cross_entropy
from ablate.train.objectives.declare import Given, Term


class CrossEntropy:
    """An objective whose first output is logits [B, …, C], with targets [B, …]; a target of NO_TARGET is left out."""

    measured: Mapping[str, str] = {"eval_loss": "", "eval_accuracy": ""}

    def __init__(self, settings: Any, given: Given):
        self.settings, self.sizes, self.loss = settings, given.sizes, given.loss

    def targets(self, batch: Batch) -> Mapping[str, int]:
        return {"": int((first(batch.targets) != NO_TARGET).sum())}

    def terms(self, output: Tensors, batch: Batch, ahead: Sequence[Tensor] = ()) -> Iterator[Term]:
        logits_NC, targets_N = self.predicted(output, batch)
        loss = cross_entropy(logits_NC, targets_N)
        yield Term("", loss)
        for place, added in added_by_recipe(logits_NC, loss, self.loss):
            yield Term(place, added)

    def measures(self, output: Tensors, batch: Batch) -> Iterator[Tensor]:
        logits_NC, targets_N = self.predicted(output, batch)
        yield cross_entropy(logits_NC, targets_N, reduction="none").double().sum()
        if "eval_accuracy" in self.measured:
            yield (logits_NC.argmax(-1) == targets_N).double().sum()

    def predicted(self, output: Tensors, batch: Batch) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N"]]:
        logits_NC, targets_N = first(output).flatten(0, -2), first(batch.targets).flatten()
        there = targets_N != NO_TARGET
        return logits_NC[there], targets_N[there]
