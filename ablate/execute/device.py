"""Where trials compute."""

from __future__ import annotations

import torch

from ablate.execute.packing import Gpu
from ablate.store.versions import version_of


def device() -> str:
    """`cuda` where there is a GPU, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_name() -> str:
    """The device as it is recorded with a trial: numbers of different ones are not paired."""
    if device() == "cpu":
        return "cpu"
    major, minor = torch.cuda.get_device_capability()
    return f"{torch.cuda.get_device_name()} sm_{major}{minor}"


def device_versions() -> dict[str, str]:
    """The device and, on a GPU, the libraries that its kernels are from, as they are recorded with a trial."""
    if device() == "cpu":
        return {"device": "cpu"}
    libraries = {name: version_of(name) for name in ("xformers", "triton")}
    return {"device": device_name(), "cuda": str(torch.version.cuda or torch.version.hip)} | libraries


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that this process sees, and what memory each has, whoever else uses it."""
    if device() == "cpu":
        return ()
    found = range(torch.cuda.device_count())
    return tuple(Gpu(number, torch.cuda.get_device_properties(number).total_memory) for number in found)
