"""The settings of a process before it trains, so that the same trial gives the same bits."""

from __future__ import annotations

import os

import torch


def pin_threads(threads: int) -> None:
    """Compute on `threads` CPU threads, with deterministic algorithms.

    The number of threads decides how sums are split, and so their last bits. Bit-identity is promised on the CPU; where
    a CUDA device has no deterministic algorithm for an operation, torch warns and continues.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace
    torch.set_num_threads(threads)
    # The same switch as use_deterministic_algorithms, which also imports torch's compiler: seconds in every worker.
    torch.set_deterministic_debug_mode("warn" if torch.cuda.is_available() else "error")
    # Deterministic mode would also fill every new tensor with NaN, in case one is read before it is written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
