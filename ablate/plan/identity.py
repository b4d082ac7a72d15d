"""What a trial is: the hash of everything that decides its numbers, and of nothing else.

Names, notes and the order of keys do not enter; the source that computes the numbers does, with docstrings, comments
and layout left out, so that a better sentence retrains nothing.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable
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
    "kernels",
    "compiler",
    "data/batches.py",
    "probes",
    "train",
)
"""Files and rooms whose source decides the numbers of any trial; of the components only those that a model uses do.

What the tokens are is in the trial's corpus fingerprint, so of the data room only the drawing of batches is here.
"""

ID_DIGITS = 16
NOT_IDENTITY = ("id", "variant", "folder", "architecture", "measure")


def trial_id(trial: Trial, catalogue: Catalogue) -> str:
    """The identity of a trial, 16 hex digits; the `id` it has does not matter."""
    told = {name: getattr(trial, name) for name in Trial.__dataclass_fields__ if name not in NOT_IDENTITY}
    measured = {k: v for k, v in trial.measure.model_dump(mode="python").items() if k != "checkpoint_every"}
    measured["probes"] = sorted(measured["probes"])
    whole = {
        **told,
        "measure": measured,
        "architecture": model_identity(trial.architecture, catalogue),
        "source": source_hash(trial.architecture, catalogue),
    }
    return digest(whole, ID_DIGITS)


def model_identity(architecture: Architecture, catalogue: Catalogue) -> dict[str, Any]:
    """A model as what is computed: each layer in normal form with its arithmetic evaluated, runs of equal layers once."""
    block = normalise(architecture.block, catalogue)
    layers: list[tuple[int, Any]] = []
    for layer in range(1, architecture.sizes.n_layers + 1):
        resolved = canonical(normalise(resolve(block, architecture.sizes.scope(layer)), catalogue))
        if layers and layers[-1][1] == resolved:
            layers[-1] = (layers[-1][0] + 1, resolved)
        else:
            layers.append((1, resolved))
    around = {f: getattr(architecture, f) for f in Architecture.__dataclass_fields__ if f != "block"}
    return {**{name: canonical(value) for name, value in around.items()}, "layers": layers}


def components_used(architecture: Architecture) -> tuple[str, ...]:
    """Names of every component in a model, sorted."""
    around: tuple[Node | None, ...] = (architecture.entry_norm, architecture.final_norm, architecture.init)
    nodes = [*walk(architecture.block), *(node for part in around for node in walk(part))]
    return tuple(sorted({node.name for node in nodes}))


def source_hash(architecture: Architecture, catalogue: Catalogue) -> str:
    """Hash of the source of the rooms that compute and of the components that the model uses."""
    files = {catalogue[name].path for name in components_used(architecture)}
    return hashlib.sha256("".join([_rooms_hash(), *(_hash(path) for path in sorted(files))]).encode()).hexdigest()


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
    """Python source without comments, layout and docstrings: what two equal programs share.

    >>> meaning('def f():\\n    "doc"\\n    return 1  # why') == meaning("def f(): return 1")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = list(_without_docstring(node.body))
    return ast.dump(tree)


def _without_docstring(body: list[ast.stmt]) -> Iterable[ast.stmt]:
    documented = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return (body[1:] if documented and isinstance(body[0].value.value, str) else body) or [ast.Pass()]  # type: ignore[attr-defined]
