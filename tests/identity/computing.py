"""Which files compute what: the files of every thing and shared part, with the hash of each, and the committed list.

`numbers.json` holds, for each computing file, the hash of its syntax tree, and for each thing the version that it had.
Where a hash is another, each thing that the file is of must have another version too, or be shown to give the same
bits (`pytest --update-goldens`, see `proof.py`).
"""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.components.registry import declarations
from ablate.extension.declaration import COMPONENT, KINDS, OBJECTIVE, OPTIMIZER, PROBE, SCHEDULE, Declaration
from ablate.plan.syntax_hash import syntax_hash
from ablate.plan.versions import SHARED, declared_version
from ablate.space.recipe import NEXT_TOKEN

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ablate"
LIST = Path(__file__).parent / "numbers.json"
COMPUTE = (COMPONENT, PROBE, OPTIMIZER, SCHEDULE, OBJECTIVE)
"""Kinds whose things decide numbers of a trial. Text enters by the fingerprint of the corpus, and what a sampler
proposes is a trial like any other."""
ROOMS = ("components", "compiler", "kernels", "probes", "signal", "train", "execute/work.py")
"""Where what computes may stand, beside the files that `SHARED` names elsewhere."""

NOT_COMPUTING = frozenset(
    {
        "components/registry.py",  # finds files
        "probes/registry.py",  # finds files
        "train/definitions.py",  # texts
        "probes/declare.py",  # what is declared
        "block/normal_form.py",  # which blocks, and which variants of a plan, are one
        "components/inverted.py",  # forecasts, as all below
        "signal/propagation.py",
        "signal/attention_kernel.py",
        "signal/gaussian_activations.py",
        "signal/network_shaping.py",
        "signal/sampled_attention.py",
    }
)
"""Files of those rooms that no number of a trial hangs on."""

Read = Callable[[Path], str]


def text_of(path: Path) -> str:
    """The text of a file as it is."""
    return path.read_text(encoding="utf-8")


def things() -> dict[str, Declaration]:
    """Everything that decides numbers and declares a version itself: `component rms_norm`, `probe kurtosis`, …"""
    known = declarations()
    specs: list[Declaration] = [*known, *(spec for kind in known.others.values() for spec in kind.values())]
    chosen = (spec for spec in specs if spec.kind in COMPUTE and spec.name != NEXT_TOKEN.name)  # it is of the loop
    return {f"{spec.kind.name} {spec.name}": spec for spec in chosen}


@functools.cache
def shared_files() -> Mapping[str, frozenset[str]]:
    """The files of each shared part: each file is of the first that names it, and of none where it declares a thing."""
    taken = {_relative(spec.path) for spec in things().values()}
    found: dict[str, frozenset[str]] = {}
    for part, patterns in SHARED.items():
        named = {_relative(path) for pattern in patterns for path in PACKAGE.glob(pattern)}
        found[part] = frozenset(named - taken - NOT_COMPUTING)
        taken |= named
    return found


@functools.cache
def files() -> Mapping[str, tuple[str, ...]]:
    """The files that each thing and each shared part consists of, what they import included."""
    shared = shared_files()
    of_parts = {path for paths in shared.values() for path in paths}
    roots = {name: frozenset({_relative(spec.path)}) for name, spec in things().items()} | shared
    return {name: tuple(sorted(_closure(start, of_parts - start))) for name, start in roots.items()}


def versions() -> dict[str, int]:
    """The version that each declares now."""
    of_parts = {name: declared_version(PACKAGE / paths[0]) for name, paths in SHARED.items()}
    return dict(sorted({**{name: spec.version for name, spec in things().items()}, **of_parts}.items()))


def hashes(read: Read = text_of) -> dict[str, str]:
    """The hash of the syntax of every computing file."""
    every = sorted({path for paths in files().values() for path in paths})
    return {path: syntax_hash(read(PACKAGE / path))[:16] for path in every}


@dataclass(frozen=True)
class Change:
    """A thing that has a changed file; `declared`: its version is another too. `files` are those that changed."""

    name: str
    files: tuple[str, ...]
    declared: bool


def changes(listed: Mapping[str, Any], read: Read = text_of) -> list[Change]:
    """Every thing of which a file is not as the committed list has it, or whose version is another."""
    now, versions_now = hashes(read), versions()
    found = []
    for name, paths in files().items():
        before = set(listed["files_of"].get(name, ()))
        changed = [path for path in paths if listed["files"].get(path) != now[path]]
        changed += sorted(before - set(paths))
        declared = versions_now[name] != listed["versions"].get(name)
        if changed or declared:
            found.append(Change(name, tuple(changed), declared))
    return found


def listing() -> dict[str, Any]:
    """The list as it is to be committed."""
    return {"versions": versions(), "files": hashes(), "files_of": {k: list(v) for k, v in sorted(files().items())}}


def write(path: Path = LIST) -> None:
    """Commit to the files as they are."""
    path.write_text(json.dumps(listing(), indent=1) + "\n", encoding="utf-8")


def committed(path: Path = LIST) -> Any:
    """The list as it was committed."""
    return json.loads(path.read_text(encoding="utf-8"))


def _relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _closure(start: Iterable[str], without: Iterable[str]) -> set[str]:
    """Files that these import, one by another, in the rooms that compute; not those of parts that are told apart."""
    found, pending = set(start), list(start)
    without = set(without)
    while pending:
        for path in imports(pending.pop()):
            if path.startswith(ROOMS) and path not in found and path not in without and path not in NOT_COMPUTING:
                found.add(path)
                pending.append(path)
    return {path for path in found if not path.endswith("__init__.py") or path.startswith(("kernels", "compiler"))}


@functools.cache
def imports(path: str) -> frozenset[str]:
    """The files of ours that a file imports, below the package."""
    found = set()
    for node in ast.walk(ast.parse(text_of(PACKAGE / path))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ablate."):
            module = ROOT / Path(*(node.module or "").split("."))
            paths = [module.with_suffix(".py"), module / "__init__.py"]
            paths += [module / f"{alias.name}.py" for alias in node.names]
            found |= {_relative(p) for p in paths if p.is_file()}
    return frozenset(found)


assert {kind.name for kind in COMPUTE} <= {kind.name for kind in KINDS}
