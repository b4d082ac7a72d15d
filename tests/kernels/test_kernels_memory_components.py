"""What attention holds with the components that give it a matrix or a bias, as they are compiled."""

from dataclasses import replace

import pytest
import torch
from builders import CATALOGUE, SIZES, default_init, node, residual, sequence
from held import Held

from ablate.compiler import compile_block

N = 512
SQUARE = N * N * 4
"""The bytes of a [T, T] in float32."""
ATTENTIONS = 2


def compiled(n_tokens=N, **fields):
    """Two attentions in residuals, of two heads each."""
    block = sequence(*(residual(node("attention", **fields)) for _ in range(ATTENTIONS)))
    return compile_block(block, replace(SIZES, seq_len=n_tokens), CATALOGUE, init=default_init(), layer=2)


def held(model, n_tokens=N, large=SQUARE):
    """What two sequences hold; queries must have learned."""
    x = torch.randn(2, n_tokens, 16, generator=torch.Generator().manual_seed(0))
    model.zero_grad()
    with Held(large) as watch:
        model(x).square().mean().backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for n, p in model.named_parameters() if "query" in n)
    return watch


SPA = {"e_spa": node("e_spa", decay=0.2, repetition=0.05), "u_spa": node("u_spa", correlation=0.8)}
EACH_SPA = pytest.mark.parametrize("matrix", SPA.values(), ids=SPA)


@pytest.mark.fast
@EACH_SPA
def test_signal_preserving_attention_holds_one_square_for_each_attention_and_makes_none_again(matrix):
    model = compiled(matrix=matrix)
    first, then = held(model), held(model)
    assert (first.most_large, first.largest) == (ATTENTIONS, SQUARE)
    assert then.most_large == 0


@pytest.mark.fast
@EACH_SPA
def test_without_the_mask_in_its_bias_it_would_make_one_in_every_pass(matrix, monkeypatch):
    unmark(monkeypatch, compiled(matrix=matrix))
    model = compiled(matrix=matrix)
    held(model)
    assert held(model).most_large == ATTENTIONS


def unmark(monkeypatch, model):
    """Make those that mark their bias as holding the mask as they were without `with_mask`."""
    (bias,) = {type(part).bias for part in model.modules() if hasattr(getattr(type(part), "bias", None), "holds_mask")}
    monkeypatch.delattr(bias, "holds_mask")


ONES = node("shaped", skip=1, gain=1, centre=1)


def test_shaped_attention_grows_linearly():
    short, long = (held(compiled(n, matrix=ONES), n).most_bytes for n in (512, 4096))
    assert short >= 10 * 2 * 512 * 16 * 4  # it does see something: what the weights multiplied
    assert long <= 8 * 1.1 * short


@pytest.mark.fast
def test_with_a_map_that_no_fused_kernel_takes_it_grows_quadratically():
    capped = {"matrix": ONES, "entropy": ("softcap",)}
    short, long = (held(compiled(n, **capped), n).most_bytes for n in (128, 1024))
    assert long > 0.7 * 8**2 * short


@pytest.mark.fast
def test_alibi_is_one_table_for_all_attentions():
    held(compiled(256, bias="alibi"), 256)
    model = compiled(bias="alibi")
    first, then = held(model), held(model)
    assert first.most_large <= 3  # the table, and the distances that it is made of
    assert first.largest == 2 * SQUARE  # of two heads
    assert then.most_large == 0


@pytest.mark.fast
def test_shaped_attention_under_alibi_holds_its_centre_alone():
    model = compiled(bias="alibi", matrix=ONES)
    held(model)
    watch = held(model)
    assert (watch.most_large, watch.largest) == (ATTENTIONS, 2 * SQUARE)  # C of each attention, for two heads


@pytest.mark.fast
def test_without_the_mask_in_alibi_each_attention_would_hold_a_copy(monkeypatch):
    unmark(monkeypatch, compiled(bias="alibi"))
    model = compiled(bias="alibi")
    held(model)
    assert held(model).most_large == ATTENTIONS
