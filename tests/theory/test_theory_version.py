"""A forecast that is kept says which version of the theory made it: its numbers change only with that version.

After a change of numbers: raise `THEORY` in ablate/plan/plan.py, then `pytest -n 0 --update-goldens tests/theory`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import CATALOGUE, architecture
from reading import transformer
from test_theory_models import WIDE

from ablate.block.sizes import Sizes
from ablate.plan.plan import THEORY
from ablate.theory.models import forecast

NUMBERS = Path(__file__).parent / "numbers.json"
BLOCKS = (
    *("pre_ln", "post_ln", "sas", "sas_p", "op", "e_spa", "u_spa", "value_skipinit", "dslm_pre_ln", "dslm_post_ln"),
    *("deepnorm", "rezero", "layer_scale", "e_spa_relative", "parallel", "sandwich", "op_clamp"),
)
SIZES = Sizes(n_layers=4, d_model=128, n_heads=4, seq_len=16, vocab_size=256, repetition=0.05)
RAISED = "numbers of forecasts changed: raise THEORY in ablate/plan/plan.py, then --update-goldens tests/theory"


def numbers():
    """What is forecast of named blocks: mean square, cosine, gradient and spread at the first and last layers."""
    named = transformer().blocks
    made = {}
    for name in BLOCKS:
        model = forecast(architecture(named[name].block, sizes=SIZES, **WIDE), CATALOGUE, 0.05)
        made[name] = [
            [s.mean_square, s.correlation, s.gradient, s.spread.mean_square, s.spread.correlation, s.spread.gradient]
            for s in (model.streams[0], model.streams[2], model.streams[-1])
        ]
    return made


def same(one, other):
    return one.keys() == other.keys() and all(
        one[name][k] == pytest.approx(other[name][k], rel=1e-6, abs=1e-9) for name in one for k in range(3)
    )


def test_numbers_change_only_with_the_version(request):
    now, then = numbers(), json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {"theory": 0, "numbers": {}}
    if request.config.getoption("--update-goldens"):
        kept = {name: then["numbers"][name] for name in now if name in then["numbers"]}
        assert then["theory"] < THEORY or same({name: now[name] for name in kept}, kept), RAISED
        NUMBERS.write_text(json.dumps({"theory": THEORY, "numbers": now}, indent=1) + "\n")
        return
    assert then["theory"] == THEORY, "the version was raised: --update-goldens tests/theory"
    assert same(now, then["numbers"]), RAISED


def test_another_number_is_found():
    then = json.loads(NUMBERS.read_text())["numbers"]
    assert len(then) > 8
    moved = {**then, "pre_ln": [[1.00001 * value for value in row] for row in then["pre_ln"]]}
    assert same(then, then) and not same(moved, then)
