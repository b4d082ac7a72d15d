"""What a forecast says beside its streams: danger, attention and kurtosis, each with its definition."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from math import nan, sqrt

import numpy as np
import pytest
from builders import architecture, node
from reading import transformer
from rich.console import Console

from ablate.api import load_block
from ablate.block.sizes import Sizes
from ablate.report.screens.forecast import as_json, block_screen, space_screen
from ablate.report.terminal_renderer import Screen
from ablate.theory.diagnostics import LEAST_APART, SCORE_TERMS, danger_score, normal_kurtosis, stream_sensitivities
from ablate.theory.initial_state import InitialModel, InitialStream
from ablate.theory.models import forecast

SIZES = Sizes(n_layers=5, d_model=32, n_heads=2, seq_len=8, vocab_size=64, causal=True)


def made(block, sizes=SIZES):
    around = {"embedding_std": 1.0, "embedding_scale": 1.0, "init": node("fan_in", gain="1")}
    return forecast(architecture(load_block(block), sizes=sizes, **around), transformer().catalogue, 0.1)


def lines(document, width=100):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(Screen(document))
    return console.export_text().splitlines()


def shown(document, width=100):
    return " ".join(" ".join(lines(document, width)).split())


POST, MLPS = made("post_ln"), made("[residual: [layer_norm, mlp]]")
BROKEN = InitialModel(
    (InitialStream(0, 1.0, 0.1, 0.0, 0.0, np.eye(2)), InitialStream(1, 0.0, np.nan, 0.0, np.nan, np.zeros((2, 2)))),
    np.nan,
    0.1,
    frozenset({0, 1}),
    fresh=(np.nan,),
)


def test_a_danger_of_an_encoder_is_told_as_its_own():
    alike = replace(POST, streams=tuple(replace(each, correlation=0.999) for each in POST.streams))
    text = shown(block_screen("cross", "alone", SIZES, replace(POST, encoder=alike)))
    assert "! encoder: rank collapse" in text and "! rank collapse" not in text
    assert "encoder:" not in shown(block_screen("post_ln", "alone", SIZES, POST))


def test_a_block_has_a_sentence_for_each():
    text = shown(block_screen("post_ln", "alone", SIZES, POST))
    score = danger_score(POST)
    assert f"here {score.total:#.3g}, most of it {score.largest}" in text
    assert "danger score: -ln(1 - cosine at the end) + |ln of the gradient's ratio|" in text
    assert "1 - cosine counts as at least 1e-6" in text and "larger: likelier to fail" in text and LEAST_APART == 1e-6
    first, last = POST.attention[0], POST.attention[-1]
    assert f"an entropy of {first.entropy:#.3g} nats in layer 1 and {last.entropy:#.3g} in layer 5" in text
    assert f"neurons have a kurtosis of {normal_kurtosis(POST.streams[-1].kernel):#.3g} over the tokens" in text


def test_what_is_not_there_is_not_spoken_of():
    text = shown(block_screen("mlps", "alone", SIZES, MLPS))
    assert "entropy" not in text and "kurtosis" in text
    text = shown(block_screen("broken", "alone", SIZES, BROKEN))
    assert "kurtosis" not in text and "here inf, most of it collapse" in text


def test_a_space_has_a_column_and_its_definition():
    text = shown(space_screen("mine", "Which?", {"post_ln": POST, "mlps": MLPS}, {}, {"post_ln": [POST, POST]}))
    assert "it orders models, and is no probability" in text and "at layer score" in text
    for each in (POST, MLPS):
        assert f" - {danger_score(each).total:#.3g} " in text


WITHIN, DEVIATION = "or the two ends of a cosine's: 95 % of networks", "± after a sample: one standard"


@pytest.mark.parametrize(
    ("samples", "deviation", "advised"), [((), False, True), ((POST,), False, False), ((POST, MLPS), True, False)]
)
def test_what_is_behind_a_number_is_said_for_what_is_shown(samples, deviation, advised):
    """The interval of a forecast, the standard deviation of samples; samples are advised where there are none."""
    for document in (
        block_screen("post_ln", "alone", SIZES, POST, samples),
        space_screen("mine", "Which?", {"post_ln": POST}, {}, {"post_ln": samples}),
    ):
        text = shown(document)
        assert WITHIN in text and "logits and the danger score have no interval" in text
        assert (DEVIATION in text) is deviation and ("--samples 5" in text) is advised


def test_numbers_have_three_digits_and_names_are_whole_at_eighty_columns():
    name = "simplify_v_skipinit_twice"
    text = lines(space_screen("mine", "Which?", {name: POST}, {}, {name: [POST, MLPS]}), width=80)
    (row,) = [line.split() for line in text if line.startswith(f"{name} ")]
    assert row == [
        name,
        f"{sqrt(POST.growth):.2f}",
        f"{POST.streams[-1].correlation:.3f}",
        f"{sqrt(POST.gradient_ratio):#.3g}",
        f"{sqrt(POST.logits):#.3g}",
        "-",
        f"{danger_score(POST).total:#.3g}",
    ]
    below = text[[line.startswith(f"{name} ") for line in text].index(True) + 1]
    assert below.startswith(" ") and below.count("±") + below.count("×÷") == 2 and below.count("–") == 1
    table = lines(block_screen("post_ln", "alone", SIZES, POST), width=80)
    assert next(line for line in table if line.startswith("5 ")).split()[1] == "1.00"


def test_equal_reasons_are_said_once_and_columns_that_are_not_there_not_at_all():
    reason = "a model of kind vit is not forecast; choose one of kind decoder"
    text = shown(space_screen("mine", "Which?", {}, {"a": reason, "b": reason}))
    assert text == f"Which? mine: its models before a single step ! no variant is forecast: {reason}"
    text = shown(space_screen("mine", "Which?", {"c": POST}, {"a": reason, "b": reason, "d": "it is odd"}))
    assert f"a and b are not forecast: {reason} ! d is not forecast: it is odd" in text and "growth: root" in text


def test_attention_is_told_apart_by_its_layer():
    """A deep model computes some of its layers, and a layer may hold two attentions, or none."""
    one = "residual: [layer_norm, attention]"
    two = json.loads(as_json({"two": made(f"[{one}, {one}]", sizes=replace(SIZES, n_layers=2))}, {}))["forecasts"][
        "two"
    ]
    assert [each["layer"] for each in two["attention_entropy"]] == [1, 1, 2, 2]
    deep = made("pre_ln", sizes=replace(SIZES, n_layers=140))
    document = json.loads(as_json({"deep": deep}, {}))["forecasts"]["deep"]
    computed = [layer["layer"] for layer in document["layers"] if layer["computed"]]
    assert [each["layer"] for each in document["attention_entropy"]] == computed[1:] and len(computed) < 100


def test_a_space_says_what_it_is_over():
    images = replace(POST, repetition=nan)
    of_text, of_both = (
        shown(space_screen("mine", "Which?", models, {})) for models in ({"a": POST}, {"a": POST, "b": images})
    )
    assert f"two tokens of a sequence are the same with chance {POST.repetition:.3g}" in of_text
    assert "what is no text" in of_both and "what is no text" not in of_text and "nan" not in of_both


def test_json_has_them_of_forecasts_and_not_of_what_is_sampled():
    document = json.loads(as_json({"post_ln": POST, "broken": BROKEN}, {}, {"post_ln": [POST]}))
    found, broken = document["forecasts"]["post_ln"], document["forecasts"]["broken"]
    score = danger_score(POST)
    assert found["danger"] == pytest.approx(
        {"score": score.total} | {term: getattr(score, term) for term in SCORE_TERMS}
    )
    assert [each["entropy"] for each in found["attention_entropy"]] == pytest.approx(
        [each.entropy for each in POST.attention]
    )
    assert found["attention_entropy"][0]["score_variance"] == pytest.approx(POST.attention[0].score_variance)
    kurtosis = [layer["kurtosis"] for layer in found["layers"]]
    assert kurtosis == pytest.approx([normal_kurtosis(stream.kernel) for stream in POST.streams])
    assert (broken["danger"]["score"], broken["layers"][1]["kurtosis"], broken["attention_entropy"]) == (None, None, [])
    assert [layer["weight_sensitivity"] for layer in found["layers"][1:]] == pytest.approx(list(POST.fresh))
    assert [layer["stream_sensitivity"] for layer in found["layers"]] == pytest.approx(stream_sensitivities(POST))
    assert found["weight_sensitivity"]["by_mean"] == pytest.approx(sum(POST.fresh))
    (sampled,) = document["sampled"]["post_ln"]
    assert (
        not {"danger", "attention_entropy", "weight_sensitivity"} & set(sampled)
        and "kurtosis" not in sampled["layers"][0]
    )


@pytest.mark.parametrize("block", ["post_ln", "[residual: {branch: [mlp], gain: 0, skip: 0}]"])
def test_json_has_null_for_what_is_no_number(block):
    """One token has no cosine, nor has a stream of zeros: neither NaN nor Infinity is JSON."""
    alone = replace(SIZES, seq_len=1)
    document = json.loads(as_json({"alone": made(block, sizes=alone)}, {}), parse_constant=pytest.fail)
    last = document["forecasts"]["alone"]["layers"][-1]
    assert last["correlation"] is None and last["sd"]["correlation"] is None
    assert last["sd"]["mean_square"] is not None
