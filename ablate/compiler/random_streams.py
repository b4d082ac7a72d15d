"""Random streams: code that names no generator draws from one with a seed of its own.

`nn.Linear` draws its initial weights, `nn.Dropout` its masks, from the generator of the process, as `torch.rand`,
`random.random()` and `np.random` do. Their numbers would depend on whatever ran before. So each piece of code whose
numbers matter runs on streams of its own, and the process then continues as if nothing had been drawn:

    with seeded(stream_seed(seed, salt, "layers.1.attention.query")):
        nn.Linear(16, 16)

This covers PyTorch's generators (of the CPU, and of the current GPU once CUDA is in use), Python's and NumPy's. A
generator that code creates itself without a seed, as by `np.random.default_rng()`, is out of reach.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from numpy import random as numpy_random
from torch import Tensor


def stream_seed(seed: int, salt: int, address: str) -> int:
    """Return the seed of the random numbers of an address; PyTorch's CPU generator keeps 32 bits of a seed."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{salt}/{address}".encode()).digest()[:4], "big")


_spare: list[numpy_random.MT19937] = []
"""NumPy generators not in use: creating one takes a hundred times as long as seeding it."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run with the generators of the process at `seed`; afterwards they continue from their previous state.

    NumPy's keeps its state, except for the second of a pair of normal numbers that it had drawn in advance.
    """
    before, python = TorchStreams.here(), random.getstate()
    numpy = numpy_random.get_bit_generator()  # type: ignore[attr-defined]
    ours = _spare.pop() if _spare else numpy_random.MT19937()
    torch.default_generator.manual_seed(seed)
    if before.cuda is not None:
        torch.cuda.manual_seed(seed)
    random.seed(seed)
    numpy_random.set_bit_generator(ours)  # type: ignore[attr-defined]
    numpy_random.seed(seed % 2**32)
    try:
        yield
    finally:
        before.go_on()
        random.setstate(python)
        numpy_random.set_bit_generator(numpy)  # type: ignore[attr-defined]
        _spare.append(ours)


@dataclass(frozen=True, slots=True)
class TorchStreams:
    """The states of PyTorch's generators, including that of the current GPU; None if CUDA is not in use."""

    cpu: Tensor
    cuda: Tensor | None

    @staticmethod
    def here() -> TorchStreams:
        """Return the current states."""
        cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
        return TorchStreams(torch.get_rng_state(), cuda)

    def go_on(self) -> None:
        """Set the generators to these states."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)


class TrainingStreams:
    """The random streams of one trial's training, used by nothing else: masks of dropout, and what its components draw.

    PyTorch's generators continue from step to step, and `torch` holds their states in between. Python's and NumPy's are
    reseeded at each step, from the seed and the name of the step, so no checkpoint needs to hold them.
    """

    def __init__(self, seed: int):
        self.seed = seed
        with seeded(seed):
            self.torch = TorchStreams.here()

    def resume(self, cpu: Tensor, cuda: Tensor | None) -> None:
        """Continue from states of PyTorch's generators; RuntimeError or TypeError for anything else."""
        with seeded(self.seed):
            TorchStreams(cpu, cuda).go_on()
            self.torch = TorchStreams.here()

    @contextmanager
    def during(self, step: str) -> Iterator[None]:
        """Draw from the trial's streams within the context."""
        with seeded(stream_seed(self.seed, 0, step)):
            self.torch.go_on()
            try:
                yield
            finally:
                self.torch = TorchStreams.here()
