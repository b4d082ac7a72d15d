"""What this machine has, and which attention backends work on it: each passes the gate, or is listed with the reason.

The kinds of attention that blocks are made of are tested in each dtype that trials compute in, under the settings of a
trial. On a GPU that compiles kernels and takes about a minute.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ablate.execute.device import device, gpus
from ablate.execute.kernel_fingerprint import device_and_kernels
from ablate.kernels.attend import Attend
from ablate.kernels.choose import PREFERRED, objection, order
from ablate.kernels.gate import AttentionSite, check, sites
from ablate.store.versions import installed
from ablate.train.threads import pin_threads

HEADS, TOKENS, D_HEAD = 2, 128, 64
DTYPE = "float32"
"""The dtype of the trials whose kernels are shown; each dtype has its own."""
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True, slots=True)
class Tried:
    """A backend at one kind of attention in one dtype: the operator with which it works, or `why` it does not."""

    dtype: str
    attention: str
    kernel: str
    works: bool
    operator: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine: `versions` as recorded with trials, its GPUs, its cores, and the backends tried on its device.

    Of those, trials use the first that works for each kind and dtype.
    """

    versions: Mapping[str, str]
    gpus: tuple[str, ...]
    cores: int
    tried: tuple[Tried, ...]


def examine() -> Machine:
    """Examine this machine, and try every backend on it."""
    pin_threads(torch.get_num_threads())
    return Machine(
        versions=installed() | device_and_kernels(DTYPE),
        gpus=tuple(
            f"{torch.cuda.get_device_name(gpu.number)}, {gpu.memory / 2**30:.0f} GiB, compute capability "
            f"{'.'.join(map(str, torch.cuda.get_device_capability(gpu.number)))}"
            for gpu in gpus()
        ),
        cores=os.cpu_count() or 1,
        tried=tuple(_tried(device())),
    )


def _tried(device_type: str) -> Iterator[Tried]:
    for dtype in TYPES:
        for attention, core in kinds(device_type).items():
            site = _site(core, dtype, device_type)
            able = order(site.needs, device_type)
            names = (*able, *(name for name in PREFERRED[device_type] if name not in able))
            for name in names:
                why, operator = objection(name, site.needs, device_type), ""
                if not why:
                    why, operator = check(name, site)
                yield Tried(site.needs.dtype, attention, name, not why, operator, why)


def kinds(device_type: str) -> dict[str, Attend]:
    """Return the kinds of attention that are tried, by name."""
    learned = nn.Parameter(torch.zeros(1, HEADS, TOKENS, TOKENS, device=device_type))
    fixed = learned.detach()

    def softcap(scores: Tensor) -> Tensor:
        return 30 * torch.tanh(scores / 30)

    scale = D_HEAD**-0.5
    return {
        "plain": Attend(causal=True, scale=scale),
        "fixed bias": Attend(causal=True, scale=scale, biases=(lambda q, k, scale: fixed[...],)),
        "learned bias": Attend(causal=True, scale=scale, biases=(lambda q, k, scale: learned[...],)),
        "map on the scores": Attend(causal=True, scale=scale, logits=(softcap,)),
        "dropout": Attend(causal=True, scale=scale, dropout=0.1),
    }


class _One(nn.Module):
    def __init__(self, core: Attend):
        super().__init__()
        self.core = core

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.core(x, x, x)
        return y


def _site(core: Attend, dtype: torch.dtype, device_type: str) -> AttentionSite:
    model = _One(core)
    x = torch.zeros(1, HEADS, TOKENS, D_HEAD, dtype=dtype, device=device_type, requires_grad=True)
    (site,) = sites(model, lambda: model(x)).values()
    return site
