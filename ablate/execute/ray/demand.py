"""What a trial needs of a node, and how many trials at once a cluster bears."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ablate.errors import InputError, RefusedError

UNITS = 10_000
"""Ray counts resources in so many parts of one, and less is nothing to it: seven sevenths fit, so seen."""

ROUNDING = 1e-6
"""Floats do not: three thirds may be a little more than one."""


@dataclass(frozen=True, slots=True)
class Demand:
    """`cpus` cores and `gpus` GPUs for each trial. Several trials share a GPU where `gpus` is below 1.

    InputError where no machine could give that.
    """

    cpus: float = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        if not 0 < self.cpus < math.inf:
            raise InputError(
                f"a trial needs more than {self.cpus:g} CPUs\n  = give it 1, or a part of one, such as 0.5"
            )
        if not 0 <= self.gpus < math.inf or (self.gpus > 1 and self.gpus != int(self.gpus)):
            raise InputError(f"{self.gpus:g} GPUs for a trial\n  = give it a part of one, such as 0.5, or whole ones")
        if 0 < self.gpus < 1 / UNITS:
            raise InputError(f"{self.gpus:g} GPUs for a trial\n  = Ray gives no less than {1 / UNITS:g} of one")

    def __str__(self) -> str:
        return " and ".join(_count(number, unit) for number, unit in ((self.cpus, "CPU"), (self.gpus, "GPU")) if number)

    def bundle(self, gpus: float) -> dict[str, float]:
        """What is asked of one node for a trial that has so many GPUs."""
        return {"CPU": self.cpus} | ({"GPU": gpus} if gpus else {})

    def fits(self, resources: Mapping[str, float]) -> int:
        """How many such trials a node with these resources bears at once."""
        by_cpu = math.floor(resources.get("CPU", 0) / self.cpus + ROUNDING)
        if not self.gpus:
            return by_cpu
        gpus = math.floor(resources.get("GPU", 0))
        # A trial has its part of one GPU, never parts of two.
        by_gpu = gpus * math.floor(1 / self.gpus + ROUNDING) if self.gpus <= 1 else math.floor(gpus / self.gpus)
        return min(by_cpu, by_gpu)

    def slots(self, nodes: Iterable[Mapping[str, float]]) -> int:
        """How many such trials a cluster of these nodes bears at once."""
        return sum(self.fits(resources) for resources in nodes)

    def require(self, nodes: Collection[Mapping[str, float]]) -> None:
        """RefusedError where no node bears a single trial: it would wait for ever."""
        if self.slots(nodes):
            return
        kinds = sorted(
            {f"{_count(node.get('CPU', 0), 'CPU')} and {_count(node.get('GPU', 0), 'GPU')}" for node in nodes}
        )
        there = "; ".join(kinds) or "it has no nodes"
        raise RefusedError(
            f"a trial asks for {self}, and no node of the Ray cluster has that: {there}\n"
            "  = ask for less for each trial, or add a node that has it"
        )


def _count(number: float, unit: str) -> str:
    return f"{number:g} {unit}" + ("" if number == 1 else "s")
