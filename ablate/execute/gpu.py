"""The GPU of a trial: which one, its share of memory, and the memory it needed. Without CUDA this does nothing."""

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
    "  = install the PyTorch build for its driver's CUDA, or check with nvidia-smi; --gpus 0 uses no GPU"
)


def take(gpu: int | None, memory: float | None, contexts: int = 0) -> None:
    """Compute on `gpu` of those that this process sees (None: the first), with at most the share `memory` of the memory
    that the CUDA contexts of `contexts` processes leave.

    The memory statistics are reset. RefusedError if there is no such GPU, or it cannot be used.
    """
    if not torch.cuda.is_available():
        return
    chosen, seen = gpu or 0, torch.cuda.device_count()
    if chosen >= seen:
        raise RefusedError(
            f"a trial was assigned GPU {chosen}, but only {seen} {'is' if seen == 1 else 'are'} visible here, from 0\n"
            "  = CUDA_VISIBLE_DEVICES says which are visible; a trial of several processes takes one for each"
        )
    try:
        torch.cuda.set_device(chosen)
        torch.empty(1, device="cuda")  # creates the context here, so that its failure is not the trial's
        total = torch.cuda.get_device_properties(chosen).total_memory
        torch.cuda.set_per_process_memory_fraction(1.0 if memory is None else memory * usable(total, contexts))
        torch.cuda.reset_peak_memory_stats()
    except RuntimeError as error:
        if lacks_memory(error):
            raise
        raise RefusedError(
            f"GPU {chosen} cannot be used: {str(error).partition(chr(10))[0]}\n"
            "  = if it allows only one process at a time (nvidia-smi: Compute M. E. Process), use --pack 1"
        ) from error


def usable(total: int, contexts: int) -> float:
    """Return the share of a GPU of `total` bytes that the contexts of `contexts` processes leave, at least half."""
    return max(total - contexts * CONTEXT, total // 2) / total


def give_back() -> bool:
    """Release the memory that PyTorch caches for this process's next tensors: others on the GPU may need it.

    Return whether the GPU still works.
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
    """Return whether a process must not be reused after a trial with this outcome.

    An error on a GPU (a failed assertion, an illegal access, ECC) destroys the process's context: everything after it
    in this process fails as well, and which bugs are of that kind cannot be told.
    """
    return outcome.kind == "bug" and _in_use()


def peak() -> dict[str, int]:
    """Return `peak_memory`, the most bytes that tensors took at once since `take`; empty without CUDA."""
    try:
        return {"peak_memory": torch.cuda.max_memory_allocated()} if torch.cuda.is_available() else {}
    except RuntimeError:  # the GPU is lost, but the outcome must still be reported
        return {}


def unseen() -> bool:
    """Return whether this machine has a GPU (a real one, not just one declared to Ray) that PyTorch does not see."""
    return not torch.cuda.is_available() and (Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None)


def _in_use() -> bool:
    """Return whether CUDA is in use; not by `is_available`, which queries the device, perhaps a lost one."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
