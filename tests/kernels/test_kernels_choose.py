"""The choice of a backend, with its reason; xformers is not even looked for without a CUDA device."""

import subprocess
import sys

import pytest

from ablate.kernels import Choice, Needs, choose, xformers

pytestmark = pytest.mark.fast

PLAIN = Needs(causal=True, logit_maps=False, dtype="float32")
MAPPED = Needs(causal=True, logit_maps=True, dtype="float32")


@pytest.fixture
def found(monkeypatch):
    monkeypatch.setattr(xformers, "missing", lambda: "")


def test_on_cpu():
    assert choose(PLAIN, "cpu") == Choice("sdpa", "first choice on cpu")
    assert choose(MAPPED, "cpu") == Choice("eager", "sdpa takes no map on the logits")


def test_on_cuda_with_xformers(found):
    assert choose(PLAIN, "cuda") == Choice("xformers", "first choice on cuda")
    assert choose(Needs(causal=False, logit_maps=False, dtype="bfloat16"), "cuda").name == "xformers"
    assert choose(MAPPED, "cuda").name == "eager"
    double = choose(Needs(causal=True, logit_maps=False, dtype="float64"), "cuda")
    assert double == Choice("sdpa", "xformers does not compute in float64")


def test_on_cuda_without_xformers_says_why(monkeypatch):
    monkeypatch.setattr(xformers, "missing", lambda: "xformers cannot be imported (no such module)")
    assert choose(PLAIN, "cuda") == Choice("sdpa", "xformers cannot be imported (no such module)")


def test_an_import_that_fails_is_an_objection(monkeypatch):
    def refuse():
        raise ImportError("built for another torch")

    monkeypatch.setattr(xformers, "import_ops", refuse)
    xformers.missing.cache_clear()
    try:
        assert xformers.missing() == "xformers cannot be imported (built for another torch)"
    finally:
        xformers.missing.cache_clear()


def test_elsewhere_eager():
    assert choose(PLAIN, "meta") == Choice("eager", "the only one on meta")


def test_attention_on_cpu_imports_no_xformers():
    script = """
import sys, torch
from ablate.kernels import attend
q = torch.randn(1, 2, 3, 4)
attend(q, q, q, causal=True, scale=0.5)
print('xformers' in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
