"""Which backend each attention of a model will use, and why, determined without computing anything.

The model itself answers: build it on the meta device, where a forward pass costs neither memory nor time, and each
`Attend` reports what it needs. So a bias, a map or dropout of any component counts as it will in training.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ablate.kernels.attend import Attend
from ablate.kernels.choose import BackendChoice, Needs, choose

Inputs: TypeAlias = Tensor | tuple[Tensor, ...]
"""What a model is called with: tokens, or several things."""


def explain(
    model: nn.Module, inputs: Inputs, *, device_type: str | None = None, dtype: str | None = None
) -> dict[str, BackendChoice]:
    """Return the first choice for each `Attend` of `model`, by the address of the part that holds it.

    `device_type` is where the model will be trained (None: CUDA where this machine has it, else CPU), `dtype` as in
    `asked_of`. Only the training machine knows whether that backend works there (see `gate`).
    """
    device = device_type or ("cuda" if torch.cuda.is_available() else "cpu")
    return {address: choose(needs, device) for address, needs in asked_of(model, inputs, dtype=dtype).items()}


def asked_of(model: nn.Module, inputs: Inputs, *, dtype: str | None = None) -> dict[str, Needs]:
    """Return what each `Attend` of `model` needs from a backend in training, by address, from one forward pass.

    `dtype` is the one that attention will be computed in (None: that of its values).
    """
    needs_by_address: dict[str, Needs] = {}
    with ExitStack() as attached, torch.enable_grad():
        for name, module in model.named_modules():
            if isinstance(module, Attend):
                hook = _asking(needs_by_address, name.rpartition(".")[0], dtype)
                attached.callback(module.register_forward_pre_hook(hook).remove)
        model(*(inputs if isinstance(inputs, tuple) else (inputs,)))
    return needs_by_address


def _asking(
    needs_by_address: dict[str, Needs], address: str, dtype: str | None
) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def hook(core: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(core, Attend)
        needs = core.needs(*inputs)
        needs_by_address[address] = replace(needs, dtype=dtype) if dtype else needs

    return hook
