"""The GPU of a trial: which one, how much of its memory, and how much of that it needed. Nothing of it without CUDA."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path

import torch

from ablate.errors import RefusedError
from ablate.execute.packing import CONTEXT
from ablate.train.events import Outcome
from ablate.train.loop import lacks_memory

UNSEEN = (
    "this machine has a GPU that PyTorch cannot use, so trials are computed on the CPU\n"
    "  = install the PyTorch of its driver's CUDA, or look with nvidia-smi; --gpus 0 asks for none"
)


def take(gpu: int | None, memory: float | None, contexts: int = 0) -> None:
    """Compute on `gpu` of those that this process sees (None: the first), with at most the share `memory` of what is
    left of it beside the CUDA contexts of so many processes.

    What was measured of its memory is forgotten. RefusedError where there is no such GPU, or it is not to be used.
    """
    if not torch.cuda.is_available():
        return
    chosen, seen = gpu or 0, torch.cuda.device_count()
    if chosen >= seen:
        raise RefusedError(
            f"a trial was to have GPU {chosen}, and {seen} {'is' if seen == 1 else 'are'} to be seen here, from 0\n"
            "  = CUDA_VISIBLE_DEVICES says which are; a trial of several processes takes one for each"
        )
    try:
        torch.cuda.set_device(chosen)
        torch.empty(1, device="cuda")  # the context is made with the first tensor: what is wrong with it is no trial's
        total = torch.cuda.get_device_properties(chosen).total_memory
        torch.cuda.set_per_process_memory_fraction(1.0 if memory is None else memory * usable(total, contexts))
        torch.cuda.reset_peak_memory_stats()
    except RuntimeError as error:
        if lacks_memory(error):
            raise
        raise RefusedError(
            f"GPU {chosen} cannot be used: {str(error).partition(chr(10))[0]}\n"
            "  = where it is for one process at a time (nvidia-smi: Compute M. E. Process), use --pack 1"
        ) from error


def usable(total: int, contexts: int) -> float:
    """The share of a GPU of `total` bytes that the contexts of so many processes leave, at least half."""
    return max(total - contexts * CONTEXT, total // 2) / total


def give_back() -> bool:
    """Let go of memory that PyTorch keeps for this process's next tensors: others on the GPU may need it.

    Whether the GPU still does what it is told.
    """
    if not _in_use():
        return True
    gc.collect()
    try:
        torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def spoils(outcome: Outcome) -> bool:
    """Whether the process in which a trial ended so is to carry out no other.

    An error on a GPU (a failed assertion, an illegal access, ECC) ends the process's context: all that comes after it
    in this process fails as well, and which bugs are of that kind cannot be told.
    """
    return outcome.kind == "bug" and _in_use()


def peak() -> dict[str, int]:
    """`peak_memory`: the most bytes that tensors took at once since `take`; nothing without CUDA."""
    try:
        return {"peak_memory": torch.cuda.max_memory_allocated()} if torch.cuda.is_available() else {}
    except RuntimeError:  # the GPU is lost, and how the trial ended is to be said all the same
        return {}


def unseen() -> bool:
    """Whether this machine has a GPU (not one that Ray was only told of) and PyTorch does not see it."""
    return not torch.cuda.is_available() and (Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None)


def _in_use() -> bool:
    """Not `is_available`, which asks the device, perhaps one that is lost."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
