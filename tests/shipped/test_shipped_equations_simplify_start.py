"""SIMPLIFY (arXiv:2311.01906): what it says of its blocks at initialisation, each with what breaks it.

Sec. 4.1 and 4.3; "all-tied" and "LL-tied" of App. C.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders import CATALOGUE, architecture, node
from paper_equations import Array
from paper_fixtures import GPT2, block_at, gradients, numbers_of, sizes_of, started, with_fields
from reading import read_block, transformer
from torch import nn

from ablate.block.expression import Block
from ablate.compiler import compile_model

pytestmark = pytest.mark.fast

GRAMMAR = transformer()


def awake(name: str) -> Block:
    """The block with queries that do not start at 0: what breaks the claims below."""
    return with_fields(GRAMMAR.block(name), query=node("dense", init=node("normal", std=0.5)))


def attention_in_and_out(block: Block, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the attention of a block gets and gives, for tokens as random as they come."""
    module = block_at(block, sizes_of(6), layer, GPT2)
    seen = []
    module.get_submodule("attention").register_forward_hook(lambda _, inputs, output: seen.append((*inputs, output)))
    with torch.no_grad():
        module(torch.randn(2, 10, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    return seen[0]


@pytest.mark.parametrize("layer", [1, 2, 6])
@pytest.mark.parametrize("name", ["sas", "sas_p", "sas_p_no_norm", "sas_bert", "sas_as_released", "sas_p_as_released"])
def test_attention_starts_as_the_identity(name, layer):
    given, made = attention_in_and_out(GRAMMAR.block(name), layer)
    assert (made - given).abs().max() < 1e-10
    given, made = attention_in_and_out(awake(name), layer)
    assert (made - given).abs().max() > 1e-3


def loss(block: Block) -> float:
    """Of a model around the block at initialisation, on random tokens, without another norm."""
    model = compile_model(
        architecture(block, embedding_scale=1, sizes=sizes_of(6), init=node("normal", std=0.3)),
        CATALOGUE,
        dtype=torch.float64,
    )
    tokens = torch.randint(11, (4, 10), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return nn.functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).item()


def test_sas_and_sas_p_start_at_the_same_loss():
    """Sec. 4.3. SAS norms a second time what one norm gave already, and only epsilon tells the two apart.

    At embeddings of 0.02 the mean square of a token is about 4e-4, so epsilon 1e-8 takes about 1e-5 of its length; the
    two losses then agree to 2e-7, and at epsilon 0 to rounding.
    """
    blocks = [GRAMMAR.block(name) for name in ("sas", "sas_p")]
    left = abs(loss(blocks[0]) - loss(blocks[1]))
    without = abs(np.subtract(*(loss(with_fields(block, eps=0.0)) for block in blocks)))
    assert 1e-13 < left < 1e-6
    assert without < 1e-14
    assert abs(loss(awake("sas")) - loss(awake("sas_p"))) > 1e-4


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("name", ["sas", "sas_p", "sas_as_released"])
def test_at_first_keys_learn_nothing_and_the_gains_of_attention_and_centre_are_opposite(name, layer):
    first = gradients(GRAMMAR.block(name), layer)
    assert not any(gradient.any() for key, gradient in first.items() if key.startswith("attention.key."))
    assert first["attention.query.weight"].abs().max() > 1e-3
    beta, gamma = (first[f"attention.matrix.{gain}.factor"] for gain in ("gain", "centre"))
    assert beta.shape == (4, 1, 1) and beta.abs().min() > 1e-3
    assert (beta + gamma).abs().max() < 1e-12 * beta.abs().max()
    then = gradients(awake(name), layer)
    assert then["attention.key.weight"].abs().max() > 1e-3
    beta, gamma = (then[f"attention.matrix.{gain}.factor"] for gain in ("gain", "centre"))
    assert (beta + gamma).abs().min() > 1e-3 * beta.abs().max()


def products(name: str) -> list[Array]:
    """V P of each layer, in the order in which a token meets them."""
    layers = [numbers_of(started(name, n)) for n in range(1, 7)]
    return [p["attention.value.start"].T @ p["attention.projection.start"].T for p in layers]


def test_all_tied_is_the_identity_in_each_layer_and_last_tied_over_all():
    """App. C, "all-tied" and "LL-tied"; where nothing is tied, neither holds."""
    identity = np.eye(64)
    tied, last, free = (products(f"simplify_eq6_{name}") for name in ("tied", "tied_last", "orthogonal"))
    assert max(np.abs(product - identity).max() for product in tied) < 1e-12
    assert np.abs(np.linalg.multi_dot(last) - identity).max() < 1e-12
    assert min(np.abs(product - identity).max() for product in last) > 0.1
    assert np.abs(np.linalg.multi_dot(last[:-1]) - identity).max() > 0.1
    assert np.abs(np.linalg.multi_dot(free) - identity).max() > 0.1


@pytest.mark.parametrize(
    ("value", "of", "init", "allowed"),
    [
        ("orthogonal", "value", "orthogonal", True),
        ("eye", "value", "eye", True),
        ("normal: {std: 0.5}", "value", "normal: {std: 0.5}", True),
        ("orthogonal", "value", "eye", False),
        ("eye", "value", "orthogonal", False),
        ("none", "value", "orthogonal", False),
        ("none", "query", "orthogonal", True),
        ("zero", "value", "zero", False),
    ],
)
def test_a_projection_undoes_values_of_the_init_it_says(value, of, init, allowed):
    """What the grammar lets pass can be filled; the init of values is said twice, and must be one."""
    query = "{dense: {init: orthogonal}}"
    inverse = f"{{dense: {{init: {{inverse: {{of: {of}, init: {braced(init)}}}}}}}}}"
    text = f"[attention: {{query: {query}, value: {{dense: {{init: {braced(value)}}}}}, projection: {inverse}}}]"
    block = read_block(text)
    assert (not GRAMMAR.refusals(block)) == allowed
    if allowed:
        p = numbers_of(block_at(block, sizes_of(6), 2, GPT2))
        product = p["attention.projection.weight"] @ p[f"attention.{of}.weight"]
        assert np.abs(product - np.eye(16)).max() < 1e-10


def braced(init: str) -> str:
    return f"{{{init}}}" if ":" in init else init
