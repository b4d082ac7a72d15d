"""Where the trials of a run are carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.execute.cores import MOST_PACKED
from ablate.source.problems import quote, unknown

if TYPE_CHECKING:
    from ablate.execute.cores import Pack
    from ablate.execute.task import Executor
    from ablate.plan.trial import Trial
    from ablate.train.events import Outcome

ExecutorName: TypeAlias = Literal["local", "inline", "ray"]
EXECUTORS: tuple[str, ...] = get_args(ExecutorName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The executor, how many trials run at once (None: as many as its cores bear), and what each of them gets.

    `address` joins a Ray cluster (`auto`, `host:port`); without one, Ray starts a cluster of its own on this machine.
    `cpus` and `gpus` are logical and may be fractions; None: the space's threads, and one GPU where there are any, for
    each of the trial's processes. `pack`: up to so many trials share a GPU, or as many as its memory bears (`auto`);
    None: on this machine as `auto`, on Ray as `gpus` says. `ranks`: so many processes share each trial (None: one).
    `limit` is how many seconds a trial may take, from when a worker takes it up.
    """

    executor: ExecutorName = "local"
    workers: int | None = None
    address: str | None = None
    cpus: float | None = None
    gpus: float | None = None
    pack: Pack = None
    ranks: int | None = None
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise unknown(f"unknown executor {quote(self.executor)}", self.executor, EXECUTORS, "there are")
        only_ray = {"address": self.address, "cpus": self.cpus, "gpus": self.gpus}
        given = [f"--{name}" for name, value in only_ray.items() if value is not None]
        if self.executor != "ray" and given:
            raise InputError(
                f"{', '.join(given)} says how Ray places trials, and has no effect with --executor {self.executor}\n"
                "  = add --executor ray, or leave it out"
            )
        if self.executor == "inline" and (self.workers or 1) > 1:
            raise InputError("--workers has no effect with --executor inline, which is one process\n  = leave it out")
        self._check_sharing()
        if self.executor == "ray":
            from ablate.execute.ray.demand import Demand

            Demand(1 if self.cpus is None else self.cpus, self.gpus or 0)

    def _check_sharing(self) -> None:
        """Refuse ways to share a GPU or a trial that do not go together."""
        if self.pack not in (None, "auto") and (not isinstance(self.pack, int) or not 1 <= self.pack <= MOST_PACKED):
            given = "so many" if isinstance(self.pack, int) and self.pack > MOST_PACKED else self.pack
            raise InputError(f"--pack {given} trials on a GPU\n  = give a number from 1 to {MOST_PACKED}, or auto")
        if self.ranks is not None and self.ranks < 1:
            raise InputError(f"--ranks {self.ranks} processes for a trial\n  = at least one carries it out")
        if self.pack is not None:
            why = ", which has one trial at a time" if self.executor == "inline" else ""
            without = {f"--executor inline{why}": self.executor == "inline", "--gpus": self.gpus is not None}
            without[f"--ranks {self.ranks}: each process has a GPU of its own"] = (self.ranks or 1) > 1
            if clash := [name for name, there in without.items() if there]:
                raise InputError(f"--pack has no effect with {clash[0]}\n  = leave one of them out")
        if (self.ranks or 1) > 1 and self.gpus not in (None, 0, self.ranks):
            raise InputError(
                f"--gpus {self.gpus:g} for a trial of {self.ranks} processes\n"
                f"  = each has one: leave --gpus out, or give {self.ranks}, or 0 for none"
            )

    def check_batch(self, batch: int) -> None:
        """InputError where a batch of so many sequences cannot be shared out evenly."""
        if batch % (self.ranks or 1):
            divisors = ", ".join(str(n) for n in range(2, batch + 1) if batch % n == 0) or "1"
            raise InputError(
                f"a batch of {batch} sequences cannot be shared out evenly among {self.ranks} processes\n"
                f"  = use --ranks {divisors}, or another recipe.batch"
            )

    @staticmethod
    def of(document: Mapping[str, Any]) -> Place:
        """From what `document` gave, perhaps in another version."""
        return Place(**{field.name: document[field.name] for field in fields(Place) if field.name in document})

    def document(self) -> Mapping[str, Any]:
        """As JSON, with what was left out left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def build(
        self,
        threads: int,
        say: Callable[[str], None],
        *,
        plugins: tuple[Path, ...] = (),
        known: Iterable[tuple[Trial, Outcome]] = (),
    ) -> Executor:
        """The executor for trials of so many threads, with the components that trials are planned with.

        `say` is told what a person should know of it; `known` are trials of earlier runs, whose measured memory counts
        for those like them.
        """
        if self.executor == "inline":
            from ablate.execute.inline import Inline

            return Inline()
        if self.executor == "local":
            return self._local(threads, say, plugins, known)
        from ablate.execute.memory import Forecast
        from ablate.execute.ray import RayTune

        ranks = self.ranks or 1
        return RayTune(
            self.workers,
            address=self.address,
            cpus=float(threads) * ranks if self.cpus is None else self.cpus,
            gpus=self.gpus,
            ranks=ranks,
            pack=self.pack,
            forecast=None if self.pack is None else Forecast(declarations(plugins), known),
            say=say,
        )

    def _local(
        self,
        threads: int,
        say: Callable[[str], None],
        plugins: tuple[Path, ...],
        known: Iterable[tuple[Trial, Outcome]],
    ) -> Executor:
        """Worker processes, and where there are GPUs their places on them."""
        from ablate.execute.cores import default_workers
        from ablate.execute.device import gpus
        from ablate.execute.local import Local
        from ablate.execute.packer import Packer

        there, ranks, pack = gpus(), self.ranks or 1, self.pack
        workers = self.workers or default_workers(threads, ranks, pack)
        if not there:
            if pack is not None:
                say(f"--pack {pack} has no effect: this machine has no GPU")
            return Local(workers, say=say)
        if ranks > 1 and len(there) < ranks:
            raise InputError(
                f"--ranks {ranks}: each process has a GPU of its own, and this machine has {len(there)}\n"
                f"  = use --ranks {len(there)}, or Ray with a machine that has more"
            )
        if pack is None and self.workers:
            pack = -(-workers // len(there))
        packer = Packer(there, declarations(plugins), workers=workers, pack=pack, ranks=ranks, known=known)
        if self.workers and packer.slots < self.workers:
            say(f"the GPUs bear {packer.slots} trials at a time, of the {self.workers} that were asked for")
        return Local(min(workers, packer.slots), packer, say=say)
