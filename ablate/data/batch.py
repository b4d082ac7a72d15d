"""A batch: what a model is given, and what it is to predict from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from torch import Tensor

Tensors: TypeAlias = Tensor | tuple[Tensor, ...]

NO_TARGET: Final = -100
"""The target of a position at which nothing is to be predicted."""


class Batch(NamedTuple):
    """Examples [B, …]: the `inputs` of a model, one tensor or several in the order of its arguments, and the `targets`
    of an objective, one or several as well.
    """

    inputs: Tensors
    targets: Tensors

    def each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """Return the batch with each of its tensors changed."""
        return Batch(changed(self.inputs, change), changed(self.targets, change))

    @property
    def examples(self) -> int:
        """The number of examples."""
        return len(first(self.inputs))


def changed(tensors: Tensors, change: Callable[[Tensor], Tensor]) -> Tensors:
    """Return one tensor or several, each changed."""
    return change(tensors) if isinstance(tensors, Tensor) else tuple(change(tensor) for tensor in tensors)


def first(tensors: Tensors) -> Tensor:
    """Return the first of several tensors, or the only one."""
    return tensors if isinstance(tensors, Tensor) else tensors[0]
