"""The contract of an executor, to inherit: four checks that run the trials of a small space.

`ablate docs executor` shows its use. Trials are killed and stopped for real, so these checks need the main thread.
"""

from __future__ import annotations

import functools
import io
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from ablate import api
from ablate.execute.executors.declare import check_executor
from ablate.store import claim
from ablate.testing.contract import Contract

SPACE = """
space: executors
question: Does the executor change a number?
grammar: transformer
model: {layers: 1, width: 16, heads: 2, context: 16, embedding: {std: 0.02, scale: 50}, head: untied,
        init: {normal: 0.02}}
block: {attention.position: rope}
data: {corpus: {files: ["texts/*.txt"]}, tokenizer: bytes}
recipe: {steps: 120, batch: 4, optimizer: {adamw: {lr: 1e-3}}}
design: {compare: [pre_ln, op]}
seeds: 2
measure: {every: 10, probes: [kurtosis], evaluation: {every: 60, windows: 8}, checkpoint_every: 20}
judge: {against: pre_ln, metrics: {eval_loss: {margin: 1%}}}
"""
Rows = tuple[tuple[object, ...], ...]


class ExecutorContract(Contract):
    """Four tests of one executor by its name. `options` are those of a run, `plugins` are read; `kills` is false for
    one whose trials run in the process of the run."""

    executor: str = ""
    options: Mapping[str, Any] = {}
    kills: bool = True

    def test_is_declared(self) -> None:
        """The run's options are taken as they are."""
        check_executor(api.ExecutorOptions(executor=self.executor, **self.options), self._files())

    def test_gives_the_bits_of_inline(self) -> None:
        """Every trial finishes, with the same numbers as in this process."""
        with tempfile.TemporaryDirectory() as folder:
            done = self._run(Path(folder))
            assert done.ended.kinds == {"finished": 4}, f"the trials ended as {dict(done.ended.kinds)}"
            assert rows_of(Path(folder) / "results") == inline(), "its numbers are not those of inline"

    def test_a_killed_worker_costs_no_number(self) -> None:
        """The trial of a worker that is killed is resumed in the same run, with the reason told."""
        if not self.kills:
            return
        with tempfile.TemporaryDirectory() as folder:
            screen = Console(record=True, width=200, file=io.StringIO())
            with _Once(Path(folder) / "results", lambda pid: os.kill(pid, signal.SIGKILL)) as struck:
                done = self._run(Path(folder), screen)
            assert struck.pid, "no worker held a trial for long enough to be killed"
            assert done.ended.kinds == {"finished": 4}, f"the trials ended as {dict(done.ended.kinds)}"
            assert "resumes from its checkpoint" in screen.export_text(), "the run does not say why it tries again"
            assert rows_of(Path(folder) / "results") == inline(), "its numbers are not those of an undisturbed run"

    def test_stops_and_resumes(self) -> None:
        """A run that is asked to stop leaves no claim and resumes to the same numbers."""
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results"
            with _Once(results, lambda pid: os.kill(os.getpid(), signal.SIGINT)) as struck:
                done = self._run(Path(folder))
            assert struck.pid, "no worker held a trial for long enough to be stopped"
            assert done.ended.interrupted, "asked to stop, it went on to the end"
            assert not claim.holders(results), "a trial is still claimed after the run has stopped"
            ended = self._run(Path(folder)).ended
            assert set(ended.kinds) == {"finished"}, f"resumed, the trials ended as {dict(ended.kinds)}"
            assert rows_of(results) == inline(), "resumed, its numbers are not those of an undisturbed run"

    def _files(self) -> tuple[Path, ...]:
        return tuple(Path(plugin).resolve() for plugin in self.plugins)

    def _run(self, folder: Path, screen: Console | None = None) -> api.Run:
        return train(folder, screen, plugins=self._files(), executor=self.executor, **self.options)


def train(folder: Path, screen: Console | None = None, **options: Any) -> api.Run:
    """Run the small space of the contract in a folder."""
    path = folder / "executors.yaml"
    if not path.exists():
        (folder / "texts").mkdir()
        for n in range(12):
            text = "".join(f"{n} {(n * k * k) % 97} of {k}\n" for k in range(200))
            (folder / "texts" / f"{n}.txt").write_text(text, encoding="utf-8")
        path.write_text(SPACE, encoding="utf-8")
    screen = screen or Console(quiet=True)
    return api.run(api.load_space(path), results=folder / "results", console=screen, mirror=False, **options)


@functools.cache
def inline() -> Rows:
    """The numbers of the small space, computed in this process."""
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder), executor="inline")
        return rows_of(Path(folder) / "results")


def rows_of(results: Path) -> Rows:
    statement = "SELECT trial_id, step, metric, address, value FROM metrics ORDER BY ALL"
    return tuple(tuple(row) for row in api.query(statement, results=results).itertuples(index=False))


class _Once:
    """While entered, waits for a trial that is under way, and strikes its worker once; `pid` is then known."""

    def __init__(self, results: Path, strike: Callable[[int], None]):
        self.pid, self._results, self._strike, self._over = 0, results, strike, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Once:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            for holder in claim.holders(self._results).values():
                if holder.step > 25:
                    self.pid = holder.pid
                    self._strike(holder.pid)
                    return
            time.sleep(0.002)
