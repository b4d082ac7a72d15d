"""A component lives in its file and nowhere else: no other room names one or imports one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import CATALOGUE

import ablate

PACKAGE = Path(ablate.__file__).parent
NAMES = frozenset(spec.name for spec in CATALOGUE)
FILES = frozenset(spec.path for spec in CATALOGUE)
MODULES = frozenset(".".join(("ablate", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in FILES)

SAID = {
    "extension/declaration.py": {"frozen"},  # of settings: they do not change
    "probes/attention_entropy.py": {"attention", "causal", "padding"},  # what a probe reads
    "probes/watch.py": {"attention"},
    "store/documents.py": {"identity"},  # of a trial: the scheme that it is of
    "store/snapshot.py": {"document", "identity"},
    "store/faults.py": {"where"},  # a key: the place of a file
    "space/data.py": {"dropout", "padding"},  # of a tokenizer in a file
    "space/design.py": {"from"},
    "space/documents.py": {"dropout"},  # a key of other programs
    "space/fair.py": {"mlp"},  # a match `by: mlp` is of a size of the model
    "space/fits.py": {"from", "mlp", "padding"},  # of a ramp; a kind of model; a token
    "space/metrics.py": {"attention"},
    "space/model.py": {"gelu", "mlp", "relu", "tanh"},  # of the head of an encoder; a kind of model
    "space/recipe.py": {"from", "padding"},  # of a ramp; a token
    "space/space.py": {"mlp"},  # a head
    "space/vary.py": {"from"},  # a key: the lower end of a range
    "kernels/attend.py": {"causal", "dropout", "padding"},  # options of kernels
    "kernels/scale.py": {"causal"},
    "kernels/gate.py": {"causal", "padding"},
    "plan/build.py": {"causal"},  # a key of `model:`
    "execute/machine.py": {"dropout"},  # of attention: an option of kernels
    "report/screens/doctor.py": {"attention"},  # a heading
    "store/pending_rows.py": {"attention"},  # a column: which backend computes attention
    "store/records.py": {"document"},  # a key of the files of plans and tables
    "store/results.py": {"document"},
    "data/corpora/files.py": {"document"},  # an option of another library
    "store/machines.py": {"attention"},
    "block/reader.py": {"from"},  # {from: address}, as it may be written
    "report/screens/block.py": {"from"},
    "report/screens/check.py": {"from"},  # the blocks that a design begins with
    "report/searched/confirmation.py": {"from"},
    "data/subwords.py": {"identity"},  # an option of another library
    "block/architecture.py": {"causal", "mlp"},  # a key of `model:`, a kind of model
    "compiler/compile.py": {"mlp"},
    "plan/plan.py": {"mlp"},  # a kind of model
    "theory/models.py": {"attention", "mlp", "tanh"},  # what may be sampled; a kind of model; of the head of an encoder
    "compiler/encoder.py": {"gelu", "relu", "tanh"},  # of the head of an encoder
    "train/objectives/classification.py": {"mlp"},  # a kind of model
    "train/objectives/masked_words.py": {"padding"},  # a token
    "train/objectives/regression.py": {"mlp"},  # a kind of model
    "train/objectives/sequence_to_sequence.py": {"padding"},  # a token
    "train/objectives/span_filling.py": {"padding"},  # a token
}
"""Words that components have for names, too, where something else is meant."""


def rooms() -> Iterator[Path]:
    """Every source file that is not a component's."""
    return (path for path in sorted(PACKAGE.rglob("*.py")) if path not in FILES)


def names_spoken(source: str) -> set[str]:
    """String literals of a program that are the name of a component; texts that document do not count."""
    tree = ast.parse(source)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return {str(string.value) for string in strings if id(string) not in documents} & NAMES


def modules_imported(source: str) -> set[str]:
    """Component modules that a program imports, by whichever spelling."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name in MODULES}


@pytest.mark.sampled(200, gate="all")
@pytest.mark.parametrize("path", list(rooms()), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_room_names_or_imports_a_component(path):
    source = path.read_text(encoding="utf-8")
    assert names_spoken(source) == SAID.get(str(path.relative_to(PACKAGE)), set())
    assert not modules_imported(source)


@pytest.mark.fast
@pytest.mark.parametrize(
    "source",
    [
        'KIND = "attention"',
        'def f(x):\n    return x.name == "layer_norm"',
        "from ablate.components.mixers import attention",
        "from ablate.components.mixers.attention import Attention",
        "import ablate.components.norms.rms_norm",
    ],
)
def test_a_room_that_did_would_be_seen(source):
    assert names_spoken(source) | modules_imported(source)


@pytest.mark.fast
def test_what_documents_is_not_code():
    assert not names_spoken('def f():\n    "attention"\n    return 1')
