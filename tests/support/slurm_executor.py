"""Slurm: each trial is a job, which `sbatch` queues on a cluster whose nodes all see the results folder.

A job reads its task from a file and appends its messages to another, which the run follows. It is told to stop by a
signal, so that its trial saves its state, and cancelled if it does not answer in time.
"""

from __future__ import annotations

import pickle
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ablate.errors import InputError, RefusedError
from ablate.execute.executor import GRACE, UNTOUCHED, ExecutorOptions, Message, began_at, did_not_stop, outcome_of
from ablate.execute.executors.declare import Setup, executor, implements
from ablate.train.events import Outcome

LISTEN_FOR = 0.2  # seconds between looks at the files of messages
ASK_EVERY = 1.0  # seconds between questions to `squeue`
QUEUED = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED")
SCRIPT = """#!/bin/sh
#SBATCH --job-name=ablate-{trial}
#SBATCH --cpus-per-task={cpus}
#SBATCH --no-requeue
#SBATCH --output={folder}/output
exec {python} {file} {folder}
"""


@executor("slurm", source="https://slurm.schedmd.com", takes=("workers", "cpus"))
class Config:
    """As many jobs as `workers`, each on `cpus` cores."""

    @staticmethod
    def check(options: ExecutorOptions) -> None:
        if options.cpus is not None and options.cpus != int(options.cpus):
            raise InputError(f"Slurm gives a job whole cores, not {options.cpus:g}\n  = give --cpus a whole number")


import ablate.execute.worker as carrying  # noqa: E402  below the declaration: it loads torch


@dataclass
class _Job:
    task: object
    id: str
    folder: Path
    step: int
    first: int
    read: int = 0
    began: float | None = None
    stopping: bool = False
    why: str = ""

    @property
    def trial(self) -> str:
        return self.task.trial.id

    def messages(self) -> list[Message]:
        """Those that are whole by now: the last may still be under way, or its job was killed in the middle."""
        found: list[Message] = []
        with (self.folder / "messages").open("rb") as lines:
            lines.seek(self.read)
            while True:
                try:
                    found.append(pickle.load(lines))
                except (EOFError, pickle.UnpicklingError):
                    return found
                self.read = lines.tell()


@implements(Config)
class Slurm:
    def __init__(self, setup: Setup):
        missing = [name for name in ("sbatch", "squeue", "scancel") if shutil.which(name) is None]
        if missing:
            raise RefusedError(f"there is no {missing[0]} on this machine\n  = start the run where jobs are submitted")
        options = setup.options
        self.workers, self._say, self._within = options.workers or 4, setup.say, options.patience
        self._cpus = int(options.cpus or setup.threads * options.processes)

    def run(self, next_task, handle, should_stop):
        self._jobs: dict[str, _Job] = {}
        stopping, asked = None, 0.0
        try:
            while True:
                if stopping is None and should_stop():
                    stopping = time.monotonic()
                    for job in self._jobs.values():
                        self._stop(job)
                while stopping is None and len(self._jobs) < self.workers and (task := next_task()) is not None:
                    job = self._submit(task)
                    self._jobs[job.trial] = job
                if not self._jobs:
                    return
                time.sleep(LISTEN_FOR)
                states = None
                if time.monotonic() - asked > ASK_EVERY:  # before the files: what a job wrote is read once it is gone
                    states, asked = self._states(), time.monotonic()
                for job in tuple(self._jobs.values()):
                    self._follow(job, states, handle, stopping)
        finally:
            for job in self._jobs.values():
                subprocess.run(["scancel", "--signal=KILL", job.id], capture_output=True)

    def _submit(self, task) -> _Job:
        """The files of a job lie below the results folder, which its node sees."""
        jobs = task.folder / "slurm"
        jobs.mkdir(exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{task.trial.id[:12]}-", dir=jobs))
        (folder / "task").write_bytes(pickle.dumps((sys.path, task)))
        (folder / "messages").touch()
        words = {"python": sys.executable, "file": str(Path(__file__).resolve()), "folder": str(folder)}
        quoted = {name: shlex.quote(word) for name, word in words.items()}
        (folder / "script").write_text(SCRIPT.format(trial=task.trial.id[:12], cpus=self._cpus, **quoted))
        done = subprocess.run(["sbatch", "--parsable", str(folder / "script")], capture_output=True, text=True)
        if done.returncode:
            raise RefusedError(f"sbatch refused a job: {done.stderr.strip()}\n  = to continue: ablate resume")
        return _Job(task, done.stdout.strip().partition(";")[0], folder, task.start, task.start)

    def _states(self) -> dict[str, str] | None:
        """The state of each job that Slurm still knows; None if it does not answer, which says nothing of them."""
        ids = ",".join(job.id for job in self._jobs.values())
        done = subprocess.run(
            ["squeue", "--noheader", "--states=all", "--format=%i %T", f"--jobs={ids}"], capture_output=True, text=True
        )
        if done.returncode and "Invalid job id" not in done.stderr:
            return None
        return dict(line.split()[:2] for line in done.stdout.splitlines() if line.strip())

    def _stop(self, job: _Job) -> None:
        job.stopping = True
        if job.began is None:  # still queued, or importing: it has nothing to save
            self._cancel(job, "asked to stop before it had begun")
        else:
            subprocess.run(["scancel", "--full", "--signal=TERM", job.id], capture_output=True)

    def _cancel(self, job: _Job, why: str) -> None:
        job.why = why
        subprocess.run(["scancel", "--signal=KILL", job.id], capture_output=True)
        subprocess.run(["scancel", job.id], capture_output=True)

    def _follow(self, job: _Job, states, handle, stopping: float | None) -> None:
        now = time.monotonic()
        for message in job.messages():
            job.began = job.began or now
            job.step, job.first = message.step, began_at(message, job.first)
            if outcome_of(message) is not None:
                return self._end(job, message, handle)
            handle(message)
        limit = job.task.limit
        if states is not None and states.get(job.id, "GONE") not in QUEUED:
            if job.why == "overdue":
                outcome = carrying.timed_out(job.task.folder, job.trial, job.step, limit)
            else:
                state = states.get(job.id, "GONE").lower()
                detail = {"error": job.why or f"its job {job.id} was lost ({state})"}
                printed = (
                    (job.folder / "output").read_text(errors="replace") if (job.folder / "output").exists() else ""
                )
                detail |= {"stderr": printed[-4096:]} if printed else {}
                detail |= {UNTOUCHED: True} if job.why and job.began is None else {}
                outcome = Outcome("interrupted", job.step, detail)
            return self._end(job, Message(job.trial, (outcome,), job.step), handle)
        if limit is not None and job.began is not None and not job.why and now - job.began > limit + GRACE:
            self._cancel(job, "overdue")
        elif stopping is not None and not job.why and now - stopping > self._within:
            self._cancel(job, did_not_stop(f"the job {job.id}", self._within))
            self._say(job.why)
        return None

    def _end(self, job: _Job, message: Message, handle) -> None:
        del self._jobs[job.trial]
        handle(message)
        shutil.rmtree(job.folder, ignore_errors=True)


# The job: this file, run with the folder of its task.


def main(folder: Path) -> None:
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))
    with (folder / "messages").open("ab") as out:
        for message in carrying.messages(task_of(folder), lambda: bool(stop)):
            out.write(pickle.dumps(message))
            out.flush()


def task_of(folder: Path):
    with (folder / "task").open("rb") as file:
        path, task = pickle.load(file)
    sys.path[:] = path
    return task


if __name__ == "__main__":
    main(Path(sys.argv[1]))
