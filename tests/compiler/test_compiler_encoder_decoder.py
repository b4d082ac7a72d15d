"""`model.kind: encoder_decoder`, against NumPy in float64: padding, leakage, sizes, and what is refused."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import SIZES, architecture, default_init, node
from numpy_transformer import HEADS, norm, perturbed, post_layer, pre_layer, sines, weights_of
from reading import transformer

from ablate.api import load_block
from ablate.block.architecture import Sharing, encoder_block
from ablate.block.expression import outline
from ablate.compiler import compile_model, size_report
from ablate.errors import InputError
from ablate.plan.identity import model_identity
from ablate.plan.size import cost, part_costs
from ablate.probes.normality import straightness
from ablate.probes.registry import select
from ablate.probes.sites import read_at
from ablate.probes.update import streams
from ablate.probes.watch import padding_of, watching

CATALOGUE = transformer().catalogue
PRE = """[residual: {gain: 1/sqrt(2*depth), branch: [layer_norm, attention]},
    residual: [layer_norm, attention: {source: encoder}],
    residual: {gain: 1/layer, branch: [layer_norm, mlp: {activation: silu, hidden: 2x}]}]"""
POST = """[residual: [attention], layer_norm, residual: [attention: {source: encoder}], layer_norm,
    residual: [mlp: {activation: silu, hidden: 2x}], layer_norm]"""
ENCODER_LAYERS, DECODER_LAYERS, PADDING, SCALE = 3, 2, 0, 2.0
REAL = (7, 4)
"""How many tokens of each of two sources are no padding."""


def whole(block=PRE, **changes):
    block = load_block(block) if isinstance(block, str) else block
    sizes = replace(SIZES, n_layers=DECODER_LAYERS, n_heads=HEADS, seq_len=5, source_len=7, padding=PADDING)
    around = {
        "init": default_init(),
        "final_norm": node("layer_norm", bias=True, scale=True),
        "kind": "encoder_decoder",
        "sizes": sizes,
        "encoder_layers": ENCODER_LAYERS,
        "positions": "sinusoidal",
        "position_std": None,
        "embedding_scale": SCALE,
    }
    return architecture(block, **{**around, **changes})


def model_of(block=PRE, dtype=torch.float64, **changes):
    model = compile_model(whole(block, **changes), CATALOGUE, dtype=dtype)
    return perturbed(model)


def texts():
    drawn = torch.Generator().manual_seed(2)
    source = torch.randint(1, SIZES.vocab_size, (2, 7), generator=drawn)
    for row, real in enumerate(REAL):
        source[row, real:] = PADDING
    return source, torch.randint(1, SIZES.vocab_size, (2, 5), generator=drawn)


def by_numpy(w, source, tokens, layer_of, embedded=None):
    real = source != PADDING if embedded is None else np.ones(source.shape[:2], bool)
    (batch, n_source), n_target = real.shape, tokens.shape[1]
    table = SCALE * w["embedding.weight"]
    c = table[source] if embedded is None else embedded
    c = c + sines(n_source, c.shape[-1])
    keys = np.broadcast_to(real[:, None, :], (batch, n_source, n_source))
    for n in range(1, ENCODER_LAYERS + 1):
        c = layer_of(c, None, keys, None, w, f"encoder.{n}", n, ENCODER_LAYERS)
    c = norm(c, w, "encoder_norm")
    x = table[tokens] + sines(n_target, c.shape[-1])
    past = np.broadcast_to(np.tri(n_target), (batch, n_target, n_target))
    for n in range(1, DECODER_LAYERS + 1):
        of_source = np.broadcast_to(real[:, None, :], (batch, n_target, n_source))
        x = layer_of(x, c, past, of_source, w, f"layers.{n}", n, DECODER_LAYERS)
    return norm(x, w, "final_norm") @ w["head.weight"].T


LAYERS = {"pre": (PRE, pre_layer), "post": (POST, post_layer)}


@pytest.mark.parametrize(("block", "layer_of"), list(LAYERS.values()), ids=list(LAYERS))
def test_the_whole_model_is_that_of_numpy(block, layer_of):
    model, (source, tokens) = model_of(block), texts()
    expected = by_numpy(weights_of(model), source.numpy(), tokens.numpy(), layer_of)
    assert np.abs(model(source, tokens).detach().numpy() - expected).max() < 1e-9
    turned = by_numpy(weights_of(model), source.flip(1).numpy(), tokens.numpy(), layer_of)
    assert np.abs(turned - expected).max() > 1e-3  # the comparison sees the order of the source


def test_frames_stand_in_the_place_of_the_embedding():
    model = model_of(PRE, input_shape=(7, 6))
    frames = torch.randn(2, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    w, tokens = weights_of(model), texts()[1]
    embedded = frames.numpy() @ w["frames.weight"].T + w["frames.bias"]
    expected = by_numpy(w, frames.numpy(), tokens.numpy(), pre_layer, embedded)
    assert np.abs(model(frames, tokens).detach().numpy() - expected).max() < 1e-9


@pytest.mark.parametrize(("block", "layer_of"), list(LAYERS.values()), ids=list(LAYERS))
def test_gradients_are_those_of_a_complex_step(block, layer_of):
    model, (source, tokens) = model_of(block), texts()
    model(source, tokens).square().mean().backward()
    names = [
        "embedding.weight",
        "encoder.2.attention.value.weight",
        "encoder.3.mlp.up.weight",
        "encoder_norm.scale",
        "layers.1.attention_2.key.weight",
        "layers.2.attention_2.query.weight",
        "layers.2.attention.value.weight",
    ]
    w, step = weights_of(model), 1e-30
    for name in names:
        gradient = model.get_parameter(name).grad.numpy()
        place = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
        moved = w[name].astype(complex)
        moved[place] += 1j * step
        logits = by_numpy({**w, name: moved}, source.numpy(), tokens.numpy(), layer_of)
        assert gradient[place] == pytest.approx((logits**2).mean().imag / step, rel=1e-8)


@pytest.mark.parametrize("block", [PRE, POST], ids=["pre", "post"])
def test_nothing_leaks_and_the_whole_source_is_read(block):
    model, (source, tokens) = model_of(block).eval(), texts()
    with torch.no_grad():
        logits = model(source, tokens)
        for place in range(tokens.shape[1]):
            later = tokens.clone()
            later[:, place] = later[:, place] % (SIZES.vocab_size - 1) + 1
            moved = (model(source, later) - logits).abs().amax(-1)
            assert moved[:, :place].sum() == 0
            assert (moved[:, place:] > 0).all()  # the twin: what is not earlier does move
        longer = torch.cat([source, torch.full((2, 3), PADDING)], dim=1)
        assert torch.allclose(model(longer, tokens), logits, rtol=0, atol=1e-13)
        alone = model(source[1:, : REAL[1]], tokens[1:])
        assert torch.allclose(alone[0], logits[1], rtol=0, atol=1e-13)
        for row, real in enumerate(REAL):
            for place in range(real):
                other = source.clone()
                other[row, place] = other[row, place] % (SIZES.vocab_size - 1) + 1
                moved = (model(other, tokens) - logits).abs().amax(-1)
                assert (moved[row] > 1e-9).all()
                assert moved[1 - row].sum() == 0


def test_what_fills_up_is_read_where_the_model_does_not_know_it():
    sizes = replace(whole().sizes, padding=None)
    model, (source, tokens) = model_of(sizes=sizes), texts()
    longer = torch.cat([source, torch.full((2, 3), PADDING)], dim=1)
    assert (model(longer, tokens) - model(source, tokens)).abs().max() > 1e-3


def test_a_source_of_nothing_but_padding_gives_numbers():
    model, (source, tokens) = model_of(), texts()
    logits = model(torch.full_like(source, PADDING), tokens)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_copies_and_pickles_are_models_of_their_own():
    model, (source, tokens) = model_of(), texts()
    logits = model(source, tokens)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(source, tokens), logits)
        with torch.no_grad():
            other.get_parameter("encoder.1.mlp.up.weight").zero_()
        assert not torch.equal(other(source, tokens), logits)
    assert torch.equal(model(source, tokens), logits)
    fresh = model_of()
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(source, tokens), logits)


VARIED = {
    "plain": {},
    "frames": {"input_shape": (7, 6)},
    "dressed": {"positions": "learned", "position_std": whole().embedding_std, "entry_norm": node("rms_norm")},
    "as many layers": {"encoder_layers": None, "tied": True},
    "shared": {"share": Sharing(cycle=1)},
    "ahead": {"ahead": 1},
}
RICH = """[residual: [layer_norm, attention: {kv_heads: 1, sink: learned_sink}],
    residual: [layer_norm, attention: {source: encoder, kv_heads: 1, key: {dense: {bias: true}},
        value: {frozen: orthogonal}, entropy: [qk_norm: rms_norm, softcap: 30], gate: sigmoid_gate, pre_qk: rms_norm,
        output_norm: rms_norm, sink: learned_sink}],
    residual: [layer_norm, mlp]]"""


@pytest.mark.parametrize("block", [PRE, POST, RICH], ids=["pre", "post", "rich"])
@pytest.mark.parametrize("changes", list(VARIED.values()), ids=list(VARIED))
def test_the_closed_form_is_the_count(block, changes):
    model = whole(block, **changes)
    if model.positions == "learned":
        model = replace(model, position_rows=7)
    assert cost(model, CATALOGUE) == size_report(model, CATALOGUE)


def test_parts_are_named_by_their_stack():
    costs = part_costs(whole(), CATALOGUE)
    built = dict(compile_model(whole(), CATALOGUE, device="meta").named_modules())
    assert set(costs) <= set(built)
    assert {"encoder.3.attention", "layers.2.attention_2", "encoder_norm"} <= set(costs)
    assert "encoder.1.attention_2" not in built


def test_shared_layers_share_within_their_stack():
    model = model_of(share=Sharing(cycle=1))
    assert model.encoder["3"].mlp.up.weight is model.encoder["1"].mlp.up.weight
    assert model.layers["2"].mlp.up.weight is model.layers["1"].mlp.up.weight
    assert model.encoder["1"].mlp.up.weight is not model.layers["1"].mlp.up.weight


def test_identities():
    a, b = whole(), whole(encoder_layers=2)
    ids = [model_identity(each, CATALOGUE) for each in (a, b, replace(a, sizes=replace(a.sizes, padding=None)))]
    assert ids[0] != ids[1] and ids[0] != ids[2]
    assert model_identity(whole(encoder_layers=None), CATALOGUE)["encoder"] == ids[1]["encoder"]
    assert "source_len" not in str(model_identity(architecture(load_block("[residual: [layer_norm, mlp]]")), CATALOGUE))


def test_values_and_tokens_are_those_of_the_stack_that_reads_them():
    block = """[residual: [layer_norm, attention: {value: {blend: {beside: lookup}}}],
        residual: [layer_norm, attention: {source: encoder}], recall: {of: layers.first.in, gain: 0.5}]"""
    model, (source, tokens) = model_of(block), texts()
    assert cost(whole(block), CATALOGUE) == size_report(whole(block), CATALOGUE)
    read = []
    model.encoder["1"].attention.value.beside.register_forward_hook(lambda m, i, o: read.append(m.read().clone()))
    model.layers["2"].attention.value.beside.register_forward_hook(lambda m, i, o: read.append(m.read().clone()))
    model(source, tokens)
    assert torch.equal(read[0], source) and torch.equal(read[1], tokens)


def test_probes_read_both_stacks():
    model, (source, tokens) = model_of(), texts()
    probes = select(["kurtosis", "attention_entropy"], CATALOGUE)
    with watching(model, probes) as readings:
        model(source, tokens).sum().backward()
    addresses = {reading.address for reading in readings}
    assert {"encoder.1", "encoder.3", "layers.1", "layers.2", "head"} <= addresses
    assert {"encoder.2.attention", "layers.1.attention", "layers.1.attention_2"} <= addresses
    found = {(r.metric, r.address): float(r.value) for r in readings}
    assert found["attention_entropy", "layers.1.attention_2"] <= np.log(max(REAL)) + 1e-12
    streams = []
    with torch.no_grad():
        model.encoder["1"].register_forward_pre_hook(lambda m, inputs: streams.append(inputs[0]))
        model(source, tokens)
    real = streams[0][source != PADDING].numpy()
    squares = np.square(real).mean(0)
    assert found["kurtosis", "encoder.1"] == pytest.approx(np.square(squares).mean() / squares.mean() ** 2, rel=1e-9)
    everything = np.square(streams[0].flatten(0, 1).numpy()).mean(0)  # the twin: with what fills up it is another
    read = np.square(everything).mean() / everything.mean() ** 2
    assert found["kurtosis", "encoder.1"] != pytest.approx(read, rel=1e-4)


TARGETS = (5, 3)
"""How many tokens of each of two targets are no padding."""


@pytest.mark.parametrize("changes", [{}, {"input_shape": (7, 6)}, {"ahead": 1}], ids=["text", "frames", "ahead"])
def test_probes_of_the_decoder_leave_out_what_fills_up_targets(changes):
    model, (source, tokens) = model_of(**changes), texts()
    if "input_shape" in changes:
        source = torch.randn(2, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for row, kept in enumerate(TARGETS):
        tokens[row, kept:] = PADDING
    real = tokens != PADDING
    names = ["kurtosis", "token_cosine", "attention_entropy", "gradient_normality", "stream_gradient"]
    with watching(model, select(names, CATALOGUE), padding_of(model)) as readings:
        (model(source, tokens)[real].square().mean()).backward()
    assert model.real_tokens() is None, "it is forgotten behind the pass"
    found = {(r.metric, r.address): float(r.value) for r in readings}
    seen, cores = {}, {}

    def keep(address, inputs):
        if inputs[0].requires_grad:
            inputs[0].retain_grad()
        seen[address] = inputs[0]

    hooks = [
        module.register_forward_pre_hook(lambda _, inputs, at=address: keep(at, inputs))
        for address, module in read_at(model, "blocks")
    ]
    for address in ("layers.2.attention", "layers.2.attention_2"):
        core = model.get_submodule(address).attend
        core.register_forward_pre_hook(lambda _, inputs, at=address: cores.update({at: inputs}))
    (model(source, tokens)[real].square().mean()).backward()
    for hook in hooks:
        hook.remove()
    for address in ("layers.1", "layers.2", "head"):
        stream, gradient = seen[address].detach(), seen[address].grad
        for kept, differs in ((real, False), (torch.ones_like(real), True)):  # the twin: with what fills them up
            squares = np.square(stream[kept].numpy()).mean(0)
            cosines = []
            for sequence, there in zip(stream.numpy(), kept.numpy(), strict=True):
                unit = sequence[there] / np.linalg.norm(sequence[there], axis=-1, keepdims=True)
                cosines.append((unit @ unit.T)[~np.eye(len(unit), dtype=bool)].mean())
            expected = {
                "kurtosis": np.square(squares).mean() / squares.mean() ** 2,
                "token_cosine": np.mean(cosines),
                "gradient_normality": float(straightness(gradient[kept])),
            }
            if address != "head":
                expected["stream_gradient"] = np.sqrt(np.square(gradient[kept].numpy()).mean())
            for metric, value in expected.items():
                assert (found[metric, address] != pytest.approx(value, rel=1e-6)) == differs, (metric, address)
    places = {address for metric, address in found if metric == "stream_gradient"}
    assert places == {f"encoder.{place}" for place in (1, 2, 3, "end")} | {f"layers.{place}" for place in (1, 2, "end")}
    for address, (q, k, _) in cores.items():
        scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).detach().numpy()
        if address.endswith("attention"):
            scores = np.where(np.tri(5, dtype=bool), scores, -np.inf)
        elif "input_shape" not in changes:
            scores = np.where((source != PADDING)[:, None, None, :].numpy(), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        entropies = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1).transpose(0, 2, 1)
        assert found["attention_entropy", address] == pytest.approx(entropies[real.numpy()].mean(), rel=1e-9)
        assert found["attention_entropy", address] != pytest.approx(entropies.mean(), rel=1e-6), "the twin"
    before = streams(model, lambda: model(source, tokens))
    assert torch.equal(before["layers.2"], seen["layers.2"].detach()[real])


def test_what_probes_know_of_targets_changes_nothing_that_is_computed():
    model, (source, tokens) = model_of(), texts()
    tokens[1, 3:] = PADDING
    blind = model_of(sizes=replace(whole().sizes, padding=None))
    blind.source_padding.tell(blind, stack="encoder")
    blind.padding = PADDING  # it knows its source alone
    results = []
    for each in (model, blind):
        logits = each(source, tokens)
        logits.square().mean().backward()
        results.append([logits, *(p.grad for p in each.parameters() if p.grad is not None)])
    assert len(results[0]) == len(results[1]) > 10
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert blind.real_tokens() is None


LEFT = {
    PRE: "[residual: [layer_norm, attention], residual: [layer_norm, mlp]]",
    POST: "[residual: [attention], layer_norm, residual: [mlp], layer_norm]",
    "[layer_norm, attention, layer_norm, attention: {source: encoder}, layer_norm, mlp]": (
        "[layer_norm, attention, layer_norm, mlp]"
    ),
    "[residual: [attention], residual: [attention: {source: encoder}], layer_norm]": "[residual: [attention]]",
}


@pytest.mark.parametrize(("block", "left"), list(LEFT.items()))
def test_the_encoders_block_is_without_cross_attention_and_the_norms_that_serve_it(block, left):
    sizes = whole().of_encoder().sizes.at(1)
    found = encoder_block(load_block(block), sizes, CATALOGUE)
    assert outline(found) == outline(load_block(left))


CROSS = "[residual: [layer_norm, attention], residual: [layer_norm, attention: {%s}], residual: [layer_norm, mlp]]"
TWICE = f"[{CROSS[1:-1]}, {CROSS[1:-1]}]"
REFUSED = {
    "a position": (CROSS % "source: encoder, position: rope", "it has a position"),
    "a bias": (CROSS % "source: encoder, bias: alibi", "it has a bias"),
    "a mask": (CROSS % "source: encoder, mask: full", "it has a mask"),
    "a norm of values": (CROSS % "source: encoder, pre_v: rms_norm", "it has a pre_v"),
    "a shaped matrix": (CROSS % "source: encoder, matrix: shaped", "as many queries as keys"),
    "another source": (
        f"[{CROSS[1:-1]}, {CROSS[1:-1]}]" % ("source: encoder", "source: layers.first.in"),
        "of the model's own tokens",
    ),
    "values of its own": (CROSS % "source: encoder, value: {blend: {beside: lookup}}", "its value reads"),
    "encoder as a value": (CROSS % "source: encoder, gate: none, value: {from: encoder}", "its value reads"),
    "encoder in a stream": (
        "[residual: [attention], recall: encoder, residual: [attention: {source: encoder}]]",
        "at the places of the source",
    ),
    "keys of the source": (
        "[residual: [attention], residual: [attention: {source: encoder}], "
        "residual: [recall: attention_2.key, attention: {source: encoder}]]",
        "at the places of the source",
    ),
    "nothing read": ("[residual: [layer_norm, attention]]", "no part of the block reads encoder"),
    "no layer left": ("[residual: [layer_norm, attention: {source: encoder}]]", "nothing is left"),
    "more in the part": (
        "[residual: [attention], residual: [layer_norm, attention: {source: encoder}, mlp]]",
        "contains mlp too",
    ),
}


@pytest.mark.parametrize(("block", "said"), list(REFUSED.values()), ids=list(REFUSED))
def test_what_has_no_meaning_is_refused(block, said):
    with pytest.raises(InputError, match=said):
        cost(whole(block), CATALOGUE)


def test_a_decoder_has_no_encoder():
    with pytest.raises(InputError, match="a model of this kind has none"):
        cost(whole(kind="decoder"), CATALOGUE)
    with pytest.raises(InputError, match="not in this model"):
        compile_model(whole(kind="decoder"), CATALOGUE, device="meta")


def test_a_length_of_the_source_is_needed():
    with pytest.raises(InputError, match=r"model\.source"):
        cost(whole(sizes=replace(whole().sizes, source_len=None)), CATALOGUE)


@pytest.mark.sampled(12, gate="all")
@pytest.mark.parametrize("name", sorted(transformer().blocks))
def test_every_named_block_is_built_or_refused(name):
    block = transformer().blocks[name]
    model = whole(getattr(block, "block", block), sizes=replace(whole().sizes, d_model=32, n_heads=2))
    try:
        counted = cost(model, CATALOGUE)
    except InputError as refused:
        assert "\n  = " in str(refused)
        assert "cross" not in name
        return
    assert "cross" in name
    assert counted == size_report(model, CATALOGUE)
