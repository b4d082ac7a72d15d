"""Searches over blocks, sizes and recipe carried out: values in trials, tables and pages, and the same when resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from search_runs import carry_out, design, searched, tables_of
from tiny_spaces import ROOT, write_world

import ablate
from ablate.execute import controller, worker
from ablate.report.searched.answer import headline
from ablate.report.searched.sections import from_json
from ablate.space.space import Space

RATE = "recipe.optimizer.adamw.lr"
VARY = (
    f"vary: {{{RATE}: {{from: 1e-4, to: 1e-1, scale: log}}, model.layers: {{from: 1, to: 3, step: 1}}, "
    "recipe.batch: [4, 8], block.*_residual.gain: {from: 0.1, to: 1}}"
)
PROBED = "mean_kurtosis: min, train_loss: min"


def space_of(world: Path, more: str) -> Space:
    asked = design("tpe", trials=6, more=f", {more}").replace("eval_loss: min, peak_kurtosis: min", PROBED)
    return searched(world, asked, "measure.evaluation.every=4")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), steps=6, seeds=1)


@pytest.fixture(scope="module")
def calm(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple]:
    """A search that nobody disturbed, for a number of a probe and one of training."""
    results = tmp_path_factory.mktemp("calm")
    done = carry_out(space_of(world, f"{VARY}, confirm: {{blocks: 1, seeds: 2}}"), results)
    assert done.searched is not None and not done.searched.partial
    yield done, results


@pytest.mark.full
def test_trials_have_the_values_of_their_proposals(calm) -> None:
    done, _ = calm
    plan = done.plan
    trials = {trial.variant: trial for trial in plan.trials}
    layers, rates = set(), set()
    for variant in plan.variants:
        changes, trial = dict(variant.setting.changes), trials[variant.id]
        assert trial.work.architecture.sizes.n_layers == changes.get("model.layers", 2)
        assert trial.work.recipe.batch == changes.get("recipe.batch", 4)
        assert trial.work.recipe.optimizer.settings["lr"] == changes.get(RATE, 1e-3)
        layers.add(trial.work.architecture.sizes.n_layers)
        rates.add(trial.work.recipe.optimizer.settings["lr"])
    assert len(layers) > 1 and len(rates) == len(plan.variants)


@pytest.mark.full
def test_the_best_is_confirmed_with_its_values(calm) -> None:
    done, _ = calm
    (name,) = done.searched.chosen
    variant = next(variant for variant in done.plan.variants if variant.name == name)
    confirming = [trial for trial in done.plan.trials if trial.variant == variant.id and trial.split == "verdict"]
    assert {trial.seed for trial in confirming} == {1, 2}
    rate = dict(variant.setting.changes)[RATE]
    assert {trial.work.recipe.optimizer.settings["lr"] for trial in confirming} == {rate}


@pytest.mark.full
def test_values_are_on_the_screen_the_page_and_in_sql(calm) -> None:
    done, results = calm
    found = done.searched
    texts = done.report()
    described = found.varied
    assert described[0] == f"{RATE}: 0.0001 to 0.1, 691 numbers spaced evenly in their logarithms"
    for entry in found.trained:
        (rate,) = (edit for edit in entry.edits if edit.startswith(f"{RATE}="))
        assert dict(entry.around)[RATE] == rate.removeprefix(f"{RATE}=")
        assert rate in texts["search.md"] and rate in texts["search.html"]
    assert "and the values at 4 addresses" in headline(found)[0]
    assert from_json(texts["search.json"]) == from_json(json.dumps(json.loads(texts["search.json"])))
    assert from_json(texts["search.json"]).entries == found.entries
    statement = "SELECT p.k, v.edits FROM proposals p JOIN variants v USING (variant_id) WHERE NOT repeat ORDER BY k"
    rows = ablate.query(statement, results=results)
    assert len(rows) == 5 and all(any(RATE in edit for edit in edits) for edits in rows["edits"])


@pytest.mark.full
def test_what_the_page_suggests_is_a_path_to_the_values(calm, world: Path) -> None:
    done, _ = calm
    suggested = json.loads(done.report()["search.json"])["next"]
    lines = world.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith(("design:", "block:"))]
    copy = world.with_name("copy.yaml")
    copy.write_text("\n".join([*kept, suggested["space"]]), encoding="utf-8")
    plan = ablate.plan_space(ablate.load_space(copy), results=world.parent / "results").plan
    assert any(edit.startswith(f"{RATE}=") for variant in plan.variants for edit in variant.edits)


@pytest.mark.full
def test_a_search_that_is_stopped_again_and_again_proposes_the_same(
    calm, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, results = calm
    monkeypatch.setattr(worker, "SPEAK_EVERY", 0.0)

    def stop_soon(self: controller.Interrupt) -> bool:
        self.calls = getattr(self, "calls", 0) + 1  # type: ignore[attr-defined]
        self.requested = self.calls > 12  # type: ignore[attr-defined]
        return bool(self.requested)

    monkeypatch.setattr(controller.Interrupt, "__call__", stop_soon)
    space, stopped = space_of(world, f"{VARY}, confirm: {{blocks: 1, seeds: 2}}"), 0
    for _ in range(40):
        if not carry_out(space, tmp_path).ended.interrupted:
            break
        stopped += 1
    assert stopped >= 3
    # As text, since a number that is NaN differs from itself.
    assert repr(tables_of(tmp_path)) == repr(tables_of(results))


@pytest.mark.full
def test_a_search_of_the_recipe_alone(world: Path, tmp_path: Path) -> None:
    """A grammar that derives one block, which is the reference."""
    text = (ROOT / "tests" / "errors" / "grammars" / "small.yaml").read_text(encoding="utf-8")
    start = text.index("rules:")
    rules = "rules:\n  block:\n    - [residual: [layer_norm, attention], residual: [layer_norm, mlp]]\n"
    grammar = world.with_name("only.yaml")
    grammar.write_text(text[:start] + rules + text[text.index("start:") :], encoding="utf-8")
    lines = world.read_text(encoding="utf-8").splitlines()
    copy = world.with_name("rates.yaml")
    copy.write_text("\n".join(line for line in lines if not line.startswith("block:")), encoding="utf-8")
    more = f"vary: {{{RATE}: {{from: 1e-4, to: 1e-1, scale: log}}}}"
    asked = design("tpe", trials=6, more=f", {more}").replace(", peak_kurtosis: min", "")
    space = searched(copy, asked, "grammar=only.yaml")
    done = carry_out(space, tmp_path)
    assert done.searched.derivations == 1 and len(done.searched.entries) == 6
    assert {entry.edits[0].partition("=")[0] for entry in done.searched.trained} == {RATE}
    assert {len(entry.edits) for entry in done.searched.trained} == {1}
