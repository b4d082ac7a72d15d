"""What a forecast says beside its streams: danger, attention and kurtosis, each with its definition."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from builders import architecture, node
from reading import transformer
from rich.console import Console

from ablate.api import load_block
from ablate.block.sizes import Sizes
from ablate.report.screens.forecast import as_json, block_screen, space_screen
from ablate.report.terminal_renderer import Screen
from ablate.theory.danger_score import TERMS, danger_score
from ablate.theory.initial_state import InitialModel, InitialStream
from ablate.theory.kurtosis_bound import normal_kurtosis
from ablate.theory.models import forecast

SIZES = Sizes(n_layers=5, d_model=32, n_heads=2, seq_len=8, vocab_size=64, causal=True)


def made(block, sizes=SIZES):
    around = {"embedding_std": 1.0, "embedding_scale": 1.0, "init": node("fan_in", gain="1")}
    return forecast(architecture(load_block(block), sizes=sizes, **around), transformer().catalogue, 0.1)


def shown(document):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(Screen(document))
    return " ".join(console.export_text().split())


POST, MLPS = made("post_ln"), made("[residual: [layer_norm, mlp]]")
BROKEN = InitialModel(
    (InitialStream(0, 1.0, 0.1, 0.0, 0.0, np.eye(2)), InitialStream(1, 0.0, np.nan, 0.0, np.nan, np.zeros((2, 2)))),
    np.nan,
    0.1,
    frozenset({0, 1}),
)


def test_a_block_has_a_sentence_for_each():
    text = shown(block_screen("post_ln", "alone", SIZES, POST))
    score = danger_score(POST)
    assert f"here {score.total:.3g}, most of it {score.largest}" in text
    assert "danger: -ln(1 - cosine at the end) + |ln of the gradient's ratio|" in text
    first, last = POST.attention[0], POST.attention[-1]
    assert f"an entropy of {first.entropy:.3g} nats in the first layer and {last.entropy:.3g} in the last" in text
    assert f"neurons have a kurtosis of {normal_kurtosis(POST.streams[-1].kernel):.3g} over the tokens" in text


def test_what_is_not_there_is_not_spoken_of():
    text = shown(block_screen("mlps", "alone", SIZES, MLPS))
    assert "entropy" not in text and "kurtosis" in text
    text = shown(block_screen("broken", "alone", SIZES, BROKEN))
    assert "kurtosis" not in text and "here inf, most of it collapse" in text


def test_a_space_has_a_column_and_its_definition():
    text = shown(space_screen("mine", "Which?", {"post_ln": POST, "mlps": MLPS}, {}, {"post_ln": [POST, POST]}))
    assert "it orders models, it is no probability" in text
    for each in (POST, MLPS):
        assert f" - {danger_score(each).total:.3g} " in text


def test_json_has_them_of_forecasts_and_not_of_what_is_sampled():
    document = json.loads(as_json({"post_ln": POST, "broken": BROKEN}, {}, {"post_ln": [POST]}))
    found, broken = document["forecasts"]["post_ln"], document["forecasts"]["broken"]
    score = danger_score(POST)
    assert found["danger"] == pytest.approx({"score": score.total} | {term: getattr(score, term) for term in TERMS})
    assert [each["entropy"] for each in found["attention"]] == pytest.approx([each.entropy for each in POST.attention])
    assert found["attention"][0]["score_variance"] == pytest.approx(POST.attention[0].score_variance)
    assert found["kurtosis"] == pytest.approx([normal_kurtosis(stream.kernel) for stream in POST.streams])
    assert (broken["danger"]["score"], broken["kurtosis"][1], broken["attention"]) == (None, None, [])
    assert not {"danger", "attention", "kurtosis"} & set(document["sampled"]["post_ln"][0])


@pytest.mark.parametrize("block", ["post_ln", "[residual: {branch: [mlp], gain: 0, skip: 0}]"])
def test_json_has_null_for_what_is_no_number(block):
    """One token has no cosine, nor has a stream of zeros: neither NaN nor Infinity is JSON."""
    alone = replace(SIZES, seq_len=1)
    document = json.loads(as_json({"alone": made(block, sizes=alone)}, {}), parse_constant=pytest.fail)
    last = document["forecasts"]["alone"]["layers"][-1]
    assert last["correlation"] is None and last["sd"]["correlation"] is None
    assert last["sd"]["mean_square"] is not None
