"""A vision transformer and an MLP learn digits, far below what the frequencies of the classes give; both resume."""

from __future__ import annotations

import io
from math import log

import pytest
from interrupted import assert_goes_on_to_the_same_bits
from reading import ROOT
from rich.console import Console
from tiny_spaces import rows_of

import ablate
from ablate.session.reporting import gather, report

SPACE = """\
space: digits
question: Does a model learn digits?
grammar: {grammar}
model: {{{model}, embedding: {{std: 0.02, scale: 1}}, init: fan_in, head_init: zero}}
data: {{corpus: digits, tuning: 10%, verdict: 10%}}
blocks:
  plain: [residual: {{gain: 1/sqrt(2*depth), branch: [mlp: {{hidden: 1x}}]}}]
  normed: [residual: [layer_norm, mlp: {{hidden: 1x}}]]
recipe: {{objective: {objective}, steps: {steps}, batch: 64, optimizer: {{adam: {{lr: 3e-3}}}}}}
design: {{compare: [{blocks}]}}
seeds: 1
measure:
  every: 50
  probes: [kurtosis, token_correlation, gradient_norm]
  evaluation: {{every: 200, windows: 128}}
  checkpoint_every: 5
judge: {{against: {first}, metrics: {{eval_loss: {{margin: 5%}}, eval_accuracy: {{better: higher}}}}}}
"""
VIT = "kind: vit, layers: 2, width: 32, heads: 4, context: 17, causal: false, patch: 2, pooling: class_token, "
MODELS = {
    "vit": (VIT + "position: {learned: 0.02}, final_norm: layer_norm", "pre_ln, op"),
    "mlp": ("kind: mlp, layers: 3, width: 48, heads: 1, context: 1, logit_scale: 1/sqrt(width)", "normed, plain"),
}
FREQUENCIES = {"classification": log(10), "regression": 0.09}
"""What a model reaches that knows only how frequent the classes are: about alike."""


def space_of(folder, kind, objective, steps):
    model, blocks = MODELS[kind]
    first = blocks.partition(",")[0]
    values = {"grammar": ROOT / "grammars" / "transformer.yaml", "model": model, "blocks": blocks, "first": first}
    path = folder / "digits.yaml"
    path.write_text(SPACE.format(**values, objective=objective, steps=steps), encoding="utf-8")
    return ablate.load_space(path)


@pytest.mark.parametrize(
    ("kind", "objective"),
    [
        ("mlp", "regression"),
        pytest.param("mlp", "classification", marks=pytest.mark.full),
        pytest.param("vit", "regression", marks=pytest.mark.full),
        pytest.param("vit", "classification", marks=pytest.mark.full),
    ],
)
def test_a_run_learns_digits(tmp_path, kind, objective):
    space = space_of(tmp_path, kind, objective, steps=300 if kind == "mlp" else 400)
    console = Console(file=io.StringIO())
    done = ablate.run(space, results=tmp_path / "results", executor="inline", console=console, mirror=False)
    statement = "SELECT metric, value FROM metrics WHERE step = (SELECT max(step) FROM metrics) AND address = ''"
    last = ablate.query(statement, results=done.results)
    loss, accuracy = (last[last.metric == metric].value for metric in ("eval_loss", "eval_accuracy"))
    assert len(loss) == len(accuracy) == 2
    assert (loss < 0.25 * FREQUENCIES[objective]).all() and (accuracy > 0.9).all()


@pytest.mark.sampled(0, gate=2)
@pytest.mark.parametrize("executor", ["local", "ray"])
@pytest.mark.parametrize(("kind", "objective"), [("vit", "classification"), ("mlp", "regression")])
def test_the_bits_are_the_same_wherever_it_runs(tmp_path, kind, objective, executor):
    space, quiet = space_of(tmp_path, kind, objective, steps=12), {"console": Console(quiet=True), "mirror": False}
    ablate.run(space, results=tmp_path / "calm", executor="inline", **quiet)
    ablate.run(space, results=tmp_path / "there", executor=executor, workers=2, **quiet)
    expected = rows_of(tmp_path / "calm")
    assert rows_of(tmp_path / "there") == expected and len({row[0] for row in expected}) == 2


@pytest.mark.parametrize(
    ("kind", "objective", "block"), [("vit", "regression", 1), ("mlp", "regression", 0), ("mlp", "classification", 1)]
)
def test_an_interrupted_trial_goes_on_to_the_same_bits(tmp_path, kind, objective, block):
    space = space_of(tmp_path, kind, objective, steps=12)
    assert_goes_on_to_the_same_bits(space, tmp_path / "results", steps=12, stop_at=7, trial=block)


def test_the_page_of_a_run_speaks_of_classes_and_examples(tmp_path):
    space, results = space_of(tmp_path, "mlp", "regression", steps=4), tmp_path / "results"
    ablate.run(space, results=results, executor="inline", console=Console(file=io.StringIO()), mirror=False)
    planned = ablate.plan_space(space, results=results)
    held = {split: planned.corpus.split(split).files for split in ("train", "tuning", "verdict")}
    assert sum(held.values()) == 1797
    title, counts, read, mark, *notes = gather(planned, results).corpus
    assert title.endswith(", 10 classes") and notes == list(planned.corpus.notes)
    assert counts == f"examples: train {held['train']:,}, tuning {held['tuning']}, verdict {held['verdict']}"
    assert read.startswith(
        f"training reads 256 examples per trial, {256 / held['train']:.3g} epochs of the train split"
    )
    assert mark == f"fingerprint of the examples: {planned.corpus.fingerprint}"
    page = report(space, results=results).markdown.read_text(encoding="utf-8")
    assert title in page and counts in page and "held-out text" not in page and "vocabulary" not in page
