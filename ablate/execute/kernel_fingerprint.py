"""The digest of what a machine computes: a few kernels of the kinds that trials are made of, on small fixed numbers.

Matrix product, sums, softmax, normalisation, a non-linearity and attention, forward and backward, in float32, float64
and the dtype of a trial, on one thread and on the device of the trial. A product alone does not tell AVX2 from AVX-512:
softmax and attention in float64 do. Same digest: trials are taken to have the same bits, and are paired.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy
import torch
from torch import Tensor
from torch.nn import functional

from ablate.execute.device import device, device_versions
from ablate.store.versions import KERNELS

DIGITS = 16
ROWS, INNER, COLUMNS = 96, 161, 130
"""Sizes that are no multiples of a vector's length, so that the ends of rows are computed, too."""
HEADS, TOKENS, D_HEAD = 2, 67, 40
SEED = 0


def device_and_kernels(dtype: str) -> dict[str, str]:
    """Return what a worker records beside the installed versions: its device, and the digest of its kernels."""
    return device_versions() | {KERNELS: kernels(dtype, device())}


@cache
def kernels(dtype: str, on: str) -> str:
    """Return the digest of the kernels of a device in float32, float64 and `dtype`."""
    hashed = hashlib.sha256()
    with _on_one_thread():
        for each in dict.fromkeys(("float32", "float64", dtype)):
            for result in _computed(getattr(torch, each), on):
                hashed.update(result.detach().reshape(-1).cpu().view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()[:DIGITS]


def _computed(dtype: torch.dtype, on: str) -> Iterator[Tensor]:
    # Uniform numbers from integers: those of a normal distribution would depend on the logarithm of this machine.
    numbers = numpy.random.Generator(numpy.random.PCG64(SEED))

    def drawn(*shape: int) -> Tensor:
        values = torch.from_numpy(2 * numbers.random(shape) - 1)
        return values.to(device=on, dtype=dtype).requires_grad_()

    x, w, v = drawn(ROWS, INNER), drawn(INNER, COLUMNS), drawn(COLUMNS)
    product = x @ w
    yield product
    yield product.sum()
    yield product.std(dim=-1)
    normed = functional.layer_norm(product, (COLUMNS,), v)
    soft = torch.softmax(functional.gelu(normed), dim=-1)
    yield from (normed, soft, torch.logsumexp(product, dim=-1))
    queries, keys, values = (drawn(1, HEADS, TOKENS, D_HEAD) for _ in range(3))
    try:
        attended = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    except RuntimeError:  # a kernel that there is not for these instructions, as of bfloat16 with AMX but no AVX-512
        attended = 0 * (queries + keys + values)
    yield attended
    yield from torch.autograd.grad(soft.square().sum() + attended.square().sum(), (x, w, v, queries, keys, values))


@contextmanager
def _on_one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
