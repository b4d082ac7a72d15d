"""How an objective declares itself: the names that every file of an objective starts from.

Such a file declares a class of settings, without torch, and below it what makes batches and computes the loss: `ablate
docs objective`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel

from ablate.block.sizes import Sizes
from ablate.extension.declaration import DeclarationFault, declare_settings, implements
from ablate.space.documents import Count, Document, NotNegative, Share
from ablate.space.model import Model
from ablate.space.recipe import Loss, ObjectiveSpec, Reads, Recipe, Special

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.data.batch import Batch, Tensors
    from ablate.data.uniform import Uniform

__all__ = [
    "Count",
    "Document",
    "Given",
    "Loss",
    "NotNegative",
    "Objective",
    "Settings",
    "Share",
    "Term",
    "implements",
    "objective",
]

S = TypeVar("S", bound=Document)


class Settings(Document):
    """The settings of an objective; what a space leaves out has the default that its file says."""

    @property
    def special(self) -> tuple[Special, ...]:
        """The tokens it needs that stand for no text: a tokenizer that lacks one gets it as one more id."""
        return ()

    @property
    def classes(self) -> int:
        """The number of classes that it predicts of a whole sequence, beside its tokens; 0 if it predicts none."""
        return 0

    @property
    def sentinels(self) -> int:
        """The number of further tokens, each of which stands for a part of a text; they follow one another."""
        return 0

    @property
    def fewest(self) -> int:
        """The fewest examples that a batch, or an evaluation, may have."""
        return 1

    def window(self, sizes: Sizes) -> int:
        """Return how many tokens of text make an example of a model of these sizes."""
        return sizes.seq_len

    def in_force(self, model: Model) -> str:
        """The effective settings of a model, in words, where they are not those given; empty elsewhere."""
        return ""

    def unfit(self, model: Model, recipe: Recipe) -> Iterator[tuple[str, str, str]]:
        """Yield what of a space it cannot have: the address of a value, the reason, and the way out."""
        yield from ()


@dataclass(frozen=True, slots=True)
class Given:
    """The context of an objective: the sizes of the model, with its special tokens, and the recipe's loss."""

    sizes: Sizes
    loss: Loss


class Term(NamedTuple):
    """A mean over the targets `of` a name, to be minimised. `place` is where its rows are; the loss itself has none."""

    place: str
    mean: Tensor
    of: str = ""


class Objective(Protocol):
    """An objective, made with its settings and what is `Given`."""

    def batch(self, drawn: Batch, uniform: Uniform) -> Batch:
        """Make a batch of what is drawn from the data; all chance is in the numbers of `uniform`, on [0, 1)."""
        ...

    def targets(self, batch: Batch) -> Mapping[str, int]:
        """The number of targets of a batch, or a part of one, for each term: those of the loss under ''."""
        ...

    def terms(self, output: Tensors, batch: Batch, ahead: Sequence[Tensor] = ()) -> Iterator[Term]:
        """Yield the loss, then the terms added to it, each a mean over its targets, 0 over none.

        `ahead` are the logits of blocks that predict tokens further ahead.
        """
        ...

    @property
    def measured(self) -> Mapping[str, str]:
        """The metrics of an evaluation, `eval_loss` first, each with the targets that it is a mean over."""
        ...

    def measures(self, output: Tensors, batch: Batch) -> Iterator[Tensor]:
        """Yield the sum of each metric over its targets."""
        ...


def objective(
    name: str,
    *,
    models: Sequence[str],
    reads: Reads = "text",
    measures: Sequence[str] = (),
    likelihood: bool = True,
    mixtures: bool = False,
    source: str = "",
    version: int = 1,
) -> Callable[[type[S]], type[S]]:
    """Declare an objective by its settings; the first line of its file is what `ablate list objectives` shows.

    `models` are the kinds of models that can have it, `reads` says what its batches are made of, and `measures` are the
    metrics that its evaluations give beside `eval_loss`. `likelihood` is false where the loss is no cross-entropy, and
    `mixtures` is true where the targets of a training batch may be (classes, other classes, share of the first).
    `version` is that of its numbers: raise it when a change of the code changes them.

    Raises DeclarationError for a class that cannot be its settings, with everything that is wrong with it.
    """
    more: dict[str, Any] = {"models": tuple(models), "reads": reads, "measures": tuple(measures)}
    return declare_settings(
        ObjectiveSpec,
        name,
        source=source,
        version=version,
        defaults=True,
        faults=partial(_faults, tuple(models)),
        likelihood=likelihood,
        mixtures=mixtures,
        **more,
    )


def _faults(models: tuple[str, ...], settings: type[BaseModel]) -> Iterator[DeclarationFault]:
    if not issubclass(settings, Settings):
        way = "derive it from ablate.train.objectives.declare.Settings"
        yield DeclarationFault("the settings of an objective say which tokens and classes it needs", "class", (way,))
    if not models:
        way = 'name the kinds of models that can have it, such as models=("decoder",)'
        yield DeclarationFault("an objective must say which models it is for", "models", (way,))
