"""Classification: the class of each example, such as the digit on an image.

    L = - mean_b log softmax(logits_b)[class_b]

`recipe.loss.label_smoothing` and `recipe.loss.z` are added as they are to the loss of tokens (`train/loss.py`): with ε
the class has a probability of 1 - ε + ε/C, and every other ε/C. A model that knows only how frequent the classes are,
p_c, reaches L = - Σ_c p_c log p_c, which is ln C where they are equally frequent, and the accuracy max_c p_c.

    Szegedy et al. 2016, arXiv:1512.00567, Sec. 7 (label smoothing)
"""

from __future__ import annotations

from ablate.train.objectives.declare import Settings, implements, objective


@objective(
    "classification",
    models=("vit", "mlp"),
    reads="records",
    measures=("eval_accuracy",),
    mixtures=True,
    source="Szegedy et al. 2016, arXiv:1512.00567",
    version=1,
)
class Classification(Settings):
    """No settings: `objective: classification`."""


from collections.abc import Iterator, Sequence

from torch import Tensor

from ablate.data.batch import Batch, Tensors, first
from ablate.data.uniform import Uniform
from ablate.train.loss import added_by_recipe, cross_entropy, each_mixed
from ablate.train.objectives.cross_entropy import CrossEntropy
from ablate.train.objectives.declare import Term


@implements(Classification)
class Objective(CrossEntropy):
    """[B, …] examples and their classes [B], or mixtures of two (see `train/loss.py`)."""

    def batch(self, drawn: Batch, uniform: Uniform) -> Batch:
        return drawn

    def terms(self, output: Tensors, batch: Batch, ahead: Sequence[Tensor] = ()) -> Iterator[Term]:
        if isinstance(batch.targets, Tensor):
            yield from super().terms(output, batch, ahead)
            return
        logits_BC = first(output)
        loss = each_mixed(batch.targets, lambda class_B: cross_entropy(logits_BC, class_B, reduction="none")).mean()
        yield Term("", loss)
        for place, added in added_by_recipe(logits_BC, loss, self.loss):
            yield Term(place, added)
