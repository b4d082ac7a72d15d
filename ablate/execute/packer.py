"""Tasks given their places on the GPUs of this machine, by what they are expected to need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ablate.block.catalogue import Catalogue
from ablate.execute.cores import Pack, on_a_gpu
from ablate.execute.gpu import usable
from ablate.execute.memory import Forecast
from ablate.execute.packing import Gpu, Ledger
from ablate.execute.policy import SHARE
from ablate.execute.task import Message, Task, outcome_of
from ablate.plan.trial import Trial
from ablate.train.events import Outcome


class Packer:
    """Up to `pack` trials on each of `gpus`, at most `workers` in all. Where a trial has `ranks` processes, so many
    GPUs in a row are its own; its task names the first.

    `known` are trials of earlier runs and how they ended.
    """

    def __init__(
        self,
        gpus: Iterable[Gpu],
        catalogue: Catalogue,
        *,
        workers: int,
        pack: Pack = None,
        ranks: int = 1,
        known: Iterable[tuple[Trial, Outcome]] = (),
    ):
        there = tuple(gpus)
        self._memory = {gpu.number: gpu.memory for gpu in there}
        self._usable = {gpu.number: usable(gpu.memory, workers) for gpu in there}
        most = min(min(on_a_gpu(gpu.memory, pack) for gpu in there), -(-workers // len(there))) if ranks == 1 else 1
        firsts = there[: len(there) // ranks * ranks : ranks]
        self._ledger = Ledger((Gpu(g.number, int(self._usable[g.number] * g.memory)) for g in firsts), most=most)
        self._forecast = Forecast(catalogue, known)

    @property
    def slots(self) -> int:
        """How many trials there can be at once."""
        return self._ledger.slots

    def placed(self, task: Task) -> Task | None:
        """The task with its GPU and the share of it that it has; None while there is no room for it."""
        slot = self._ledger.reserve(task.trial.id, None if task.memory == 1.0 else self._forecast.needed(task))
        if slot is None:
            return None
        # A trial that has its GPU for itself is held to nothing.
        memory = slot.share if slot.share == 1.0 else slot.share * self._usable[slot.gpu]
        return replace(task, gpu=slot.gpu, memory=memory)

    def share(self, task: Task) -> float | None:
        """The share that a task which has a place has of the largest GPU."""
        if task.memory is None or task.gpu is None:
            return task.memory
        return task.memory * self._memory[task.gpu] / max(self._memory.values())

    def over(self, task: Task, message: Message) -> None:
        """Its trial has ended: its place is free, and what it has needed is known."""
        self._ledger.release(task.trial.id)
        if (outcome := outcome_of(message)) is not None:
            self._forecast.learn(task.trial, task.parts, task.ranks, outcome)


def with_share(message: Message, share: float | None) -> Message:
    """The message; where the trial has ended that had less than all of a GPU, with its share of one."""
    if share is None or share >= 1:
        return message
    said = (
        replace(event, detail=event.detail | {SHARE: share}) if isinstance(event, Outcome) else event
        for event in message.events
    )
    return replace(message, events=tuple(said))
