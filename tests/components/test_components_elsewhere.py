"""Parts and weights that read from elsewhere equal NumPy in float64, in a model, and compile as any other."""

import copy
import pickle

import numpy as np
import pytest
import torch
from builders import CATALOGUE, SIZES, architecture, gain, node, residual, sequence

from ablate.block.address import address_fault
from ablate.block.expression import print_block
from ablate.block.normal_form import fingerprint
from ablate.compiler import compile_block, compile_model, size_report
from ablate.errors import InputError
from ablate.plan.identity import model_identity
from ablate.plan.size import cost

RNG = np.random.default_rng(9)
TOKENS = RNG.integers(0, SIZES.vocab_size, size=(2, 12))
TRAINED = gain(0.5, trainable=True)
CHANNELS = gain(0.5, trainable=True, per="channel")

BLOCKS = {
    "keys as values": sequence(residual(node("attention", value=node("from", of="attention.key"))), "mlp"),
    "first stream": sequence(node("recall", of="layers.first.in", skip=CHANNELS, gain=TRAINED), residual("mlp")),
    "embedding": sequence(node("recall", of="embedding", gain=TRAINED), residual("attention")),
    "mirror": sequence(residual("mlp"), node("recall", of="layers.((layer+1)/2).in", gain=TRAINED)),
    "part": sequence(residual("attention"), residual(node("from", of="attention"), gain=TRAINED), residual("mlp")),
    "value embedding": sequence(
        residual(node("attention", value=node("blend", own="dense", beside="lookup", gain=TRAINED, own_gain=CHANNELS)))
    ),
    "gated value embedding": sequence(
        residual(node("attention", kv_heads=1, value=node("lookup", gate=node("sigmoid_gate", per="head")))),
    ),
    "depth average": sequence(node("depth_average"), residual("attention"), residual("mlp")),
    "depth attention": sequence(node("depth_attention", eps=0.1), residual("attention"), residual("mlp")),
}
REFUSED = "mirror"
"""A layer number that is whole in each second layer only."""
BUILT = {name: block for name, block in BLOCKS.items() if name != REFUSED}


def model_of(block, *, dtype=torch.float64, seed=0):
    """The model, none of its parameters at a value that hides it."""
    model = compile_model(architecture(block), CATALOGUE, seed=seed, dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.from_numpy(RNG.normal(size=parameter.shape)).to(dtype)
    return model


def arrays(model):
    return {name: parameter.detach().double().numpy() for name, parameter in model.named_parameters()}


def run(model):
    return model(torch.from_numpy(TOKENS)).detach().numpy()


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-10)


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def attention(w, at, x, value):
    """Causal attention of two heads, eight wide, over given values."""

    def heads(y):
        return y.reshape(2, 12, -1, 8).transpose(0, 2, 1, 3)

    q, k, v = heads(x @ w[f"{at}.query.weight"].T), heads(x @ w[f"{at}.key.weight"].T), heads(value)
    scores = np.where(np.tri(12, dtype=bool), q @ k.transpose(0, 1, 3, 2) / np.sqrt(8), -np.inf)
    return (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(2, 12, 16) @ w[f"{at}.projection.weight"].T


def mlp(w, at, x):
    return np.maximum(x @ w[f"{at}.up.weight"].T, 0) @ w[f"{at}.down.weight"].T


def embedded(model, w):
    return model.embedding.scale * w["embedding.weight"][TOKENS]


def head(model, w, x):
    return model.logit_scale * x @ (w["embedding.weight"] if "head.weight" not in w else w["head.weight"]).T


def test_keys_as_values():
    model = model_of(BLOCKS["keys as values"])
    w = arrays(model)
    x = embedded(model, w)
    for layer in (1, 2):
        at = f"layers.{layer}.attention"
        x = x + attention(w, at, x, x @ w[f"{at}.key.weight"].T)
        x = mlp(w, f"layers.{layer}.mlp", x)
    close(run(model), head(model, w, x))


def test_what_entered_the_first_block_comes_again():
    model = model_of(BLOCKS["first stream"])
    w = arrays(model)
    x = first = embedded(model, w)
    for layer in (1, 2):
        at = f"layers.{layer}.mlp"
        x = w[f"{at}_recall.skip.factor"] * x + w[f"{at}_recall.gain.factor"] * first
        x = x + mlp(w, at, x)
    close(run(model), head(model, w, x))


def test_a_part_of_the_same_block_is_read_as_it_is():
    model = model_of(BLOCKS["part"])
    w = arrays(model)
    x = embedded(model, w)
    for layer in (1, 2):
        at = f"layers.{layer}.attention"
        mixed = attention(w, at, x, x @ w[f"{at}.value.weight"].T)
        x = x + mixed
        (name,) = (n for n in w if n.startswith(f"layers.{layer}.") and n.endswith("residual.gain.factor"))
        x = x + w[name] * mixed
        x = x + mlp(w, f"layers.{layer}.mlp", x)
    close(run(model), head(model, w, x))


def test_value_embeddings():
    model = model_of(BLOCKS["value embedding"])
    w = arrays(model)
    x = embedded(model, w)
    for layer in (1, 2):
        at = f"layers.{layer}.attention"
        own = x @ w[f"{at}.value.own.weight"].T
        value = w[f"{at}.value.own_gain.factor"] * own
        value = value + w[f"{at}.value.gain.factor"] * w[f"{at}.value.beside.weight"][TOKENS]
        x = x + attention(w, at, x, value)
    close(run(model), head(model, w, x))


def test_gated_value_embeddings_of_one_shared_head():
    model = model_of(BLOCKS["gated value embedding"])
    w = arrays(model)
    x = embedded(model, w)
    for layer in (1, 2):
        at = f"layers.{layer}.attention"
        gate = model.get_submodule(f"{at}.value.gate")
        factor, inputs = gate.factor, gate.inputs
        open_by = factor / (1 + np.exp(-(x[..., :inputs] @ w[f"{at}.value.gate.weight.weight"].T)))
        value = w[f"{at}.value.weight"][TOKENS] * open_by
        key = x @ w[f"{at}.key.weight"].T
        both = {**w, f"{at}.key.weight": np.concatenate([w[f"{at}.key.weight"]] * 2)}
        assert key.shape[-1] == 8
        x = x + attention(both, at, x, np.concatenate([value] * 2, axis=-1))
    close(run(model), head(model, w, x))


def test_depth_average():
    model = model_of(BLOCKS["depth average"])
    w = arrays(model)
    x = embedded(model, w)
    entered = []
    for layer in (1, 2):
        entered.append(x)
        factors = w[f"layers.{layer}.attention_depth_average.factor"]
        assert len(factors) == layer
        x = sum(factor * h for factor, h in zip(factors, entered, strict=True))
        at = f"layers.{layer}.attention"
        x = x + attention(w, at, x, x @ w[f"{at}.value.weight"].T)
        x = x + mlp(w, f"layers.{layer}.mlp", x)
    close(run(model), head(model, w, x))


def test_depth_attention():
    model = model_of(BLOCKS["depth attention"])
    w = arrays(model)
    x = embedded(model, w)
    entered = []
    for layer in (1, 2):
        entered.append(x)
        query = w[f"layers.{layer}.attention_depth_attention.query"]
        scores = [(h / np.sqrt((h**2).mean(-1, keepdims=True) + 0.1)) @ query for h in entered]
        shares = softmax(np.stack(scores, -1))
        x = sum(shares[..., s, None] * h for s, h in enumerate(entered))
        at = f"layers.{layer}.attention"
        x = x + attention(w, at, x, x @ w[f"{at}.value.weight"].T)
        x = x + mlp(w, f"layers.{layer}.mlp", x)
    close(run(model), head(model, w, x))


def test_an_average_over_depth_starts_as_the_identity_and_attention_as_the_mean():
    plain = compile_model(architecture(sequence(residual("mlp"))), CATALOGUE, dtype=torch.float64)
    average, even = (
        compile_model(architecture(sequence(node(name), residual("mlp"))), CATALOGUE, dtype=torch.float64)
        for name in ("depth_average", "depth_attention")
    )
    tokens = torch.from_numpy(TOKENS)
    torch.testing.assert_close(average(tokens), plain(tokens), rtol=0, atol=0)
    assert (even(tokens) - plain(tokens)).abs().max() > 1e-3


@pytest.mark.parametrize("block", BUILT.values(), ids=BUILT)
def test_gradients_reach_every_parameter_and_agree_with_differences(block):
    model = model_of(block)
    tokens = torch.from_numpy(TOKENS[:1, :6])
    weight = torch.randn(1, 6, SIZES.vocab_size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (model(tokens) * weight).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if name == "layers.1.attention_depth_attention.query":  # one stream leaves it nothing to choose
            assert parameter.grad.abs().max() == 0
            continue
        assert parameter.grad.abs().sum() > 0, name
        flat, step = parameter.detach().view(-1), 1e-6
        place = int(parameter.grad.abs().argmax())
        with torch.no_grad():
            flat[place] += step
            above = (model(tokens) * weight).sum()
            flat[place] -= 2 * step
            below = (model(tokens) * weight).sum()
            flat[place] += step
        assert (above - below).item() / (2 * step) == pytest.approx(parameter.grad.view(-1)[place].item(), rel=1e-5)


@pytest.mark.parametrize("block", BUILT.values(), ids=BUILT)
def test_later_tokens_change_no_bit_of_earlier_ones(block):
    model = model_of(block).eval()
    other = TOKENS.copy()
    other[:, 7:] = (other[:, 7:] + 1) % SIZES.vocab_size
    one, two = (model(torch.from_numpy(tokens))[:, :7] for tokens in (TOKENS, other))
    assert torch.equal(one, two)


@pytest.mark.parametrize("block", BUILT.values(), ids=BUILT)
def test_the_closed_form_is_what_pytorch_counts(block):
    whole = architecture(block)
    assert cost(whole, CATALOGUE) == size_report(whole, CATALOGUE)


@pytest.mark.parametrize("block", BUILT.values(), ids=BUILT)
def test_copies_and_pickles_read_their_own_values(block):
    model = model_of(block)
    tokens = torch.from_numpy(TOKENS)
    expected = model(tokens)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(tokens), expected)
        with torch.no_grad():  # the copy changes, and what it was copied from does not
            for parameter in other.parameters():
                parameter.mul_(1.5)
        assert not torch.equal(other(tokens), expected)
        assert torch.equal(model(tokens), expected)


def test_nothing_is_kept_when_a_pass_has_ended_even_by_an_error():
    model = model_of(BLOCKS["first stream"])
    kept = model.get_submodule("layers.2.mlp_recall").read
    model(torch.from_numpy(TOKENS))
    assert kept.value is None

    def fail(*_):
        raise ZeroDivisionError("between what is kept and what reads it")

    failing = model.get_submodule("layers.2").register_forward_pre_hook(fail)
    with pytest.raises(ZeroDivisionError):
        model(torch.from_numpy(TOKENS))
    failing.remove()
    assert kept.value is None
    with pytest.raises(RuntimeError, match=r"layers\.1\.in is read before it stands"):
        model.get_submodule("layers.2.mlp_recall")(torch.zeros(1, 3, 16, dtype=torch.float64))


def test_only_what_is_read_is_kept():
    def hooks(block):
        model = compile_model(architecture(block), CATALOGUE)
        return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())

    assert hooks(sequence("attention", "mlp")) == 0
    assert hooks(BLOCKS["first stream"]) == 2  # one takes the value, one lets it go


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", BUILT.values(), ids=BUILT)
def test_a_model_traces_into_one_graph(block):
    model = model_of(block)
    tokens = torch.from_numpy(TOKENS)
    traced = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(traced(tokens), model(tokens), rtol=1e-10, atol=1e-12)


def test_the_weight_in_a_blend_starts_as_it_would_alone():
    alone = node("attention")
    beside = node("attention", value=node("blend", own="dense", beside="lookup"))
    one, two = (
        dict(compile_model(architecture(sequence(part)), CATALOGUE, seed=3).named_parameters())
        for part in (alone, beside)
    )
    assert torch.equal(one["layers.2.attention.value.weight"], two["layers.2.attention.value.own.weight"])
    assert torch.equal(one["layers.2.attention.key.weight"], two["layers.2.attention.key.weight"])


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (sequence(node("attention", value=node("from", of="layers.first.attention.value"))), "which it is part of"),
        (sequence(node("attention", value=node("from", of="layers.previous.attention.value"))), "there is no layer"),
        (sequence(node("attention", key=node("from", of="attention.value"))), "does not stand yet"),
        (sequence(node("recall", of="layers.5.out"), "mlp"), "there is no layer 5"),
        (sequence(node("recall", of="layers.2.out"), "mlp"), "does not stand yet"),
        (sequence(residual(node("recall", of="mlp_residual"), "mlp")), "which it is part of"),
        (sequence(node("recall", of="attention.valu"), "attention"), "did you mean 'attention.value'"),
        (sequence(node("recall", of="entry_norm"), "mlp"), "before the layers there are: embedding, tokens"),
        (sequence(node("recall", of="tokens"), "mlp"), "which is the numbers of the tokens"),
        (sequence(node("mlp", gate=node("from", of="layers.first.in"))), "which is 16 wide, but it needs 64"),
        (sequence(node("attention", value=node("lookup", of="embedding"))), "which is a signal 16 wide"),
        (sequence(node("depth_average", of="layers.*.out"), "mlp"), "before which there is none"),
        (BLOCKS[REFUSED], r"layer \(\(layer\+1\)/2\) is 1.5 in layer 2, not whole"),
    ],
)
def test_what_cannot_be_read_is_refused_without_torch(block, message):
    with pytest.raises(InputError, match=message):
        cost(architecture(block), CATALOGUE)


def test_a_block_alone_reads_only_what_is_its_own():
    alone = compile_block(BLOCKS["keys as values"], SIZES, CATALOGUE, init=node("normal", std=0.3))
    assert alone(torch.randn(1, 3, 16)).shape == (1, 3, 16)
    with pytest.raises(InputError, match=r"layers\.1\.in is read, but is not in this model"):
        compile_block(BLOCKS["first stream"], SIZES, CATALOGUE, init=node("normal", std=0.3), layer=2)
    with pytest.raises(InputError, match=r"tokens is read"):
        compile_block(BLOCKS["value embedding"], SIZES, CATALOGUE, init=node("normal", std=0.3))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("layers.first.attention.value", None),
        ("layers.(depth+1-layer).out", None),
        ("attention.key", None),
        ("layers.3", "not the address of a value in a layer"),
        ("layers.last.out", "not the address of a value in a layer"),
        ("layers.*.in", "many values"),
        ("layers.(deep).out", "unknown"),
        ("attention..key", "not the address"),
        ("", "not the address"),
    ],
)
def test_addresses(text, fault):
    found = address_fault(text, several=False)
    assert found is None if fault is None else fault in str(found)


def test_the_same_value_by_another_name_is_the_same_model():
    def identity(of):
        return model_identity(architecture(sequence(node("recall", of=of), residual("mlp"))), CATALOGUE)

    assert identity("layers.first.in") == identity("layers.1.in") == identity("layers.(2-1).in")
    assert identity("layers.first.in") != identity("embedding")
    one, two = (sequence(node("recall", of=of)) for of in ("layers.1.in", "layers.2.in"))
    assert fingerprint(one, CATALOGUE) != fingerprint(two, CATALOGUE)
    assert "of: layers.1.in" in print_block(one)
