"""One trial in several processes of this machine: rank 0 is the worker that has it, and starts the others.

They are processes of their own (see `launch`), and die with it (`lifeline`). They meet through a store of
torch.distributed that listens on this machine alone; on CUDA rank r has the r-th GPU from the task's. A rank that goes
wrong says so in its last words, which are then the outcome of the trial; one that goes without a word is a lost worker.
See `train.ranks` for what they do together.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from types import TracebackType

import torch
from torch import distributed as dist
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]  # documented, and not in its __all__

from ablate.execute.gpu import take
from ablate.execute.launch import launch
from ablate.execute.state import state_of
from ablate.execute.task import ShouldStop, Task
from ablate.execute.work import compute
from ablate.store.versions import ATTENTION
from ablate.train.data_parallel import RankLost, Ranks
from ablate.train.events import Outcome, Training
from ablate.train.microbatches import BatchShares

HOST = "127.0.0.1"
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
LOOK_EVERY = 0.05
ANSWER_WITHIN = timedelta(minutes=10)
"""How long rank 0 waits for another rank that lives: they do the same work, so no step is that much longer."""

MEET_WITHIN = timedelta(seconds=60)
"""How long they look for each other once all are there."""

WAIT_FOR_RANK_0 = timedelta(days=7)
"""How long the others wait for rank 0, which waits for whoever takes its messages, and with which they die."""

LAST_WORDS_WITHIN = 10.0
"""Seconds for a rank that went wrong to say how."""


def trained(task: Task, should_stop: ShouldStop) -> Iterator[Training]:
    """Train the task's trial, from its checkpoint where it has one, in as many processes as it says; see `compute`."""
    return _share(task, Ranks(), should_stop) if task.ranks == 1 else _with_others(task, should_stop)


def _with_others(task: Task, should_stop: ShouldStop) -> Iterator[Training]:
    """The same as rank 0, with the others."""
    step = task.resume.step if task.resume else 0
    with _Others(task) as others:
        try:
            if not others.ready(should_stop):
                yield Outcome("interrupted", step, {"error": "asked to stop before all ranks were there"})
                return
            with others.joined():
                for event in _share(task, Ranks(0, task.ranks), should_stop):
                    others.check()
                    step = max(step, event.step)
                    yield event
            return
        except (Exception, SystemExit) as error:
            wrong = others.last_words(LAST_WORDS_WITHIN if isinstance(error, RankLost) else 0.0)
            if wrong is None and not isinstance(error, RankLost):
                raise
            lost = wrong or Outcome("interrupted", step, {"error": f"its ranks lost each other: {error}"})
        yield replace(lost, step=step)  # not within the handler, whose trace holds what the ranks had on this GPU


def follow(task: Task, rank: int, port: int) -> Iterator[Training]:
    """What another rank does: its share of all that rank 0 does, as far as that goes."""
    if torch.cuda.is_available():
        take((task.gpu or 0) + rank, task.memory, task.contexts)
    store = TCPStore(HOST, port, task.ranks, is_master=False, timeout=WAIT_FOR_RANK_0)
    store.set(_ready(rank), "")
    store.wait([_ready(other) for other in range(1, task.ranks)])
    with _group(store, rank, task.ranks, WAIT_FOR_RANK_0):
        yield from _share(task, Ranks(rank, task.ranks), lambda: False)


def _share(task: Task, ranks: Ranks, should_stop: ShouldStop) -> Iterator[Training]:
    return compute(
        task.trial,
        cache=task.cache,
        plugins=task.plugins,
        resume=state_of(task),
        should_stop=should_stop,
        until=task.until,
        made_with=task.versions.get(ATTENTION, ""),
        cut=BatchShares(task.parts, ranks),
    )


class _Others:
    """The processes of all ranks but 0, from entering to leaving."""

    def __init__(self, task: Task):
        self._task = task
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._leaving, self._lost = threading.Event(), threading.Event()

    def __enter__(self) -> _Others:
        with ExitStack() as undo:
            undo.callback(self._end)
            self._store = _store(self._task.ranks)
            for rank in range(1, self._task.ranks):
                self._processes[rank] = _start(self._task, rank, self._store.port)
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def ready(self, should_stop: ShouldStop) -> bool:
        """Wait until all are there; whether they are, or the run is to stop. RankLost where one ends before."""
        keys = [_ready(rank) for rank in self._processes]
        while not self._store.check(keys):
            if self._ended():
                raise RankLost("a rank has ended before it began")
            if should_stop():
                return False
            time.sleep(LOOK_EVERY)
        return True

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Within, the default group of torch.distributed is that of the ranks, and this process rank 0 of it."""
        with _group(self._store, 0, self._task.ranks, ANSWER_WITHIN):
            if torch.cuda.is_available():
                threading.Thread(target=self._abort_when_lost, name="ranks", daemon=True).start()
            try:
                yield
            finally:
                self._leaving.set()

    def check(self) -> None:
        """RankLost if what was computed since the last look may be without another rank's share."""
        if self._lost.is_set():
            raise RankLost("a rank has ended before the trial")

    def last_words(self, seconds: float) -> Outcome | None:
        """The outcome of the rank that went wrong, if one did, waiting up to `seconds` for it to end."""
        end, heard = time.monotonic() + seconds, dict[int, Outcome | None]()
        while True:
            for rank in self._ended() - heard.keys():
                heard[rank] = _outcome(rank, self._processes[rank])
                if (wrong := heard[rank]) is not None:
                    return wrong
            if time.monotonic() > end or len(heard) == len(self._processes):
                return None
            time.sleep(LOOK_EVERY)

    def _ended(self) -> set[int]:
        return {rank for rank, process in self._processes.items() if process.poll() is not None}

    def _abort_when_lost(self) -> None:
        # gloo notices that the other side is gone; NCCL waits for it on the device, beyond the reach of Python. What it
        # gives once it is aborted is no sum, so it is said before.
        while not self._leaving.wait(LOOK_EVERY):
            if any(self._processes[rank].returncode for rank in self._ended()):
                self._lost.set()
                if (group := dist.group.WORLD) is not None:
                    group.abort()
                return

    def _end(self) -> None:
        """They hold nothing that is not known here, so they are ended without being asked."""
        self._leaving.set()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _store(ranks: int) -> TCPStore:
    with socket.create_server((HOST, 0)) as listening:  # a store that opened its own would listen to every network
        port = listening.getsockname()[1]
        return TCPStore(
            HOST,
            port,
            ranks,
            is_master=True,
            timeout=ANSWER_WITHIN,
            wait_for_workers=False,
            master_listen_fd=listening.detach(),
        )


@contextmanager
def _group(store: Store, rank: int, size: int, timeout: timedelta) -> Iterator[None]:
    """Within, this process is a rank of the default group. Rank 0 leaves it; the others end with it.

    NCCL's way out is to be gone by all together, so one that went wrong would wait there for those that wait for it,
    before it has said its last words. So rank 0, with which it ends for all, breaks it off, and the others do nothing.
    """
    cuda = torch.cuda.is_available()
    with _loopback():
        try:
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if cuda else "gloo", store=store, rank=rank, world_size=size, timeout=MEET_WITHIN
            )
        except RuntimeError as error:
            # It counts the groups of this process, those that never were as well, and the others ask by that number.
            dist.distributed_c10d._world.group_count = 0
            raise RankLost(f"the ranks did not meet: {str(error).partition(chr(10))[0]}") from error
        dist.distributed_c10d._set_pg_timeout(timeout)
        try:
            yield
        finally:
            if rank == 0:
                if cuda and (group := dist.group.WORLD) is not None:
                    group.abort()
                dist.destroy_process_group()


@contextmanager
def _loopback() -> Iterator[None]:
    """Within, gloo and NCCL open their connections on this machine alone, which they can be told by the environment
    only; NCCL asks when it is first used."""
    before = {name: os.environ.get(name) for name in INTERFACES}
    os.environ |= dict.fromkeys(INTERFACES, "lo" if sys.platform == "linux" else "lo0")
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _ready(rank: int) -> str:
    return f"rank {rank} is there"


def _start(task: Task, rank: int, port: int) -> subprocess.Popen[bytes]:
    return launch(
        "ablate.execute.rank_process",
        os.getpid(),
        told=((task, rank, port),),
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is the driver's
    )


def _outcome(rank: int, process: subprocess.Popen[bytes]) -> Outcome | None:
    """What a rank that has ended makes of the trial; None where it did not go wrong by itself."""
    assert process.stdout is not None
    said = process.stdout.read()
    if said:
        outcome: Outcome | None = pickle.loads(said)
        return outcome and replace(outcome, detail=outcome.detail | {"rank": rank})
    how = f"by signal {-process.returncode}" if process.returncode < 0 else f"with exit code {process.returncode}"
    return Outcome("interrupted", 0, {"error": f"its rank {rank} was lost ({how})", "rank": rank})
