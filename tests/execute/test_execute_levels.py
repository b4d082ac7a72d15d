"""Factors with several levels, trained for a few steps: from the space to verdicts and the page."""

import json

import pytest
from rich.console import Console
from tiny_spaces import write_world

import ablate
from ablate.store.query import query

QUIET = {"executor": "inline", "console": Console(quiet=True), "mirror": False}


def world(folder, design, seeds):
    path = write_world(folder, steps=4, seeds=seeds)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("design: {path: {from: pre_ln, to: op}}", f"design: {design}"), encoding="utf-8")
    return path


def test_levels_are_trained_and_judged(tmp_path):
    path = world(tmp_path, "{factorial: {from: pre_ln, vary: {model.layers: [1, 2, 3]}}}", seeds=2)
    done = ablate.run(ablate.load_space(path), results=tmp_path / "results", **QUIET)
    assert done.ended.kinds == {"finished": 6}
    changes = [effect.change for effect in done.summary.effects if effect.metric == "eval_loss"]
    assert changes == ["model.layers: trend", "model.layers: curvature"]
    assert all(effect.estimate is not None and effect.n == 2 for effect in done.summary.effects)
    assert {line.term for line in done.summary.anova} >= {"model.layers", "seed", "error"}
    (written,) = query(tmp_path / "results", "SELECT factors FROM plans WHERE factors IS NOT NULL").rows[0]
    ((_, factors),) = json.loads(written)
    assert factors["varied"] == [{"address": "model.layers", "values": [1, 2, 3], "scale": "linear"}]
    page = next((tmp_path / "results").rglob("tiny.html"), None)
    assert page is None or "model.layers" in page.read_text(encoding="utf-8")


@pytest.mark.full
def test_levels_and_edits_are_trained_and_judged(tmp_path):
    path = world(tmp_path, "{factorial: {from: pre_ln, to: op, vary: {recipe.clip: [0.5, 1]}}}", seeds=1)
    done = ablate.run(ablate.load_space(path), results=tmp_path / "results", **QUIET)
    assert done.ended.kinds == {"finished": 16}
    assert "+qk_norm × recipe.clip: trend" in {effect.change for effect in done.summary.effects}
