"""The catalogue of all components: those that ship, those of other distributions, and those of a user's plugins.

`declarations()` reads only the heads of files; `implementation(spec)` gives the module class, and imports torch.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ablate.block.catalogue import Catalogue, ComponentSpec, Part, Parts
from ablate.extension import loader
from ablate.extension.declaration import COMPONENT, KINDS
from ablate.extension.head import Declared
from ablate.source.problems import Problems
from ablate.space.metrics import TRAINING, ProbeSpec, names_of


def declarations(plugins: tuple[Path, ...] = ()) -> Catalogue:
    """The catalogue of all components and things of every other kind, including the user's own; without torch.

    Raises InputError with every mistake in the plugins: a file that cannot be read, that declares nothing, or that
    reuses a name; an installed distribution with such a mistake is left out with a warning.
    """
    return _declarations(tuple((path, loader.stamp(path)) for path in plugins))


@functools.cache
def _declarations(plugins: tuple[tuple[Path, str], ...]) -> Catalogue:
    """The stamps of the plugins' texts are part of the key, so that a changed plugin is read again."""
    problems = Problems()
    own = loader.of_plugins([path for path, _ in plugins], problems)
    components = [spec for spec in loader.things(COMPONENT, own, problems) if isinstance(spec, ComponentSpec)]
    others = [spec for kind in KINDS if kind != COMPONENT for spec in loader.things(kind, own, problems)]
    catalogue = Catalogue.of(components, others)
    # After a mistake the slots and metrics of the wrong file are unknown.
    for declared in own if not len(problems) else ():
        if isinstance(declared.spec, ComponentSpec):
            _check_slots(declared, declared.spec, catalogue, problems)
        elif isinstance(declared.spec, ProbeSpec):
            _check_metrics(declared, declared.spec, catalogue, problems)
    problems.raise_if_any()
    return catalogue


def _check_slots(declared: Declared, spec: ComponentSpec, catalogue: Catalogue, problems: Problems) -> None:
    """Report slots that no component offers, and fields whose slot no component fits."""
    fields = [kind for each in catalogue for kind in each.fields.values() if isinstance(kind, Part | Parts)]
    offered = sorted({"part", "norm", "init", *(kind.slot for kind in fields)})
    for slot in spec.slots:
        if slot not in offered:
            place = declared.place("slots", slot)
            problems.add_unknown(f"no component has a slot {slot!r}", place, slot, offered, "there are slots for")
    filled = sorted({slot for each in catalogue for slot in each.slots})
    for name, kind in spec.fields.items():
        if isinstance(kind, Part | Parts) and kind.slot not in filled:
            message = f"no component fits the slot {kind.slot!r} of field {name!r}"
            problems.add_unknown(message, declared.place(name), kind.slot, filled, "components fit")


def _check_metrics(declared: Declared, spec: ProbeSpec, catalogue: Catalogue, problems: Problems) -> None:
    """Report metrics whose numbers have the same names as those of training or of another probe."""
    taken = {each.metric: "training" for each in TRAINING}
    for other in catalogue.of_kind(ProbeSpec).values():
        if other is not spec:
            taken |= {name: f"the probe {other.name}" for name, _ in names_of(other)}
    for name, metric in names_of(spec):
        if name in taken:
            message = f"the metric {name!r} already belongs to {taken[name]}"
            problems.add(message, declared.place(metric), notes=(f"give {metric} another name",))
            return


def implementation(spec: ComponentSpec) -> Any:
    """Imports torch."""
    return loader.implementation(spec)
