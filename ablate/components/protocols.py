"""What components and those who build and train them ask of one another, told apart by what a module has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Draw(Protocol):
    """Fills the parameters of one module, each from a random stream of its own; `address` is the module's."""

    @property
    def address(self) -> str:
        """Where the module stands in the model."""

    def weight(self, name: str, parameter: Any, scheme: Any, *, d_in: int, d_out: int) -> None:
        """Fill the module's parameter `name` by `scheme`, an init, or by the model's where that is None."""

    def at(self, address: str) -> Draw:
        """The same, standing at another module."""

    def numbers(self, name: str, scheme: Any, *, d_in: int, d_out: int) -> Any:
        """The numbers, [d_out, d_in] in float64, that the module's weight `name` starts from if `scheme` fills it."""

    def stream(self, name: str) -> Any:
        """The generator of the module's parameter `name`."""


@runtime_checkable
class Profiled(Protocol):
    """A module whose parameters start from data: from what one forward pass over the first batch shows."""

    def measure(self, x: Any, y: Any) -> Any:
        """What the pass shows here, where the module made `y` of `x`."""

    def calibrate(self, earlier: Sequence[Any]) -> None:
        """Set the parameters, given what the modules of this class before it measured, in order of the pass."""


@runtime_checkable
class RegulatesQueriesKeys(Protocol):
    """Entropy regulation that acts on queries and keys, each [B, H, T, K], before positions enter."""

    def on_queries_keys(self, q: Any, k: Any) -> tuple[Any, Any]:
        """Queries and keys, regulated."""


@runtime_checkable
class RegulatesLogits(Protocol):
    """Entropy regulation that maps the scores one by one, before masking and softmax."""

    def on_logits(self, scores: Any) -> Any:
        """Scores of the same shape, in float32 at least."""


@runtime_checkable
class RegulatesWeights(Protocol):
    """Entropy regulation that acts on the weights of queries and keys."""

    def on_weights(self, query: Any, key: Any) -> None:
        """Be told the two weights, once they are built; InputError for weights that cannot be regulated."""


@runtime_checkable
class GivesBias(Protocol):
    """Adds to the scores: a component of slot `bias`, or a matrix made of one."""

    def bias(self, q: Any, k: Any, scale: float) -> Any:
        """[1 or B, 1 or H, T, S] for queries [B, H, T, K], keys [B, H, S, K] and the scale of their product."""
