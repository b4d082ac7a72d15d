"""The executor on Ray Tune."""

from __future__ import annotations

import math
import shutil
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

from ablate.errors import InputError
from ablate.execute.cores import Pack, available_cores, on_a_gpu
from ablate.execute.gpu import usable
from ablate.execute.memory import Forecast
from ablate.execute.policy import STOP_WITHIN
from ablate.execute.ray import cluster
from ablate.execute.ray.demand import ROUNDING, Demand
from ablate.execute.task import Emit, Message, NextTask, ShouldStop, Task
from ablate.train.events import Outcome

COUNT_EVERY = 2.0
"""Seconds between counts of how many trials the cluster can run: nodes come and go."""


class RayTune:
    """The executor on Ray Tune: up to `workers` trials at once, each on `cpus` cores and `gpus` GPUs; None: as many as
    the cluster can run, and one GPU for each of a trial's `ranks` processes if there are any.

    With an `address` (`host:port`, or `auto`: that of this machine) they run on that Ray cluster, whose nodes all see
    the results folder under the same path; without, on one of our own, which lives as long as the run. A trial without
    a GPU is computed on the CPU, whatever its node has.

    With `pack`, up to that many trials share a GPU (`auto`: see `cores.on_a_gpu`): each has the share that `forecast`
    says it needs, in steps of the smallest share. `gpu_memory` is the memory of the smallest GPU in bytes; None: the
    nodes are queried.

    `workers` is how many trials run at once, as far as is known: on a joined cluster, once `run` has seen it.
    `stop_within` is how many seconds trials have to save when the run is asked to stop. `say` is called when the
    cluster can run fewer than requested. InputError for an impossible demand.
    """

    def __init__(
        self,
        workers: int | None,
        *,
        address: str | None = None,
        cpus: float = 1,
        gpus: float | None = None,
        ranks: int = 1,
        pack: Pack = None,
        forecast: Forecast | None = None,
        gpu_memory: int | None = None,
        stop_within: float = STOP_WITHIN,
        say: Callable[[str], None] = warnings.warn,
    ):
        if workers is not None and workers < 1:
            raise InputError(f"{workers} workers\n  = give at least one")
        self._demand, self._gpus, self._ranks = Demand(cpus, gpus or 0), gpus, ranks
        self._pack, self._forecast, self._gpu_memory = pack, forecast, gpu_memory
        self._address, self._asked, self._stop_within = address, workers, stop_within
        self._borne, self._counted, self._say = -1, float("-inf"), say
        self.workers = workers or (1 if address else max(1, int(available_cores() // cpus)))

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """Carry out all tasks on the cluster; see `Executor.run`.

        RefusedError if there is no such cluster, or none of its nodes can run a trial.
        """
        with self._cluster() as folder:
            from ablate.execute.ray.driver import Escape

            nodes = cluster.nodes()
            if self._gpus is None:
                self._demand = replace(self._demand, gpus=self._gpus_of_each(nodes))
            self._demand.require(nodes)
            try:
                self._tune(folder, next_task, handle, should_stop)
            except Escape as escape:
                assert escape.__cause__ is not None
                raise escape.__cause__ from None

    def _gpus_of_each(self, nodes: Collection[Mapping[str, float]]) -> float:
        """Return the default GPUs of a trial; with `pack`, the minimum."""
        if not any(node.get("GPU") for node in nodes):
            if self._pack is not None:
                self._say(f"--pack {self._pack} has no effect: no node of the Ray cluster has a GPU")
            return 0
        if self._pack is None:
            return self._ranks
        self._gpu_memory = self._gpu_memory or cluster.gpu_memory()
        return 1 / on_a_gpu(self._gpu_memory, self._pack)

    def _gpus_of(self, task: Task) -> float:
        """Return the GPUs of a trial: the common share, or more if that is too little or it is to have one alone."""
        each = self._demand.gpus
        if not 0 < each < 1:
            return each
        if task.memory == 1.0:
            return 1
        if self._forecast is None or not self._gpu_memory:
            return each
        step = self._gpu_memory * usable(self._gpu_memory, self._sharing) * each
        return min(1.0, each * math.ceil(self._forecast.needed(task) / step))

    @property
    def _sharing(self) -> int:
        """The most trials that share a GPU."""
        return math.floor(1 / self._demand.gpus + ROUNDING) if 0 < self._demand.gpus < 1 else 1

    def _learn(self, task: Task, message: Message) -> None:
        """Record the memory that a trial has needed."""
        for event in message.events:
            if self._forecast is not None and isinstance(event, Outcome):
                self._forecast.learn(task.trial, task.parts, task.ranks, event)

    def _cluster(self) -> AbstractContextManager[Path]:
        if self._address:
            return cluster.joined(self._address)
        cpus = self._asked * self._demand.cpus if self._asked else max(available_cores(), self._demand.cpus)
        return cluster.own(math.ceil(cpus), gpus=self._gpus != 0)

    def _tune(self, folder: Path, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        from ray import tune

        from ablate.execute.ray.driver import GPUS, Conductor, Ear, StopWaiting, Tasks
        from ablate.execute.ray.worker import RayWorker

        demand = self._demand
        conductor = Conductor(
            next_task,
            handle,
            should_stop,
            self._slots,
            self._gpus_of,
            self._learn,
            sharing=self._sharing,
            stop_within=self._stop_within,
            say=self._say,
        )
        ear = Ear(conductor)
        try:
            tune.run(
                # One node for all of a trial. Tune hands a worker on only to a trial with the same resources.
                tune.with_resources(
                    RayWorker, lambda config: tune.PlacementGroupFactory([demand.bundle(config[GPUS])])
                ),
                name=folder.name,
                num_samples=-1,
                search_alg=Tasks(conductor),
                callbacks=[ear],
                stop=StopWaiting(conductor),
                reuse_actors=True,
                max_failures=0,
                raise_on_failed_trial=False,
                storage_path=str(folder / "tune"),
                verbose=0,
            )
        finally:
            if ear.staging is not None:
                shutil.rmtree(ear.staging, ignore_errors=True)
                with suppress(OSError):  # a run that began in the same second has its folder there, too
                    ear.staging.parent.rmdir()
        conductor.end_waiting()

    def _slots(self) -> int:
        """Return how many trials may run at once now: 0 while a joined cluster has lost all nodes that can run one."""
        if time.monotonic() - self._counted > COUNT_EVERY:
            borne = self._demand.slots(cluster.nodes())
            if self._asked and borne < self._asked and borne != self._borne:
                self._say(f"the cluster can run {borne} trials at a time now, of the {self._asked} requested")
            self._borne = min(borne, self._asked or borne)
            self.workers = self._borne or self.workers
            self._counted = time.monotonic()
        return self._borne
