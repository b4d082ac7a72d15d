"""The training loop: one trial, from a built model to its outcome.

Steps count from 0, and a step has the number of its batch: its rows describe the model before its update. The readings
on the evaluation windows at step s (`eval_loss`, `eval_bits_per_byte`, probes of activations) describe the model after
s updates, so the last of them have step `steps`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn, optim

from ablate.block.catalogue import Catalogue
from ablate.compiler.initialise import TrainingStreams
from ablate.components.declare import ActsAfterStep
from ablate.components.registry import declarations
from ablate.data.batch import Batch, Examples
from ablate.errors import RefusedError
from ablate.plan.plan import Trial
from ablate.probes.reading import Probe, Reading
from ablate.probes.registry import select
from ablate.probes.token_kernel import snapshot_due
from ablate.probes.update import changes, streams
from ablate.probes.watch import padding_of, watching
from ablate.space.metrics import SMOOTHED, of_averaged_weights
from ablate.space.schedule import rate_schedule, smallest_batch
from ablate.train.checkpoint import TrialProgress, load_state, save_state
from ablate.train.data_parallel import dropout_seed
from ablate.train.definitions import ADDED_LOSS, SKIPPED
from ablate.train.divergence import Diverged, check_finite
from ablate.train.events import Checkpoint, Clock, Outcome, Row, Step, Timing, Training, evaluated, rows_of, statistics
from ablate.train.loss import LossScaling, acting, after_step, device_of, forward, loss_scaling, recorded
from ablate.train.microbatches import BatchShares, Microbatch, Passes, averaged
from ablate.train.objective import evaluate, objective_of
from ablate.train.objectives.declare import Objective
from ablate.train.optimizer import WeightAverage, average_of, build_optimizer, clip_gradients, gradient_norm, set_rates

VERSION: Final = 1
"""The version of the numbers of training and evaluation: see `plan/versions.py`."""

WHOLE = BatchShares()  # each batch undivided, in this process

NO_MEMORY = (
    "DefaultCPUAllocator",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""Texts by which a bare RuntimeError means lack of memory: from the CPU's allocator, or from a device without room for
a context, for cuBLAS (its handle or its workspace), or for cuDNN."""


@runtime_checkable
class BatchSource(Protocol):
    """The training data: the batch of a step is a function of the step."""

    def at(self, step: int) -> Batch:
        """Return the batch of `step`."""
        ...


def train(
    model: nn.Module,
    trial: Trial,
    batches: BatchSource,
    evaluation: Examples,
    *,
    resume: bytes | None = None,
    should_stop: Callable[[], bool],
    until: int | None = None,
    cut: BatchShares = WHOLE,
    catalogue: Catalogue | None = None,
) -> Iterator[Training]:
    """Train `model` as `trial` says, and yield its events; the last event is the outcome.

    `resume` is the state of a checkpoint of the same trial: training continues as it would have without the
    interruption, bit for bit on CPU. When `should_stop()` turns true, a checkpoint is yielded and the outcome is
    `interrupted`. Likewise once step `until` is done, including its measurements, and the outcome is `paused`; if it
    was done already, nothing is trained. Divergence and lack of memory are outcomes; any other error is raised.

    Names in the trial, such as its optimiser, are looked up in the `catalogue` (by default that of what ships).

    `cut` says how each batch is divided (`microbatches.py`). With several ranks, all begin from the parameters and
    buffers of rank 0 and yield the same events except for states, which only rank 0 has, and only rank 0's
    `should_stop` is called; if a rank is lost, the others raise RankLost. RefusedError if there are more ranks than
    sequences in a batch.
    """
    if cut.ranks.size > (smallest := smallest_batch(trial.work.recipe)):
        larger = "recipe.batch" if trial.work.recipe.batch_ramp is None else "recipe.batch_ramp.from"
        raise RefusedError(
            f"a batch of {smallest} sequences cannot be divided among {cut.ranks.size} ranks\n"
            f"  = use fewer processes per trial, or a larger {larger}"
        )
    streams = TrainingStreams(dropout_seed(trial.seed))
    known = catalogue or declarations()
    optimizer = build_optimizer(model, trial.work.recipe.optimizer, known)
    schedule, probes = rate_schedule(trial.work.recipe, known), select(trial.work.measure.probes, known)
    average, scaling, progress = average_of(model, trial.work.recipe), loss_scaling(trial.work.recipe), TrialProgress()
    if resume is not None:
        progress = load_state(resume, trial.id, model, optimizer, streams, average, scaling)
    held = () if average is None else average.held.values()
    cut.ranks.agree(itertools.chain(model.parameters(), model.buffers(), held))
    objective = objective_of(trial, known)
    of_run = trial, progress, streams, cut, probes, acting(model), objective, average, scaling
    loop = _Loop(model, optimizer, schedule, *of_run)
    try:
        yield from loop.run(batches, evaluation, until, should_stop)
        return
    except Diverged as error:
        outcome = Outcome("diverged", progress.step, error.detail | {"last": progress.last})
    except (RuntimeError, MemoryError) as error:
        if not lacks_memory(error):
            raise
        cause = str(error).partition("\n")[0]
        outcome = Outcome("out_of_memory", progress.step, {"cause": cause, "last": progress.last})
    yield outcome  # outside the handler, whose traceback would keep the step's tensors alive while the generator waits


@dataclass
class _Loop:
    model: nn.Module
    optimizer: optim.Optimizer
    schedule: Callable[[int], float]
    trial: Trial
    progress: TrialProgress
    streams: TrainingStreams
    cut: BatchShares
    probes: tuple[Probe, ...]
    acting: tuple[tuple[str, ActsAfterStep], ...]
    objective: Objective
    average: WeightAverage | None
    scaling: LossScaling | None

    def run(
        self,
        batches: BatchSource,
        evaluation: Examples,
        until: int | None,
        should_stop: Callable[[], bool],
    ) -> Iterator[Training]:
        """Run the remaining steps, up to the outcome."""
        recipe, measure, progress = self.trial.work.recipe, self.trial.work.measure, self.progress
        of_step = tuple(probe for probe in self.probes if probe.spec.in_steps)
        of_text = tuple(probe for probe in self.probes if not probe.spec.in_steps)
        passes = Passes(self.model, recipe.dtype, self.cut, self.objective)
        clock, first = Clock(), progress.step
        self.model.train()
        for step in range(first, recipe.steps):
            if why := self._halt(until, should_stop):
                if why == "interrupted" or step > first:  # else it was at its rung already, with a saved state
                    yield self._checkpoint()
                yield Outcome(why, step)
                return
            if step % measure.evaluation.every == 0:
                yield from self._evaluated(evaluation, step, of_text)

            measured = step % measure.every == 0 or step == recipe.steps - 1
            clock.start()
            batch = Batch(*batches.at(step))
            with self.streams.during(f"step {step}"):
                numbers, rates, readings = self._step(step, batch, passes, of_step if measured else ())
            clock.stop(batch.examples * self.trial.work.architecture.sizes.seq_len)
            numbers |= self._smoothed(step, numbers["train_loss"])

            rows = list(rows_of(step, numbers, rates, readings)) if measured else []
            progress.last = statistics(progress.last, step, numbers, rows)
            yield from rows
            if measured:
                yield from clock.timings(step)
            if progress.step % measure.checkpoint_every == 0 and progress.step < recipe.steps:
                yield self._checkpoint()
            yield Step(progress.step)
        yield from self._evaluated(evaluation, recipe.steps, of_text)
        if self.average is not None:
            yield from self._of_average(evaluation, self.average)
        skipped = self.scaling.skipped if self.scaling is not None else 0
        yield Outcome("finished", recipe.steps, {SKIPPED: skipped} if skipped else {})

    def _step(
        self, step: int, batch: Batch, passes: Passes, probes: tuple[Probe, ...]
    ) -> tuple[dict[str, float], dict[str, float], list[Reading]]:
        """Make one update; return loss and gradient norm before it, its rates, and what probes and parts read."""
        model, recipe, ranks = self.model, self.trial.work.recipe, self.cut.ranks
        parts = self.cut.of(batch, device_of(model), self.objective)
        ranks.draw_apart(self.trial.seed, step)
        rates = set_rates(self.optimizer, self.schedule(step))
        by_part = tuple(probe for probe in probes if probe.by_part)
        updates = tuple(probe for probe in probes if probe.of_updates)
        others = tuple(probe for probe in probes if not probe.by_part and not probe.of_updates)
        before = [self._streams(part) for part in parts] if updates else []
        padding = padding_of(model)
        passes.scale = 1.0 if self.scaling is None else self.scaling.scale
        with watching(model, others, padding) as readings, watching(model, by_part, padding, passes.scale) as passed:
            loss = passes.backward(parts)
        norm = gradient_norm(model)
        numbers = {"train_loss": loss, "gradient_norm": norm.item()}
        skipped = self.scaling is not None and self.scaling.skips(numbers["gradient_norm"])
        if skipped:
            del numbers["gradient_norm"]
        added = {f"{ADDED_LOSS} {place}": value for place, value in passes.added.items()}
        check_finite(model, parts, recipe.dtype, ranks, **numbers, **added)
        if by_part:
            readings += averaged(_by_part(passed, len(parts)), [part.weight for part in parts], ranks)
        if skipped:
            readings[:] = [reading for reading in readings if bool(reading.value.isfinite())]
        else:
            clip_gradients(model, recipe.clip, norm)
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.scaling is not None:
            numbers |= self.scaling.after(skipped)
        readings += [*recorded(passes.added), *after_step(self.acting, ranks)]
        if updates:
            read = [changes(updates, x, self._streams(part)) for part, x in zip(parts, before, strict=True)]
            readings += averaged(read, [part.weight for part in parts], ranks)
        self.progress.step = step + 1
        if self.average is not None:
            self.average.after(step + 1)
        return numbers, rates, readings

    def _smoothed(self, step: int, loss: float) -> dict[str, float]:
        """Return the moving average of the training loss up to a step, where it is measured."""
        decay = self.trial.work.measure.train_loss_ema
        if decay is None:
            return {}
        self.progress.smoothed = decay * self.progress.smoothed + (1 - decay) * loss
        return {SMOOTHED: self.progress.smoothed / (1 - decay ** (step + 1))}

    def _streams(self, part: Microbatch) -> dict[str, Tensor]:
        return streams(self.model, lambda: forward(self.model, part.inputs, self.trial.work.recipe.dtype))

    def _evaluated(self, examples: Examples, step: int, probes: tuple[Probe, ...]) -> list[Row | Timing]:
        due = self._due(probes, step)
        with self.streams.during(f"evaluation at step {step}"):
            events = list(evaluate(self.model, examples, step, self.trial, self.cut, self.objective, due))
        rows = [
            row for row in events if isinstance(row, Row) and row.metric != "token_kernel"
        ]  # a matrix is no statistic
        self.progress.last = evaluated(self.progress.last, step, rows)
        return events

    def _of_average(self, examples: Examples, average: WeightAverage) -> list[Row]:
        """Evaluate the averaged weights at the end, under names that say so."""
        step = self.trial.work.recipe.steps
        with average.in_place(), self.streams.during(f"evaluation of averaged weights at step {step}"):
            events = list(evaluate(self.model, examples, step, self.trial, self.cut, self.objective))
        rows = [replace(row, metric=of_averaged_weights(row.metric)) for row in events if isinstance(row, Row)]
        self.progress.last = evaluated(self.progress.last, step, rows, "evaluated_averaged_weights")
        return rows

    def _due(self, probes: tuple[Probe, ...], step: int) -> tuple[Probe, ...]:
        """Return the probes that read at the evaluation after `step` updates: those of matrices only a few times."""
        if snapshot_due(step, self.trial.work.recipe.steps, self.trial.work.measure.evaluation.every):
            return probes
        return tuple(probe for probe in probes if not probe.of_matrices)

    def _halt(self, until: int | None, should_stop: Callable[[], bool]) -> Literal["paused", "interrupted"] | None:
        """Return why to stop before the next step, or None; the same on all ranks."""
        if until is not None and self.progress.step > until:
            return "paused"
        return "interrupted" if self.cut.ranks.heard(self.cut.ranks.rank == 0 and should_stop()) else None

    def _checkpoint(self) -> Checkpoint:
        alone = self.cut.ranks.rank == 0
        held = self.model, self.optimizer, self.streams, self.progress, self.average, self.scaling
        return Checkpoint(self.progress.step, save_state(self.trial.id, *held) if alone else b"")


def _by_part(readings: list[Reading], parts: int) -> list[list[Reading]]:
    """Divide what was read in the parts of a batch, one after another: the same places in each."""
    each = len(readings) // parts
    return [readings[place * each : (place + 1) * each] for place in range(parts)]


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error means that the device, or this machine, ran out of memory."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(text in str(error) for text in NO_MEMORY)
