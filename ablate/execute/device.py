"""The device that trials compute on."""

from __future__ import annotations

import torch

from ablate.execute.packing import Gpu
from ablate.store.versions import version_of


def device() -> str:
    """Return `cuda` if there is a GPU, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_name() -> str:
    """Return the name of the device as recorded with a trial: numbers of different devices are not paired."""
    if device() == "cpu":
        return "cpu"
    major, minor = torch.cuda.get_device_capability()
    return f"{torch.cuda.get_device_name()} sm_{major}{minor}"


def device_versions() -> dict[str, str]:
    """Return the device and, on a GPU, the versions of its kernel libraries, as recorded with a trial."""
    if device() == "cpu":
        return {"device": "cpu"}
    libraries = {name: version_of(name) for name in ("xformers", "triton")}
    return {"device": device_name(), "cuda": str(torch.version.cuda or torch.version.hip)} | libraries


def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that this process sees, with their total memory, whether or not others use it."""
    if device() == "cpu":
        return ()
    numbers = range(torch.cuda.device_count())
    return tuple(Gpu(number, torch.cuda.get_device_properties(number).total_memory) for number in numbers)
