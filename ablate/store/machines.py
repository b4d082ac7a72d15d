"""Machines: the versions and kernels that may change the last bits of a number, and the time of a training step.

A machine is known by the digest of a few small kernels (KERNELS) in place of its processor's name. Earlier trials
recorded no kernels; they are paired by the name, also with later ones.

ATTENTION is what computes a trial's attention: a trial does not continue from a checkpoint made with another operator.
It may differ between compared trials (`of_machine`), since it follows from machine, versions and block: the cost of
another backend is part of the comparison. It is in `trials.attention`, beside `versions_id`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import TypeAdapter

from ablate.output.words import plural
from ablate.store import files
from ablate.store.documents import digest
from ablate.store.durable import UNFINISHED, put_in_place, writing
from ablate.store.snapshot import Snapshot

ATTENTION = "attention"
"""Key among the versions of a trial: what computes its attention, `layers.*.attention xformers (fa2F@2.5.7-pt, …)`."""
KERNELS, CPU = "kernels", "cpu"


def of_machine(versions: Mapping[str, str]) -> dict[str, str]:
    """The versions of a trial that decide what it is paired with (same versions, same bits); the processor's name is
    among them only where its kernels are not known."""
    without = (ATTENTION, CPU) if KERNELS in versions else (ATTENTION,)
    return {name: version for name, version in versions.items() if name not in without}


def by_name(versions: Mapping[str, str]) -> dict[str, str]:
    """Return the same as a trial of before had it, with the processor's name in place of its kernels."""
    return {name: version for name, version in versions.items() if name not in (ATTENTION, KERNELS)}


def same_bits(now: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """Return whether a trial that has these versions now can go on from a checkpoint made with those before."""
    return now.get(ATTENTION) == before.get(ATTENTION) and of_machine(now) == of_machine(before)


def mixed(sets: Iterable[tuple[Mapping[str, str], str]]) -> tuple[str, ...]:
    """A line for each version in which trials differ; each set is a trial's versions and `trial` or `trial to run`."""
    counted = Counter((tuple(sorted(of_machine(versions).items())), what) for versions, what in sets)
    each = [(dict(versions), n, what) for (versions, what), n in counted.items()]
    unknown = sum(n for versions, n, _ in each if CPU in versions)
    of_before = unknown and any(KERNELS in versions for versions, _, _ in each)
    names = dict.fromkeys(name for versions, _, _ in each for name in versions)
    lines = []
    for name in names:
        trials: dict[str, Counter[str]] = {}
        for versions, n, what in each:
            if name in versions:
                trials.setdefault(versions[name], Counter())[what] += n
        if len(trials) > 1:
            said = (f"{version} ({_numbered_trials(of)})" for version, of in sorted(trials.items()))
            lines.append(f"not the same for all trials, and so not paired: {name} {', '.join(said)}")
    if of_before:
        lines.append(
            f"{plural(unknown, 'trial')} recorded no kernels, only the processor's name: paired by that, as before"
        )
    return tuple(lines)


def _numbered_trials(of: Mapping[str, int]) -> str:
    return ", ".join(plural(n, what) if what == "trial" else f"{n} to run" for what, n in sorted(of.items()))


def installed() -> dict[str, str]:
    """Return the versions of Python, torch and ablate, the platform and the processor, without importing torch."""
    return {
        "python": platform.python_version(),
        "torch": version_of("torch"),
        "ablate": version_of("ablate"),
        "platform": f"{sys.platform}-{platform.machine()}",
        CPU: _processor(),
    }


def packages() -> str:
    # By the names of their folders: reading the metadata of each takes half a second.
    folders = (path.stem for place in sys.path for path in Path(place).glob("*.dist-info"))
    found = {f"{name}=={version}" for name, _, version in (folder.partition("-") for folder in folders)}
    return "".join(f"{line}\n" for line in sorted(found, key=str.lower))


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    named = (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


# A machine's kernels: the digest of what it computes, remembered in `machines/` of a results folder
#
# Two processors of one name may compute other bits. So workers compute some kernels (`execute.machine`) and
# record the digest with their trials. It is remembered by all that decides it (`key`), so that planning can tell
# without importing torch whether trials to run would be paired with known ones.

FOLDER = "machines"
VARIABLES = ("ATEN_", "MKL_", "ONEDNN_", "DNNL_", "OMP_", "NVIDIA_TF32_")
"""Prefixes of the environment variables by which libraries choose kernels."""
HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
GPUS = Path("/proc/driver/nvidia/gpus")


def key(dtype: str) -> str:
    """Return the hash of all that decides the bits of kernels in a dtype: builds, processor, environment and GPUs."""
    variables = sorted((name, value) for name, value in os.environ.items() if name.startswith(VARIABLES))
    return digest([version_of("torch"), _processor_flags(), variables, _gpus(), dtype])


@dataclass(frozen=True, slots=True)
class MachineRecord:
    """The versions that trials of one dtype have on a machine, and the bytes of each of its GPUs."""

    versions: Mapping[str, str]
    gpus: tuple[int, ...] = ()


def remembered(folder: Path, dtype: str) -> MachineRecord | None:
    """Return this machine as workers recorded it; None if none has computed its kernels here yet."""
    try:
        versions, gpus = json.loads(_path(folder, dtype).read_text(encoding="utf-8"))
        return MachineRecord(installed() | versions, tuple(gpus))
    except (OSError, ValueError, TypeError):  # nothing is lost by a file that is not whole: a worker records it again
        return None


def record(folder: Path, dtype: str, computed: Mapping[str, str], gpus: Sequence[int]) -> dict[str, str]:
    """Remember what a worker `computed` on this machine (device, kernels); return that with all other versions."""
    machine, path = MachineRecord(installed() | dict(computed), tuple(gpus)), _path(folder, dtype)
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


# Seconds per training step, measured once and kept: a file for each measurement of models
#
# Models are identified by `plan.identity.computed`: what they compute, and the versions of the code that computes it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    batch: int
    dtype: str
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """Models that were measured together, on one `machine` (versions and device).

    `seconds` per training step are by model; each was compared with `reference` step by step. `anew` repeats earlier
    measurements. `unmeasured` models completed no step, and why; they get the reference's time. `middles` are quartiles
    of the ratios to the reference, for models measured in pairs of steps. `at` is seconds since 1970.
    """

    reference: str
    seconds: Mapping[str, float]
    conditions: Conditions
    machine: Mapping[str, str]
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    middles: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    anew: bool = False
    at: float = field(default_factory=time.time)


PACES = TypeAdapter(Paces)  # reads a document; fields that a newer version adds are ignored


def record_paces(folder: Path, paces: Paces) -> None:
    files.keep(folder, "paces", asdict(paces), files.next_number(files.documents(folder, "paces")[0]))


def paces_in(folder: Path) -> tuple[Paces, ...]:
    return tuple(PACES.validate_python(document.content) for document in Snapshot(folder).paces)


def paces_of(measured: Collection[Paces], models: Collection[str], conditions: Conditions) -> Paces | None:
    """Return the first measurement of all these models, so that a plan stays as it is, or the last with `anew`."""
    covering = [paces for paces in measured if paces.conditions == conditions and set(models) <= set(paces.seconds)]
    again = [paces for paces in covering if paces.anew]
    return next(iter([*again[-1:], *covering]), None)
