"""Next token: each token predicts the one after it, from those before.

    L = - mean_bt log softmax(logits_bt)[token_b,t+1]

and, with weights `recipe.loss.ahead`, A_k, the same for the k-th token ahead (`train/loss.py`). An evaluation of text
whose tokens say how many bytes they were gives bits per byte too.

    Shannon 1948, doi:10.1002/j.1538-7305.1948.tb01338.x
"""

from __future__ import annotations

from ablate.train.objectives.declare import Settings, implements, objective


@objective(
    "next_token",
    models=("decoder",),
    measures=("eval_bits_per_byte", "perplexity"),
    source="Shannon 1948, doi:10.1002/j.1538-7305.1948.tb01338.x",
    version=1,
)
class NextToken(Settings):
    """No settings: `objective: next_token`."""


from collections.abc import Iterator, Mapping, Sequence

from jaxtyping import Float, Int
from torch import Tensor

from ablate.data.batch import Batch, Tensors, first
from ablate.data.uniform import Uniform
from ablate.train.loss import further_ahead
from ablate.train.objectives.cross_entropy import CrossEntropy
from ablate.train.objectives.declare import Term


@implements(NextToken)
class Objective(CrossEntropy):
    """[B, T] tokens and the tokens [B, T] one position later."""

    measured: Mapping[str, str] = {"eval_loss": ""}

    def batch(self, drawn: Batch, uniform: Uniform) -> Batch:
        return drawn

    def targets(self, batch: Batch) -> Mapping[str, int]:
        return {"": first(batch.targets).numel()}

    def terms(self, output: Tensors, batch: Batch, ahead: Sequence[Tensor] = ()) -> Iterator[Term]:
        loss, *others = super().terms(output, batch)
        yield loss
        for place, added in further_ahead(first(output), first(batch.targets), self.loss, ahead):
            yield Term(place, added)
        yield from others

    def predicted(self, output: Tensors, batch: Batch) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N"]]:
        return first(output).flatten(0, 1), first(batch.targets).flatten()
