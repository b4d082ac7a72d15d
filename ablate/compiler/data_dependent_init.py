"""Profile: initialisation from data, for the few components that declare it.

A model without such components is left alone: no pass, no cost. Otherwise its initial values depend on a declared
batch, which is part of the trial: the first batch of its seed, on which the model then trains.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from ablate.compiler.ahead import running_ahead
from ablate.compiler.random_streams import seeded, stream_seed
from ablate.components.declare import Profiled


@torch.no_grad()
def profile(model: nn.Module, inputs: Tensor | tuple[Tensor, ...]) -> None:
    """Calibrate, in place, the modules of `model` that are `Profiled`, by one forward pass over a batch's `inputs`.

    The pass is in evaluation mode, so no running state changes; if a component draws random numbers nevertheless, they
    come from a stream that is the same for every model. Each module is then calibrated from the measurements of the
    earlier modules of its class. Nothing else changes. A second profile of the same model would give another result,
    since it starts from calibrated modules: a resumed trial takes them from its checkpoint.
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
                with running_ahead(model):
                    model(*((inputs,) if isinstance(inputs, Tensor) else inputs))
            finally:
                for module, was_training in training.items():
                    module.training = was_training
        for place, (asking, _) in enumerate(shown):
            asking.calibrate([measured for other, measured in shown[:place] if type(other) is type(asking)])
