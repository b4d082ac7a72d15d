"""One trial in several processes of this machine: rank 0 is the worker that has it, and starts the others.

They are separate processes (see `launch`), and die with it (`lifeline`). They connect through a store of
torch.distributed that listens on this machine alone; on CUDA rank r has the r-th GPU from the task's. A rank that fails
reports that in its final message, which becomes the outcome of the trial; one that dies without a message counts as a
lost worker. See `train.data_parallel` for what they do together.
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
"""How long rank 0 waits for another living rank: they do the same work, so no step takes that much longer."""

MEET_WITHIN = timedelta(seconds=60)
"""How long the ranks may take to connect once all are ready."""

WAIT_FOR_RANK_0 = timedelta(days=7)
"""How long the others wait for rank 0, which may itself wait for its driver; when it dies, they die too."""

LAST_WORDS_WITHIN = 10.0
"""Seconds for a rank that failed to send its final message."""


def trained(task: Task, should_stop: ShouldStop) -> Iterator[Training]:
    """Train the task's trial, from its checkpoint where it has one, in as many processes as it says; see `compute`."""
    return _share(task, Ranks(), should_stop) if task.ranks == 1 else _with_others(task, should_stop)


def _with_others(task: Task, should_stop: ShouldStop) -> Iterator[Training]:
    """Train as rank 0, together with the other ranks."""
    step = task.resume.step if task.resume else 0
    with _Others(task) as others:
        try:
            if not others.ready(should_stop):
                yield Outcome("interrupted", step, {"error": "asked to stop before all ranks were ready"})
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
            lost = wrong or Outcome("interrupted", step, {"error": f"its ranks lost contact: {error}"})
        yield replace(lost, step=step)  # outside the handler, whose traceback keeps the rank's tensors on the GPU alive


def follow(task: Task, rank: int, port: int) -> Iterator[Training]:
    """Train as another rank: its share of everything that rank 0 does."""
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
    """The processes of all ranks except 0, which live while this is entered."""

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
        """Wait for all ranks; return False if the run is to stop before they are ready. RankLost if one ends first."""
        keys = [_ready(rank) for rank in self._processes]
        while not self._store.check(keys):
            if self._ended():
                raise RankLost("a rank ended before it was ready")
            if should_stop():
                return False
            time.sleep(LOOK_EVERY)
        return True

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Make the ranks the default group of torch.distributed while entered, with this process as rank 0."""
        with _group(self._store, 0, self._task.ranks, ANSWER_WITHIN):
            if torch.cuda.is_available():
                threading.Thread(target=self._abort_when_lost, name="ranks", daemon=True).start()
            try:
                yield
            finally:
                self._leaving.set()

    def check(self) -> None:
        """Raise RankLost if a result since the last check may lack another rank's share."""
        if self._lost.is_set():
            raise RankLost("a rank ended before the trial did")

    def last_words(self, seconds: float) -> Outcome | None:
        """Return the outcome of the rank that failed, if one did, waiting up to `seconds` for it to end."""
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
        # gloo notices that the other side is gone; NCCL waits for it on the device, beyond the reach of Python. After
        # an abort its result is not the sum, so the loss is flagged first.
        while not self._leaving.wait(LOOK_EVERY):
            if any(self._processes[rank].returncode for rank in self._ended()):
                self._lost.set()
                if (group := dist.group.WORLD) is not None:
                    group.abort()
                return

    def _end(self) -> None:
        """Kill the processes: they hold nothing that is not known here."""
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
    """Make this process a rank of the default group while entered. Rank 0 leaves the group; the others end with it.

    NCCL's clean exit is collective, so a failed rank would wait there for ranks that wait for it, before it has sent
    its final message. So rank 0, with which all others end, aborts the group, and the others do nothing.
    """
    cuda = torch.cuda.is_available()
    with _loopback():
        try:
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if cuda else "gloo", store=store, rank=rank, world_size=size, timeout=MEET_WITHIN
            )
        except RuntimeError as error:
            # torch numbers the groups of this process, failed ones included; the other ranks use that number as a key.
            dist.distributed_c10d._world.group_count = 0
            raise RankLost(f"the ranks could not connect: {str(error).partition(chr(10))[0]}") from error
        # Before 2.14 it had no public name; under that one it is deprecated since.
        getattr(dist, "set_timeout", dist.distributed_c10d._set_pg_timeout)(timeout)
        try:
            yield
        finally:
            if rank == 0:
                if cuda and (group := dist.group.WORLD) is not None:
                    group.abort()
                dist.destroy_process_group()


@contextmanager
def _loopback() -> Iterator[None]:
    """Restrict the connections of gloo and NCCL to this machine while entered, which only environment variables can do;
    NCCL reads them when it is first used."""
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
    """Return the outcome that an ended rank gives the trial; None if it did not fail itself."""
    assert process.stdout is not None
    sent = process.stdout.read()
    if sent:
        outcome: Outcome | None = pickle.loads(sent)
        return outcome and replace(outcome, detail=outcome.detail | {"rank": rank})
    how = f"by signal {-process.returncode}" if process.returncode < 0 else f"with exit code {process.returncode}"
    return Outcome("interrupted", 0, {"error": f"its rank {rank} was lost ({how})", "rank": rank})
