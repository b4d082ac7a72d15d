"""Executor: the options and tasks of those that carry out trials, and the consequence of each outcome.

The command line, Python and the requests recorded in the store all express where trials are carried out, and with which
resources, in one value: `ExecutorOptions`. An executor (`Executor`) is handed a `Task` whenever a worker is free, and
hands back `Message`s. This file loads neither torch nor the models of a space, so that the command line starts quickly.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, Unpack, get_args

from ablate.errors import InputError, RefusedError
from ablate.source.problems import quote, unknown
from ablate.train.events import Began, Event, Outcome, OutcomeKind, Saved

if TYPE_CHECKING:
    from ablate.plan.plan import Trial

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

    `address` joins a Ray cluster (`auto`, `host:port`); without one, Ray starts one on this machine. `cpus` and `gpus`
    are logical and may be fractions; None: the space's threads, and one GPU if there are any, for each process. `pack`
    is how many trials may share a GPU, `auto` as many as fit into its memory; None: on this machine as `auto`, on Ray
    as `gpus` says. `ranks` is the number of processes of each trial (None: one), `limit` the seconds that it may take
    from when a worker starts it, and `stop_within` the seconds to save its state when the run is asked to stop (None:
    `STOP_WITHIN`).
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
            Demand(1 if self.cpus is None else self.cpus, self.gpus or 0)

    def _check_sharing(self) -> None:
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
        return STOP_WITHIN if self.stop_within is None else self.stop_within

    @property
    def processes(self) -> int:
        return self.ranks or 1

    def check_batch(self, batch: int, smallest: int | None = None) -> None:
        """InputError if a batch of `batch` sequences cannot be divided evenly among the processes, or if the `smallest`
        of a ramp leaves some of them without a sequence."""
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
        """These options with the given ones replaced. Another executor keeps only limits of time and `ranks`: cluster
        and resources were meant for the first."""
        if given.get("executor", self.executor) != self.executor:
            limits = ExecutorOptions(limit=self.limit, stop_within=self.stop_within, ranks=self.ranks)
            return replace(limits, **given)
        return replace(self, **given)

    @staticmethod
    def of(document: Mapping[str, Any]) -> ExecutorOptions:
        """Rebuild options from a `document`, perhaps one of another version."""
        known = [field.name for field in fields(ExecutorOptions)]
        return ExecutorOptions(**{name: document[name] for name in known if name in document})

    def document(self) -> Mapping[str, str | float]:
        """Only the options that were given, as JSON-able data."""
        return {name: value for name, value in asdict(self).items() if value is not None}


# The number of workers that a machine can run.

Pack: TypeAlias = Literal["auto"] | int | None
"""How many trials share a GPU: up to a number, or as many as fit into its memory; None: the executor's default."""
MOST_BY_DEFAULT = 8  # the most trials that share a GPU by default: more slow each other down, however small
MOST_PACKED = 9999  # the most trials that can be requested to share a GPU: Ray counts in parts of ten thousand
GPU_MEMORY_EACH = 4 * 2**30
"""Bytes of a GPU for each of its trials by default, of which the CUDA context of a process takes an eighth."""


def default_workers(threads: int, gpus: Sequence[int], ranks: int = 1, pack: Pack = None) -> int:
    """The number of workers for trials of `threads` threads in each of `ranks` processes: as many as the cores allow;
    with `gpus`, of so many bytes, no more than those allow with up to `pack` trials on each (see `on_a_gpu`)."""
    by_cores = max(1, available_cores() // (threads * ranks))
    if not gpus:
        return by_cores
    if ranks > 1:
        return max(1, min(by_cores, len(gpus) // ranks))
    return min(by_cores, sum(on_a_gpu(memory, pack) for memory in gpus))


def on_a_gpu(memory: int, pack: Pack) -> int:
    return pack if isinstance(pack, int) else max(1, min(MOST_BY_DEFAULT, memory // GPU_MEMORY_EACH))


def available_cores() -> int:
    """The number of cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# The demand of a trial on a node of a Ray cluster.

RAY_UNITS = 10_000  # per resource; Ray ignores smaller fractions, so that seven sevenths fit into one
ROUNDING = 1e-6  # the tolerance for floats: the sum of three thirds may be slightly more than one


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of each trial: `cpus` cores and `gpus` GPUs, shared by several trials if below 1. InputError if no
    machine could satisfy it."""

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
        if 0 < self.gpus < 1 / RAY_UNITS:
            raise InputError(f"a trial cannot have {self.gpus:g} GPUs\n  = Ray's smallest share is {1 / RAY_UNITS:g}")

    def __str__(self) -> str:
        return " and ".join(_count(number, unit) for number, unit in ((self.cpus, "CPU"), (self.gpus, "GPU")) if number)

    def bundle(self, gpus: float) -> dict[str, float]:
        return {"CPU": self.cpus} | ({"GPU": gpus} if gpus else {})

    def fits(self, resources: Mapping[str, float]) -> int:
        by_cpu = math.floor(resources.get("CPU", 0) / self.cpus + ROUNDING)
        if not self.gpus:
            return by_cpu
        gpus = math.floor(resources.get("GPU", 0))
        # A trial's share is of a single GPU, never of two.
        by_gpu = gpus * math.floor(1 / self.gpus + ROUNDING) if self.gpus <= 1 else math.floor(gpus / self.gpus)
        return min(by_cpu, by_gpu)

    def slots(self, nodes: Iterable[Mapping[str, float]]) -> int:
        return sum(self.fits(resources) for resources in nodes)

    def require(self, nodes: Collection[Mapping[str, float]]) -> None:
        """RefusedError if no node can run a single trial: it would wait forever."""
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


# The tasks that an executor is handed, and the messages that it hands back.


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A trial to carry out, from the checkpoint `resume` if it has one that was made with the same `versions`.

    `folder` is the results folder, for states and, below it, the `cache` of token streams; on a cluster all nodes see
    it under this path. `plugins` are the files of components beyond the shipped ones. `limit` seconds after a worker
    has started it the trial ends as `timeout`; an interrupted trial gets the full limit again. Once step `until` is
    done, including its measurements, it ends as `paused`, and resumes from there when it is handed out again. Each
    batch is divided among `ranks` processes, on a GPU each if there are any, and each share into `parts` microbatches,
    whose gradients are accumulated (to save memory). `gpu` is its GPU on this machine, or the first of the consecutive
    GPUs of its ranks, and `memory` its share of that (of what the CUDA contexts of `contexts` processes leave); None:
    the first that its process sees, all of it.
    """

    trial: Trial
    folder: Path
    resume: Saved | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    plugins: tuple[Path, ...] = ()
    limit: float | None = None
    until: int | None = None
    parts: int = 1
    ranks: int = 1
    gpu: int | None = None
    memory: float | None = None
    contexts: int = 0

    @property
    def cache(self) -> Path:
        return cache_of(self.folder)

    @property
    def start(self) -> int:
        return self.resume.step if self.resume else 0


def cache_of(results: Path) -> Path:
    return results / "corpus"


@dataclass(frozen=True, slots=True)
class Message:
    """The events of a trial since the last message, and its progress; without events it is a heartbeat."""

    trial_id: str
    events: tuple[Event, ...]
    step: int


def outcome_of(message: Message) -> Outcome | None:
    return next((event for event in message.events if isinstance(event, Outcome)), None)


def began_at(message: Message, before: int) -> int:
    """The step that a trial began at if it is in the message, which is 0 where it starts over; else `before`."""
    return next((event.step for event in message.events if isinstance(event, Began)), before)


Emit = Callable[[Message], None]
ShouldStop = Callable[[], bool]
NextTask = Callable[[], "Task | None"]


class Executor(Protocol):
    """Carries out tasks and hands over every message, in order for each trial, on the calling thread."""

    workers: int

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """Request a task whenever a worker is free; return when there is none and every trial has sent its outcome.
        Once `should_stop` is true no task is requested, and running trials end as interrupted. A worker that dies ends
        its trial as interrupted too, with the reason in the outcome's detail: it may be handed out again."""
        ...


# The consequence of each way a trial can end.
#
#     finished       a result; never run again
#     diverged       a result; never run again
#     bug            would happen again, so it is run again only on request (`ablate retry`); its whole trace is in its
#                    row, and the sweep continues
#     timeout        not retried under the same limit; a later run with a longer one, or none, trains it from the start
#     out_of_memory  retried at once, see `after_lack`: if it shared a GPU, unchanged and alone on the largest; then
#                    from its beginning with each batch in 2, 4, … microbatches (gradient accumulation), which is the
#                    same batch but not the same bits. If a part is down to one sequence, or memory ran out in something
#                    that is not split (UNCUT), the outcome is final for this run; the next run, perhaps on another
#                    machine, tries again. The attempts are in the outcome (LACKED), the number of parts that succeeded
#                    in the versions and the outcome (`parts`)
#     interrupted    not an end: asked to stop, or its worker or node was lost or preempted. It resumes from its
#                    checkpoint, in this run unless that was asked to stop
#     lost           its worker died, and then DEATHS_ALLOWED more without any progress: because of the trial, or for an
#                    external reason, which cannot be told apart. The next run tries it again; a search is told nothing
#                    about it, and waits for that
#
# If the environment is at fault (REFUSED: no disk, no corpus, another driver's worker), the whole run stops with that
# message.

FAILED: tuple[OutcomeKind, ...] = ("bug", "out_of_memory", "timeout", "lost")
"""Outcomes without a result: the command line ends with exit code 1 if a plan has one."""

# Keys in the detail of an outcome:
WORKERS = "workers"  # of a lost trial: how many workers it has cost
REFUSED = "refused"  # of an interrupted trial: the message for the user, if the environment was at fault
LACKED = "out_of_memory"  # in how many parts each batch was when memory ran out, for every time it did
SHARE = "share"  # of a GPU that the trial had, relative to the largest; absent if it had all of it
UNTOUCHED = "untouched"  # of an interrupted trial: its worker died before the trial began, and that does not count
UNCUT = "uncut"  # of a trial that ran out of memory: the operation that ran out, which always takes the whole batch

DEATHS_ALLOWED = 2  # the deaths of workers in a row, without a new checkpoint between them, that are tolerated
STARTS_ALLOWED = 8  # the failed starts in a row that are tolerated while no worker runs; then the run stops
GRACE = 5.0  # seconds that a trial has after its limit to end by itself; then its worker is killed
STOP_WITHIN = 20.0
"""Seconds that trials have to save their state when a run is asked to stop; then their workers are killed. Schedulers
kill a job some 30 seconds after they have asked it to end."""
NO_STEP = "asked to stop before it had done a step"


def did_not_stop(worker: str, within: float) -> str:
    then = "its trial goes on from its last checkpoint, if any"
    return f"{worker} did not stop within {within:g} s and was killed; {then}"


def is_settled(outcome: Outcome, limit: float | None = None) -> bool:
    """Return whether a run that gives each trial `limit` seconds leaves a trial with this outcome alone."""
    if outcome.kind == "timeout":
        return limit is not None and limit <= outcome.detail.get("limit", 0.0)
    return outcome.kind in ("finished", "diverged", "bug")


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a trial: each batch in `parts`, `alone` on its GPU or not, and the number of parts of each earlier
    attempt that ran out of memory (`lacked`)."""

    parts: int = 1
    alone: bool = False
    lacked: tuple[int, ...] = ()

    @staticmethod
    def going_on(parts: int) -> Attempt:
        """The attempt of a trial that resumes from a checkpoint made with `parts` parts."""
        lacked = tuple(2**n for n in range((parts - 1).bit_length()))  # 1, 2, 4, … below `parts`
        return Attempt(parts, parts > 1, lacked)


def after_lack(attempt: Attempt, *, most: int, share: float) -> Attempt | None:
    """Return the next attempt after a trial ran out of memory on `share` of a GPU; None if nothing is left to try.

    A part has at least one sequence, so there are at most `most` parts. A trial that shared its GPU, or had a small
    one, is first tried unchanged and alone on the largest: its need was only predicted, and other parts would give
    other bits. From then on it is alone.
    """
    lacked = (*attempt.lacked, attempt.parts)
    if share < 1 and not attempt.alone:
        return replace(attempt, alone=True, lacked=lacked)
    if attempt.parts >= most:
        return None
    return Attempt(min(2 * attempt.parts, most), True, lacked)
