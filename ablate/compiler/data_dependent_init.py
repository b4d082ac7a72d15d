"""Profile: initialisation that looks at data, for the few components that declare it.

A model whose components ask for none is left alone: no pass, no cost. Where one asks, what it starts from depends on
the declared batch, and is part of the trial: the first batch of its seed, on which the model then trains.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from ablate.compiler.random_streams import seeded, stream_seed
from ablate.components.declare import Profiled


@torch.no_grad()
def profile(model: nn.Module, tokens: Int[Tensor, "B T"]) -> None:
    """Calibrate, in place, the modules of `model` that are `Profiled`, by one forward pass over `tokens`.

    The pass is that of evaluation, so no running state moves, and what a component draws in spite of that comes from a
    stream that is the same for every model. Each module is then calibrated by what those of its own class before it
    have shown. Nothing else changes, and a second profile of the same model gives another result, for it starts from
    calibrated modules: a resumed trial takes them from its state.
    """
    if not any(isinstance(module, Profiled) for module in model.modules()):
        return
    shown: list[tuple[Profiled, Any]] = []
    training = {module: module.training for module in model.modules()}

    def look(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        shown.append((module, module.measure(inputs[0], output)))

    with seeded(stream_seed(0, 0, "profile")):
        with ExitStack() as attached:
            for module in model.modules():
                if isinstance(module, Profiled):
                    attached.callback(module.register_forward_hook(look).remove)
            model.eval()
            try:
                model(tokens)
            finally:
                for module, was_training in training.items():
                    module.training = was_training
        for place, (asking, _) in enumerate(shown):
            asking.calibrate([measured for other, measured in shown[:place] if type(other) is type(asking)])
