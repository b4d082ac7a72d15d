"""A trial's identity holds versions; a file that computes changes only with its version, or with a proof.

After a change of code that computes, this fails and says what to do: raise the version of each thing whose numbers
changed, then `pytest --update-goldens tests/identity`, which proves of all others, by running the last listed commit
beside this tree, that no bit moved, and writes the list and the numbers anew.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from computing import LIST, NOT_COMPUTING, PACKAGE, changes, committed, files, imports, text_of, things, versions, write
from digests import NOT_HERE, World, cases, names, numbers
from proof import compared

from ablate.plan.versions import SHARED

NUMBERS = Path(__file__).parent / "numbers_float64.json"
TOLERANCE = 1e-9
"""Between machines, relative to the number or to 1e-6 where it is smaller."""
TOLD = """\
{things}
What they compute may be another now, and results of before would be taken for results of now. Either
  - raise the version of each thing whose numbers changed: version=… where it is declared, VERSION in the first file of
    a shared part (ablate/plan/versions.py), then run: pytest -n 0 --update-goldens tests/identity
  - or, where no number changed, have that proved and the list written anew by the same command alone."""


def test_every_change_of_code_that_computes_is_declared_or_proved(request, tmp_path) -> None:
    found = changes(committed() if LIST.exists() else {"versions": {}, "files": {}, "files_of": {}})
    if not request.config.getoption("--update-goldens"):
        undeclared = [f"{change.name}: {', '.join(change.files)}" for change in found if not change.declared]
        assert not undeclared, TOLD.format(things="\n".join(undeclared))
        assert not found, "versions rose: pytest -n 0 --update-goldens tests/identity writes the list and the numbers"
        return
    shown = {*names(), *NOT_HERE}  # a pattern over layers has no cases: it computes nothing of its own
    to_prove = [change.name for change in found if not change.declared and change.name in shown]
    cannot = [name for name in to_prove if name in NOT_HERE]
    assert not cannot, f"without a GPU nothing shows that {', '.join(cannot)} compute the same: raise their version"
    if to_prove:
        verdict = compared(to_prove, tmp_path)
        assert not verdict.moved, f"bits moved: {', '.join(verdict.moved)}; raise the versions of what changed them"
        assert not verdict.only_in_one, f"cases that one commit alone has: {', '.join(verdict.only_in_one)}"
        assert verdict.same
        print(f"{len(verdict.same)} cases have the same bits as before")
    write()


@pytest.mark.sampled(6, gate="all")
@pytest.mark.parametrize("name", names())
def test_what_each_thing_computes_is_the_same_on_every_machine(name, request, tmp_path) -> None:
    """In float64, to 1e-9."""
    golden = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    world = World(tmp_path)
    mine = name not in SHARED or name == next(iter(SHARED))  # shared parts have the same cases
    for label, trial in cases(name, world) if mine else ():
        found = numbers(trial, tmp_path / "cache")
        if request.config.getoption("--update-goldens"):
            golden[label] = {metric: float(f"{value:.12g}") for metric, value in found.items()}
            continue
        assert found.keys() == golden[label].keys()
        wrong = {m: (v, golden[label][m]) for m, v in found.items() if not close(v, golden[label][m])}
        assert not wrong, f"{label}: {wrong}"
    if request.config.getoption("--update-goldens"):
        NUMBERS.write_text(json.dumps(dict(sorted(golden.items())), indent=0) + "\n", encoding="utf-8")


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE * 1e-6)


def edited(ending: str, old: str, new: str):
    """Reads files as they are, but for one that is changed."""
    path = PACKAGE / ending
    assert old in text_of(path), f"{ending} does not say {old}"
    return lambda wanted: text_of(wanted).replace(old, new) if wanted == path else text_of(wanted)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("ending", "old", "new", "thing"),
    [
        ("components/norms/rms_norm.py", "keepdim=True) / math", "keepdim=True) * math", "component rms_norm"),
        ("probes/kurtosis.py", "square()", "abs()", "probe kurtosis"),
        ("train/loop.py", "% measure.every == 0", "% measure.every == 1", "loop"),
        ("train/optimizer.py", "clip is not None", "clip is None", "loop"),
        ("data/batch.py", "seed", "feed", "batches"),
        ("kernels/sdpa.py", "is_causal", "is_casual", "kernel sdpa"),
        ("compiler/initialise.py", "generator", "generators", "initialisation"),
    ],
)  # fmt: skip
def test_a_change_without_a_new_version_is_caught(ending, old, new, thing) -> None:
    found = [change for change in changes(committed(), edited(ending, old, new)) if not change.declared]
    assert thing in [change.name for change in found] and all(ending in change.files for change in found)


def test_a_changed_helper_is_a_change_of_everything_that_uses_it() -> None:
    found = changes(committed(), edited("signal/skipless.py", "def ", "async def "))
    assert {"component e_spa", "component u_spa"} <= {change.name for change in found}


@pytest.mark.full
def test_a_renamed_local_and_a_better_text_are_no_change() -> None:
    """The twin: the same file, changed in what only its readers see."""
    renamed = edited("components/norms/rms_norm.py", "root", "norm_of_token")
    assert changes(committed(), renamed) == changes(committed())
    documented = edited("train/loop.py", "Make one update;", "Make one step;")
    assert changes(committed(), documented) == changes(committed())


@pytest.mark.fast
def test_everything_that_computes_is_of_something_and_has_a_version() -> None:
    of = {path: name for name, paths in files().items() for path in paths}
    rooms = ("components", "compiler", "kernels", "train", "probes")
    every = {p.relative_to(PACKAGE).as_posix() for room in rooms for p in (PACKAGE / room).rglob("*.py")}
    left = {path for path in every - of.keys() - NOT_COMPUTING if not path.endswith("__init__.py")}
    assert left == set()
    assert versions().keys() == files().keys() and all(version >= 1 for version in versions().values())
    assert {"component rms_norm", "probe kurtosis", "optimizer adamw", "schedule cosine"} <= things().keys()


CARRY_NO_NUMBERS = {
    "block/catalogue.py": "what a component may hold, checked before; which fields an identity leaves out; messages",
    "block/architecture.py": "data, enters by its values; what is refused; which stack a part is of",
    "block/expression.py": "data; enters by its values",
    "block/layers.py": "what a layer is; the layers themselves enter",
    "block/equation.py": "texts",
    "data/cache.py": "what is kept; what it holds enters by the fingerprint of the corpus",
    "data/subwords.py": "names of tokens",
    "data/corpus.py": "which texts there are is in the fingerprint of the corpus",
    "data/sources.py": "messages",
    "data/tokenizer.py": "what the tokens are is in the fingerprint of the corpus",
    "data/streams.py": "what the tokens are is in the fingerprint of the corpus",
    "errors.py": "messages",
    "execute/gpu.py": "which device it is, is recorded with the versions; trials that differ are not paired",
    "execute/executor.py": "what is sent to and fro, and what follows from an outcome",
    "plan/plan.py": "data; enters by its values",
    "space/data.py": "data; enters by the fingerprint of the corpus",
    "space/documents.py": "data; enters by its values",
    "space/judge.py": "data; enters by its values",
    "space/metrics.py": "names",
    "space/model.py": "data; enters by its values",
    "space/recipe.py": "data; enters by its values",
    "train/optimizers/__init__.py": "text",
}
NO_ROOM_OF_NUMBERS = ("source/", "extension/")
"""Reading, messages, and the finding of files."""


@pytest.mark.fast
def test_whatever_a_computing_file_imports_computes_too_or_it_is_said_why_not() -> None:
    every = {path for paths in files().values() for path in paths}
    missing = {
        other: path
        for path in sorted(every)
        for other in imports(path)
        if other not in every and other not in CARRY_NO_NUMBERS and other not in NOT_COMPUTING
        if not other.endswith("__init__.py") and not other.startswith(NO_ROOM_OF_NUMBERS)
    }
    assert missing == {}
