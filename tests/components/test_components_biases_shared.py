"""What biases keep for all layers: made once, the same to the bit, never written into."""

import warnings
from dataclasses import replace

import pytest
import torch
from builders import SIZES, node
from matrix_fixtures import compiled as compiled_around

from ablate.components.biases.alibi import slopes
from ablate.components.biases.t5 import places
from ablate.kernels import attend
from ablate.kernels.bias import is_own

T, K = 12, 8
CAUSAL = pytest.mark.parametrize("causal", [True, False])


def compiled(bias, causal=True):
    return compiled_around(node("attention", bias=bias), sizes=replace(SIZES, causal=causal))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@CAUSAL
@pytest.mark.parametrize(("queries", "keys"), [(12, 12), (7, 12), (300, 300)])
def test_alibi_is_its_equation_to_the_bit_and_holds_the_mask_of_a_causal_attention(dtype, causal, queries, keys):
    model, _ = compiled("alibi", causal)
    q, k = torch.zeros(1, 2, queries, K, dtype=dtype), torch.zeros(1, 2, keys, K, dtype=dtype)
    found = model.attention.bias.bias(q, k, 1.0)
    i, j = torch.arange(queries, dtype=dtype)[:, None], torch.arange(keys, dtype=dtype)
    expected = -torch.tensor(slopes(2), dtype=dtype)[:, None, None] * (i - j).abs()[None, None]
    assert torch.equal(found, expected.masked_fill(j > i, -torch.inf) if causal else expected)
    assert model.attention.attend.holds_mask


def storages(name, lengths, causal=True):
    """Where two layers find the table that their bias reads, for sequences of these lengths."""
    layers = [compiled(name, causal)[0].attention.bias for _ in range(2)]
    found = []
    for length in lengths:
        q = torch.zeros(1, 2, length, K)
        if name == "t5":
            found += [places(layer.edges, length, length, causal, q.device).data_ptr() for layer in layers]
        else:
            found += [layer.bias(q, q, 1.0).data_ptr() for layer in layers]
    return found


@CAUSAL
@pytest.mark.parametrize("name", ["alibi", "t5"])
def test_layers_and_models_share_what_is_the_same_in_all_of_them(name, causal):
    one, two, shorter, shorter_too, one_again, _ = storages(name, (12, 9, 12), causal)
    assert one == two == one_again  # kept beside another length
    assert shorter == shorter_too != one


def test_what_layers_share_is_never_written_into():
    inside, alone = compiled("alibi")[0].attention, compiled("alibi")[0].attention
    q = torch.randn(1, 2, T, K, dtype=torch.float64)
    before = inside.bias.bias(q, q, 1.0).clone()
    assert not is_own(inside.bias.bias(q, q, 1.0))
    for mixed in (inside.attend, inside.attend.uniform):
        mixed(q, q, q)
    for kernel in ("sdpa", "eager"):
        attend(q, q, q, causal=True, scale=1.0, bias=inside.bias.bias(q, q, 1.0), kernel=kernel, overwrite_bias=True)
    assert torch.equal(alone.bias.bias(q, q, 1.0), before)
    own = before.nan_to_num(neginf=0.0)
    attend(q, q, q, causal=True, scale=1.0, bias=own, overwrite_bias=True)
    assert not own.isfinite().all()  # what is no view is written into


@pytest.mark.parametrize("name", ["alibi", "t5"])
def test_what_was_made_in_inference_mode_can_be_trained_with(name):
    model, _ = compiled(name)
    x = torch.randn(1, 11, 16, dtype=torch.float64)
    with torch.inference_mode():
        expected = model(x).clone()
    found = model(x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    found.sum().backward()


@pytest.mark.sampled(1)
@CAUSAL
@pytest.mark.parametrize("name", ["alibi", "t5"])
def test_traced_before_it_has_run_it_is_one_graph_with_the_same_result(name, causal):
    model, _ = compiled(name, causal)
    x = torch.randn(1, 10, 16, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*lru_cache.*")
        found = torch.compile(model, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(found, model(x), rtol=1e-12, atol=1e-14)
