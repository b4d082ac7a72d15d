"""Worker processes on this machine: started, monitored and replaced, each by itself.

Each has its own connection, which nobody else holds: its messages arrive complete, and it is dead once the connection
or the process ends, whatever the exit code. A worker is ready when it has said so (`READY`); until then it has no task,
so one that dies or hangs while it starts affects no trial.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from ablate.errors import RefusedError
from ablate.execute.executor import STARTS_ALLOWED, Message, Task

READY_WITHIN = 180.0
"""Seconds that a worker may take to start: a busy machine, or a network file system, imports PyTorch slowly."""

LATE_COUNTS = 4
"""A start that was not ready within READY_WITHIN counts as this many of STARTS_ALLOWED, since it took as long."""

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 1.0  # seconds before the next start after a failed one; doubled each time

PAUSE_WITH_OTHERS = 30.0
"""Seconds between starts when the tolerated number has failed, and other workers are still running."""

EXIT_WITHIN = 2.0  # seconds for workers to end after their connections have; then they are killed

LAST_LINES = 20  # the number of last lines on standard error that are reported when a worker is lost


class ControlWord(Enum):
    """Control signals between driver and worker, besides tasks and messages."""

    READY = "everything is imported: ready for tasks"
    LEAVING = "the worker exits after this trial, whose outcome follows"
    STOP = "end the trial as interrupted at its next step"


class WorkerProcess:
    """A worker process, and the driver's end of its connection."""

    def __init__(self) -> None:
        ours, theirs = Pipe()
        self.connection: Connection[Any, Any] = ours
        try:
            self.process = launch(
                "ablate.execute.worker_process",
                theirs.fileno(),
                os.getpid(),
                pass_fds=(theirs.fileno(),),
                stderr=subprocess.PIPE,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.began = time.monotonic()
        self.ready = self.leaving = self.late = False
        self.task: Task | None = None
        self._held: list[bytes] | None = []
        self._printed: deque[bytes] = deque(maxlen=LAST_LINES)
        self._guard = threading.Lock()
        self._reader = threading.Thread(target=self._read_stderr, name=f"stderr of {self.process.pid}", daemon=True)
        self._reader.start()

    @property
    def idle(self) -> bool:
        """True if it can be given a task."""
        return self.ready and self.task is None and not self.leaving

    @property
    def printed(self) -> str:
        """The last lines of its standard error."""
        return b"".join(tuple(self._printed)).decode(errors="replace").rstrip()

    @property
    def how(self) -> str:
        """How it ended: `process 4711, killed by SIGKILL`."""
        code = self.process.returncode
        if self.late:
            ended = f"not ready within {READY_WITHIN:g} s"
        elif code is None:
            ended = "could not be killed"
        else:
            ended = f"killed by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
        return f"process {self.process.pid}, {ended}"

    def give(self, task: Task) -> bool:
        """Send it a task; return False if it is dead."""
        try:
            self.connection.send(task)
        except OSError:
            return False
        self.task = task
        return True

    def stop(self) -> None:
        """Ask it to end its trial as interrupted."""
        with suppress(OSError):
            self.connection.send(ControlWord.STOP)

    def met(self) -> None:
        """Mark it ready, and print what it has written to standard error so far."""
        self.ready = True
        with self._guard:
            held, self._held = self._held or (), None
            for line in held:
                _print(line)

    def end(self, *, within: float) -> None:
        """Wait `within` seconds for its process to end; then kill it."""
        self.connection.close()
        for seconds in (within, EXIT_WITHIN):
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
                break
            self.process.kill()
        # Processes that it started may keep its standard error open: then the reader thread ends only with them.
        self._reader.join(0.5)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            for line in stderr:
                self._printed.append(line)
                with self._guard:
                    if self._held is None:
                        _print(line)
                    else:
                        self._held.append(line)


class Supervisor:
    """The worker processes while entered. `say` receives notices about them for the user."""

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._workers: list[WorkerProcess] = []
        self._failures, self._failed_at, self._next_start = 0, float("-inf"), float("-inf")
        self.met = False

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for worker in self._workers:
            if error is None and worker.idle:
                worker.connection.close()  # it ends by itself
            else:
                worker.process.kill()
        until = time.monotonic() + EXIT_WITHIN
        for worker in self._workers:
            worker.end(within=max(until - time.monotonic(), 0.0))
        self._workers.clear()

    def idle(self) -> WorkerProcess | None:
        """Return a worker that can be given a task; None if there is none."""
        return next((worker for worker in self._workers if worker.idle), None)

    def tend(self, wanted: int) -> None:
        """Keep `wanted` workers, as far as they can be started. RefusedError if none can.
        After a failed start they are started one at a time, with pauses."""
        now = time.monotonic()
        for worker in self._workers:
            if not (worker.ready or worker.late) and now - worker.began > READY_WITHIN:
                worker.late = True
                worker.process.kill()
        while len(self._workers) < wanted and now >= self._next_start:
            if self._failures and not all(worker.ready for worker in self._workers):
                return
            try:
                self._workers.append(WorkerProcess())
            except OSError as error:
                self._start_failed(f"no process could be started: {error}", "", began=now, counts=1)

    def hear(self, seconds: float) -> Iterator[tuple[WorkerProcess, Message | None]]:
        """Yield the messages of workers, waiting up to `seconds` for the first: in order for each, and finally None for
        one that has ended after it was ready."""
        if not self._workers:
            time.sleep(seconds)
        wait([worker.connection for worker in self._workers], seconds)
        for worker in tuple(self._workers):
            over = worker.process.poll() is not None  # checked first: all that it sent before it ended can be read now
            while worker.connection.poll():
                try:
                    received = worker.connection.recv()
                except (EOFError, OSError, pickle.UnpicklingError):  # it died, perhaps in the middle of a message
                    over = True
                    break
                match received:
                    case ControlWord.READY:
                        self._meet(worker)
                    case ControlWord.LEAVING:
                        worker.leaving = True
                    case Message():
                        yield worker, received
            if over:
                self._workers.remove(worker)
                worker.end(within=EXIT_WITHIN)
                if worker.ready:
                    yield worker, None
                else:
                    counts = LATE_COUNTS if worker.late else 1
                    self._start_failed(worker.how, worker.printed, began=worker.began, counts=counts)

    def _meet(self, worker: WorkerProcess) -> None:
        worker.met()
        self.met = True
        self._failures, self._next_start = 0, float("-inf")

    def _start_failed(self, how: str, printed: str, *, began: float, counts: int) -> None:
        if began > self._failed_at:  # of workers started together, only the first failure counts
            self._failures += counts
        now = self._failed_at = time.monotonic()
        others = sum(worker.ready for worker in self._workers)
        lines = "".join(f"\n  | {line}" for line in printed.splitlines())
        if self._failures < STARTS_ALLOWED:
            self._next_start = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
            last = printed.splitlines()[-1:]
            self._say(f"a worker could not start ({how}{''.join(f': {line}' for line in last)}); trying another")
        elif others:
            self._next_start = now + PAUSE_WITH_OTHERS
            self._say(f"no more workers can be started ({how}); the run continues with {others}, and tries again")
        else:
            raise RefusedError(
                f"no worker can be started: {STARTS_ALLOWED} starts in a row failed, the last: {how}{lines}\n"
                "  = what was trained is kept; to continue: ablate resume; --executor inline needs no worker"
            )


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _print(line: bytes) -> None:
    """Print on this process's standard error, where a worker's own would have gone."""
    with suppress(OSError):
        os.write(2, line)


# A Python process on this machine that runs a module of ablate, and never the user's own `__main__`.
#
# `multiprocessing` would run the user's file again in each process (with whatever it trains), and does not work for a
# script from standard input. This runs `python -c` with a fixed text: the module is imported with this process's
# `sys.path`, so what can be imported here can be imported there.

BEGIN = (
    "import pickle, signal, sys; "
    "signal.signal(signal.SIGINT, signal.SIG_IGN); "  # Ctrl-C is the driver's
    "sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from {module} import {main}; {main}(); "
    "import gc; gc.freeze()"  # else Python collects all of torch before it exits, which takes a second or two
)


def launch(
    module: str, *arguments: object, main: str = "main", told: Sequence[object] = (), **options: Any
) -> subprocess.Popen[bytes]:
    """Start the function `main` of a module, with these `sys.argv[1:]`; the objects `told` are sent, pickled, to its
    standard input.

    `options` are those of `subprocess.Popen`. OSError if no process can be started.
    """
    # -P: no folder is searched besides our own `sys.path`, which the process only learns after it has started.
    begin = BEGIN.format(module=module, main=main)
    command = [sys.executable, *_interpreter_flags(), "-P", "-c", begin, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, **options)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stdin:  # a process that died already is noticed by its exit
        stdin.write(b"".join(pickle.dumps(each) for each in (_search_path(), *told)))
    return process


def _search_path() -> list[str]:
    """Return this process's `sys.path`, with the working folder (the empty string) by its name."""
    return [entry or str(os.path.realpath(os.curdir)) for entry in sys.path]


def _interpreter_flags() -> list[str]:
    """Return the options of this interpreter (-O, -W, -X, -E, …), as `multiprocessing` passes them on."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


# Worker processes die with their driver, however it dies, and leave Ctrl-C to the driver.

PR_SET_PDEATHSIG = 1
LOOK_FOR_PARENT_EVERY = 0.5


def follow_parent(parent: int) -> None:
    """Make this process end when process `parent` does: by the kernel on Linux, elsewhere by polling twice a second."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    # The kernel watches only the thread that forked us, and not at all if the parent has already died: so poll as well.
    threading.Thread(target=_watch_parent, args=(parent,), name="lifeline", daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_FOR_PARENT_EVERY)
    os._exit(1)
