"""What may change the last bits of a number without being part of a trial: versions and machine.

A machine is known by what it computes: KERNELS is the digest of a few small kernels, and the processor's name, which
says less and more than that, plays no part beside it. Trials of before recorded no kernels; they are paired by the
name, also with later ones.

What computes a trial's attention is kept with them, under ATTENTION: a trial does not continue from a checkpoint made
with another operator. It need not be the same for two trials to be compared (`of_machine`), since it follows from the
machine, its versions and the block: on one machine, a block with a map on the scores uses another backend than a block
without, and the cost of that is part of the comparison. It is in `trials.attention`, beside `versions_id`.
"""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ablate.output.words import plural

ATTENTION = "attention"
"""Key among the versions of a trial: what computes its attention, `layers.*.attention xformers (fa2F@2.5.7-pt, …)`."""
KERNELS, CPU = "kernels", "cpu"


def of_machine(versions: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of a trial that decide what it is paired with: same versions, same bits.

    They depend on the machine alone; the processor's name is among them only where its kernels are not known.
    """
    without = (ATTENTION, CPU) if KERNELS in versions else (ATTENTION,)
    return {name: version for name, version in versions.items() if name not in without}


def by_name(versions: Mapping[str, str]) -> dict[str, str]:
    """Return the same as a trial of before had it, with the processor's name in place of its kernels."""
    return {name: version for name, version in versions.items() if name not in (ATTENTION, KERNELS)}


def same_bits(now: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """Return whether a trial that has these versions now can go on from a checkpoint made with those before."""
    return now.get(ATTENTION) == before.get(ATTENTION) and of_machine(now) == of_machine(before)


def mixed(sets: Iterable[tuple[Mapping[str, str], str]]) -> tuple[str, ...]:
    """Return a line for each version in which trials differ that are to be compared; none if all are alike.

    Each set is the versions of one trial and what it is: `trial`, or `trial to run`.
    """
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
            said = (f"{version} ({_trials(of)})" for version, of in sorted(trials.items()))
            lines.append(f"not the same for all trials, and so not paired: {name} {', '.join(said)}")
    if of_before:
        lines.append(
            f"{plural(unknown, 'trial')} recorded no kernels, only the processor's name: paired by that, as before"
        )
    return tuple(lines)


def _trials(of: Mapping[str, int]) -> str:
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
    """Return every installed package with its version, as pip reads it."""
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
    """Return the processor's name, from a file on Linux and from `platform` elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    named = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")
