"""Where the trials of a run are carried out, and the resources of each: the command line, Python and the requests
recorded in the store all express it in this one value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

from ablate.errors import InputError
from ablate.execute.cores import MOST_PACKED, Pack
from ablate.execute.policy import STOP_WITHIN
from ablate.source.problems import quote, unknown

ExecutorName: TypeAlias = Literal["local", "inline", "ray"]
EXECUTORS: tuple[str, ...] = get_args(ExecutorName)


class GivenOptions(TypedDict, total=False):
    """Executor options as keyword arguments, only those that were given; see `ExecutorOptions`."""

    executor: ExecutorName
    workers: int | None
    address: str | None
    cpus: float | None
    gpus: float | None
    pack: Pack
    ranks: int | None
    limit: float | None
    stop_within: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """The executor, how many trials run at once (None: as many as the cores allow), and the resources of each.

    `address` joins a Ray cluster (`auto`, `host:port`); without one, Ray starts a cluster of its own on this machine.
    `cpus` and `gpus` are logical and may be fractions; None: the space's threads, and one GPU if there are any, for
    each of the trial's processes. `pack` is how many trials may share a GPU, `auto` as many as fit into its memory;
    None: on this machine as `auto`, on Ray as `gpus` says. `ranks` is the number of processes of each trial (None:
    one). `limit` is how many seconds a trial may take from when a worker starts it. `stop_within` is how many seconds
    running trials have to save their state when the run is asked to stop (None: `policy.STOP_WITHIN`).
    """

    executor: ExecutorName = "local"
    workers: int | None = None
    address: str | None = None
    cpus: float | None = None
    gpus: float | None = None
    pack: Pack = None
    ranks: int | None = None
    limit: float | None = None
    stop_within: float | None = None

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise unknown(f"unknown executor {quote(self.executor)}", self.executor, EXECUTORS, "there are")
        only_ray = {"address": self.address, "cpus": self.cpus, "gpus": self.gpus}
        given = [f"--{name}" for name, value in only_ray.items() if value is not None]
        if self.executor != "ray" and given:
            raise InputError(
                f"{', '.join(given)} is for placing trials on Ray, and has no effect with --executor {self.executor}\n"
                "  = add --executor ray, or leave it out"
            )
        if self.executor == "inline" and (self.workers or 1) > 1:
            raise InputError("--workers has no effect with --executor inline: it is one process\n  = leave it out")
        if not 0 < self.patience < math.inf:
            raise InputError(f"--stop-within: {self.patience:g} seconds\n  = give a time such as 20s, or 5m")
        self._check_sharing()
        if self.executor == "ray":
            from ablate.execute.ray.demand import Demand  # its package loads torch

            Demand(1 if self.cpus is None else self.cpus, self.gpus or 0)

    def _check_sharing(self) -> None:
        """Raise InputError for conflicting ways to share a GPU or a trial."""
        if self.pack not in (None, "auto") and (not isinstance(self.pack, int) or not 1 <= self.pack <= MOST_PACKED):
            given = "that many" if isinstance(self.pack, int) and self.pack > MOST_PACKED else self.pack
            raise InputError(f"--pack: {given} trials on a GPU\n  = give a number from 1 to {MOST_PACKED}, or auto")
        if self.ranks is not None and self.ranks < 1:
            raise InputError(f"--ranks: {self.ranks} processes per trial\n  = give at least one")
        if self.pack is not None:
            why = ", which runs one trial at a time" if self.executor == "inline" else ""
            without = {f"--executor inline{why}": self.executor == "inline", "--gpus": self.gpus is not None}
            without[f"--ranks {self.ranks}: each process has a GPU of its own"] = self.processes > 1
            if clash := [name for name, there in without.items() if there]:
                raise InputError(f"--pack has no effect with {clash[0]}\n  = leave one of them out")
        if self.processes > 1 and self.gpus not in (None, 0, self.ranks):
            raise InputError(
                f"--gpus {self.gpus:g} does not fit a trial of {self.ranks} processes\n"
                f"  = each process has one GPU: leave --gpus out, or give {self.ranks}, or 0 for none"
            )

    @property
    def patience(self) -> float:
        """The seconds that trials have to stop in."""
        return STOP_WITHIN if self.stop_within is None else self.stop_within

    @property
    def processes(self) -> int:
        """The number of processes of each trial."""
        return self.ranks or 1

    def check_batch(self, batch: int, smallest: int | None = None) -> None:
        """Raise InputError if a batch of `batch` sequences cannot be divided evenly among the processes, or if the
        `smallest` of a ramp leaves some of them without a sequence.
        """
        if batch % self.processes:
            divisors = ", ".join(str(n) for n in range(2, batch + 1) if batch % n == 0) or "1"
            raise InputError(
                f"a batch of {batch} sequences cannot be divided evenly among {self.ranks} processes\n"
                f"  = use --ranks {divisors}, or another recipe.batch"
            )
        if smallest is not None and smallest < self.processes:
            raise InputError(
                f"the first batch has {smallest} sequences, fewer than the {self.ranks} processes of a trial\n"
                f"  = set recipe.batch_ramp.from to {self.ranks} or more, or use fewer ranks"
            )

    def changed(self, **given: Unpack[GivenOptions]) -> ExecutorOptions:
        """Return these options with the given ones replaced.

        Another executor keeps only limits of time and `ranks`: cluster and resources were meant for the first.
        """
        if given.get("executor", self.executor) != self.executor:
            kept = ExecutorOptions(limit=self.limit, stop_within=self.stop_within, ranks=self.ranks)
            return replace(kept, **given)
        return replace(self, **given)

    @staticmethod
    def of(document: Mapping[str, Any]) -> ExecutorOptions:
        """Rebuild options from a `document`, perhaps one of another version."""
        known = [field.name for field in fields(ExecutorOptions)]
        return ExecutorOptions(**{name: document[name] for name in known if name in document})

    def document(self) -> Mapping[str, Any]:
        """Return the options that were given, as JSON-able data."""
        return {name: value for name, value in asdict(self).items() if value is not None}
