"""The danger score: its equation, each of its terms by itself, and which blocks of the papers it puts first."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import architecture, node
from reading import transformer

from ablate.block.sizes import Sizes
from ablate.signal.attention_kernel import RandomAttention
from ablate.signal.sampled_attention import AttentionStart
from ablate.theory.diagnostics import SCORE_TERMS, danger_score
from ablate.theory.initial_state import InitialModel, InitialStream
from ablate.theory.models import forecast

EVEN = np.tri(3) / np.arange(1, 4)[:, None]


def made(*, cosine=0.0, gradient=1.0, growth=1.0, logits=0.0, scores=0.0, tokens=3):
    streams = (
        InitialStream(0, 2.0, 0.0, gradient, 0.0, np.eye(tokens)),
        InitialStream(1, 2.0 * growth, cosine, 1.0, 0.0, np.eye(tokens)),
    )
    attention = [
        AttentionStart((RandomAttention(EVEN, s * np.eye(3), np.eye(3), np.eye(3)),)) for s in (scores / 2, scores)
    ]
    return InitialModel(streams, logits, 0.0, frozenset({0, 1}), tuple(attention))


def test_nothing_is_no_danger_and_the_terms_are_those_of_the_equation():
    assert danger_score(made()).total == 0
    found = danger_score(made(cosine=0.9, gradient=100.0, growth=0.25, logits=3.0, scores=8.0))
    expected = (math.log(10), math.log(10), math.log(2), math.log(2), math.log(3))
    assert [getattr(found, term) for term in SCORE_TERMS] == pytest.approx(expected)
    assert found.total == pytest.approx(sum(expected))
    assert danger_score(made(cosine=0.9, growth=0.25)).largest == "collapse"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cosine", (0.0, 0.2, 0.9, 0.999)),
        ("gradient", (1.0, 2.0, 1e4)),
        ("gradient", (1.0, 0.5, 1e-4)),
        ("growth", (1.0, 3.0, 1e6)),
        ("growth", (1.0, 0.3, 1e-6)),
        ("logits", (0.0, 1.0, 1e3)),
        ("scores", (0.0, 1.0, 15.0)),
    ],
)
def test_each_number_that_goes_wrong_is_more_danger(name, values):
    totals = [danger_score(made(**{name: value})).total for value in values]
    assert totals == sorted(totals)
    assert len(set(totals)) == len(totals)


@pytest.mark.parametrize("broken", [{"gradient": 0.0}, {"growth": 0.0}, {"growth": math.inf}, {"cosine": math.nan}])
def test_what_overflows_or_vanishes_is_infinitely_dangerous(broken):
    assert danger_score(made(**broken)).total == math.inf


def test_what_is_not_there_adds_nothing():
    assert danger_score(made(cosine=math.nan, tokens=1)).total == 0
    assert danger_score(made(logits=math.nan)).total == 0
    assert danger_score(made(cosine=-0.2)).total == 0


def test_blocks_that_do_not_train_deep_are_before_those_that_do():
    """He et al. 2023, arXiv:2302.10322, Fig. 2: skipless against E-SPA."""
    around = {"embedding_std": 1.0, "embedding_scale": 1.0, "init": node("fan_in", gain="1")}
    sizes = Sizes(n_layers=24, d_model=64, n_heads=4, seq_len=24, vocab_size=256, causal=True)

    def score(name):
        whole = architecture(transformer().block(name), sizes=sizes, **around)
        return danger_score(forecast(whole, transformer().catalogue, 0.05)).total

    bad, good = (
        [score(name) for name in ("skipless", "skipless_norm")],
        [score(name) for name in ("e_spa", "sas", "dslm_pre_ln")],
    )
    assert min(bad) > 2 * max(good)
