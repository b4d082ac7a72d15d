"""The executor of a run, from its options: in this process, in workers on this machine, or on Ray. Loads torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ablate.block.catalogue import Catalogue
from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.execute import device
from ablate.execute.cores import default_workers
from ablate.execute.executor_options import ExecutorOptions
from ablate.execute.inline import Inline
from ablate.execute.local import Local
from ablate.execute.memory import Forecast
from ablate.execute.packer import Packer
from ablate.execute.ray import RayTune
from ablate.execute.task import Executor
from ablate.plan.trial import Trial
from ablate.train.events import Outcome


def build_executor(
    options: ExecutorOptions,
    threads: int,
    say: Callable[[str], None],
    *,
    plugins: tuple[Path, ...] = (),
    known: Iterable[tuple[Trial, Outcome]] = (),
) -> Executor:
    """Build the executor for trials of `threads` threads, with the components that trials are planned with.

    `say` receives notices for the user; `known` are trials of earlier runs, whose measured memory is used for similar
    ones. InputError if this machine has fewer GPUs than a trial has processes.
    """
    if options.executor == "inline":
        return Inline()
    if options.executor == "local":
        return _local(options, threads, say, declarations(plugins), known)
    return RayTune(
        options.workers,
        address=options.address,
        cpus=float(threads) * options.processes if options.cpus is None else options.cpus,
        gpus=options.gpus,
        ranks=options.processes,
        pack=options.pack,
        forecast=None if options.pack is None else Forecast(declarations(plugins), known),
        stop_within=options.patience,
        say=say,
    )


def _local(
    options: ExecutorOptions,
    threads: int,
    say: Callable[[str], None],
    catalogue: Catalogue,
    known: Iterable[tuple[Trial, Outcome]],
) -> Executor:
    """Build the local executor: worker processes and, with GPUs, their placement on them."""
    there, ranks, pack = device.gpus(), options.processes, options.pack
    workers = options.workers or default_workers(threads, [gpu.memory for gpu in there], ranks, pack)
    stop_within = options.patience
    if not there:
        if pack is not None:
            say(f"--pack {pack} has no effect: this machine has no GPU")
        return Local(workers, stop_within=stop_within, say=say)
    if ranks > 1 and len(there) < ranks:
        raise InputError(
            f"--ranks {ranks}: each process needs a GPU of its own, and this machine has {len(there)}\n"
            f"  = use --ranks {len(there)}, or Ray with a machine that has more"
        )
    if pack is None and options.workers:
        pack = -(-workers // len(there))
    packer = Packer(there, catalogue, workers=workers, pack=pack, ranks=ranks, known=known)
    if options.workers and packer.slots < options.workers:
        say(f"the GPUs can run {packer.slots} trials at a time, of the {options.workers} requested")
    return Local(min(workers, packer.slots), packer, stop_within=stop_within, say=say)
