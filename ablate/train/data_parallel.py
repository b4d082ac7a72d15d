"""Ranks: the processes that train one trial together, each on its share of every batch.

    g = Σ_r g_r        g_r = ∂/∂θ Σ_i w_i L_i        over the sequences i of rank r, w_i = 1 / sequences of the batch

Every rank has the same parameters, receives the sum of all gradients in the same bits, and so makes the same update.
With two ranks the sum is the same from run to run; with more its order is the backend's.

The gradients are summed once they are complete, a bucket at a time. torch's DistributedDataParallel is not used: it
wraps the model, so that parts would have other addresses than probes and divergence report; it averages over ranks, not
over sequences; and it sums during the backward pass, of which a batch in microbatches has several.

    Li et al. 2020, arXiv:2006.15704, of which this is the first, unoverlapped form
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

BUCKET = 1 << 24  # numbers that are summed over the ranks at once; it bounds the memory of the copy


class RankLost(Exception):
    """Another rank is gone or does not answer, so this one cannot continue, through no fault of its own."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process's `rank` among `size`; if there are several, the default group of torch.distributed joins them.

    Every collective method is called by all ranks, in the same order. RankLost if one does not answer.
    """

    rank: int = 0
    size: int = 1

    def share(self, windows: Tensor) -> Tensor:
        """This rank's sequences, contiguous; the first ranks have one more if they do not divide evenly."""
        return windows if self.size == 1 else windows.tensor_split(self.size)[self.rank]

    def total(self, value: Tensor) -> Tensor:
        """Sum over all ranks, in place."""
        if self.size > 1:
            with _together():
                dist.all_reduce(value)
        return value

    def largest(self, value: Tensor) -> Tensor:
        """Take the elementwise maximum over all ranks, in place."""
        if self.size > 1:
            with _together():
                dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return value

    def add_gradients(self, gradients: Iterable[Tensor]) -> None:
        """Replace every gradient by its sum over all ranks, in place."""
        if self.size == 1:
            return
        for bucket in _buckets(gradients):
            flat = self.total(torch.cat([gradient.flatten() for gradient in bucket]))
            for gradient, summed in zip(bucket, torch.split(flat, [g.numel() for g in bucket]), strict=True):
                gradient.copy_(summed.view_as(gradient))

    @torch.no_grad()
    def agree(self, tensors: Iterable[Tensor]) -> None:
        """Set every tensor to its value on rank 0, bit for bit; one that has it already is not written to."""
        if self.size == 1:
            return
        held = list(tensors)
        places = iter(held)
        for bucket in _buckets(_bytes_of(tensor) for tensor in held):
            rank_0 = torch.cat(bucket)
            with _together():
                dist.broadcast(rank_0, src=0)
            # `places` last: zip notices the end of the others before it takes one item too many from it.
            for ours, theirs, place in zip(bucket, torch.split(rank_0, [len(b) for b in bucket]), places, strict=False):
                if not torch.equal(ours, theirs):
                    place.copy_(theirs.clone().view(place.dtype).view_as(place))

    def heard(self, flag: bool) -> bool:
        """Rank 0's flag, on every rank."""
        if self.size == 1:
            return flag
        sent = torch.tensor([flag], dtype=torch.uint8)
        with _together():
            dist.broadcast(sent, src=0)
        return bool(sent.item())

    def gathered(self, value: Any) -> list[Any]:
        """The values of all ranks, in their order, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with _together():
            dist.all_gather_object(values, value)
        return values

    def draw_apart(self, seed: int, step: int) -> None:
        """Give the random numbers of `step` (dropout) a stream of their own on this rank.

        Rank 0 keeps its stream, which checkpoints hold. The other ranks reseed theirs at every step, so that no
        checkpoint needs to hold it.
        """
        if self.rank > 0:
            torch.manual_seed(dropout_seed(f"{seed} rank {self.rank} step {step}"))


ALONE = Ranks()


def dropout_seed(of: int | str) -> int:
    """The seed of dropout's own stream, which neither the caller nor initialisation draws from."""
    return int.from_bytes(hashlib.sha256(f"dropout {of}".encode()).digest()[:8]) >> 1


def _bytes_of(tensor: Tensor) -> Tensor:
    """View a tensor as bytes, so that NaN and minus zero are compared and sent as they are."""
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def _buckets(gradients: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Group neighbours of one type and device into buckets of up to BUCKET numbers; a larger one is a bucket itself."""
    bucket: list[Tensor] = []
    for gradient in gradients:
        full = sum(g.numel() for g in bucket) + gradient.numel() > BUCKET
        if bucket and (full or (gradient.dtype, gradient.device) != (bucket[0].dtype, bucket[0].device)):
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if "out of memory" in str(error):  # NCCL's own buffers
            raise torch.OutOfMemoryError(str(error)) from error
        raise RankLost(str(error).partition("\n")[0]) from error


# The settings of a process before it trains, so that the same trial gives the same bits.


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
