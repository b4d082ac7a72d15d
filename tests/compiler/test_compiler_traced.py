"""Blocks trace into one graph without breaks: parts held by a chain are found by `torch.compile` as well."""

import pytest
import torch
from builders import CATALOGUE, SIZES, default_init, many_blocks

from ablate.compiler import compile_block


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["regulated", "parallel"])
def test_one_graph_with_the_same_outputs_and_gradients(name):
    block = many_blocks()[name]
    model = compile_block(block, SIZES, CATALOGUE, init=default_init(), dtype=torch.float64)
    x = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = model(x)
    gradients = torch.autograd.grad(expected.square().sum(), list(model.parameters()))
    traced = torch.compile(model, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(traced, expected, rtol=1e-10, atol=1e-12)
    found = torch.autograd.grad(traced.square().sum(), list(model.parameters()))
    torch.testing.assert_close(found, gradients, rtol=1e-8, atol=1e-10)
