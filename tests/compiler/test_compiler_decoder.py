"""What stands around the blocks: embedding, positions, norms, head."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, node, pre_ln, residual, sequence

from ablate.compiler import compile_model, size_report
from ablate.errors import InputError
from ablate.plan.size import cost

IDENTITY = sequence()


def decoder(block=IDENTITY, **around):
    return compile_model(architecture(block, init=default_init(), **around), CATALOGUE, dtype=torch.float64)


def tokens(n_times=SIZES.seq_len):
    return torch.randint(SIZES.vocab_size, (2, n_times), generator=torch.Generator().manual_seed(0))


def arrays(model):
    return {name: value.numpy() for name, value in model.state_dict().items()}


def close(actual, expected):
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.fast
def test_embedding_scale_and_untied_head():
    model = decoder(embedding_scale=50.0)
    w = arrays(model)
    close(model(tokens()), 50 * w["embedding.weight"][tokens()] @ w["head.weight"].T)


@pytest.mark.fast
def test_a_tied_head_uses_the_embedding_unscaled():
    model = decoder(embedding_scale=50.0, tied=True)
    w = arrays(model)
    assert set(w) == {"embedding.weight"}
    close(model(tokens()), 50 * w["embedding.weight"][tokens()] @ w["embedding.weight"].T)


@pytest.mark.fast
def test_learned_positions_are_added_after_the_scale():
    model = decoder(embedding_scale=3.0, positions="learned")
    w = arrays(model)
    assert w["positions.weight"].shape == (SIZES.seq_len, SIZES.d_model)
    x = 3 * w["embedding.weight"][tokens(5)] + w["positions.weight"][:5]
    close(model(tokens(5)), x @ w["head.weight"].T)
    with pytest.raises(ValueError, match="13 tokens, but learned positions for 12 only"):
        model(tokens(13))


def test_learned_positions_may_have_more_rows_than_the_context():
    model = decoder(positions="learned", position_rows=20, embedding_scale=3.0)
    w = arrays(model)
    assert w["positions.weight"].shape == (20, SIZES.d_model)
    x = 3 * w["embedding.weight"][tokens(17)] + w["positions.weight"][:17]
    close(model(tokens(17)), x @ w["head.weight"].T)
    wanted = architecture(IDENTITY, positions="learned", position_rows=20)
    assert cost(wanted, CATALOGUE) == size_report(wanted, CATALOGUE)
    fewer = architecture(IDENTITY, positions="learned", position_rows=11)
    for refuse in (cost, compile_model):
        with pytest.raises(InputError, match=r"model.position has 11 rows for a context of 12 tokens\n  = give it"):
            refuse(fewer, CATALOGUE)


@pytest.mark.fast
@pytest.mark.parametrize("tied", [True, False])
def test_the_logits_are_scaled(tied):
    """1/sqrt(0.3 width), as DeepScaleLM's released code has it; the norm before the head does not undo it."""
    around = {"tied": tied, "final_norm": node("rms_norm", eps=0.5)}
    plain, scaled = decoder(**around), decoder(logit_scale="1/sqrt(0.3*width)", **around)
    close(scaled(tokens()), plain(tokens()).detach().numpy() / np.sqrt(0.3 * 16))
    wanted = architecture(IDENTITY, logit_scale="1/sqrt(0.3*width)", **around)
    assert cost(wanted, CATALOGUE) == size_report(wanted, CATALOGUE)


@pytest.mark.fast
def test_what_stands_around_is_arithmetic_in_the_sizes():
    numbers = {"embedding_std": "sqrt((1-0.1)/3)", "embedding_scale": "sqrt(width)", "position_std": "1/depth"}
    sizes = replace(SIZES, vocab_size=4000, seq_len=1000)
    w = arrays(decoder(sizes=sizes, positions="learned", **numbers))
    assert w["embedding.weight"].std() == pytest.approx(np.sqrt(0.3), rel=0.01)
    assert w["positions.weight"].std() == pytest.approx(0.5, rel=0.02)
    plain, same = decoder(embedding_scale=4.0), decoder(embedding_scale="sqrt(width)")
    assert torch.equal(plain(tokens()), same(tokens()))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("embedding_std", "1/layer", "model.embedding.std is 1/layer, which has no value outside the layers"),
        ("logit_scale", "depth-2", "model.logit_scale is depth-2, which is 0 at these sizes\n  = it must be greater"),
        ("embedding_scale", "repetition", "model.embedding.scale is repetition, .*repetition is not known here"),
    ],
)
def test_arithmetic_without_a_value_is_refused_before_any_module_and_by_it(field, text, message):
    wrong = architecture(IDENTITY, **{field: text})
    for refuse in (cost, compile_model):
        with pytest.raises(InputError, match=message):
            refuse(wrong, CATALOGUE)


@pytest.mark.fast
def test_an_init_of_the_model_that_has_no_value_is_refused_with_the_plan():
    for init in (node("normal", std="1/layer"), node("deep_scale")):
        with pytest.raises(InputError, match="outside the layers"):
            cost(architecture(IDENTITY, init=init), CATALOGUE)


@pytest.mark.fast
def test_dropout_of_the_embedding_is_that_of_tokens_and_positions_together():
    around = {"positions": "learned", "entry_norm": node("rms_norm", eps=0.5)}
    plain, model = decoder(**around), decoder(embedding_dropout=0.4, **around)
    assert torch.equal(model.eval()(tokens()), plain(tokens()))  # and it moves no parameter's address
    seen = []
    model.entry_norm.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model.train()(tokens())
    model.eval()(tokens())
    dropped, whole = seen
    kept = dropped != 0
    assert kept.double().mean() == pytest.approx(0.6, abs=0.08)
    close(dropped[kept], (whole[kept] / 0.6).detach().numpy())


@pytest.mark.fast
def test_the_sizes_that_a_model_names():
    assert architecture(pre_ln()).names() == {"head_width"}
    assert architecture(IDENTITY, embedding_std="repetition").names() == {"repetition"}
    assert architecture(IDENTITY, init=node("normal", std="1/sqrt(width)")).names() == {"width"}
    assert architecture(sequence(residual("mlp", gain="layer/depth"))).names() == {"layer", "depth"}
    weight = node("dense", init=node("deep_scale", correlation="repetition"))
    assert "repetition" in architecture(sequence(residual(node("attention", value=weight)))).names()


@pytest.mark.fast
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


@pytest.mark.fast
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


@pytest.mark.fast
@pytest.mark.parametrize("causal", [True, False])
def test_it_sees_the_past_alone_where_causal(causal):
    model = decoder(pre_ln(), sizes=replace(SIZES, causal=causal), positions="learned")
    changed = tokens().clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % SIZES.vocab_size
    leak = (model(tokens()) - model(changed))[:, :7].abs().max()
    assert (leak == 0) if causal else (leak > 1e-6)


@pytest.mark.fast
def test_layers_count_from_one():
    model = decoder(pre_ln())
    assert list(model.layers) == ["1", "2"]
    x = torch.randn(2, 12, 16, dtype=torch.float64)
    assert model.layers["1"](x).shape == x.shape
    assert not torch.equal(model.layers["1"](x), model.layers["2"](x))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("around", "message"),
    [
        ({"kind": "encoder_of_dreams"}, "unknown kind of model 'encoder_of_dreams'\n  = the kinds are: decoder"),
        ({"positions": "guessed"}, "unknown positions 'guessed' of the model\n  = choose none, learned or sinusoidal"),
        ({"positions": "learned", "position_std": None}, "learned positions need an initial standard deviation"),
    ],
    ids=["kind", "positions", "position_std"],
)
def test_what_does_not_exist_is_refused(around, message):
    with pytest.raises(InputError, match=message):
        decoder(**around)


@pytest.mark.fast
def test_a_softcap_bounds_the_logits_after_their_scale():
    plain, model = (decoder(embedding_scale=50.0, logit_scale=3, logit_softcap=cap) for cap in (None, 1.5))
    w = arrays(model)
    logits = 3 * 50 * w["embedding.weight"][tokens()] @ w["head.weight"].T
    close(plain(tokens()), logits)
    close(model(tokens()), 1.5 * np.tanh(logits / 1.5))
    assert np.abs(logits).max() > 2  # it does bound some
    assert cost(architecture(IDENTITY, logit_softcap=1.5), CATALOGUE) == cost(architecture(IDENTITY), CATALOGUE)


@pytest.mark.fast
def test_a_softcap_is_computed_in_float32_under_autocast():
    model = compile_model(architecture(IDENTITY, init=default_init(), logit_softcap=1.5), CATALOGUE)
    with torch.autocast("cpu", torch.bfloat16):
        assert model(tokens()).dtype == torch.float32
