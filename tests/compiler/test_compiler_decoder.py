"""What stands around the blocks: embedding, positions, norms, head."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, node, pre_ln, residual, sequence

from ablate.compiler import compile_model
from ablate.errors import InputError

pytestmark = pytest.mark.fast

IDENTITY = sequence()


def decoder(block=IDENTITY, **around):
    return compile_model(architecture(block, init=default_init(), **around), CATALOGUE, dtype=torch.float64)


def tokens(n_times=SIZES.seq_len):
    return torch.randint(SIZES.vocab_size, (2, n_times), generator=torch.Generator().manual_seed(0))


def arrays(model):
    return {name: value.numpy() for name, value in model.state_dict().items()}


def close(actual, expected):
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-11, atol=1e-13)


def test_embedding_scale_and_untied_head():
    model = decoder(embedding_scale=50.0)
    w = arrays(model)
    close(model(tokens()), 50 * w["embedding.weight"][tokens()] @ w["head.weight"].T)


def test_a_tied_head_uses_the_embedding_unscaled():
    model = decoder(embedding_scale=50.0, tied=True)
    w = arrays(model)
    assert set(w) == {"embedding.weight"}
    close(model(tokens()), 50 * w["embedding.weight"][tokens()] @ w["embedding.weight"].T)


def test_learned_positions_are_added_after_the_scale():
    model = decoder(embedding_scale=3.0, positions="learned")
    w = arrays(model)
    assert w["positions.weight"].shape == (SIZES.seq_len, SIZES.d_model)
    x = 3 * w["embedding.weight"][tokens(5)] + w["positions.weight"][:5]
    close(model(tokens(5)), x @ w["head.weight"].T)
    with pytest.raises(ValueError, match="13 tokens, but positions were learned for 12"):
        model(tokens(13))


@pytest.mark.parametrize("width", [16, 7])
def test_sinusoidal_positions(width):
    model = decoder(positions="sinusoidal", sizes=replace(SIZES, d_model=width, n_heads=1), position_std=None)
    w = arrays(model)
    table = np.zeros((12, width))
    for t in range(12):
        for channel in range(width):
            angle = t / 10000 ** ((channel - channel % 2) / width)
            table[t, channel] = np.cos(angle) if channel % 2 else np.sin(angle)
    close(model(tokens()), (50 * w["embedding.weight"][tokens()] + table) @ w["head.weight"].T)


def test_entry_and_final_norm_stand_around_the_blocks():
    rms = node("rms_norm", eps=0.5)
    block = sequence(residual(skip=2, gain=1))
    model = decoder(block, entry_norm=rms, final_norm=rms, positions="learned")
    w = arrays(model)

    def norm(x):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.5)

    x = norm(50 * w["embedding.weight"][tokens()] + w["positions.weight"])
    close(model(tokens()), norm(9 * x) @ w["head.weight"].T)
    assert decoder().entry_norm is None
    assert decoder().final_norm is None


@pytest.mark.parametrize("causal", [True, False])
def test_it_sees_the_past_alone_where_causal(causal):
    model = decoder(pre_ln(), sizes=replace(SIZES, causal=causal), positions="learned")
    changed = tokens().clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % SIZES.vocab_size
    leak = (model(tokens()) - model(changed))[:, :7].abs().max()
    assert (leak == 0) if causal else (leak > 1e-6)


def test_layers_count_from_one():
    model = decoder(pre_ln())
    assert list(model.layers) == ["1", "2"]
    x = torch.randn(2, 12, 16, dtype=torch.float64)
    assert model.layers["1"](x).shape == x.shape
    assert not torch.equal(model.layers["1"](x), model.layers["2"](x))


@pytest.mark.parametrize(
    ("around", "message"),
    [
        ({"kind": "encoder_of_dreams"}, "unknown kind of model 'encoder_of_dreams'\n  = there is decoder"),
        ({"positions": "guessed"}, "unknown positions 'guessed' of the model\n  = there are none, learned, sinusoidal"),
        ({"positions": "learned", "position_std": None}, "learned positions have no standard deviation"),
    ],
    ids=["kind", "positions", "position_std"],
)
def test_what_does_not_exist_is_refused(around, message):
    with pytest.raises(InputError, match=message):
        decoder(**around)
