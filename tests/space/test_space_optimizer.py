"""A space names one optimiser: it gets that one's settings from its grammar, and the others' go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from builders import CATALOGUE
from reading import ROOT
from space_fixtures import space

from ablate.api import load_grammar
from ablate.errors import InputError
from ablate.space.documents import Choice
from ablate.space.load import load_space
from ablate.space.recipe import OptimizerSpec

ADAMW = "recipe={steps: 20, batch: 4, optimizer: {adamw: {lr: 1e-2, eps: 1e-5}}}"


def chosen(folder: Path, *settings: str) -> Choice:
    return space(folder, ADAMW, *settings).recipe.optimizer


def refused(folder: Path, *settings: str, **sections: str) -> str:
    with pytest.raises(InputError) as error:
        space(folder, *settings, **sections)
    return str(error.value)


@pytest.mark.parametrize("name", ["adam", "adamw", "lion", "muon", "sgd", "soap"])
def test_the_grammar_shows_every_default_but_the_rate(tmp_path, name):
    found = chosen(tmp_path, f"recipe.optimizer.{name}.lr=0.1")
    assert (found.name, found.settings["lr"]) == (name, 0.1)
    fields = set(CATALOGUE.of_kind(OptimizerSpec)[name].settings.model_fields)
    assert set(found.settings) == fields - {"head_lr", "norm_lr"}, "what came later is left out where it says nothing"
    shown = load_grammar("transformer").space["recipe"]["optimizer"][name]
    assert {key.text for key, _ in shown.entries} == fields - {"lr"}
    assert ("eps", 1e-5) in found.settings.items() if name == "adamw" else found.settings.get("eps") != 1e-5
    text = refused(tmp_path, recipe=f"{{steps: 2, batch: 4, optimizer: {name}}}")
    assert f"missing key 'lr' in recipe.optimizer.{name}" in text and text.count("error") == 1


@pytest.mark.fast
def test_a_word_alone_keeps_what_is_said_of_it(tmp_path):
    assert chosen(tmp_path, "recipe.optimizer=adamw").settings["eps"] == 1e-5


@pytest.mark.fast
def test_the_document_is_as_it_was_written(tmp_path):
    dumped = space(tmp_path, ADAMW).recipe.model_dump(mode="json")["optimizer"]
    assert dumped["adamw"] == {
        "lr": 0.01, "embedding_lr": None, "weight_decay": 0.1, "decays": ["weights", "embedding", "head"],
        "betas": [0.9, 0.999], "eps": 1e-5, "eps_when": "after_correction", "decay_when": "before_update",
    }  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("{steps: 2, batch: 4}", "missing key 'optimizer' in recipe"),
        ("{steps: 2, batch: 4, optimizer: {sdg: {lr: 1}}}", "unknown optimiser 'sdg'"),
        ("{steps: 2, batch: 4, optimizer: {sgd: {lr: 1}, lion: {lr: 1}}}", "must name one optimiser, not sgd, lion"),
        ("{steps: 2, batch: 4, optimizer: 3}", "recipe.optimizer must name one optimiser"),
        ("{steps: 2, batch: 4, optimizer: {sgd: 3}}", "recipe.optimizer.sgd must be a mapping of its settings"),
        ("{steps: 2, batch: 4, optimizer: {lion: {lr: -1}}}", "recipe.optimizer.lion.lr must be greater than 0"),
        ("{steps: 2, batch: 4, optimizer: {sgd: {lr: 1, nesterov: true, momentum: 0}}}", "nesterov needs a momentum"),
    ],
)
def test_what_is_wrong_is_told_once(tmp_path, recipe, message):
    text = refused(tmp_path, recipe=recipe)
    assert message in text and text.count("error:") == 1


@pytest.mark.fast
def test_the_rate_of_all_but_matrices_is_not_coupled_to_muons_in_silence(tmp_path):
    for lr in ("1e-3", "3e-2"):
        assert chosen(tmp_path, f"recipe.optimizer.muon.lr={lr}").settings["adamw_lr"] == 3e-3
    assert chosen(tmp_path, "recipe.optimizer.muon={lr: 0.1, adamw_lr: lr}").settings["adamw_lr"] == "lr"
    assert chosen(tmp_path, "recipe.optimizer.muon={lr: 0.1, adamw_lr: null}").settings["adamw_lr"] is None  # of before


@pytest.mark.fast
def test_a_preset_chooses_for_spaces_that_choose_nothing(tmp_path):
    shutil.copytree(ROOT / "grammars", tmp_path / "grammars")
    with (tmp_path / "grammars" / "transformer.yaml").open("a", encoding="utf-8") as grammar:
        grammar.write("presets:\n  signs: {recipe: {batch: 4, optimizer: {lion: {lr: 1e-3}}}}\n")
    own = {"grammar": "grammars/transformer.yaml", "preset": "signs"}
    path = space(tmp_path).path
    text = path.read_text(encoding="utf-8")

    def read(recipe):
        lines = [line for line in text.splitlines() if line.split(":")[0] not in ("grammar", "recipe")]
        said = {**own, "recipe": recipe}
        path.write_text("\n".join([*lines, *(f"{key}: {value}" for key, value in said.items())]) + "\n")
        return load_space(path, CATALOGUE).recipe.optimizer

    assert read("{steps: 20}").name == "lion" and read("{steps: 20}").settings["betas"] == [0.9, 0.99]
    assert read("{steps: 20, optimizer: {lion: {lr: 1e-4}}}").settings["lr"] == 1e-4
    other = read("{steps: 20, optimizer: {sgd: {lr: 1e-1}}}")
    assert other.name == "sgd" and other.settings["momentum"] == 0.9
