"""What goes wrong in a user's own component while a model is forecast: told with its file, and no traceback."""

from __future__ import annotations

import json
import re
import warnings

import pytest

import ablate
from ablate.errors import InputError
from ablate.report.screens.forecast import as_json

SIZES = ablate.Sizes(n_layers=3, d_model=16, n_heads=2, seq_len=8, vocab_size=32)
PLUGIN = """\
\"\"\"A part of one's own.\"\"\"
from dataclasses import replace

import numpy as np

from ablate.components.declare import Cost, component, implements
from ablate.signal.propagation import Signal

@component("odd", slots=("part", "norm"), source="nowhere")
class Config:
    def cost(self, sizes, width=None):
        return Cost()

    def equation(self, x):
        return f"odd({x})"

    def propagate(self, x, sizes, *more):
        return {gives}
{measure}

from torch import nn

@implements(Config)
class Odd(nn.Module): ...
"""
MEASURE = "\n    def measure_signal(self, x, sizes):\n        return {}['width']\n"


def forecast(tmp_path, gives, measure="", block="[residual: [odd, mlp]]"):
    plugin = tmp_path / "odd.py"
    plugin.write_text(PLUGIN.replace("{gives}", gives).replace("{measure}", measure))
    return ablate.forecast(block, SIZES, plugins=[plugin])


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        ("None", "TypeError: it gives None, which is not a Signal"),
        ("x.kernel", "TypeError: it gives a value of type ndarray, which is not a Signal"),
        (
            "Signal.root(np.eye(4))",
            "ValueError: it gives a Signal with a kernel [4, 4] and means [4] for one of 8 tokens",
        ),
        (
            "replace(x, mean=np.zeros((8, 8)))",
            "ValueError: it gives a Signal with a kernel [8, 8] and means [8, 8] for one of 8 tokens",
        ),
        ("x / 2", "fails in propagate: TypeError: unsupported operand"),
    ],
)
@pytest.mark.parametrize("block", ["[residual: [odd, mlp]]", "[residual: [layer_norm, mlp], odd]"])
def test_what_gives_no_signal_is_told_with_component_and_file(tmp_path, gives, said, block):
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        forecast(tmp_path, gives, block=block)
    assert f"component odd, from {tmp_path / 'odd.py'}" in str(refused.value)
    assert "\n  = fix it there; " in str(refused.value)


def test_what_fails_while_it_measures_is_told_likewise(tmp_path):
    with pytest.raises(InputError, match=r"odd\.py:\d+, fails in measure_signal: KeyError: 'width'"):
        forecast(tmp_path, "x.times(2)", MEASURE)


def test_the_twin_that_gives_a_signal_is_forecast(tmp_path):
    model = forecast(tmp_path, "x.times(2)", block="[odd]").models["block"]
    assert model.growth == pytest.approx(4**3)


def test_streams_that_are_remembered_beside_are_no_mistake(tmp_path):
    """Where later layers read streams, a layer's own signal has more tokens than its sequence; parts get its own."""
    block = "[residual: [odd, mlp], recall: layers.first.in]"
    model = forecast(tmp_path, "x.times(2)", block=block).models["block"]
    assert len(model.streams) == 4 and model.streams[-1].kernel.shape == (8, 8)


@pytest.mark.parametrize("gain", [1e100, 1e200])
def test_what_overflows_is_no_warning_of_numpy(gain):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ahead = ablate.forecast(f"[residual: {{gain: {gain}, branch: [mlp]}}]", SIZES).models["block"]
        document = json.loads(as_json({"block": ahead}, {}), parse_constant=pytest.fail)
    assert not all(stream.mean_square < float("inf") for stream in ahead.streams)
    assert document["forecasts"]["block"]["dangers"][0].startswith("numbers are no longer finite")
