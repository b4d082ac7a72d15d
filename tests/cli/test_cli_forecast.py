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
    lines = [line for line in lines if "±" in line]
    assert [line[0] for line in lines] == ["embedding", "24"]
    assert "size² stays within a factor of 1.5, and gradient² " in " ".join(done.stdout.split())
    assert lines[1][-3:] == [
        "1.00",
        "±",
        "0%",
    ]  # the gradient behind the last layer is what the others are compared with


def test_a_block_with_cross_attention_has_both_stacks_and_says_what_it_reads():
    sizes = ("--layers", "2", *SIZES[2:])
    done = run("forecast", "dslm_pre_ln_cross", *sizes, heavy=LIGHT)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "it reads an encoder of as many layers, each the block without its cross-attention, over random" in said
    assert "S = 16 of the source" in said and said.index("Decoder") < said.index("Encoder")
    document = json.loads(run("forecast", "dslm_pre_ln_cross", *sizes, "--json", heavy=LIGHT).stdout)
    assert list(document["forecasts"]) == ["dslm_pre_ln_cross", "dslm_pre_ln_cross, encoder"]
    plain = run("forecast", "pre_ln", *sizes, heavy=LIGHT).stdout
    assert "ncoder" not in plain and "source" not in plain


def test_a_block_is_told_how_often_tokens_repeat():
    starts = []
    for repetition in ("0", "0.25"):
        done = run("forecast", "pre_ln", *SIZES, "--repetition", repetition, "--json", heavy=LIGHT)
        document = json.loads(done.stdout)["forecasts"]["pre_ln"]
        starts.append(document["layers"][0]["correlation"])
    assert starts == pytest.approx([0, 0.25], abs=0.05)


def test_json_has_every_layer():
    done = run("forecast", "pre_ln", *SIZES, "--json", heavy=LIGHT)
    document = json.loads(done.stdout)["forecasts"]["pre_ln"]
    assert [layer["layer"] for layer in document["layers"]] == list(range(25))
    assert document["growth"] == pytest.approx(
        document["layers"][-1]["mean_square"] / document["layers"][0]["mean_square"]
    )
    assert document["dangers"] == [] and document["collapses_at"] is None
    assert {name: law["kind"] for name, law in document["laws"].items()} == {
        "mean_square": "power",
        "gradient": "power",
    }


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
    space = write_world(tmp_path)
    text = space.read_text(encoding="utf-8").replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, alike]}")
    text += "blocks: {alike: [residual: [layer_norm, attention: {query: identity, key: identity}]]}\n"
    space.write_text(text, encoding="utf-8")
    shown = run("forecast", str(space), "--results", str(tmp_path / "results"), heavy=set())
    assert shown.returncode == 0, shown.stderr
    said = " ".join(shown.stdout.split())
    assert "alike is not forecast: attention whose queries and keys both start as its input is not forecast" in said
    assert "its scores are not random; give one of the two a weight" in said  # the way out
    assert "pre_ln" in shown.stdout


def test_a_block_whose_forecast_is_sampled_says_so():
    shown = run("forecast", "mixture_of_experts", "--layers", "2", *SIZES[2:], heavy=LIGHT)
    assert "what moe does is no closed form, but a mean over random numbers" in " ".join(shown.stdout.split())
    done = run("forecast", "mixture_of_experts", "--layers", "2", *SIZES[2:], "--json", heavy=LIGHT)
    assert json.loads(done.stdout)["forecasts"]["mixture_of_experts"]["sampled_components"] == ["moe"]


def test_a_name_that_is_nothing_is_a_mistake():
    done = run("forecast", "pre_lnn", heavy=LIGHT)
    assert done.returncode == 2
    assert "did you mean 'pre_ln'" in done.stderr


@pytest.mark.full
def test_sampled_initialisations_stand_beside_it(tmp_path):
    drawn = tmp_path / "drawn"
    done = run("forecast", "pre_ln", *SIZES, "--samples", "2", "--figures", str(drawn), heavy=set())
    assert done.returncode == 0, done.stderr
    assert "n = 2" in done.stdout and "±" in done.stdout
    assert "figures: 2 plots, 15 files in" in done.stdout
    assert {path.name.partition(".")[0] for path in drawn.iterdir()} == {
        "forecast",
        "forecast-kernels-pre_ln",
        "captions",
    }
    space = write_world(tmp_path)
    figures = tmp_path / "of_space"
    options = ("--samples", "2", "--json", "--results", str(tmp_path / "results"), "--figures", str(figures))
    document = json.loads(run("forecast", str(space), *options, heavy=set()).stdout)
    assert {name: len(each) for name, each in document["sampled"].items()} == dict.fromkeys(document["forecasts"], 2)
    assert sorted(document["figures"]["files"]) == sorted(path.name for path in figures.iterdir())
    for name, models in document["sampled"].items():
        forecast = document["forecasts"][name]["layers"]
        for model in models:
            assert model["repetition"] == pytest.approx(document["forecasts"][name]["repetition"], rel=0.3)
            assert [layer["layer"] for layer in model["layers"]] == [layer["layer"] for layer in forecast]
            assert model["layers"][0]["mean_square"] == pytest.approx(forecast[0]["mean_square"], rel=0.3)


def test_a_space_of_ones_own_is_meant_by_its_name_and_with_a_size_the_block_of_that_name(tmp_path):
    write_world(tmp_path, name="pre_ln.yaml")
    both = run("forecast", "pre_ln", "--json", heavy=set(), cwd=tmp_path)
    assert "pre_ln+1" in json.loads(both.stdout)["forecasts"]
    assert "for the block give a size" in both.stderr
    block = run("forecast", "pre_ln", *SIZES, "--json", heavy=LIGHT, cwd=tmp_path)
    assert list(json.loads(block.stdout)["forecasts"]) == ["pre_ln"]
    assert block.stderr == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("op_vs_preln", "--layers", "8"), "op_vs_preln is a space, with a grammar and sizes of its own"),
        (("op", "--set", "model.layers=3"), "op is a block: --profile and --set are of spaces"),
        (("op", "--profile", "smoke"), "op is a block: --profile and --set are of spaces"),
    ],
)
def test_an_option_without_an_effect_is_a_mistake(words, told):
    done = run("forecast", *words, heavy=LIGHT)
    assert done.returncode == 2
    assert told in done.stderr and "\n  = " in done.stderr
