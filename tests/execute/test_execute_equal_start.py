"""Variants that start alike are told before they are trained, and trained all the same."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from tiny_spaces import write_world

import ablate
from ablate.execute import start as equal_start
from ablate.execute.executor import cache_of
from ablate.execute.start import start_of, starting_alike
from ablate.session.planning import plan_space

BLOCKS = """\
blocks:
  plain: [residual: [layer_norm, attention], residual: [layer_norm, mlp]]
  bounded: [residual: [layer_norm, attention: {entropy: {clamp: 1000}}], residual: [layer_norm, mlp]]
  capped: [residual: [layer_norm, attention: {entropy: {clamp: 1e-3}}], residual: [layer_norm, mlp]]
  clipped: [residual: [layer_norm, attention: {entropy: {qk_clip: 1000}}], residual: [layer_norm, mlp]]
  sparse: [residual: [layer_norm, attention], residual: [dropout: 0.1, layer_norm, mlp]]
"""
COMPARED = "design={compare: [plain, bounded, capped, clipped, sparse]}"
SAID = "plain, bounded and clipped start alike: the same parameters, logits, gradients and first update"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    path = write_world(folder, steps=4, seeds=2)
    path.write_text(path.read_text(encoding="utf-8") + BLOCKS, encoding="utf-8")
    return path


def planned(world, *settings):
    space = ablate.load_space(world, settings=[COMPARED, "judge.against=plain", *settings])
    return plan_space(space, results=world.parent / "results", forecasts="none")


def test_those_that_start_alike_are_named_and_no_others(world):
    found = planned(world)
    (line,) = starting_alike(found.plan, found.space.grammar.catalogue, cache_of(world.parent / "results"))
    assert line.startswith(SAID)


def test_treatments_of_two_recipes_are_not_asked(world, monkeypatch):
    variants = "variants={fast: {block: plain, set: {recipe.optimizer.adamw.lr: 2e-3}}}"
    found = planned(world, variants, "design={compare: [plain, fast]}")
    monkeypatch.setattr(equal_start, "numbers_of", lambda trial: pytest.fail("it was asked"))
    assert starting_alike(found.plan, found.space.grammar.catalogue, cache_of(world.parent / "results")) == ()


def test_models_that_are_too_large_are_told(world, monkeypatch):
    found = planned(world)
    monkeypatch.setattr(equal_start, "MOST_NUMBERS", 1_000)
    (line,) = starting_alike(found.plan, found.space.grammar.catalogue, cache_of(world.parent / "results"))
    assert line == "not asked whether they start alike: plain, bounded, capped, clipped and sparse (too large)"


def test_what_cannot_be_built_is_told_and_stops_nothing(world, monkeypatch):
    found = planned(world)
    build = equal_start.start_of

    def failing(trial, *others):
        if trial.variant == next(v.id for v in found.plan.variants if v.name == "bounded"):
            raise RuntimeError("expected scalar type Float\nbut found Double")
        return build(trial, *others)

    monkeypatch.setattr(equal_start, "start_of", failing)
    lines = starting_alike(found.plan, found.space.grammar.catalogue, cache_of(world.parent / "results"))
    assert lines[0].startswith("plain and clipped start alike")
    assert lines[1] == "not asked whether they start alike: bounded (expected scalar type Float)"


def test_only_sets_with_something_to_run_are_asked(world, monkeypatch):
    found = planned(world)
    monkeypatch.setattr(equal_start, "start_of", lambda *_: pytest.fail("it was built"))
    assert starting_alike(found.plan, found.space.grammar.catalogue, cache_of(world.parent / "results"), ()) == ()


def test_a_start_differs_by_any_of_its_parts(world):
    found = planned(world)
    catalogue, cache = found.space.grammar.catalogue, cache_of(world.parent / "results")
    trial = next(trial for trial in found.plan.trials)
    start = start_of(trial, catalogue, cache, {})
    assert start.like(start_of(trial, catalogue, cache, {}))
    for column in range(start.sums.shape[1]):
        moved = start.sums.clone()
        moved[-1, column] += 1e-3 * float(moved[:, column].abs().max())
        assert not start.like(equal_start.Start(start.outputs, moved))
    outputs = start.outputs.clone()
    outputs[-1, 0] += 1e-6 * float(outputs[:, 0].abs().max())
    assert not start.like(equal_start.Start(outputs, start.sums))


@pytest.mark.full
def test_a_run_says_so_and_calls_them_identical_in_the_end(world, tmp_path):
    space = ablate.load_space(world, settings=["design={compare: [plain, clipped, capped]}", "judge.against=plain"])
    screen = Console(record=True, width=200, force_terminal=False, file=StringIO())
    run = ablate.run(space, results=tmp_path / "results", executor="inline", console=screen, mirror=False)
    assert "plain and clipped start alike" in screen.export_text()
    same = {effect.change: effect.identical for effect in run.summary.effects if effect.metric == "eval_loss"}
    assert same == {"clipped": True, "capped": False}
    noted = next(effect for effect in run.summary.effects if effect.identical)
    assert "identical at every seed; more seeds change nothing" in noted.note and noted.seeds_needed is None
