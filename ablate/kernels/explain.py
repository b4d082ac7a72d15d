"""Which backend each attention of a model will use, and why, found out without computing anything.

The model is asked itself: build it on the meta device, where a forward pass costs neither memory nor time, and each
`Attend` says what it needs. So a bias, a map or dropout of any component is counted as it will be in training.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ablate.kernels.attend import Attend
from ablate.kernels.choose import BackendChoice, Needs, choose


def explain(
    model: nn.Module, inputs: Tensor, *, device_type: str | None = None, dtype: str | None = None
) -> dict[str, BackendChoice]:
    """The first choice for each `Attend` of `model`, by the address of the part that holds it.

    `device_type` is where the model will be trained (None: CUDA where this machine has it, else CPU), `dtype` as in
    `asked_of`. Only the machine that trains knows whether that backend does there (see `gate`).
    """
    device = device_type or ("cuda" if torch.cuda.is_available() else "cpu")
    return {address: choose(needs, device) for address, needs in asked_of(model, inputs, dtype=dtype).items()}


def asked_of(model: nn.Module, inputs: Tensor, *, dtype: str | None = None) -> dict[str, Needs]:
    """What each `Attend` of `model` asks of a backend in training, by address, from one forward pass.

    `dtype` is what attention will be computed in (None: that of its values).
    """
    found: dict[str, Needs] = {}
    with ExitStack() as attached, torch.enable_grad():
        for name, module in model.named_modules():
            if isinstance(module, Attend):
                hook = _asking(found, name.rpartition(".")[0], dtype)
                attached.callback(module.register_forward_pre_hook(hook).remove)
        model(inputs)
    return found


def _asking(found: dict[str, Needs], address: str, dtype: str | None) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def hook(core: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(core, Attend)
        needs = core.needs(*inputs)
        found[address] = replace(needs, dtype=dtype) if dtype else needs

    return hook
