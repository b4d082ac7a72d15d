"""The protocols between components, the compiler and the trainer, recognised by the methods of a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Draw(Protocol):
    """Fills the parameters of one module, each from a random stream of its own; `address` is the module's."""

    @property
    def address(self) -> str:
        """The place of the module in the model."""

    def weight(self, name: str, parameter: Any, scheme: Any, *, d_in: int, d_out: int) -> None:
        """Fill the module's parameter `name` by `scheme`, an init, or by the model's if that is None."""

    def at(self, address: str) -> Draw:
        """The same at the address of another module."""

    def numbers(self, name: str, scheme: Any, *, d_in: int, d_out: int) -> Any:
        """The numbers, [d_out, d_in] in float64, that `scheme` gives to the module's weight `name`."""

    def stream(self, name: str) -> Any:
        """The generator of the module's parameter `name`."""


@runtime_checkable
class Profiled(Protocol):
    """A module whose parameters start from data: from one forward pass over the first batch."""

    def measure(self, x: Any, y: Any) -> Any:
        """The measurement of a module that maps `x` to `y`."""

    def calibrate(self, earlier: Sequence[Any]) -> None:
        """Set the parameters, given the measurements of the earlier modules of this class, in order of the pass."""


@runtime_checkable
class OffersLosses(Protocol):
    """A module that adds to the loss that is minimised: a balance of experts, a penalty of what it computed.

    It keeps what it needs of a forward pass in a plain attribute (`Kept`), only while it trains and gradients are
    tracked, and hands it out once. Evaluations and probes ask for no losses.
    """

    def losses(self) -> Mapping[str, Any]:
        """The losses of the forward pass that just ran, by name: scalars, multiplied by their weights.

        The same names after every pass, and nothing if there was none since the last call. A loss is a mean over the
        tokens of the pass, since it is weighted by the share of sequences, as the cross-entropy is: of a batch in
        microbatches or among ranks it is then the loss of the whole batch. A loss that is not linear in the tokens (a
        product of two means) is the mean of those of the parts instead, which is another number.
        """


class AcrossRanks(Protocol):
    """Sums and maxima over ranks of numbers that each has counted apart."""

    def __call__(self, value: Any, /) -> Any:
        """The sum of a tensor over all ranks, the same bits on each."""

    def largest(self, value: Any, /) -> Any:
        """The elementwise maximum of a tensor over all ranks."""


@runtime_checkable
class ActsAfterStep(Protocol):
    """A module that changes state of its own after every update of the optimiser."""

    def after_step(self, total: AcrossRanks, /) -> Mapping[str, Any]:
        """Change its state, without gradients, and return numbers to be recorded, by name: floats or scalar tensors.

        It is called once a step on every rank, after the passes of all microbatches. Counts of single ranks go through
        `total` or `total.largest`; every rank calls them equally often, in the same order. A change that follows from
        such numbers, parameters and constants alone is the same on all ranks. State that outlives the step is a buffer
        or a parameter, changed in place, so that a checkpoint has it.
        """


@runtime_checkable
class RegulatesQueriesKeys(Protocol):
    """Entropy regulation that acts on queries and keys, each [B, H, T, K], before positions are applied."""

    def on_queries_keys(self, q: Any, k: Any) -> tuple[Any, Any]:
        """The regulated queries and keys."""


@runtime_checkable
class RegulatesLogits(Protocol):
    """Entropy regulation that maps the scores one by one, before masking and softmax."""

    def on_logits(self, scores: Any) -> Any:
        """Scores of the same shape, in float32 at least."""


@runtime_checkable
class RegulatesWeights(Protocol):
    """Entropy regulation that acts on the weights of queries and keys."""

    def on_weights(self, query: Any, key: Any) -> None:
        """Receive the two weights, once they are built; InputError for weights that cannot be regulated."""


@runtime_checkable
class WatchesLogits(Protocol):
    """Entropy regulation that acts by how large the logits were in training; its Config declares that it `watches`."""

    def watch(self, largest: Any) -> None:
        """Receive the largest scaled product of queries and keys of each head, [H], of the pass that runs."""


@runtime_checkable
class GivesBias(Protocol):
    """A module that adds to the scores: a component of slot `bias`, or a matrix made of one."""

    def bias(self, q: Any, k: Any, scale: float) -> Any:
        """[1 or B, 1 or H, T, S] for queries [B, H, T, K], keys [B, H, S, K] and the scale of their product."""
