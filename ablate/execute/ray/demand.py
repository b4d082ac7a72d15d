"""What a trial needs of a node, and how many trials a cluster can run at once."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ablate.errors import InputError, RefusedError

UNITS = 10_000
"""Ray's units per resource; it ignores smaller fractions, so that seven sevenths fit into one."""

ROUNDING = 1e-6
"""The tolerance for floats: the sum of three thirds may be slightly more than one."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of each trial: `cpus` cores and `gpus` GPUs. Several trials share a GPU if `gpus` is below 1.

    InputError if no machine could satisfy it.
    """

    cpus: float = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        if not 0 < self.cpus < math.inf:
            raise InputError(
                f"a trial cannot have {self.cpus:g} CPUs\n  = give it 1 or more, or a fraction, such as 0.5"
            )
        if not 0 <= self.gpus < math.inf or (self.gpus > 1 and self.gpus != int(self.gpus)):
            raise InputError(
                f"a trial cannot have {self.gpus:g} GPUs\n  = give it a fraction of one, such as 0.5, or a whole number"
            )
        if 0 < self.gpus < 1 / UNITS:
            raise InputError(f"a trial cannot have {self.gpus:g} GPUs\n  = Ray's smallest share is {1 / UNITS:g}")

    def __str__(self) -> str:
        return " and ".join(_count(number, unit) for number, unit in ((self.cpus, "CPU"), (self.gpus, "GPU")) if number)

    def bundle(self, gpus: float) -> dict[str, float]:
        """Return the resources requested of one node for a trial that has `gpus` GPUs."""
        return {"CPU": self.cpus} | ({"GPU": gpus} if gpus else {})

    def fits(self, resources: Mapping[str, float]) -> int:
        """Return how many such trials a node with these resources can run at once."""
        by_cpu = math.floor(resources.get("CPU", 0) / self.cpus + ROUNDING)
        if not self.gpus:
            return by_cpu
        gpus = math.floor(resources.get("GPU", 0))
        # A trial's share is of a single GPU, never of two.
        by_gpu = gpus * math.floor(1 / self.gpus + ROUNDING) if self.gpus <= 1 else math.floor(gpus / self.gpus)
        return min(by_cpu, by_gpu)

    def slots(self, nodes: Iterable[Mapping[str, float]]) -> int:
        """Return how many such trials a cluster of these nodes can run at once."""
        return sum(self.fits(resources) for resources in nodes)

    def require(self, nodes: Collection[Mapping[str, float]]) -> None:
        """Raise RefusedError if no node can run a single trial: it would wait forever."""
        if self.slots(nodes):
            return
        kinds = sorted(
            {f"{_count(node.get('CPU', 0), 'CPU')} and {_count(node.get('GPU', 0), 'GPU')}" for node in nodes}
        )
        there = "; ".join(kinds) or "it has no nodes"
        raise RefusedError(
            f"a trial needs {self}, and no node of the Ray cluster has that: {there}\n"
            "  = request less per trial, or add a node that has it"
        )


def _count(number: float, unit: str) -> str:
    return f"{number:g} {unit}" + ("" if number == 1 else "s")
