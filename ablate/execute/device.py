"""Where trials compute."""

from __future__ import annotations

import torch


def device() -> str:
    """`cuda` where there is a GPU, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_name() -> str:
    """The device as it is recorded with a trial: numbers of different ones are not paired."""
    if device() == "cpu":
        return "cpu"
    major, minor = torch.cuda.get_device_capability()
    return f"{torch.cuda.get_device_name()} sm_{major}{minor}"
