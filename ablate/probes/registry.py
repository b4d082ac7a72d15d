"""All probes by name, those that ship and a user's own, and the meaning of each of their numbers.

A space requests a probe by its name. Those that cannot be requested, such as `gain`, read in every trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ablate.block.catalogue import Catalogue
from ablate.components.registry import declarations
from ablate.extension.loader import implementation
from ablate.source.problems import Problems, quote
from ablate.space.metrics import Definition, ProbeSpec, askable_probes, known_probes

if TYPE_CHECKING:  # the registry itself is free of torch
    from ablate.probes.reading import Probe

HELD_OUT = "on the seed's evaluation windows, without dropout: mean over batches of them"
"""The text that probes of activations read (`train/objective.py`)."""


def probe_names(catalogue: Catalogue | None = None) -> tuple[str, ...]:
    return askable_probes(catalogue or declarations())


def probes(catalogue: Catalogue | None = None) -> Mapping[str, Probe]:
    """Every probe by name, including those that always read and those of other sites; imports torch."""
    return {name: _built(spec) for name, spec in known_probes(catalogue or declarations()).items()}


def select(names: Iterable[str], catalogue: Catalogue | None = None) -> tuple[Probe, ...]:
    """Return the requested probes and those that always read; InputError with suggestions for an unknown name."""
    known, problems = known_probes(catalogue or declarations()), Problems()
    always = [name for name, spec in known.items() if not spec.asked]
    wanted = tuple(dict.fromkeys((*names, *always)))
    for name in wanted:
        if name not in known:
            message, accepted, there = f"unknown probe {quote(name)}", "measure.probes accepts", probe_names(catalogue)
            problems.add_unknown(message, None, name, there, accepted, command="ablate list probes")
    problems.raise_if_any()
    return tuple(_built(known[name]) for name in wanted)


def definitions(catalogue: Catalogue | None = None) -> tuple[Definition, ...]:
    """The definition of every metric of every probe, and the text on which it is read, sorted by metric."""
    specs = known_probes(catalogue or declarations()).values()
    metrics = (_read_on(spec, definition) for spec in specs for definition in spec.metrics)
    return tuple(sorted(metrics, key=lambda definition: definition.metric))


def _read_on(spec: ProbeSpec, metric: Definition) -> Definition:
    text = "in steps of training, on their batch" if spec.in_steps else HELD_OUT
    return Definition(metric.metric, f"{metric.definition}; read {text}", metric.source)


def _built(spec: ProbeSpec) -> Probe:
    from ablate.probes.reading import Probe
    from ablate.probes.sites import renamed

    if spec.site == "blocks":
        return Probe(spec, implementation(spec))
    plain = replace(spec, name=spec.name.removesuffix(f"_{spec.site}"))
    return Probe(spec, renamed(implementation(plain), spec.site))
