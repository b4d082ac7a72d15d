"""Ranks: the processes that train one trial together, each on its share of every batch.

    g = Σ_r g_r        g_r = ∂/∂θ Σ_i w_i L_i        over the sequences i of rank r, w_i = 1 / sequences of the batch

Every rank has the same parameters, takes the sum of all gradients, and so makes the same update: the sum comes to every
rank in the same bits. With two ranks it is the same from run to run; with more its order is the backend's.

The gradients are summed once they are whole, a bucket of them at a time, and torch's DistributedDataParallel is not
used: it wraps the model, so that parts would stand at other addresses than probes and divergence name; it averages by
ranks, not by sequences; and it sums while the backward pass runs, of which a batch in parts has several.

    Li et al. 2020, arXiv:2006.15704, of which this is the first, unoverlapped form
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

BUCKET = 1 << 24
"""Numbers that are summed over the ranks at once: what the copy of them takes, and not the whole model's."""


class RankLost(Exception):
    """Another rank is gone, or does not answer: this one cannot go on, and is not to blame."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process is `rank` of `size`; above one, the default group of torch.distributed joins them.

    Every method that names all ranks is called by all of them, in the same order. RankLost where one does not answer.
    """

    rank: int = 0
    size: int = 1

    def share(self, windows: Tensor) -> Tensor:
        """This rank's sequences, next to each other; the first ranks have one more where they do not divide evenly."""
        return windows if self.size == 1 else windows.tensor_split(self.size)[self.rank]

    def total(self, value: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.size > 1:
            with _together():
                dist.all_reduce(value)
        return value

    def add_gradients(self, gradients: Iterable[Tensor]) -> None:
        """Make every gradient the sum over all ranks, in place."""
        if self.size == 1:
            return
        for bucket in _buckets(gradients):
            flat = self.total(torch.cat([gradient.flatten() for gradient in bucket]))
            for gradient, summed in zip(bucket, torch.split(flat, [g.numel() for g in bucket]), strict=True):
                gradient.copy_(summed.view_as(gradient))

    @torch.no_grad()
    def agree(self, tensors: Iterable[Tensor]) -> None:
        """Make every tensor what it is on rank 0, bit for bit; one that is that is not written to."""
        if self.size == 1:
            return
        held = list(tensors)
        places = iter(held)
        for bucket in _buckets(_bytes_of(tensor) for tensor in held):
            said = torch.cat(bucket)
            with _together():
                dist.broadcast(said, src=0)
            # `places` last: of the others, zip notices the end before it has taken one too many.
            for ours, theirs, place in zip(bucket, torch.split(said, [len(b) for b in bucket]), places, strict=False):
                if not torch.equal(ours, theirs):
                    place.copy_(theirs.clone().view(place.dtype).view_as(place))

    def heard(self, flag: bool) -> bool:
        """What rank 0 says, whatever the others would."""
        if self.size == 1:
            return flag
        said = torch.tensor([flag], dtype=torch.uint8)
        with _together():
            dist.broadcast(said, src=0)
        return bool(said.item())

    def gathered(self, found: Any) -> list[Any]:
        """What all ranks have found, in their order, on all of them."""
        if self.size == 1:
            return [found]
        all_found: list[Any] = [None] * self.size
        with _together():
            dist.all_gather_object(all_found, found)
        return all_found

    def draw_apart(self, seed: int, step: int) -> None:
        """Give what is drawn in `step` (dropout) a stream of its own on this rank.

        Rank 0 goes on with the stream that it has, which a checkpoint holds. That of another one begins anew with every
        step, from (seed, rank, step), so that no checkpoint needs to hold it.
        """
        if self.rank > 0:
            torch.manual_seed(dropout_seed(f"{seed} rank {self.rank} step {step}"))


ALONE = Ranks()
"""One process, which trains by itself."""


def dropout_seed(of: int | str) -> int:
    """The seed of dropout's own stream: neither the caller's random numbers nor the initialisation's reach it."""
    return int.from_bytes(hashlib.sha256(f"dropout {of}".encode()).digest()[:8]) >> 1


def _bytes_of(tensor: Tensor) -> Tensor:
    """What a tensor holds, whatever its type: NaN and minus zero are compared and sent as they are."""
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def _buckets(gradients: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbours of one type and device, up to BUCKET numbers together or a larger one by itself."""
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
