"""What a plan says of the text: how many epochs training makes of it, and how much of a hub data set is read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from data_library import prose, settle
from objective_worlds import OBJECTIVES, PLUGINS
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate.cli import app
from ablate.data.batch import first
from ablate.data.streams import prepare
from ablate.execute.executor import cache_of
from ablate.execute.work import drawing_of
from ablate.train.objective import chosen_objective


@pytest.fixture
def hub(tmp_path):
    """300 documents of 4,000 bytes that `datasets` streams from a folder, as it does from the hub."""
    folder = tmp_path / "someone" / "prose"
    folder.mkdir(parents=True)
    rows = [json.dumps({"text": prose(number, 4000)}) for number in range(300)]
    (folder / "train.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return folder


def planned(path, tmp_path, *settings):
    asked = [word for setting in settings for word in ("--set", setting)]
    done = CliRunner().invoke(
        app, ["plan", str(path), "--results", str(tmp_path / "r"), *asked], env={"COLUMNS": "1000"}
    )
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_the_plan_says_how_many_epochs_training_makes_of_local_files_and_that_they_repeat(tmp_path):
    for number in range(20):
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / f"{number}.txt").write_text(prose(number, 2000), encoding="utf-8")
    settle(tmp_path / "texts")
    path = write_world(tmp_path)
    files = "data.corpus={files: ['texts/*.txt']}"
    space = ablate.load_space(path, settings=[files, "recipe.steps=500"])
    plan = ablate.plan_space(space, results=tmp_path / "r")
    read, held = 500 * space.recipe.batch * space.model.context, plan.corpus.train.tokens
    assert read > held
    text = planned(path, tmp_path, files, "recipe.steps=500")
    assert f"training reads {read:,} tokens per trial, {read / held:.3g} epochs of the train split" in text
    repeated = 100 * (1 - (1 - np.exp(-read / held)) * held / read)
    assert f"{repeated:.2g} % of the tokens read are repeats" in text
    assert "the text repeats: add more of it, or train on fewer tokens" in text
    few = planned(path, tmp_path, files, "recipe.steps=1")
    assert "epochs of the train split" in few and "the text repeats" not in few


def test_of_a_hub_data_set_no_more_is_read_than_the_cap_which_is_a_key_and_is_said(tmp_path, hub):
    path = write_world(tmp_path)
    corpus = f"data.corpus={{hub: {hub}, split: train, field: text, at_most: %s}}"
    text = planned(path, tmp_path, corpus % "100 KiB", "recipe.steps=5000")
    assert f"hub {hub}, split train, field text, the first 102,400 bytes" in text
    assert "the steps need 67,108,864 bytes of text, but data.corpus.at_most allows only 102,400" in text
    assert "the text repeats: raise data.corpus.at_most, or train on fewer tokens" in text
    plan = ablate.plan_space(ablate.load_space(path, settings=[corpus % "100 KiB"]), results=tmp_path / "r")
    read = [plan.corpus.split(name).bytes for name in ("train", "tuning", "verdict")]
    assert 102_400 <= sum(read) < 102_400 + 4000  # up to the document that reaches it


def test_of_a_hub_data_set_what_the_steps_ask_for_is_read(tmp_path, hub):
    """The whole of this one, which holds less; nothing is capped, and nothing is said to be."""
    path = write_world(tmp_path)
    said = planned(path, tmp_path, f"data.corpus={{hub: {hub}, split: train, field: text}}")
    assert "the first 67,108,864 bytes" in said and "at_most" not in said
    corpus = f"data.corpus={{hub: {hub}, split: train, field: text}}"
    plan = ablate.plan_space(ablate.load_space(path, settings=[corpus]), results=tmp_path / "r")
    assert sum(plan.corpus.split(name).bytes for name in ("train", "tuning", "verdict")) == 300 * 4000


def test_a_plan_as_json_has_the_epochs_too(tmp_path):
    path = write_world(tmp_path)
    asked = ["plan", str(path), "--results", str(tmp_path / "r"), "--json"]
    (found,) = json.loads(CliRunner().invoke(app, asked).output)["epochs"]
    assert found.keys() == {"tokens", "epochs", "repeated"} and 0 < found["epochs"] < 1


@pytest.mark.parametrize(("objective", "noun"), [("sequence_to_sequence", "pairs"), ("span_filling", "tokens")])
def test_what_a_plan_says_is_read_is_what_is_drawn(tmp_path, objective, noun):
    """Of pairs, 160 of those there are; of spans, windows longer than the targets that they give."""
    settings = (*OBJECTIVES[objective], "recipe.steps=20", "recipe.batch=8")
    space = ablate.load_space(write_world(tmp_path), settings=settings, plugins=PLUGINS)
    plan, catalogue = ablate.plan_space(space, results=tmp_path / "r"), space.grammar.catalogue
    streams, recipe = prepare(space.data, space.folder, cache_of(tmp_path / "r"), catalogue), space.recipe
    sizes = plan.plan.trials[0].work.architecture.sizes
    drawing = drawing_of(streams, *chosen_objective(recipe, catalogue), sizes, recipe, seed=0)
    batches = [first(drawing.at(step).inputs) for step in range(20)]
    ends = np.count_nonzero(streams.train == sizes.separator)
    drawn, held = {
        "pairs": (sum(len(batch) for batch in batches), ends // 2),
        "tokens": (sum(batch.numel() for batch in batches), len(streams.train)),
    }[noun]
    (said, *_) = plan.read
    assert said.startswith(f"training reads {drawn:,} {noun} per trial, {drawn / held:.3g} epochs of the train split")
    assert ("windows start anywhere" in said) == (noun == "tokens") and f"% of the {noun} read are repeats" in said
    (epochs,) = plan.epochs
    assert (epochs.tokens, epochs.epochs, epochs.noun) == (drawn, drawn / held, noun)
