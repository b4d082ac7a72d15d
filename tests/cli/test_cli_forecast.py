"""`ablate forecast`: a block by layers, a space by variants; nothing is built, and nothing of torch is loaded."""

from __future__ import annotations

import json

import pytest
from test_cli_verbs import HEAVY, run
from tiny_spaces import write_world

LIGHT = HEAVY - {"scipy"}
SIZES = ("--layers", "24", "--width", "64", "--heads", "4", "--context", "16")


def test_a_block_is_shown_by_layers_with_its_dangers():
    done = run("forecast", "post_ln", *SIZES, heavy=LIGHT)
    assert done.returncode == 0, done.stderr
    assert "rank collapse: from layer" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines() if line.split()[:1] in (["embedding"], ["24"])]
    lines = [line for line in lines if len(line) == 4]
    assert [line[0] for line in lines] == ["embedding", "24"]
    assert lines[1][3] == "1"  # the gradient behind the last layer is what the others are compared with


def test_json_has_every_layer():
    done = run("forecast", "pre_ln", *SIZES, "--json", heavy=LIGHT)
    document = json.loads(done.stdout)["forecasts"]["pre_ln"]
    assert [layer["layer"] for layer in document["layers"]] == list(range(25))
    assert document["growth"] == pytest.approx(
        document["layers"][-1]["mean_square"] / document["layers"][0]["mean_square"]
    )
    assert document["dangers"] == [] and document["collapses_at"] is None


def test_a_space_is_shown_by_variants_at_the_repetition_of_its_text(tmp_path):
    space = write_world(tmp_path)
    done = run("forecast", str(space), "--json", "--results", str(tmp_path / "results"), heavy=set())
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document["forecasts"]) == ["pre_ln", "pre_ln+1", "pre_ln+2", "op"]
    (repetition,) = {each["repetition"] for each in document["forecasts"].values()}
    assert 0.02 < repetition < 0.5
    assert document["refused"] == {}


def test_what_is_not_forecast_has_its_reason(tmp_path):
    done = run("forecast", "admin", *SIZES, heavy=LIGHT)
    assert done.returncode == 2
    assert "admin does not say what it does to a token kernel" in done.stderr
    space = write_world(tmp_path)
    text = space.read_text(encoding="utf-8").replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, admin]}")
    space.write_text(text, encoding="utf-8")
    shown = run("forecast", str(space), "--results", str(tmp_path / "results"), heavy=set())
    assert shown.returncode == 0, shown.stderr
    assert "admin is not forecast: admin does not say" in " ".join(shown.stdout.split())
    assert "pre_ln" in shown.stdout


def test_a_name_that_is_nothing_is_a_mistake():
    done = run("forecast", "pre_lnn", heavy=LIGHT)
    assert done.returncode == 2
    assert "did you mean 'pre_ln'" in done.stderr


@pytest.mark.full
def test_starts_that_are_drawn_stand_beside_it(tmp_path):
    done = run("forecast", "pre_ln", *SIZES, "--drawn", "2", heavy=set())
    assert done.returncode == 0, done.stderr
    assert "n = 2 starts" in done.stdout and "±" in done.stdout
    space = write_world(tmp_path)
    options = ("--drawn", "2", "--json", "--results", str(tmp_path / "results"))
    document = json.loads(run("forecast", str(space), *options, heavy=set()).stdout)
    assert {name: len(starts) for name, starts in document["drawn"].items()} == dict.fromkeys(document["forecasts"], 2)
    for name, starts in document["drawn"].items():
        forecast = document["forecasts"][name]["layers"]
        for start in starts:
            assert start["repetition"] == pytest.approx(document["forecasts"][name]["repetition"], rel=0.3)
            assert [layer["layer"] for layer in start["layers"]] == [layer["layer"] for layer in forecast]
            assert start["layers"][0]["mean_square"] == pytest.approx(forecast[0]["mean_square"], rel=0.3)
