"""Where the trials of a run are carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from ablate.errors import InputError

if TYPE_CHECKING:
    from ablate.execute.task import Executor

ExecutorName: TypeAlias = Literal["local", "inline", "ray"]
EXECUTORS: tuple[str, ...] = get_args(ExecutorName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The executor, how many trials run at once (None: as many as its cores bear), and what each of them gets.

    `address` joins a Ray cluster (`auto`, `host:port`); without one, Ray starts a cluster of its own on this machine.
    `cpus` and `gpus` are logical and may be fractions; None: the space's threads, and one GPU where there are any.
    `limit` is how many seconds a trial may take, from when a worker takes it up.
    """

    executor: ExecutorName = "local"
    workers: int | None = None
    address: str | None = None
    cpus: float | None = None
    gpus: float | None = None
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise InputError(f"unknown executor {self.executor!r}\n  = there are: {', '.join(EXECUTORS)}")
        only_ray = {"address": self.address, "cpus": self.cpus, "gpus": self.gpus}
        given = [f"--{name}" for name, value in only_ray.items() if value is not None]
        if self.executor != "ray" and given:
            raise InputError(
                f"{', '.join(given)} says how Ray places trials, and has no effect with --executor {self.executor}\n"
                "  = add --executor ray, or leave it out"
            )
        if self.executor == "inline" and (self.workers or 1) > 1:
            raise InputError("--workers has no effect with --executor inline, which is one process\n  = leave it out")
        if self.executor == "ray":
            from ablate.execute.ray.demand import Demand

            Demand(1 if self.cpus is None else self.cpus, self.gpus or 0)

    @staticmethod
    def of(document: Mapping[str, Any]) -> Place:
        """From what `document` gave, perhaps in another version."""
        return Place(**{field.name: document[field.name] for field in fields(Place) if field.name in document})

    def document(self) -> Mapping[str, Any]:
        """As JSON, with what was left out left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def build(self, threads: int, say: Callable[[str], None]) -> Executor:
        """The executor for trials of so many threads; `say` is told what a person should know of it."""
        from ablate.execute.cores import default_workers

        if self.executor == "inline":
            from ablate.execute.inline import Inline

            return Inline()
        if self.executor == "local":
            from ablate.execute.local import Local

            return Local(self.workers or default_workers(threads))
        from ablate.execute.ray import RayTune

        return RayTune(
            self.workers,
            address=self.address,
            cpus=float(threads) if self.cpus is None else self.cpus,
            gpus=self.gpus,
            say=say,
        )
