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
from ablate.kernels.choose import Choice, choose


def explain(
    model: nn.Module, inputs: Tensor, *, device_type: str | None = None, dtype: str | None = None
) -> dict[str, Choice]:
    """The choice for each `Attend` of `model`, by the address of the part that holds it, from one forward pass.

    `device_type` is where the model will be trained (None: CUDA where this machine has it, else CPU), `dtype` what its
    attention will be computed in (None: that of its values). Only a machine like the one that trains knows whether
    xformers fits there.
    """
    device = device_type or ("cuda" if torch.cuda.is_available() else "cpu")
    choices: dict[str, Choice] = {}
    with ExitStack() as attached, torch.enable_grad():
        for name, module in model.named_modules():
            if isinstance(module, Attend):
                hook = _choosing(choices, name.rpartition(".")[0], device, dtype)
                attached.callback(module.register_forward_pre_hook(hook).remove)
        model(inputs)
    return choices


def _choosing(
    choices: dict[str, Choice], address: str, device: str, dtype: str | None
) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def hook(core: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(core, Attend)
        needs = core.needs(*inputs)
        choices[address] = choose(replace(needs, dtype=dtype) if dtype else needs, device)

    return hook
