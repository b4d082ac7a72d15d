"""Treatments around the block, trained for a few steps: a seed's numbers follow from what is set, and nothing else."""

import pytest
from rich.console import Console
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate.cli.app import app
from ablate.session.planning import plan_space
from ablate.space.data import Bpe
from ablate.store.query import query

ADDRESSES = {
    "block": "block.attention.scale: 1/width",
    "model": "model.layers: 3",
    "recipe": "recipe.batch: 6",
    "data": "data.tokenizer: {bpe: 300}",
}
ENDS = "{from: pre_ln, to: changed"
DESIGNS = {
    "compare": "{compare: [pre_ln, changed]}",
    "leave_one_out": f"{{leave_one_out: {ENDS}}}}}",
    "factorial": f"{{factorial: {ENDS}}}}}",
    "plackett_burman": f"{{plackett_burman: {ENDS}}}}}",
    "search": "{search: {from: changed, objective: {eval_bits_per_byte: min}, budget: {trials: 3}}}",
}
QUIET = {"executor": "inline", "console": Console(quiet=True), "mirror": False}


def world(folder, change, design, *, against="pre_ln", seeds=1):
    path = write_world(folder, steps=4, seeds=seeds)
    text = path.read_text(encoding="utf-8")
    text = text.replace("design: {path: {from: pre_ln, to: op}}", f"design: {design}")
    text = text.replace("{eval_loss: {margin: 1%}", "{eval_bits_per_byte: {margin: 1%}")
    text = text.replace("against: pre_ln", f"against: {against}")
    path.write_text(f"{text}variants: {{changed: {{block: op, set: {{{change}}}}}}}\n", encoding="utf-8")
    return path


@pytest.mark.sampled(2, gate=8)
@pytest.mark.parametrize("section", ADDRESSES)
@pytest.mark.parametrize("design", DESIGNS)
def test_a_treatment_is_trained_and_judged(tmp_path, design, section):
    against = "changed" if design == "search" else "pre_ln"
    path = world(tmp_path, ADDRESSES[section], DESIGNS[design], against=against)
    done = ablate.run(ablate.load_space(path), results=tmp_path / "results", **QUIET)
    assert set(done.ended.kinds) == {"finished"}
    edits = query(tmp_path / "results", "SELECT DISTINCT unnest(edits) FROM variants").rows
    named = ADDRESSES[section].split(":")[0].removeprefix("block.")
    assert design in ("compare", "search") or any(named in edit for (edit,) in edits)


@pytest.mark.full
def test_it_is_the_trial_that_a_space_with_its_values_would_train(tmp_path):
    """So that results are shared, and the batches of a seed are those that they ever were."""
    path = world(tmp_path, ADDRESSES["recipe"], DESIGNS["compare"], seeds=2)
    ablate.run(ablate.load_space(path), results=tmp_path / "results", **QUIET)
    text = path.read_text(encoding="utf-8").replace("batch: 4", "batch: 6").partition("variants:")[0]
    path.write_text(text.replace("changed", "op"), encoding="utf-8")
    apart = ablate.run(ablate.load_space(path), results=tmp_path / "results", **QUIET)
    assert apart.ended.kinds == {"finished": 2}, "those of pre_ln; those of op were known"


@pytest.mark.full
def test_another_batch_is_judged_as_two_samples(tmp_path):
    path = world(tmp_path, ADDRESSES["recipe"], "{compare: [pre_ln, op, changed]}", seeds=3)
    done = ablate.run(ablate.load_space(path), results=tmp_path / "results", **QUIET)
    methods = {effect.after: effect.method for effect in done.summary.effects if effect.metric == "eval_bits_per_byte"}
    names = {variant.id: variant.name for variant in done.plan.variants}
    assert {names[after]: method for after, method in methods.items()} == {"op": "student", "changed": "welch"}
    (told,) = (effect.note for effect in done.summary.effects if effect.method == "welch" and "bits" in effect.metric)
    assert told == "not paired by seed: Welch's t over 3 and 3 runs"
    assert "`recipe.batch=6` 4 → 6 at recipe.batch" in done.report()["page.md"]


def test_every_text_is_made_ready_before_trials_begin(tmp_path):
    """Once by the run, not at the same time by all its workers."""
    path = world(tmp_path, ADDRESSES["data"], "{compare: [pre_ln, changed]}")
    planned = plan_space(ablate.load_space(path), results=tmp_path / "results")
    assert [data.tokenizer for data in planned.texts] == ["bytes", Bpe(bpe=300)]
    assert {trial.work.data for trial in planned.plan.trials} == set(planned.texts)


@pytest.mark.parametrize("verb", ["plan", "report", "verify"])
def test_a_space_of_several_texts_is_asked_again_by_its_name(ran_on_two_texts, verb):
    asked = [str(ran_on_two_texts)] if verb == "verify" else ["tiny", "--results", str(ran_on_two_texts)]
    done = CliRunner().invoke(app, [verb, *asked])
    assert (done.exit_code, done.exception) == (0, None), done.output


@pytest.fixture(scope="module")
def ran_on_two_texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    path = world(folder, ADDRESSES["data"], "{compare: [pre_ln, changed]}")
    ablate.run(ablate.load_space(path), results=folder / "results", **QUIET)
    return folder / "results"
