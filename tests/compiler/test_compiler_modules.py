"""The module is at its addresses, once each, and survives being copied, stored, moved and compiled."""

import copy
import io
import pickle

import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, default_init, gain, many_blocks, op, pre_ln, residual, sequence

from ablate.block.address import address, name_parts
from ablate.compiler import Scale, compile_block, compile_model
from ablate.plan.size import part_costs

pytestmark = pytest.mark.fast

BLOCKS = pytest.mark.parametrize("block", [pytest.param(b, id=name) for name, b in many_blocks().items()])


def model_of(block, **options):
    return compile_model(architecture(block, init=default_init()), CATALOGUE, **options)


def tokens():
    return torch.randint(SIZES.vocab_size, (2, SIZES.seq_len), generator=torch.Generator().manual_seed(0))


@BLOCKS
def test_every_part_is_at_its_address_and_only_there(block):
    model = model_of(block)
    modules = [id(module) for _, module in model.named_modules(remove_duplicate=False)]
    assert len(modules) == len(set(modules))
    for layer in (1, 2):
        parts = [name for _, name in name_parts(block, CATALOGUE)]
        assert list(dict(model.layers[str(layer)].named_children())) == parts
        for name in parts:
            model.get_submodule(address(layer, name))
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}
    counted = {where: sum(p.numel() for p in model.get_submodule(where).parameters()) for where in part_costs(
        architecture(block), CATALOGUE)}  # fmt: skip
    assert counted == {where: c.parameters for where, c in part_costs(architecture(block), CATALOGUE).items()}


@BLOCKS
def test_copies_are_whole_and_apart(block):
    model = model_of(block)
    expected = model(tokens())
    stored = io.BytesIO()
    torch.save(model.state_dict(), stored)
    stored.seek(0)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(copied(tokens()), expected)
        copied(tokens()).square().sum().backward()
        assert all(parameter.grad is not None for parameter in copied.parameters())
        assert all(parameter.grad is None for parameter in model.parameters())
    fresh = model_of(block, seed=1)
    fresh.load_state_dict(torch.load(stored, weights_only=True))
    assert torch.equal(fresh(tokens()), expected)


@BLOCKS
def test_another_type_reaches_every_part(block):
    model = model_of(block).to(torch.float64)
    assert model(tokens()).dtype == torch.float64
    torch.testing.assert_close(model(tokens()).float(), model_of(block)(tokens()), rtol=1e-4, atol=1e-4)


def test_trained_gains_learn_and_fixed_ones_do_not():
    block = sequence(residual("attention", gain=gain(0.5, trainable=True)), residual("mlp", gain=0.5))
    model = model_of(block)
    scales = {name: module for name, module in model.named_modules() if isinstance(module, Scale)}
    assert set(scales) == {
        f"layers.{n}.{part}_residual.{field}"
        for n in (1, 2)
        for part in ("attention", "mlp")
        for field in ("skip", "gain")
    }
    trained = {name for name, scale in scales.items() if scale.factor is not None}
    assert trained == {"layers.1.attention_residual.gain", "layers.2.attention_residual.gain"}
    model(tokens()).square().mean().backward()
    for name, scale in scales.items():
        if name in trained:
            assert scale.value is scale.factor
            assert scale.factor.grad.abs() > 0
        else:
            assert scale.value == (0.5 if name.endswith("gain") else 1)


@pytest.mark.parametrize("per", ["scalar", "channel"])
def test_a_trained_gain_gets_the_gradient_of_its_branch(per):
    block = sequence(residual("rms_norm", gain=gain(0.3, trainable=True, per=per)))
    model = compile_block(block, SIZES, CATALOGUE, init=default_init(), dtype=torch.float64)
    x = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    model(x).square().sum().backward()
    normed = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    expected = (2 * (x + 0.3 * normed) * normed).sum((0, 1))
    factor = model.residual.gain.factor
    torch.testing.assert_close(factor.grad, expected if per == "channel" else expected.sum(), rtol=1e-10, atol=1e-10)


def test_a_fixed_gain_of_one_is_no_operation():
    x = torch.randn(2, 3)
    assert Scale(1)(x) is x
    assert Scale(1, trainable=True)(x) is not x
    assert torch.equal(Scale(0.1)(x.double()), 0.1 * x.double())


def test_gains_follow_depth_and_layer():
    model = model_of(op(gain="1/sqrt(2*depth)"))
    assert model.get_submodule("layers.2.mlp_residual.gain").value == 0.5
    model = model_of(op(gain="1/layer"))
    assert [model.get_submodule(f"layers.{n}.mlp_residual.gain").value for n in (1, 2)] == [1.0, 0.5]


def test_hooks_see_what_enters_attention():
    model = model_of(pre_ln())
    seen = {}
    core = model.get_submodule("layers.2.attention.attend")
    core.register_forward_pre_hook(lambda _, inputs: seen.update(q=inputs[0], k=inputs[1], v=inputs[2]))
    model(tokens())
    assert {name: tuple(x.shape) for name, x in seen.items()} == dict.fromkeys("qkv", (2, 2, 12, 8))
