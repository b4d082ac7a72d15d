"""The state of a trial as bytes, from which it resumes to the same bits (on CPU).

A state holds the parameters, the optimiser, the random streams, the number of steps done and the last statistics, and
where there are any, the moving average of the loss, the average of the weights and the scale of the loss. The position
in the data is the step: batch s of a trial is a function of its seed and s.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn, optim

from ablate.compiler.initialise import TrainingStreams
from ablate.errors import RefusedError
from ablate.train.loss import LossScaling, device_of
from ablate.train.optimizer import WeightAverage


@dataclass(slots=True)
class TrialProgress:
    """The progress of a trial: `step` updates are done; `last` are the last finite statistics, as JSON-able data.

    `smoothed` is the moving average of the training loss, before its correction; 0 if it is not measured.
    """

    step: int = 0
    last: dict[str, Any] = field(default_factory=dict)
    smoothed: float = 0.0


def save_state(
    trial: str,
    model: nn.Module,
    optimizer: optim.Optimizer,
    streams: TrainingStreams,
    progress: TrialProgress,
    average: WeightAverage | None = None,
    scaling: LossScaling | None = None,
) -> bytes:
    buffer = io.BytesIO()
    state = {
        "trial": trial,
        "step": progress.step,
        "last": progress.last,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": streams.torch.cpu,
        "random_cuda": streams.torch.cuda,
        **({"smoothed": progress.smoothed} if progress.smoothed else {}),
        **({"average": average.state()} if average is not None else {}),
        **({"loss_scale": scaling.state()} if scaling is not None else {}),
    }
    torch.save(state, buffer)
    return buffer.getvalue()


def load_state(
    state: bytes,
    trial: str,
    model: nn.Module,
    optimizer: optim.Optimizer,
    streams: TrainingStreams,
    average: WeightAverage | None = None,
    scaling: LossScaling | None = None,
) -> TrialProgress:
    """Restore `model`, `optimizer`, the random streams, and any `average` of the weights and `scaling` of the loss.

    Only tensors and plain data are read, never code. RefusedError for a state that is unreadable, or of another trial.
    """
    try:
        # On the CPU first: random states live there, and loading a state dict copies to wherever a parameter is.
        loaded = torch.load(io.BytesIO(state), map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise _refused(trial, f"it cannot be read ({type(error).__name__})") from error
    if not isinstance(loaded, dict) or "trial" not in loaded:
        raise _refused(trial, "it is not the state of a trial")
    if loaded["trial"] != trial:
        raise _refused(trial, f"it belongs to trial {loaded['trial']}")
    try:
        return _restore(loaded, model, optimizer, streams, average, scaling)
    except torch.OutOfMemoryError:  # the state is not to blame
        raise
    except (RuntimeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _refused(trial, f"it does not fit its model ({type(error).__name__})") from error


def _restore(
    state: dict[str, Any],
    model: nn.Module,
    optimizer: optim.Optimizer,
    streams: TrainingStreams,
    average: WeightAverage | None,
    scaling: LossScaling | None,
) -> TrialProgress:
    if type(state["step"]) is not int or not isinstance(state["last"], dict):
        raise TypeError("a step is a number, and last statistics have names")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if average is not None:
        average.resume(state["average"])
    if scaling is not None:
        scaling.resume(state["loss_scale"])
    streams.resume(state["random"], state["random_cuda"] if device_of(model).type == "cuda" else None)
    return TrialProgress(state["step"], state["last"], float(state.get("smoothed", 0.0)))


def _refused(trial: str, why: str) -> RefusedError:
    return RefusedError(
        f"error: trial {trial} cannot resume from its checkpoint: {why}\n  = --fresh trains it from the start"
    )
