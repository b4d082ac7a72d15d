"""`ablate machine`: what there is, what each kind of attention uses, and why others do not work."""

import json
from importlib.metadata import version

import pytest
import torch
from typer.testing import CliRunner

from ablate.cli import app
from ablate.kernels.attend import BACKENDS

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def left_as_it_was():
    threads, deterministic = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    yield
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode(deterministic)


def printed(*words):
    done = CliRunner().invoke(app, ["machine", *words], env={"COLUMNS": "160"}, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what a CPU does")
def test_what_a_cpu_does_with_each_kind_of_attention_in_each_type():
    found = json.loads(printed("--json"))
    assert found["gpus"] == [] and found["cores"] >= 1
    assert found["versions"]["torch"] == version("torch")
    works = {(one["dtype"], one["attention"], one["kernel"]): one["works"] for one in found["tried"]}
    kinds = ("plain", "fixed bias", "learned bias", "map on the scores", "dropout")
    expected = {
        (dtype, kind, kernel): (kernel, kind) != ("sdpa", "map on the scores")
        for dtype in ("float32", "bfloat16", "float16", "float64")
        for kind in kinds
        for kernel in ("sdpa", "eager")
    }
    assert works == expected
    assert {one["why"] for one in found["tried"] if not one["works"]} == {"sdpa takes no map on the logits"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what a CPU does")
def test_a_backend_that_is_broken_here_is_not_what_is_used(monkeypatch):
    sdpa = BACKENDS["sdpa"]
    monkeypatch.setitem(BACKENDS, "sdpa", lambda *args, **asked: sdpa(*args, **asked) + 1e-2)
    line = next(line for line in printed().splitlines() if line.startswith("float32") and "plain" in line)
    assert line.split()[:3] == ["float32", "plain", "eager"]
    assert "sdpa gives wrong numbers here (its output is off by" in " ".join(line.split())
