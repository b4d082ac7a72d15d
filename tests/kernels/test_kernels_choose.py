"""The choice of a backend, with its reason; xformers is not even looked for without a CUDA device."""

import subprocess
import sys
from dataclasses import replace

import pytest

from ablate.kernels import BackendChoice, Needs, choose, flex
from ablate.kernels.choose import objection, order, reservation

PLAIN = Needs(causal=True, dtype="float32", d_head=32)
MAPPED = replace(PLAIN, logit_maps=True)
LEARNED = replace(PLAIN, bias="head", bias_gradient=True)


@pytest.fixture
def found(monkeypatch):
    monkeypatch.setattr(flex, "missing", lambda: "")


@pytest.mark.fast
def test_on_cpu():
    assert choose(PLAIN, "cpu") == BackendChoice("sdpa", "first choice on cpu")
    assert choose(replace(PLAIN, bias="shared"), "cpu") == BackendChoice("sdpa", "first choice on cpu")
    assert choose(MAPPED, "cpu") == BackendChoice("eager", "sdpa takes no map on the logits; eager holds all scores")
    assert choose(LEARNED, "cpu") == BackendChoice(
        "sdpa", "sdpa computes the gradient of a bias for every batch and head"
    )
    dropping = choose(replace(PLAIN, dropout=True), "cpu")
    assert dropping == BackendChoice("sdpa", "sdpa holds all scores for dropout on cpu")


@pytest.mark.fast
def test_on_cuda_plain_or_with_a_fixed_bias_xformers(found):
    for needs in (PLAIN, replace(PLAIN, causal=False, dtype="bfloat16"), replace(PLAIN, bias="head", dropout=True)):
        assert choose(needs, "cuda") == BackendChoice("xformers", "first choice on cuda")


@pytest.mark.fast
def test_on_cuda_flex_where_a_score_is_changed_or_a_bias_learns(found):
    why = "xformers takes no map on the logits; sdpa takes no map on the logits"
    assert choose(MAPPED, "cuda") == BackendChoice("flex", why)
    dense = "computes the gradient of a bias for every batch and head"
    assert choose(LEARNED, "cuda") == BackendChoice("flex", f"xformers {dense}; sdpa {dense}")
    # A bias of every batch and head is no smaller than its gradient.
    assert choose(replace(LEARNED, bias="batch"), "cuda").name == "xformers"


@pytest.mark.fast
def test_on_cuda_what_flex_cannot_do(found):
    assert choose(replace(MAPPED, dropout=True), "cuda").name == "eager"
    assert choose(replace(LEARNED, dropout=True), "cuda").name == "xformers"
    narrow = choose(replace(MAPPED, d_head=8), "cuda")
    assert narrow.name == "eager"
    assert "flex needs heads at least 16 wide on cuda" in narrow.reason


@pytest.mark.fast
def test_on_cuda_in_float64(found):
    double = choose(replace(PLAIN, dtype="float64"), "cuda")
    assert double == BackendChoice(
        "sdpa", "xformers does not compute in float64; sdpa holds all scores in float64 on cuda"
    )


@pytest.mark.fast
def test_a_backend_that_the_machine_refuses_is_passed_over_with_its_reason(found):
    said = {"xformers": "xformers cannot be imported (no such module)"}
    assert choose(PLAIN, "cuda", said) == BackendChoice("sdpa", "xformers cannot be imported (no such module)")
    said |= {"sdpa": "sdpa gives wrong numbers here", "flex": "flex fails here"}
    left = choose(PLAIN, "cuda", said)
    assert left.name == "eager"
    assert left.reason == "; ".join([*said.values(), "eager holds all scores"])


@pytest.mark.fast
def test_the_order_is_that_in_which_backends_are_taken_and_ends_with_eager(found):
    assert order(PLAIN, "cuda") == ("xformers", "sdpa", "flex", "eager")
    assert order(LEARNED, "cuda") == ("flex", "xformers", "sdpa", "eager")
    assert order(MAPPED, "cuda") == ("flex", "eager")
    assert order(PLAIN, "cpu") == ("sdpa", "eager")
    for needs in (PLAIN, LEARNED, MAPPED):
        refused = {}
        for name in order(needs, "cuda"):
            assert choose(needs, "cuda", refused).name == name
            refused[name] = f"{name} is not there"


@pytest.mark.fast
@pytest.mark.parametrize("device", ["cpu", "cuda", "meta"])
def test_the_choice_can_do_it_and_a_dear_one_is_the_last_resort(found, device):
    from itertools import product

    biases = [("none", False), ("shared", False), ("head", True), ("batch", True)]
    yes_no = (True, False)
    for maps, dropout, (bias, learned), dtype in product(yes_no, yes_no, biases, ("float32", "bfloat16", "float64")):
        needs = replace(MAPPED, logit_maps=maps, dropout=dropout, bias=bias, bias_gradient=learned, dtype=dtype)
        choice = choose(needs, device)
        assert not objection(choice.name, needs, device)
        assert choice.reason
        if dear := reservation(choice.name, needs, device):
            assert dear in choice.reason
            for other in ("xformers", "sdpa", "flex") if device == "cuda" else ("sdpa",) if device == "cpu" else ():
                assert objection(other, needs, device) or reservation(other, needs, device)


@pytest.mark.fast
def test_flex_has_no_backward_on_cpu():
    assert objection("flex", PLAIN, "cpu") == "flex has no backward on cpu"
    assert objection("flex", replace(PLAIN, gradient=False), "cpu") == ""


@pytest.mark.fast
def test_elsewhere_eager():
    assert choose(PLAIN, "meta") == BackendChoice("eager", "eager holds all scores")


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
