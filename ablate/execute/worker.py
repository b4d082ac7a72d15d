"""Worker: one trial claimed, computed in one process or several, and saved, with its events sent to the driver.

Every executor, and every test, gets its messages from here. The ways in which a trial ends from without are here, too:
an exception, a step that hangs, the loss of one of its processes.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed as dist
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]  # documented, and not in its __all__

from ablate.errors import RefusedError
from ablate.execute.executor import GRACE, REFUSED, Message, ShouldStop, Task
from ablate.execute.gpu import gpus, peak, take
from ablate.execute.machine import device_and_kernels
from ablate.execute.supervisor import launch
from ablate.execute.work import compute
from ablate.store import journal, machines
from ablate.store.claim import Claim, trace_of
from ablate.store.durable import writing
from ablate.store.machines import ATTENTION, of_machine, same_bits
from ablate.train.data_parallel import RankLost, Ranks
from ablate.train.events import Attending, Began, Checkpoint, Event, Outcome, Saved, Step, Training
from ablate.train.loop import lacks_memory
from ablate.train.microbatches import BatchShares

SPEAK_EVERY = 0.25  # seconds between messages of a running trial: no event waits for as long as a second


def messages(task: Task, should_stop: ShouldStop) -> Iterator[Message]:
    """Train one trial and yield its events, several times a second. The last event is always its outcome.
    An error in the trial is an outcome of kind `bug` with the whole trace. An error around it (the disk, the corpus,
    another worker that has it) is `interrupted` with the reason under REFUSED: not the trial's fault."""
    outbox = _Outbox(task)
    try:
        with Claim(task.folder, task.trial.id, step=outbox.step) as claim:
            take(task.gpu, task.memory, task.contexts)
            trial = _ClaimedTrial(task, claim)
            try:
                events = trained(trial.task, lambda: trial.limit.is_reached() or should_stop())
                event = next(events, None)
            except (Exception, SystemExit):
                outbox.put(trial.began(None))
                yield outbox.message()
                outbox.empty()
                raise
            outbox.put(trial.began(event))
            yield outbox.message()
            outbox.empty()
            while event is not None:
                sent = trial.translated(event)
                if sent is not None and outbox.put(sent):
                    yield outbox.message()
                    outbox.empty()
                event = next(events, None)
        return
    except (Exception, SystemExit) as error:  # noqa: BLE001  a trial's error is its outcome, the trace in its row
        ending = ending_of(error, outbox.step)
    outbox.put(_with_how(ending, task))
    yield outbox.message()  # outside the handler, whose traceback keeps the model alive


class _Outbox:
    def __init__(self, task: Task):
        self.step = task.start
        self._trial_id = task.trial.id
        self._events: list[Event] = []
        self._emptied_at = time.monotonic()

    def put(self, event: Event | Step) -> bool:
        """Add an event; return whether it, or the time since the last message, calls for a message."""
        self.step = event.step if isinstance(event, Began) else max(self.step, event.step)
        if not isinstance(event, Step):
            self._events.append(event)
        return isinstance(event, Began | Saved | Outcome) or time.monotonic() - self._emptied_at > SPEAK_EVERY

    def message(self) -> Message:
        return Message(self._trial_id, tuple(self._events), self.step)

    def empty(self) -> None:
        self._events.clear()
        self._emptied_at = time.monotonic()


class _ClaimedTrial:
    """A trial that this worker has claimed: translates each event of its training for the driver. `task` is the one
    that is carried out: it starts over if its checkpoint was made with other versions."""

    def __init__(self, task: Task, claim: Claim):
        dtype = task.trial.work.recipe.dtype
        computed, memory = device_and_kernels(dtype), [gpu.memory for gpu in gpus()]
        self._versions = machines.record(task.folder, dtype, computed, memory) | {
            name: str(n) for name, n in _cut(task).items()
        }
        self._claim, self.task, self.limit = claim, _from(task, self._versions), _Limit(task.limit)
        self._refused: dict[str, list[str]] = {}
        self._at = time.time()

    def began(self, first: Training | None) -> Began:
        """The event that the trial has started, with the attention backends from its training's `first` event. If those
        are not known (None, or another event), it has the versions that the trial was computed with so far."""
        task, versions, step = self.task, self._versions, self.task.start
        if not isinstance(first, Attending):
            return Began(step, task.versions if task.resume else versions, at=self._at)
        versions = versions | ({ATTENTION: first.operators} if first.uses else {})
        if task.resume and not same_bits(versions, task.versions):  # `compute` has discarded that state, too
            journal.drop_checkpoints(task.folder, task.trial.id)
            step = 0
        refused = [use.described for use in first.uses if use.refused]
        self._refused = {ATTENTION: refused} if refused else {}
        return Began(step, versions, first.uses, self._at)

    def translated(self, event: Training) -> Event | Step | None:
        """The event for the driver: a state as saved, an outcome with its circumstances; None: send nothing."""
        task = self.task
        match event:
            case Attending():
                return None  # reported when the trial began
            case Step():
                self._claim.beat(event.step)
                return event
            case Checkpoint():
                # A trial that has reached its limit ends here, so nobody resumes from this state.
                return None if self.limit.reached else journal.write_checkpoint(task.folder, task.trial.id, event)
            case Outcome(kind="interrupted", step=step) if self.limit.reached:
                timeout = Outcome("timeout", step, {"error": f"not done after {task.limit:g} s", "limit": task.limit})
                return _with_how(timeout, task)
            case Outcome():
                return _with_how(replace(event, detail=self._refused | event.detail), task)
            case _:
                return event


def _with_how(outcome: Outcome, task: Task) -> Outcome:
    """Say how the trial was carried out, if not undivided, alone and on the CPU."""
    read = task.parts * task.ranks
    shared = {"readings": f"means over {read} parts of each batch, except those of parameters"} if read > 1 else {}
    return replace(outcome, detail=peak() | _cut(task) | shared | outcome.detail)


def _cut(task: Task) -> dict[str, int]:
    return {name: n for name, n in (("parts", task.parts), ("ranks", task.ranks)) if n > 1}


def _from(task: Task, versions: dict[str, str]) -> Task:
    """With other versions the bits would differ, so the trial starts over."""
    if task.resume is not None and of_machine(versions) == of_machine(task.versions):
        return task
    journal.drop_checkpoints(task.folder, task.trial.id)
    return replace(task, resume=None)


class _Limit:
    """A limit of `seconds` from now. `reached` is true once the trainer, which asks before every step, was stopped by
    it."""

    def __init__(self, seconds: float | None):
        self._end = None if seconds is None else time.monotonic() + seconds
        self.reached = False

    def is_reached(self) -> bool:
        self.reached = self.reached or (self._end is not None and time.monotonic() > self._end)
        return self.reached


def ending_of(error: Exception | SystemExit, step: int) -> Outcome:
    """The outcome of a trial that raised `error` after `step` steps; memory can run out outside its loop, too.
    `sys.exit` in a component is a bug of that code: it ends neither a worker nor, inline, the run."""
    if isinstance(error, RefusedError):
        return Outcome("interrupted", step, {"error": str(error), REFUSED: str(error)})
    if lacks_memory(error):
        return Outcome("out_of_memory", step, {"cause": str(error).partition("\n")[0]})
    trace = "".join(traceback.format_exception(error))
    return Outcome("bug", step, {"error": f"{type(error).__name__}: {error}", "trace": trace})


def state_of(task: Task) -> bytes | None:
    """Read the state of a task's checkpoint; None if it starts from the beginning. RefusedError if it is damaged."""
    if task.resume is None:
        return None
    state = journal.read_checkpoint(task.folder, task.trial.id, task.resume)
    if state is None:
        raise RefusedError(
            f"the checkpoint of trial {task.trial.id} at step {task.resume.step} is missing or damaged\n"
            "  = run again: the trial then resumes from its last intact checkpoint, or from the start"
        )
    return state


# The trace of a trial that hangs within a step, beyond the reach of Python: `running/<trial>.trace` in the results
# folder, read by whoever ends the worker.


@contextmanager
def watched(task: Task, *, exit: bool) -> Iterator[None]:
    """Write the trace of every thread half-way through the grace period after the limit; with `exit`, end the process.
    That needs neither the interpreter nor its lock, so it works while a kernel or a system call never returns.
    RefusedError if the file for the trace cannot be created."""
    if task.limit is None:
        yield
        return
    path = trace_of(task.folder, task.trial.id)
    with writing(path):
        path.parent.mkdir(exist_ok=True)
        trace = path.open("wb")
    with trace as file:
        faulthandler.dump_traceback_later(task.limit + GRACE / 2, exit=exit, file=file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            path.unlink(missing_ok=True)


def timed_out(folder: Path, trial_id: str, step: int, limit: float) -> Outcome:
    """The outcome of a trial whose worker was killed at its limit, with the trace it has left."""
    path = trace_of(folder, trial_id)
    try:
        trace = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        trace = ""
    path.unlink(missing_ok=True)
    detail = {"error": f"hung: not done after {limit:g} s, and could not be stopped between steps", "limit": limit}
    return Outcome("timeout", step, detail | ({"trace": trace} if trace else {}))


# One trial in several processes of this machine: rank 0 is the worker that has it, and starts the others.
#
# They are separate processes (see `launch`), and die with it (`follow_parent`). They connect through a store of
# torch.distributed that listens on this machine alone; on CUDA rank r has the r-th GPU from the task's. A rank that
# fails reports that in its final message, which becomes the outcome of the trial; one that dies without a message
# counts as a lost worker. See `train.data_parallel` for what they do together.

RANKS_HOST = "127.0.0.1"
RANKS_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
LOOK_EVERY = 0.05
ANSWER_WITHIN = timedelta(minutes=10)
"""How long rank 0 waits for another living rank: they do the same work, so no step takes that much longer."""
MEET_WITHIN = timedelta(seconds=60)  # how long the ranks may take to connect once all are ready
WAIT_FOR_RANK_0 = timedelta(days=7)
"""How long the others wait for rank 0, which may itself wait for its driver; when it dies, they die too."""
LAST_WORDS_WITHIN = 10.0  # seconds for a rank that failed to send its final message


def trained(task: Task, should_stop: ShouldStop) -> Iterator[Training]:
    return _share(task, Ranks(), should_stop) if task.ranks == 1 else _with_others(task, should_stop)


def _with_others(task: Task, should_stop: ShouldStop) -> Iterator[Training]:
    step = task.start
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
    if torch.cuda.is_available():
        take((task.gpu or 0) + rank, task.memory, task.contexts)
    store = TCPStore(RANKS_HOST, port, task.ranks, is_master=False, timeout=WAIT_FOR_RANK_0)
    store.set(_ready_key(rank), "")
    store.wait([_ready_key(other) for other in range(1, task.ranks)])
    with _process_group(store, rank, task.ranks, WAIT_FOR_RANK_0):
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
            self._store = _rank_store(self._task.ranks)
            for rank in range(1, self._task.ranks):
                self._processes[rank] = _start_rank(self._task, rank, self._store.port)
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ready(self, should_stop: ShouldStop) -> bool:
        """Wait for all ranks; return False if the run is to stop before they are ready. RankLost if one ends first."""
        keys = [_ready_key(rank) for rank in self._processes]
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
        with _process_group(self._store, 0, self._task.ranks, ANSWER_WITHIN):
            if torch.cuda.is_available():
                threading.Thread(target=self._abort_when_lost, name="ranks", daemon=True).start()
            try:
                yield
            finally:
                self._leaving.set()

    def check(self) -> None:
        """RankLost if a result since the last check may lack another rank's share."""
        if self._lost.is_set():
            raise RankLost("a rank ended before the trial did")

    def last_words(self, seconds: float) -> Outcome | None:
        """The outcome of the rank that failed, if one did, waiting up to `seconds` for it to end."""
        end, heard = time.monotonic() + seconds, dict[int, Outcome | None]()
        while True:
            for rank in self._ended() - heard.keys():
                heard[rank] = _outcome_of_rank(rank, self._processes[rank])
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


def _rank_store(ranks: int) -> TCPStore:
    # A store that opened its own socket would listen to every network.
    with socket.create_server((RANKS_HOST, 0)) as listening:
        port = listening.getsockname()[1]
        return TCPStore(
            RANKS_HOST,
            port,
            ranks,
            is_master=True,
            timeout=ANSWER_WITHIN,
            wait_for_workers=False,
            master_listen_fd=listening.detach(),
        )


@contextmanager
def _process_group(store: Store, rank: int, size: int, timeout: timedelta) -> Iterator[None]:
    """Make this process a rank of the default group while entered. Rank 0 leaves the group; the others end with it.
    NCCL's clean exit is collective, so a failed rank would wait there for ranks that wait for it, before it has sent
    its final message. So rank 0, with which all others end, aborts the group, and the others do nothing."""
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
    before = {name: os.environ.get(name) for name in RANKS_INTERFACES}
    os.environ |= dict.fromkeys(RANKS_INTERFACES, "lo" if sys.platform == "linux" else "lo0")
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _ready_key(rank: int) -> str:
    return f"rank {rank} is there"


def _start_rank(task: Task, rank: int, port: int) -> subprocess.Popen[bytes]:
    return launch(
        "ablate.execute.worker_process",
        os.getpid(),
        main="main_of_rank",
        told=((task, rank, port),),
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is the driver's
    )


def _outcome_of_rank(rank: int, process: subprocess.Popen[bytes]) -> Outcome | None:
    """The outcome that an ended rank gives the trial; None if it did not fail itself."""
    assert process.stdout is not None
    sent = process.stdout.read()
    if sent:
        outcome: Outcome | None = pickle.loads(sent)
        return outcome and replace(outcome, detail=outcome.detail | {"rank": rank})
    how = f"by signal {-process.returncode}" if process.returncode < 0 else f"with exit code {process.returncode}"
    return Outcome("interrupted", 0, {"error": f"its rank {rank} was lost ({how})", "rank": rank})
