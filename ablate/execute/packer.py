"""The placement of tasks on the GPUs of this machine, by the memory they are expected to need."""

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
    """Places up to `pack` trials on each of `gpus`, at most `workers` in all. A trial of several `ranks` gets as many
    consecutive GPUs to itself; its task names the first.

    `known` are trials of earlier runs with their outcomes.
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
        """The number of trials that fit at once."""
        return self._ledger.slots

    def placed(self, task: Task) -> Task | None:
        """Return the task with its GPU and its share of that GPU; None while there is no room for it."""
        slot = self._ledger.reserve(task.trial.id, None if task.memory == 1.0 else self._forecast.needed(task))
        if slot is None:
            return None
        # A trial that has a GPU to itself has no memory limit.
        memory = slot.share if slot.share == 1.0 else slot.share * self._usable[slot.gpu]
        return replace(task, gpu=slot.gpu, memory=memory)

    def share(self, task: Task) -> float | None:
        """Return the share of a placed task, relative to the largest GPU."""
        if task.memory is None or task.gpu is None:
            return task.memory
        return task.memory * self._memory[task.gpu] / max(self._memory.values())

    def over(self, task: Task, message: Message) -> None:
        """Release the place of a task whose trial has ended, and record the memory it needed."""
        self._ledger.release(task.trial.id)
        if (outcome := outcome_of(message)) is not None:
            self._forecast.learn(task.trial, task.parts, task.ranks, outcome)


def with_share(message: Message, share: float | None) -> Message:
    """Add the share of a GPU to the outcome in a message, if there is one and the trial had less than a whole GPU."""
    if share is None or share >= 1:
        return message
    events = (
        replace(event, detail=event.detail | {SHARE: share}) if isinstance(event, Outcome) else event
        for event in message.events
    )
    return replace(message, events=tuple(events))
