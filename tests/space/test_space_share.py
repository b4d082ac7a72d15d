"""`model.share` and patterns over layers in a space: read, overridden, and compared as treatments."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import CATALOGUE
from reading import ROOT

from ablate.block.architecture import Sharing
from ablate.plan.build import build_plan
from ablate.space.load import load_space
from ablate.space.space import Space

pytestmark = pytest.mark.fast

SPACE = """
space: shared
question: Which layers may share?
grammar: GRAMMAR
blocks:
  some: [residual: [attention: {position: {where: {layers: first, use: rope, otherwise: none}}}], residual: [mlp]]
model: {layers: 4, width: 16, heads: 2, context: 16, init: {normal: 0.02}}
data: {corpus: python_stdlib, tokenizer: bytes}
recipe: {steps: 6, batch: 2, optimizer: {adamw: {lr: 3e-3}}}
design: {compare: [pre_ln, turn, row, some, mixed]}
VARIANTSseeds: 2
measure: {every: 3, probes: [kurtosis], evaluation: {every: 3, windows: 4}}
judge: {against: pre_ln, metrics: {eval_loss: {margin: 1%}}}
"""


VARIANTS = """\
variants:
  turn: {block: pre_ln, set: {model.share: {cycle: 2}}}
  row: {block: pre_ln, set: {model.share: {repeat: 2}}}
  mixed: {block: pre_ln, set: {block.mlp.up: {cycle: [dense, spectral]}, model.share: {cycle: 2}}}
"""


def space(folder: Path, *settings: str, variants: str = "") -> Space:
    path = folder / "shared.yaml"
    text = SPACE.replace("GRAMMAR", str(ROOT / "grammars" / "transformer.yaml")).replace("VARIANTS", variants)
    path.write_text(text, encoding="utf-8")
    return load_space(path, CATALOGUE, settings=list(settings))


def test_shares_and_patterns_are_treatments(tmp_path: Path) -> None:
    plan = build_plan(space(tmp_path, variants=VARIANTS), vocab_size=256, corpus="none")
    models = {variant.name: variant for variant in plan.variants}
    shares = {
        name: next(t.work.architecture.share for t in plan.trials if t.variant == v.id) for name, v in models.items()
    }
    assert shares == {
        "pre_ln": None,
        "turn": Sharing(cycle=2),
        "row": Sharing(repeat=2),
        "some": None,
        "mixed": Sharing(cycle=2),
    }
    assert models["turn"].parameters == models["row"].parameters < models["pre_ln"].parameters
    assert models["turn"].flops == models["pre_ln"].flops
    assert len({trial.id for trial in plan.trials}) == 10


def test_a_setting_shares_all_layers_or_reaches_into_a_pattern(tmp_path: Path) -> None:
    shared = space(tmp_path, "model.share={cycle: 1}", "design.compare=[pre_ln, op]")
    assert all(
        trial.work.architecture.sources() == (1,) * 4 for trial in build_plan(shared, vocab_size=9, corpus="").trials
    )
    written = "block: {attention.position.layers: {every: 2}}\n"
    other = space(tmp_path, "design.compare=[pre_ln, some]", variants=written)
    assert "{every: 2}" in str(other.blocks["some"])


def test_a_space_that_says_nothing_shares_nothing(tmp_path: Path) -> None:
    plan = build_plan(space(tmp_path, "design.compare=[pre_ln, some]"), vocab_size=256, corpus="none")
    assert {trial.work.architecture.share for trial in plan.trials} == {None}
    said = build_plan(
        space(tmp_path, "design.compare=[pre_ln, some]", "model.share=none"), vocab_size=256, corpus="none"
    )
    assert [trial.id for trial in said.trials] == [trial.id for trial in plan.trials]
