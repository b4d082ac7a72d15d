"""The folder is the registry: every file of it that is not listed here as something else holds one probe, `PROBE`.

A space asks for a probe by its file's name. `gain` is not asked for: it reads on every measured step of a model that
trains gains.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.source.problems import Problems, quote
from ablate.space.metrics import AT_SITES

if TYPE_CHECKING:  # the names of the probes are known without torch
    from ablate.probes.probe import Probe
    from ablate.space.metrics import Definition

NOT_PROBES = {"__init__", "probe", "registry", "sites", "watch"}
ALWAYS = ("gain",)
HELD_OUT = "on the seed's evaluation windows, without dropout: mean over batches of them"
"""What probes of activations read: text that is not learned from (`train/evaluation.py`)."""


def probe_names() -> tuple[str, ...]:
    """The probes that a space may ask for, sorted."""
    return tuple(name for name in probes() if name not in ALWAYS)


@functools.cache
def probes() -> Mapping[str, Probe]:
    """Every probe by name, those that always read and those of other sites (`sites.py`) included."""
    from ablate.probes.sites import SITES, at_site

    found = {name: importlib.import_module(f"ablate.probes.{name}").PROBE for name in _files()}
    for name in AT_SITES:
        found |= {f"{name}_{site}": at_site(found[name], site) for site in SITES}
    return dict(sorted(found.items()))


def select(names: Iterable[str]) -> tuple[Probe, ...]:
    """The probes asked for, and those that always read; an unknown name is an InputError that says which are near."""
    asked = tuple(dict.fromkeys((*names, *ALWAYS)))
    problems = Problems()
    for name in asked:
        if name not in probes():
            message, accepted = f"unknown probe {quote(name)}", "measure.probes accepts"
            problems.add_unknown(message, None, name, probe_names(), accepted, command="ablate list probes")
    problems.raise_if_any()
    return tuple(probes()[name] for name in asked)


def definitions() -> tuple[Definition, ...]:
    """What every metric of every probe means, and on which text it is read, in order of the metrics' names."""
    found = (_read_on(probe, definition) for probe in probes().values() for definition in probe.definitions)
    return tuple(sorted(found, key=lambda definition: definition.metric))


def _read_on(probe: Probe, definition: Definition) -> Definition:
    from ablate.probes.probe import ParameterProbe

    text = "in steps of training, on their batch" if isinstance(probe, ParameterProbe) else HELD_OUT
    return replace(definition, definition=f"{definition.definition}; read {text}")


def _files() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in NOT_PROBES))
