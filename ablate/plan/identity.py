"""What a trial is: the hash of everything that decides its numbers, and of nothing else.

Names, notes and the order of keys do not enter; the source that computes the numbers does, with docstrings, comments
and layout left out, so that a better sentence retrains nothing.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from pathlib import Path
from typing import Any

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Node, walk
from ablate.block.fingerprint import canonical, digest
from ablate.block.normal import normalise, resolve
from ablate.plan.trial import Trial

PACKAGE = Path(__file__).parent.parent
COMPUTING = (
    "block/address.py",
    "block/arithmetic.py",
    "block/fill.py",
    "block/sizes.py",
    "components/declare.py",
    "components/protocols.py",
    "components/solved.py",
    "kernels",
    "compiler",
    "data/batches.py",
    "execute/attention.py",
    "execute/work.py",
    "probes",
    "signal",
    "train",
)
"""Files and rooms whose source decides the numbers of any trial; of the components only those that a model uses do.

What the tokens are is in the trial's corpus fingerprint, so of the data room only the drawing of batches is here.
"""

ID_DIGITS = 16
NOT_IDENTITY = ("id", "variant", "data", "folder", "architecture", "measure")
"""Fields of a trial that are names of something, or enter by what they mean: the text by the corpus's fingerprint."""
NOT_CONDITIONS = (*NOT_IDENTITY, "seed", "salt")
"""Fields of a trial in which two may differ whose numbers scatter alike, for all that is known beforehand."""


def trial_id(trial: Trial, catalogue: Catalogue) -> str:
    """The identity of a trial, 16 hex digits; the `id` it has does not matter."""
    return trial_id_of(trial, computed(trial.architecture, catalogue))


def trial_id_of(trial: Trial, computed: str) -> str:
    """The identity of a trial whose model is known to be `computed`, so that its seeds need not work it out again."""
    told = {name: getattr(trial, name) for name in Trial.__dataclass_fields__ if name not in NOT_IDENTITY}
    return digest({**told, "measure": _measured(trial), "computed": computed}, ID_DIGITS)


def conditions_of(trial: Trial) -> str:
    """What a trial is trained and measured under, 16 hex digits: all of it but its block, seed and salt.

    Recipe, corpus, measure, threads, split, what stands around the blocks, at which sizes, and the source that computes
    any trial. What initialisation alone does to a metric is taken to be the same wherever these are.
    """
    told = {name: getattr(trial, name) for name in Trial.__dataclass_fields__ if name not in NOT_CONDITIONS}
    whole = {**told, "measure": _measured(trial), "around": _around(trial.architecture), "source": _rooms_hash()}
    return digest(whole, ID_DIGITS)


def training_of(trial: Trial) -> str:
    """What a trial trains beside its block, and on which text, 16 hex digits.

    Of `conditions_of` without what is measured on the way, the threads, and the source: a probe more, or a newer
    version of this program, asks nothing new.
    """
    left_out = (*NOT_CONDITIONS, "threads")
    told = {name: getattr(trial, name) for name in Trial.__dataclass_fields__ if name not in left_out}
    return digest({**told, "around": _around(trial.architecture)}, ID_DIGITS)


def _around(architecture: Architecture) -> dict[str, Any]:
    around = {f: getattr(architecture, f) for f in Architecture.__dataclass_fields__ if f != "block"}
    return around | architecture.numbers()


def _measured(trial: Trial) -> dict[str, Any]:
    measured = {k: v for k, v in trial.measure.model_dump(mode="python").items() if k != "checkpoint_every"}
    return {**measured, "probes": sorted(measured["probes"])}


def computed(architecture: Architecture, catalogue: Catalogue) -> str:
    """Hash of a model as what is computed, and of the source that computes it."""
    return digest([model_identity(architecture, catalogue), source_hash(architecture, catalogue)], 64)


def model_identity(architecture: Architecture, catalogue: Catalogue) -> dict[str, Any]:
    """A model as what is computed: each layer in normal form, arithmetic evaluated, runs of equal layers once."""
    block = normalise(architecture.block, catalogue)
    layers: list[tuple[int, Any]] = []
    for layer in range(1, architecture.sizes.n_layers + 1):
        resolved = canonical(normalise(resolve(block, architecture.sizes.scope(layer)), catalogue))
        if layers and layers[-1][1] == resolved:
            layers[-1] = (layers[-1][0] + 1, resolved)
        else:
            layers.append((1, resolved))
    return {**{name: canonical(value) for name, value in _around(architecture).items()}, "layers": layers}


def components_used(architecture: Architecture) -> tuple[str, ...]:
    """Names of every component in a model, sorted."""
    around: tuple[Node | None, ...] = (architecture.entry_norm, architecture.final_norm, architecture.init)
    nodes = [*walk(architecture.block), *(node for part in around for node in walk(part))]
    return tuple(sorted({node.name for node in nodes}))


def source_hash(architecture: Architecture, catalogue: Catalogue) -> str:
    """Hash of the source of the rooms that compute and of the components that the model uses."""
    files = {_hash(catalogue[name].path) for name in components_used(architecture)}
    return hashlib.sha256("".join([_rooms_hash(), *sorted(files)]).encode()).hexdigest()


@functools.cache
def _rooms_hash() -> str:
    paths = (path for part in COMPUTING for path in _python_files(PACKAGE / part))
    return hashlib.sha256("".join(_hash(path) for path in paths).encode()).hexdigest()


def _python_files(part: Path) -> list[Path]:
    return sorted(part.rglob("*.py")) if part.is_dir() else [part]


@functools.cache
def _hash(path: Path) -> str:
    return hashlib.sha256(meaning(path.read_text(encoding="utf-8")).encode()).hexdigest()


def meaning(source: str) -> str:
    """Python source without comments, layout and texts that only document: what two equal programs share.

    >>> meaning('def f():\\n    "doc"\\n    return 1  # why') == meaning("def f(): return 1")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _documents(line)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _documents(statement: ast.stmt) -> bool:
    """Whether a statement is a text alone: a docstring, or what is said below a constant."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
