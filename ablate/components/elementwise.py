"""The declaration that activations without parameters share: y = f(x), entry by entry, on any shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from ablate.block.sizes import Cost, Sizes

if TYPE_CHECKING:
    from ablate.signal.propagation import Signal


class Elementwise(ABC):
    """Each activation gives its symbol and its derivatives."""

    symbol: ClassVar[str]  # the name of f in equations

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def equation(self, x: str) -> str:
        return f"{self.symbol}({x})"

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """E[f(u_i) f(u_j)] for normal inputs."""
        return x.activated(self)

    @abstractmethod
    def curve(self, x: Any) -> tuple[Any, Any, Any]:
        """(f, f', f'') at the float64 array x; at a jump f' and f'' are those from the left."""
