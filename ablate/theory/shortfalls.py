"""Named blocks of which clearly fewer starts lie within the intervals of their forecast than the 95 % of their design.

Each was sampled by `tests/benchmarks/forecast_coverage.py`, whose rows are in `results/bench`; of those of other named
blocks at least 85 % of layers lie within, in each quantity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block
from ablate.block.fingerprint import fingerprint
from ablate.output.numbers import percent

LEAST = 0.85


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The share of layers of sampled starts that lay within the interval of a quantity, at these sizes."""

    quantity: str
    share: float
    starts: int
    width: int
    layers: int

    def __str__(self) -> str:
        return (
            f"its interval of the {self.quantity} is too narrow: of {self.starts} starts sampled at width "
            f"{self.width:,} and {self.layers} layers {percent(self.share)} of layers lay within"
        )


SHORTFALLS: Mapping[str, tuple[Shortfall, ...]] = {
    "c599a9f7dad6": (Shortfall("gradient", 0.73, 16, 512, 4),),  # post_ln_cross, the decoder
    "1ebe31faf3b8": (Shortfall("cosine", 0.81, 16, 1024, 4),),  # dslm_pre_ln
}
"""By the fingerprint of the block."""


def shortfalls_of(block: Block, catalogue: Catalogue) -> tuple[Shortfall, ...]:
    """Return the shortfalls of a block, whatever its name; none of one that was not sampled."""
    return SHORTFALLS.get(fingerprint(block, catalogue), ())
