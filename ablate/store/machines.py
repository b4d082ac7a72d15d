"""A machine by what it computes: the digest of a few small kernels, remembered in `machines/` of a results folder.

Two processors of one name may compute other bits, and two of different names the same. So workers compute some kernels
(`execute.kernel_fingerprint`) and record the digest with their trials under KERNELS. It is remembered by all that
decides it (`key`), so that planning can tell without importing torch whether trials to run would be paired with known
ones.
"""

from __future__ import annotations

import json
import os
import platform
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablate.store.durable import UNFINISHED, put_in_place, writing
from ablate.store.serialise import digest
from ablate.store.versions import CPU, installed, version_of

FOLDER = "machines"
VARIABLES = ("ATEN_", "MKL_", "ONEDNN_", "DNNL_", "OMP_", "NVIDIA_TF32_")
"""Prefixes of the environment variables by which libraries choose kernels."""
HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
GPUS = Path("/proc/driver/nvidia/gpus")


def key(dtype: str) -> str:
    """Return the hash of what decides the bits of kernels in a dtype: the build of torch, the instructions of the
    processor, the variables by which libraries choose among them, and the GPUs that may be used."""
    variables = sorted((name, value) for name, value in os.environ.items() if name.startswith(VARIABLES))
    return digest([version_of("torch"), _processor_flags(), variables, _gpus(), dtype])


@dataclass(frozen=True, slots=True)
class Machine:
    """The versions that trials of one dtype have on a machine, and the bytes of each of its GPUs."""

    versions: Mapping[str, str]
    gpus: tuple[int, ...] = ()


def remembered(folder: Path, dtype: str) -> Machine | None:
    """Return this machine as workers recorded it; None if none has computed its kernels here yet."""
    try:
        versions, gpus = json.loads(_path(folder, dtype).read_text(encoding="utf-8"))
        return Machine(installed() | versions, tuple(gpus))
    except (OSError, ValueError, TypeError):  # nothing is lost by a file that is not whole: a worker records it again
        return None


def record(folder: Path, dtype: str, computed: Mapping[str, str], gpus: Sequence[int]) -> dict[str, str]:
    """Return the versions of this machine with what a worker `computed`: its device and kernels; and remember these."""
    machine, path = Machine(installed() | dict(computed), tuple(gpus)), _path(folder, dtype)
    if remembered(folder, dtype) != machine:
        unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}{UNFINISHED}")  # other workers write it, too
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(json.dumps([dict(computed), machine.gpus]).encode() + b"\n")
            put_in_place(unfinished, path)
    return dict(machine.versions)


def _path(folder: Path, dtype: str) -> Path:
    return folder / FOLDER / f"{key(dtype)}.json"


def _processor_flags() -> str:
    for line in _lines("/proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return " ".join(sorted(value.split()))
    return f"{platform.processor()} {installed()[CPU]}"


def _gpus() -> list[str]:
    if any(os.environ.get(name) in ("", "-1") for name in HIDING):
        return []
    try:
        folders = sorted(GPUS.iterdir())
    except OSError:
        return []
    models = (line for gpu in folders for line in _lines(gpu / "information") if line.startswith("Model"))
    return [line.partition(":")[2].strip() for line in models]


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
