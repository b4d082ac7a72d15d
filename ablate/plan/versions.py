"""The versions of the code that a trial uses: what its identity contains instead of source text.

Each declared thing (a component, a probe, …) has the version of its numbers in its file
(`@component("rms_norm", …, version=1)`). Code that every trial uses is a few shared parts, each with a `VERSION` in the
first of its files (`SHARED`). A version is raised by a code change that changes a number, and by no other: tests check
the syntax of every file against its declared version (`tests/identity`). The version of a user's own file is its hash.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.expression import walk
from ablate.errors import InputError
from ablate.extension.declaration import OBJECTIVE, OPTIMIZER, PACKAGE, SCHEDULE, Declaration
from ablate.plan.syntax_hash import syntax_hash
from ablate.source.yaml import reason
from ablate.space.judge import Measure
from ablate.space.metrics import known_probes
from ablate.space.recipe import NEXT_TOKEN, ObjectiveSpec, Recipe

Version: TypeAlias = "int | str"

SHARED: Mapping[str, tuple[str, ...]] = {
    "expressions": (
        "block/arithmetic.py",
        "block/address.py",
        "block/sizes.py",
        "block/network.py",
    ),
    "initialisation": ("compiler/initialise.py",),
    "model": ("compiler/compile.py", "compiler/*.py", "components/declare.py", "components/protocols.py"),
    "batches": ("data/batch.py", "data/uniform.py"),
    "pairs": ("data/pairs.py", "data/pair_stream.py"),
    "records": (
        "data/record_stream.py",
        "data/records.py",
        "data/standardisation.py",
    ),
    "loop": (
        "train/loop.py",
        "train/*.py",
        "train/objectives/cross_entropy.py",
        "train/objectives/next_token.py",
        "execute/work.py",
        "space/schedule.py",
    ),
    "probing": ("probes/watch.py", "probes/*.py"),
    "kernel eager": ("kernels/eager.py",),
    "kernel sdpa": ("kernels/sdpa.py",),
    "kernel flex": ("kernels/flex.py",),
    "kernel xformers": ("kernels/xformers.py",),
    "kernels": ("kernels/attend.py", "kernels/*.py"),
}
"""The files of each shared part, below the package; the first has its `VERSION`.

A file belongs to the first part that names it, and to none if it declares a component or the like. Other modules that
these import (`signal/`, say) belong to each importer.
"""
KERNELS = tuple(name for name in SHARED if name.startswith("kernel"))
"""Parts used by a trial whose model has a component that uses kernels. The device decides which backend computes it."""
OF_OBJECTIVE = ("pairs", "records")  # parts used by a trial whose objective reads such data
ALWAYS = tuple(name for name in SHARED if name not in (*KERNELS, *OF_OBJECTIVE))


def model_versions(architecture: Architecture, catalogue: Catalogue) -> Mapping[str, Version]:
    # A pattern computes nothing: which alternative it puts in each layer is in the identity itself.
    used = [spec for name in components_used(architecture) if (spec := catalogue[name]).chooses is None]
    kernels = KERNELS if any(_asks_for_kernels(spec.path, spec.module) for spec in used) else ()
    return {**shared_versions((*ALWAYS, *kernels)), **_versions(used)}


def recipe_versions(recipe: Recipe, catalogue: Catalogue) -> Mapping[str, Version]:
    """Return the versions of a recipe's optimiser, schedule and objective; the first objective is the loop's own."""
    chosen = {OPTIMIZER: recipe.optimizer, SCHEDULE: recipe.schedule.decay}
    if recipe.objective != NEXT_TOKEN:
        chosen[OBJECTIVE] = recipe.objective
    versions = _versions(catalogue.others[kind.plural][choice.name] for kind, choice in chosen.items())
    reads = catalogue.of_kind(ObjectiveSpec)[recipe.objective.name].reads
    return {**versions, **shared_versions(part for part in OF_OBJECTIVE if part == reads)}


def probe_versions(measure: Measure, catalogue: Catalogue) -> Mapping[str, Version]:
    known = known_probes(catalogue)
    return _versions(spec for name, spec in known.items() if name in measure.probes or not spec.asked)


def components_used(architecture: Architecture) -> tuple[str, ...]:
    nodes = [*walk(architecture.block), *(node for part in architecture.around() for node in walk(part))]
    return tuple(sorted({node.name for node in nodes}))


def shared_versions(names: Iterable[str]) -> Mapping[str, Version]:
    return {name: declared_version(PACKAGE / SHARED[name][0]) for name in names}


def version_of(spec: Declaration) -> Version:
    """Return the declared version of a shipped file; the hash of a user's own, or of another distribution's."""
    return spec.version if spec.path.is_relative_to(PACKAGE) else _hash(spec.path, spec.module)


@functools.cache
def declared_version(path: Path) -> int:
    """Return the `VERSION` of a shared part, read from its text without an import."""
    match = re.search(r"^VERSION: Final = (\d+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise LookupError(f"{path} declares no VERSION")
    return int(match[1])


def _versions(specs: Iterable[Declaration]) -> dict[str, Version]:
    return {f"{spec.kind.name} {spec.name}": version_of(spec) for spec in specs}


@functools.cache
def _asks_for_kernels(path: Path, module: str) -> bool:
    """Return whether a file uses kernels; a changed plugin has another `module`, so the cache is not stale."""
    return "ablate.kernels" in _text(path)


@functools.cache
def _hash(path: Path, module: str) -> str:
    return syntax_hash(_text(path))


def _text(path: Path) -> str:
    """Return the text of a file that was read before; InputError if it is gone since, which a plugin can be."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"cannot read the plugin {path}, which was there before: {reason(error)}"
        raise InputError(f"{message}\n  = put it back where it was") from error
