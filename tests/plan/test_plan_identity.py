"""What a trial is: changed by all that decides its numbers, and by nothing else."""

import ast
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders import CATALOGUE
from reading import ROOT, SPACES
from space_worlds import SECTIONS, space

from ablate.plan import identity
from ablate.plan.build import build_plan
from ablate.plan.identity import COMPUTING, PACKAGE, components_used, meaning, source_hash, trial_id
from ablate.space.load import load_space
from ablate.space.space import Space


def ids(found: Space, *, vocab_size: int = 256, corpus: str = "corpus") -> list[str]:
    return [trial.id for trial in build_plan(found, vocab_size=vocab_size, corpus=corpus).trials]


RENAMED = {
    "names of the space": {"space": "another", "question": "What else?"},
    "a block's own name": {
        "blocks": "{first: [residual: [layer_norm, attention], residual: [layer_norm, mlp]]}",
        "design": "{path: {from: first, to: op}}",
    },
    "the spelling of a block": {
        "blocks": "{first: [[residual: {skip: 1.0, branch: [layer_norm: {bias: true}, attention]}],"
        " residual: {gain: 2/2, branch: [layer_norm, mlp]}]}",
        "design": "{path: {from: first, to: op}}",
    },
    "checkpoints": {
        "measure": "{every: 5, probes: [kurtosis], evaluation: {every: 10, windows: 8}, checkpoint_every: 3}"
    },
    "the judge": {"judge": "{against: op, metrics: {eval_loss: {margin: 5%}}, confidence: 0.9}"},
    "numbers written otherwise": {"recipe": "{batch: 4, steps: 20, clip: 1, optimizer: {adamw: {lr: 0.01}}}"},
    "the name of the corpus": {"data": "{corpus: {files: [a.txt]}}"},
}


@pytest.mark.parametrize("name", RENAMED)
def test_what_does_not_compute_is_not_in_it(tmp_path: Path, name: str) -> None:
    assert ids(space(tmp_path, **RENAMED[name])) == ids(space(tmp_path))


def test_key_order_notes_and_folder_are_not_in_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "backwards.yaml"
    path.parent.mkdir()
    path.write_text("# a note\n" + "".join(f"{key}: {body}\n" for key, body in reversed(SECTIONS.items())))
    assert ids(load_space(path, CATALOGUE)) == ids(space(tmp_path))


def test_the_order_of_probes_is_not_in_it(tmp_path: Path) -> None:
    one = space(tmp_path, "measure.probes=[kurtosis, gradient_norm]")
    assert ids(one) == ids(space(tmp_path, "measure.probes=[gradient_norm, kurtosis]"))
    assert ids(one) != ids(space(tmp_path))


CHANGED = [
    "seeds=[5, 6]",
    "threads=2",
    "recipe.steps=21",
    "recipe.batch=5",
    "recipe.clip=null",
    "recipe.dtype=float64",
    "recipe.optimizer.adamw.lr=2e-2",
    "recipe.optimizer.adamw.embedding_lr=1e-3",
    "recipe.optimizer.adamw.decays=[weights]",
    "recipe.optimizer.adamw.decay_when=after_update",
    "recipe.optimizer.adamw.eps_when=before_correction",
    "recipe.schedule.from_zero=true",
    "recipe.schedule.floor={rate: 1e-7}",
    "recipe.schedule.decay=cosine",
    "recipe.schedule.decay={polynomial: {power: 2}}",
    "recipe.schedule.warmup=2",
    "recipe.schedule.hold=2",
    "model.layers=5",
    "model.width=64",
    "model.heads=2",
    "model.context=8",
    "model.head=tied",
    "model.position=none",
    "model.embedding.scale=1",
    "model.final_norm=rms_norm",
    "model.init={normal: 0.03}",
    "block.mlp.activation=relu",
    "block.mlp.hidden=2x",
    "measure.every=4",
    "measure.evaluation.windows=9",
    "measure.probes=[kurtosis, gram]",
]


@pytest.mark.parametrize("setting", CHANGED)
def test_what_computes_is_in_it(tmp_path: Path, setting: str) -> None:
    before, after = ids(space(tmp_path)), ids(space(tmp_path, setting))
    assert not set(before) & set(after)


def test_corpus_vocabulary_and_salt_are_in_it(tmp_path: Path) -> None:
    found = space(tmp_path)
    assert not set(ids(found)) & set(ids(found, corpus="other"))
    assert not set(ids(found)) & set(ids(found, vocab_size=257))
    trial = build_plan(found, vocab_size=256, corpus="corpus").trials[0]
    assert trial_id(trial, CATALOGUE) == trial.id
    assert trial_id(dataclasses.replace(trial, salt=1), CATALOGUE) != trial.id
    for name, value in {"id": "x", "variant": "y", "folder": "/z"}.items():
        assert trial_id(dataclasses.replace(trial, **{name: value}), CATALOGUE) == trial.id


def test_more_seeds_and_other_designs_share_trials(tmp_path: Path) -> None:
    few, many = ids(space(tmp_path)), ids(space(tmp_path, "seeds=4"))
    assert many[: len(few)] == few
    compared = ids(space(tmp_path, "design={compare: [pre_ln, op, post_ln]}"))
    assert len(set(compared) & set(few)) == 4


def test_a_model_that_is_the_same_at_these_sizes_is_the_same_trial(tmp_path: Path) -> None:
    def of(gain: str, layers: int) -> set[str]:
        own = f"{{one: [residual: {{gain: {gain}, branch: [mlp]}}]}}"
        return set(ids(space(tmp_path, f"model.layers={layers}", blocks=own, design="{compare: [pre_ln, one]}")))

    assert of("1/sqrt(2*depth)", 2) == of("0.5", 2)
    assert of("1/sqrt(2*depth)", 3) != of("0.5", 3)
    assert of("1/layer", 1) == of("1", 1)
    assert of("1/layer", 2) != of("1", 2)


SCRIPT = """
import json, sys
from pathlib import Path
from ablate.components.registry import declarations
from ablate.plan.build import build_plan
from ablate.space.load import load_space

found = load_space(Path(sys.argv[1]), declarations())
plan = build_plan(found, vocab_size=256, corpus="corpus")
loaded = [name for name in ("torch", "ray", "mlflow", "optuna", "datasets", "duckdb") if name in sys.modules]
print(json.dumps({"ids": [trial.id for trial in plan.trials], "loaded": loaded}))
"""


def planned_elsewhere(path: Path, hash_seed: str) -> dict[str, list[str]]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_every_process_finds_the_same_and_loads_no_torch() -> None:
    (path, *_) = SPACES
    here = ids(load_space(path, CATALOGUE))
    for hash_seed in ("1", "2"):
        there = planned_elsewhere(path, hash_seed)
        assert there["ids"] == here
        assert there["loaded"] == []


# The source


def test_comments_layout_and_documenting_texts_are_not_meant() -> None:
    one = 'X = 1\n"""What X is."""\n\n\ndef f(a: int) -> int:\n    """Doc."""\n    return a + X  # why\n'
    other = "X=1\ndef f(a: int) -> int: return (a+X)\n"
    assert meaning(one) == meaning(other)
    assert meaning('class A:\n    "only a text"\n') == meaning("class A: pass")


@pytest.mark.parametrize(
    "other",
    [
        "X = 2\ndef f(): return X",
        "X = 1\ndef f(): return -X",
        "X = 1\ndef f(a=0): return X",
        'X = "1"\ndef f(): return X',
    ],
)
def test_code_is_meant(other: str) -> None:
    assert meaning(other) != meaning("X = 1\ndef f(): return X")
    assert meaning("f('a')") != meaning("f('b')")


@pytest.fixture
def fresh_hashes():
    identity._hash.cache_clear()
    identity._rooms_hash.cache_clear()
    yield
    identity._hash.cache_clear()
    identity._rooms_hash.cache_clear()


def test_only_components_that_a_model_uses_are_in_its_source(tmp_path: Path, fresh_hashes, monkeypatch) -> None:
    found = space(tmp_path)
    architecture = found.architecture(found.blocks["op"], 256)
    used = components_used(architecture)
    assert {"attention", "mlp", "qk_norm", "rms_norm", "residual", "dense", "normal"} <= set(used)
    assert "layer_norm" not in used
    before = source_hash(architecture, CATALOGUE)
    assert source_hash(found.architecture(found.blocks["pre_ln"], 256), CATALOGUE) != before
    monkeypatch.setattr(Path, "read_text", edited("components/norms/layer_norm.py"))
    identity._hash.cache_clear()
    assert source_hash(architecture, CATALOGUE) == before
    monkeypatch.setattr(Path, "read_text", edited("components/norms/rms_norm.py"))
    identity._hash.cache_clear()
    assert source_hash(architecture, CATALOGUE) != before


@pytest.mark.parametrize("room", ["train/loop.py", "compiler/decoder.py", "kernels/eager.py", "data/batches.py"])
def test_rooms_that_compute_are_in_the_source(tmp_path: Path, fresh_hashes, monkeypatch, room: str) -> None:
    found = space(tmp_path)
    architecture = found.architecture(found.blocks["op"], 256)
    before = source_hash(architecture, CATALOGUE)
    for text, same in [('"""Only a word."""\n', True), ("EDITED = 1\n", False)]:
        monkeypatch.setattr(Path, "read_text", edited(room, text))
        identity._hash.cache_clear()
        identity._rooms_hash.cache_clear()
        assert (source_hash(architecture, CATALOGUE) == before) is same


REAL_READ = Path.read_text


def edited(ending: str, text: str = "EDITED = 1\n"):
    assert (PACKAGE / ending).is_file()

    def read(path: Path, *args, **kwargs) -> str:
        return REAL_READ(path, *args, **kwargs) + (text if path.as_posix().endswith(ending) else "")

    return read


CARRY_NO_NUMBERS = {
    "block/architecture.py": "data; enters by its values",
    "block/own.py": "messages",
    "block/expression.py": "data; enters by its values",
    "block/catalogue.py": "what a component may hold; checked before",
    "block/cost.py": "counted, not trained",
    "components/registry.py": "finds files",
    "data/tokenizer.py": "what the tokens are is in the fingerprint of the corpus",
    "data/streams.py": "what the tokens are is in the fingerprint of the corpus",
    "data/text.py": "names of splits; what the tokens are is in the fingerprint of the corpus",
    "errors.py": "messages",
    "extension/configured.py": "what is declared; its values enter",
    "extension/declaration.py": "what is declared; its values enter",
    "extension/kinds.py": "names of kinds",
    "extension/loader.py": "finds files",
    "execute/device.py": "which device it is, is recorded with the versions; trials that differ are not paired",
    "execute/policy.py": "what follows from an outcome",
    "execute/task.py": "what is sent to and fro",
    "plan/trial.py": "data; enters by its values",
    "source/problems.py": "messages",
    "source/excerpt.py": "messages",
    "source/located.py": "messages",
    "space/choice.py": "data; enters by its values",
    "space/documents.py": "data; enters by its values",
    "space/metrics.py": "names",
    "space/optimizers.py": "data; enters by its values",
}


def test_the_source_covers_whatever_a_trial_imports() -> None:
    """A module that a computing one imports computes too, unless it is said here why not."""
    pending = [
        p
        for part in COMPUTING
        for p in ((PACKAGE / part).rglob("*.py") if (PACKAGE / part).is_dir() else [PACKAGE / part])
    ]
    covered = {path.relative_to(PACKAGE).as_posix() for path in pending}
    missing: dict[str, str] = {}
    for path in pending:
        for imported in imports(path):
            if imported not in covered and imported not in CARRY_NO_NUMBERS:
                missing[imported] = path.relative_to(PACKAGE).as_posix()
    assert missing == {}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ablate."):
            module = PACKAGE.parent / Path(*(node.module or "").split("."))
            paths = [module.with_suffix(".py"), *(module / f"{alias.name}.py" for alias in node.names)]
            found |= {p.relative_to(PACKAGE).as_posix() for p in paths if p.is_file()}
    return found
