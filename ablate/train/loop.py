"""The loop: one trial, from a built model to its outcome.

A step counts from 0 and is that of the batch it takes: its rows describe the model before its update. `eval_loss` at
step s is that of the model after s updates, so the last one stands at step `steps`.

Dimension key: B batch, T time, V vocabulary, N evaluation windows.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor, nn, optim

from ablate.plan.trial import Trial
from ablate.probes.probe import Reading
from ablate.probes.registry import select
from ablate.probes.watch import watching
from ablate.train.checkpoint import Progress, load_state, save_state
from ablate.train.clipping import clip_gradients, gradient_norm
from ablate.train.divergence import Diverged, check_finite
from ablate.train.events import Checkpoint, Outcome, Row, Step, Timing, Training
from ablate.train.loss import cross_entropy, device_of, forward
from ablate.train.optimizer import build_optimizer, set_rates
from ablate.train.schedule import relative_rate


@runtime_checkable
class Batches(Protocol):
    """The training data: the batch of a step is a function of the step."""

    def at(self, step: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
        """Tokens and targets of `step`."""
        ...


def train(
    model: nn.Module,
    trial: Trial,
    batches: Batches,
    evaluation: tuple[Int[Tensor, "N T"], Int[Tensor, "N T"]],
    *,
    resume: bytes | None = None,
    should_stop: Callable[[], bool],
) -> Iterator[Training]:
    """Train `model` as `trial` says, and yield what happens; the last event is the outcome.

    `resume` is the state of a checkpoint of the same trial: what follows is what would have followed without the
    interruption, bit for bit on CPU. When `should_stop()` turns true, a checkpoint is yielded and the outcome is
    `interrupted`. Divergence and lack of memory are outcomes; anything else that goes wrong is raised.
    """
    torch.manual_seed(_dropout_seed(trial.seed))
    optimizer = build_optimizer(model, trial.recipe.optimizer.adamw)
    progress = load_state(resume, trial.id, model, optimizer) if resume is not None else Progress()
    try:
        yield from _steps(model, optimizer, trial, progress, batches, evaluation, should_stop)
    except Diverged as error:
        yield Outcome("diverged", progress.step, error.detail | {"last": progress.last})
    except (RuntimeError, MemoryError) as error:
        if not _lacks_memory(error):
            raise
        yield Outcome("out_of_memory", progress.step, {"cause": str(error).partition("\n")[0], "last": progress.last})


def _steps(
    model: nn.Module,
    optimizer: optim.Optimizer,
    trial: Trial,
    progress: Progress,
    batches: Batches,
    evaluation: tuple[Tensor, Tensor],
    should_stop: Callable[[], bool],
) -> Iterator[Training]:
    recipe, measure = trial.recipe, trial.measure
    probes = select(measure.probes)
    device = device_of(model)
    clock = _Clock()
    model.train()
    for step in range(progress.step, recipe.steps):
        if should_stop():
            yield Checkpoint(step, save_state(trial.id, model, optimizer, progress))
            yield Outcome("interrupted", step)
            return
        if step % measure.evaluation.every == 0:
            yield from _evaluate(model, evaluation, step, trial)

        measured = step % measure.every == 0 or step == recipe.steps - 1
        clock.start()
        tokens_BT, targets_BT = (tensor.to(device) for tensor in batches.at(step))
        rates = set_rates(optimizer, relative_rate(step, recipe.steps, recipe.schedule, recipe.optimizer.adamw.lr))
        with watching(model, probes if measured else ()) as readings:
            loss = cross_entropy(forward(model, tokens_BT, recipe.dtype), targets_BT)
            loss.backward()  # type: ignore[no-untyped-call]
        norm = gradient_norm(model)
        numbers = {"train_loss": loss.item(), "gradient_norm": norm.item()}
        check_finite(model, tokens_BT, recipe.dtype, **numbers)
        clip_gradients(model, recipe.clip, norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        progress.step = step + 1
        clock.stop(tokens_BT.numel())

        rows = list(_rows(step, numbers, rates, readings)) if measured else []
        progress.last = _statistics(progress.last, step, numbers, rows)
        yield from rows
        if measured:
            yield from clock.timings(step)
        if progress.step % measure.checkpoint_every == 0 and progress.step < recipe.steps:
            yield Checkpoint(progress.step, save_state(trial.id, model, optimizer, progress))
        yield Step(progress.step)
    yield from _evaluate(model, evaluation, recipe.steps, trial)
    yield Outcome("finished", recipe.steps)


def _evaluate(model: nn.Module, evaluation: tuple[Tensor, Tensor], step: int, trial: Trial) -> Iterator[Training]:
    """The mean loss over all windows, a batch of them at a time; sums in float64."""
    started = time.perf_counter()
    device, recipe = device_of(model), trial.recipe
    total = 0.0
    model.eval()
    with torch.no_grad():
        for first in range(0, len(evaluation[0]), recipe.batch):
            tokens_BT, targets_BT = (windows[first : first + recipe.batch].to(device) for windows in evaluation)
            losses = cross_entropy(forward(model, tokens_BT, recipe.dtype), targets_BT, reduction="none")
            chunk = losses.double().sum().item()
            check_finite(model, tokens_BT, recipe.dtype, eval_loss=chunk / targets_BT.numel())
            total += chunk
    model.train()
    yield Row(step, "eval_loss", "", total / evaluation[1].numel())
    yield Timing(step, "evaluation_seconds", time.perf_counter() - started)


def _rows(step: int, numbers: dict[str, float], rates: dict[str, float], readings: list[Reading]) -> Iterator[Row]:
    for metric, value in numbers.items():
        yield Row(step, metric, "", value)
    for group, rate in rates.items():
        yield Row(step, "learning_rate", "" if group == "weights" else group, rate)
    for reading in readings:
        yield Row(step, reading.metric, reading.address, reading.value.item())


def _statistics(last: dict[str, Any], step: int, numbers: dict[str, float], rows: list[Row]) -> dict[str, Any]:
    """What is known of the last healthy step, and what was last measured, as JSON-able data."""
    measured: dict[str, dict[str, float | None]] = {}
    for row in rows:
        measured.setdefault(row.metric, {})[row.address] = row.value if math.isfinite(row.value) else None
    latest = {"measured_at": step, "measured": measured} if rows else {}
    return {**last, **latest, "step": step, **numbers}


def _dropout_seed(seed: int) -> int:
    """The seed of dropout's own stream: neither the caller's random numbers nor the initialisation's reach it."""
    return int.from_bytes(hashlib.sha256(f"dropout {seed}".encode()).digest()[:8]) >> 1


def _lacks_memory(error: RuntimeError | MemoryError) -> bool:
    # The CPU allocator raises a bare RuntimeError; its text is all there is to tell it by.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)


class _Clock:
    """The time of steps alone, without evaluations and without whoever takes the events."""

    def __init__(self) -> None:
        self.seconds, self.steps, self.tokens, self.started = 0.0, 0, 0, 0.0

    def start(self) -> None:
        self.started = time.perf_counter()

    def stop(self, tokens: int) -> None:
        self.seconds += time.perf_counter() - self.started
        self.steps += 1
        self.tokens += tokens

    def timings(self, step: int) -> Iterator[Timing]:
        """Means since the last call."""
        yield Timing(step, "step_seconds", self.seconds / self.steps)
        yield Timing(step, "tokens_per_second", self.tokens / self.seconds)
        self.seconds, self.steps, self.tokens = 0.0, 0, 0
