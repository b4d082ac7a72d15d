"""The chooser and xformers' real dispatcher over the pair that README names, PyTorch 2.10.0 with xformers 0.0.35.

Runs where ABLATE_CUDA_VENV names an environment that has the pair (3 GB; `pip install ".[cuda]"`), by the marker
`cuda_build`. It needs no GPU: tensors are fake, and nothing is computed.
"""

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.cuda_build

TESTS = Path(__file__).parents[1]
SCRIPT = """
import itertools, json, sys

sys.path.append(sys.argv[1])  # last: what that environment lacks, such as jaxtyping
import torch, xformers
from fake_cuda import fake_cuda, inputs
from torch._subclasses.fake_tensor import FakeTensor
from xformers.ops.fmha import cutlass

from ablate.kernels.attend import needs_of
from ablate.kernels.choose import choose
from ablate.kernels.xformers import dispatch, why_not_loaded

for operator in (cutlass.FwOp, cutlass.BwOp):  # which asks for the very class of a bias
    operator.SUPPORTED_ATTN_BIAS_TYPES = (*operator.SUPPORTED_ATTN_BIAS_TYPES, FakeTensor)
rows = []
ways = itertools.product(
    [(8, 0), (9, 0), (10, 0)], ["default", "warn"], ["float32", "bfloat16"], [20, 64], ["none", "fixed", "learned"],
    [0.0, 0.1], [True, False],
)
for capability, deterministic, dtype, d_head, bias, dropout, gradient in ways:
    torch.set_deterministic_debug_mode(deterministic)
    with fake_cuda(capability):
        from ablate.kernels import xformers as asked
        asked._asked.clear()
        q, k, v, b = inputs(getattr(torch, dtype), d_head, bias=bias, gradient=gradient)
        found = dispatch(q, k, v, causal=True, scale=0.3, bias=b, dropout=dropout)
        needs = needs_of(q, k, v, causal=True, logits=(), bias=b, dropout=dropout)
        refused = {"xformers": found.refusal} if found.refusal else {}
        chosen = choose(needs, "cuda", refused).name
    said = found.operators or found.refusal
    rows.append([".".join(map(str, capability)), deterministic, dtype, d_head, bias, dropout, gradient, chosen, said])
print(json.dumps({"torch": torch.__version__, "xformers": xformers.__version__, "why": why_not_loaded(), "rows": rows}))
"""


@pytest.fixture(scope="module")
def answered():
    environment = os.environ.get("ABLATE_CUDA_VENV")
    if not environment:
        pytest.skip("ABLATE_CUDA_VENV names no environment with PyTorch 2.10.0 and xformers 0.0.35")
    paths = [str(TESTS.parent), str(TESTS / "support")]
    done = subprocess.run(
        [Path(environment) / "bin" / "python", "-c", SCRIPT, sysconfig.get_path("purelib")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print(*(" | ".join(map(str, row)) for row in found["rows"]), sep="\n")  # `pytest -s` shows the table
    return found


def one(found, *ways):
    """Backend, and operators or reason, for capability, mode, type, width, bias, dropout and gradient."""
    (row,) = (row for row in found["rows"] if tuple(row[:7]) == ways)
    return tuple(row[7:])


def test_the_library_of_the_pair_loads(answered):
    assert answered["torch"].startswith("2.10.0")
    assert answered["xformers"] == "0.0.35"
    assert answered["why"] == ""


def test_float32_has_cutlass_with_and_without_bias_and_dropout(answered):
    for bias in ("none", "fixed"):
        for dropout in (0.0, 0.1):
            given = ("9.0", "warn", "float32", 64, bias, dropout, True)
            assert one(answered, *given) == ("xformers", "cutlassF-pt, cutlassB-pt")


def test_bfloat16_has_flash_whose_backward_is_not_deterministic(answered):
    assert one(answered, "9.0", "default", "bfloat16", 64, "none", 0.0, True)[1] == "fa2F@2.5.7-pt, fa2B@2.5.7-pt"
    assert one(answered, "9.0", "warn", "bfloat16", 64, "none", 0.0, True)[1] == "fa2F@2.5.7-pt, cutlassB-pt"
    assert one(answered, "9.0", "warn", "bfloat16", 64, "none", 0.1, True)[1] == "fa2F@2.5.7-pt, fa2B@2.5.7-pt"
    assert one(answered, "9.0", "warn", "bfloat16", 64, "fixed", 0.0, True)[1] == "cutlassF-pt, cutlassB-pt"


def test_on_a_newer_device_flash_is_left_and_cutlass_is_not(answered):
    assert one(answered, "10.0", "default", "bfloat16", 64, "none", 0.0, True)[0] == "xformers"
    backend, reason = one(answered, "10.0", "default", "float32", 64, "none", 0.0, True)
    assert backend == "sdpa"
    assert "cutlassF-pt: requires device with capability <= (9, 0)" in reason


def test_a_width_that_no_operator_takes_is_refused(answered):
    backend, reason = one(answered, "9.0", "warn", "bfloat16", 20, "none", 0.0, True)
    assert backend == "sdpa"
    assert reason == "xformers has no operator here (query.shape[-1] % 8 != 0)"


def test_a_bias_that_learns_is_left_to_flex_where_that_can(answered):
    assert one(answered, "9.0", "warn", "bfloat16", 64, "learned", 0.0, True)[0] == "flex"
    assert one(answered, "9.0", "warn", "bfloat16", 64, "learned", 0.1, True)[0] == "xformers"
