"""What a trial is: changed by all that decides its numbers, and by nothing else."""

import dataclasses
import importlib.metadata
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from altered_trials import altered
from builders import CATALOGUE
from reading import ROOT, SPACES
from space_fixtures import SECTIONS, space, text

from ablate.block.catalogue import Catalogue
from ablate.components.registry import declarations
from ablate.extension.declaration import PACKAGE
from ablate.plan import versions
from ablate.plan.build import build_plan
from ablate.plan.plan import Trial, trial_id
from ablate.plan.versions import ALWAYS, KERNELS, SHARED
from ablate.space.load import load_space
from ablate.space.space import Space


def ids(found: Space, *, vocab_size: int = 256, corpus: str = "corpus") -> list[str]:
    return [trial.id for trial in build_plan(found, vocab_size=vocab_size, corpus=corpus).trials]


def identity_of(trial: Trial, catalogue: Catalogue) -> str:
    return trial_id(trial, trial.work.identity(catalogue))


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


@pytest.mark.sampled(4)
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
    "recipe.optimizer.adamw.head_lr=1e-3",
    "recipe.optimizer.adamw.norm_lr=1e-3",
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


@pytest.mark.sampled(6, gate="all")
@pytest.mark.parametrize("setting", CHANGED)
def test_what_computes_is_in_it(tmp_path: Path, setting: str) -> None:
    before, after = ids(space(tmp_path)), ids(space(tmp_path, setting))
    assert not set(before) & set(after)


def test_corpus_vocabulary_and_salt_are_in_it(tmp_path: Path) -> None:
    found = space(tmp_path)
    assert not set(ids(found)) & set(ids(found, corpus="other"))
    assert not set(ids(found)) & set(ids(found, vocab_size=257))
    trial = build_plan(found, vocab_size=256, corpus="corpus").trials[0]
    assert identity_of(trial, CATALOGUE) == trial.id
    assert identity_of(dataclasses.replace(trial, salt=1), CATALOGUE) != trial.id
    for name, value in {"id": "x", "variant": "y", "folder": "/z"}.items():
        assert identity_of(altered(trial, **{name: value}), CATALOGUE) == trial.id


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


@pytest.mark.full
def test_every_process_finds_the_same_and_loads_no_torch() -> None:
    (path, *_) = SPACES
    here = ids(load_space(path, CATALOGUE))
    for hash_seed in ("1", "2"):
        there = planned_elsewhere(path, hash_seed)
        assert there["ids"] == here
        assert there["loaded"] == []


@pytest.mark.fast
def test_an_identity_is_the_same_under_any_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning asks for the version of no package: it would be told another one here."""
    before = ids(space(tmp_path))
    asked: list[str] = []
    monkeypatch.setattr(importlib.metadata, "version", lambda name: asked.append(name) or "9.9.9")
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    assert ids(space(tmp_path)) == before and not asked


# Versions


def with_version(catalogue: Catalogue, kind: str, name: str, version: int) -> Catalogue:
    """A catalogue in which one thing has another version."""
    if kind == "components":
        spec = replace(catalogue[name], version=version)
        return replace(catalogue, components={**catalogue.components, name: spec})
    known = catalogue.others[kind]
    changed = {**known, name: replace(known[name], version=version)}
    return replace(catalogue, others={**catalogue.others, kind: changed})


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("components", "qk_norm"),
        ("components", "dense"),
        ("components", "normal"),
        ("probes", "kurtosis"),
        ("probes", "gain"),
        ("optimizers", "adamw"),
        ("schedules", "linear"),
    ],
)
def test_the_version_of_what_a_trial_uses_is_in_it(tmp_path: Path, kind: str, name: str) -> None:
    trial = build_plan(space(tmp_path), vocab_size=256, corpus="corpus").trials[-1]
    assert trial.variant == build_plan(space(tmp_path), vocab_size=256, corpus="corpus").variants[-1].id
    assert identity_of(trial, CATALOGUE) == trial.id
    assert identity_of(trial, with_version(CATALOGUE, kind, name, 7)) != trial.id


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("components", "layer_norm"),
        ("components", "t5"),
        ("probes", "gram"),
        ("optimizers", "sgd"),
        ("schedules", "cosine"),
    ],
)
def test_the_version_of_what_it_does_not_use_is_not(tmp_path: Path, kind: str, name: str) -> None:
    """The twin."""
    trial = build_plan(space(tmp_path), vocab_size=256, corpus="corpus").trials[-1]
    assert identity_of(trial, with_version(CATALOGUE, kind, name, 7)) == trial.id


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", ALWAYS)
def test_the_version_of_every_shared_part_is_in_it(tmp_path: Path, monkeypatch, part: str) -> None:
    before = ids(space(tmp_path))
    path = PACKAGE / SHARED[part][0]
    real = versions.declared_version
    monkeypatch.setattr(versions, "declared_version", lambda of: 7 if of == path else real(of))
    assert not set(ids(space(tmp_path))) & set(before)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", KERNELS)
def test_kernels_are_in_it_where_there_is_attention(tmp_path: Path, monkeypatch, part: str) -> None:
    mlp = {"blocks": "{one: [mlp], two: [residual: [mlp]]}", "design": "{compare: [one, two]}"}
    mlp |= {"judge": "{against: one, metrics: {eval_loss: {margin: 1%}}}"}
    before = ids(space(tmp_path)), ids(space(tmp_path, **mlp))
    path = PACKAGE / SHARED[part][0]
    real = versions.declared_version
    monkeypatch.setattr(versions, "declared_version", lambda of: 7 if of == path else real(of))
    assert not set(ids(space(tmp_path))) & set(before[0])
    assert ids(space(tmp_path, **mlp)) == before[1]


OWN = """\
\"\"\"Twice: twice x.\"\"\"
from ablate.components.declare import Cost, component, implements

@component("twice", slots=("part", "norm"), source="this test")
class Config:
    def cost(self, sizes, width=None):
        return Cost()

from torch import nn

@implements(Config)
class Twice(nn.Module):
    def __init__(self, config, sizes, width=None):
        super().__init__()

    def forward(self, x):
        y = 2 * x
        return y
"""


@pytest.mark.full
def test_a_plugin_that_nobody_asks_for_changes_nothing_and_its_source_is_its_version(tmp_path: Path) -> None:
    own, path = tmp_path / "twice.py", tmp_path / "small.yaml"
    own.write_text(OWN)
    assert ids(load_space(written(path), declarations((own,)))) == ids(load_space(path, CATALOGUE))
    asked = {"blocks": "{one: [residual: [twice, mlp]]}", "design": "{compare: [pre_ln, one]}"}
    texts = {
        "as it is": OWN,
        "a local": OWN.replace("y = ", "z = ").replace("return y", "return z"),
        "a comment": OWN.replace("2 * x\n", "2 * x  # why\n"),
        "a number": OWN.replace("2 *", "3 *"),
    }
    found = {}
    for name, source in texts.items():
        own.write_text(source)
        found[name] = ids(load_space(written(path, **asked), declarations((own,))))
    assert found["a local"] == found["a comment"] == found["as it is"]
    pre_ln, one = slice(0, None, 2), slice(1, None, 2)
    assert found["a number"][pre_ln] == found["as it is"][pre_ln]
    assert not set(found["a number"][one]) & set(found["as it is"][one])


def written(path: Path, **sections: str) -> Path:
    path.write_text(text(**sections), encoding="utf-8")
    return path


def test_conditions_are_those_of_any_block_and_seed(tmp_path: Path) -> None:
    trials = build_plan(space(tmp_path), vocab_size=256, corpus="corpus").trials
    assert len({trial.conditions for trial in trials}) == 1
    other = build_plan(space(tmp_path, "recipe.batch=5"), vocab_size=256, corpus="corpus").trials[0]
    assert other.conditions != trials[0].conditions
