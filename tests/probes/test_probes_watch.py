"""Where probes read, that they leave nothing behind, and that they read what they say."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from ablate.errors import InputError
from ablate.kernels import Attend
from ablate.probes import registry
from ablate.probes.update import changes, streams
from ablate.probes.watch import watching

pytestmark = pytest.mark.fast


def step(model, tokens, names):
    with watching(model, registry.select(names)) as readings:
        functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    return {(r.metric, r.address): r.value.item() for r in readings}


def hooks(model):
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) + len(m._backward_hooks) for m in model.modules())


def stream_inputs(model, tokens):
    """The stream at every site, from a forward pass written out in the test."""
    x, seen = model.embedding(tokens), {}
    for name, block in model.layers.items():
        seen[f"layers.{name}"] = x
        x = block(x)
    seen["head"] = model.final_norm(x)
    return {site: x.detach().numpy().astype(np.float64).reshape(-1, x.shape[-1]) for site, x in seen.items()}


def softmax_entropy(q, k, causal):
    """Mean entropy of the attention weights, row by row."""
    entropies = []
    for b, h, i in np.ndindex(q.shape[:3]):
        visible = k[b, h, : i + 1] if causal else k[b, h]
        logits = visible @ q[b, h, i] / np.sqrt(q.shape[-1])
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        entropies.append(-np.sum(weights * np.log(weights)))
    return np.mean(entropies)


def test_streams_are_read_where_they_enter_blocks_and_head(build, tokens):
    model = build()
    expected = stream_inputs(model, tokens)
    readings = step(model, tokens, ["activation_rms"])
    assert {address for metric, address in readings if metric == "activation_rms"} == set(expected)
    for site, x in expected.items():
        assert readings["activation_rms", site] == pytest.approx(np.sqrt(np.mean(x**2)), rel=1e-12)
    assert len({readings["activation_rms", site] for site in expected}) == 3  # each site has a number of its own


@pytest.mark.parametrize("causal", [True, False])
def test_attention_entropy_equals_its_definition(build, tokens, causal):
    model = build(causal=causal)
    for attention in (block.attention for block in model.layers.values()):
        torch.nn.init.normal_(attention.query.weight)  # large enough for rows that are not uniform
    captured = {}
    for name, module in model.named_modules():
        if isinstance(module, Attend):
            module.register_forward_pre_hook(lambda m, inputs, name=name: captured.update({name: inputs}))
    readings = step(model, tokens, ["attention_entropy"])
    assert set(captured) == {"layers.1.attention.core", "layers.2.attention.core"}
    for name, (q, k, _) in captured.items():
        expected = softmax_entropy(q.detach().numpy(), k.detach().numpy(), causal)
        assert readings["attention_entropy", name.removesuffix(".core")] == pytest.approx(expected, rel=1e-12)
        other = softmax_entropy(q.detach().numpy(), k.detach().numpy(), not causal)
        assert expected != pytest.approx(other, rel=1e-3)  # the test can fail


def test_gradient_norms_equal_their_definition_and_add_up(build, tokens):
    model = build()
    readings = step(model, tokens, ["gradient_norm"])
    gradients = {name: p.grad.numpy() for name, p in model.named_parameters()}
    parts = {}
    for name, gradient in gradients.items():
        parts.setdefault(name.rpartition(".")[0], []).append(gradient.ravel())
    expected = {part: np.linalg.norm(np.concatenate(pieces)) for part, pieces in parts.items()}
    assert {a: v for (m, a), v in readings.items() if m == "gradient_norm"} == pytest.approx(expected, rel=1e-12)
    total = np.linalg.norm(np.concatenate([g.ravel() for g in gradients.values()]))
    assert np.sqrt(sum(v**2 for (m, _), v in readings.items() if m == "gradient_norm")) == pytest.approx(total)


def test_a_shared_parameter_counts_once(build, tokens):
    model = build()
    model.head.weight = model.embedding.weight
    addresses = {address for metric, address in step(model, tokens, ["gradient_norm"]) if metric == "gradient_norm"}
    assert "embedding" in addresses
    assert "head" not in addresses


def test_trainable_gains_are_always_read_and_fixed_ones_never(build, tokens):
    model = build()
    with torch.no_grad():
        model.layers["2"].mlp_gain.factor.copy_(torch.arange(8.0) - 3)
    readings = step(model, tokens, [])
    assert readings["gain", "layers.1.attention_gain"] == 0.5
    assert readings["gain_mean", "layers.2.mlp_gain"] == pytest.approx(0.5)
    assert readings["gain_rms", "layers.2.mlp_gain"] == pytest.approx(np.sqrt(np.mean((np.arange(8) - 3.0) ** 2)))
    assert readings["gain_sd", "layers.2.mlp_gain"] == pytest.approx(np.std(np.arange(8.0)))
    assert not any("fixed_gain" in address for _, address in readings)


def test_gains_of_heads_are_read_one_by_one_with_their_sd_and_their_ratio_to_the_skip(build, tokens):
    model = build()
    alpha, beta = np.array([0.5, -2.0]), np.array([0.3, 0.7])
    with torch.no_grad():
        model.layers["2"].mixed.skip.factor.copy_(torch.from_numpy(alpha)[:, None, None])
        model.layers["2"].mixed.gain.factor.copy_(torch.from_numpy(beta)[:, None, None])
    readings = step(model, tokens, ["gain_by_head"])
    heads = [readings["gain_of_head", f"layers.2.mixed.gain.head_{head}"] for head in (1, 2)]
    assert heads == pytest.approx(list(beta), rel=1e-12)
    assert readings["gain_sd", "layers.2.mixed.gain"] == pytest.approx(np.std(beta), rel=1e-12)
    assert readings["gain_sd", "layers.2.mixed.gain"] != pytest.approx(np.std(beta, ddof=1))  # not of a sample
    assert readings["gain_ratio", "layers.2.mixed"] == pytest.approx(np.mean(beta / alpha), rel=1e-12)
    assert readings["gain_ratio", "layers.1.mixed"] == pytest.approx(0.5)
    assert {address for metric, address in readings if metric == "gain_ratio"} == {"layers.1.mixed", "layers.2.mixed"}
    assert not any(metric == "gain_of_head" for metric, _ in step(model, tokens, []))  # asked for by name


def test_nothing_hangs_on_the_model_after_watching(build, tokens):
    model = build()
    with watching(model, registry.select(registry.probe_names())):
        # streams, those in training, their gradients and that behind all, kernels, cores, two sites of two mixers
        assert hooks(model) == 3 + 3 + (3 + 1) + 3 + 2 + 2 * 4
    assert hooks(model) == 0
    with watching(model, ()):
        assert hooks(model) == 0


def test_hooks_are_gone_when_the_step_fails(build):
    model = build()
    with pytest.raises(IndexError), watching(model, registry.select(registry.probe_names())):
        model(torch.tensor([[99]]))
    assert hooks(model) == 0


def test_watching_changes_no_bit_and_draws_no_random_number(build, tokens):
    watched, plain = build(torch.float32), build(torch.float32)
    before = torch.get_rng_state()
    assert step(watched, tokens, registry.probe_names())
    assert torch.equal(torch.get_rng_state(), before)
    functional.cross_entropy(plain(tokens).flatten(0, 1), tokens.flatten()).backward()
    for (name, a), b in zip(watched.named_parameters(), plain.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad), name


def test_probes_see_what_autocast_computes_but_compute_in_float64_themselves(build, tokens):
    model = build(torch.float32)
    entering_head = []
    model.head.register_forward_pre_hook(lambda m, inputs: entering_head.append(inputs[0].detach()))
    with torch.autocast("cpu", torch.bfloat16), watching(model, registry.select(["token_correlation"])) as readings:
        model(tokens)
    x = entering_head[0].double().numpy().reshape(-1, 8)
    x /= np.sqrt(np.mean(x**2))
    off = (x @ x.T / 8)[~np.eye(len(x), dtype=bool)]
    found = {(r.metric, r.address): r.value for r in readings}
    assert found["token_correlation_rms", "head"].dtype == torch.float64
    assert found["token_correlation_rms", "head"].item() == pytest.approx(np.sqrt(np.mean(off**2)), rel=1e-12)


def test_every_reading_has_a_definition_and_every_definition_a_reading(build, tokens):
    read = {metric for metric, _ in step(build(), tokens, registry.probe_names())}
    of_updates = [probe for probe in registry.probes().values() if probe.of_updates]  # read after it, not while watched
    model = build()
    entering = streams(model, lambda: model(tokens))
    read |= {reading.metric for reading in changes(of_updates, entering, entering)}
    defined = [definition.metric for definition in registry.definitions()]
    assert sorted(read) == defined  # sorted, and no metric is defined twice
    assert all(definition.definition and definition.source for definition in registry.definitions())


def test_the_registry_holds_a_probe_for_every_name():
    assert set(registry.probes()) == {*registry.probe_names(), "gain"}
    assert registry.probes()["kurtosis"].spec.reads == "stream"
    assert registry.probes()["gain"].of_parameters


def test_an_unknown_probe_is_refused_with_the_one_that_is_near():
    with pytest.raises(InputError, match="unknown probe 'kurtosi'") as error:
        registry.select(["kurtosis", "kurtosi"])
    assert "did you mean 'kurtosis'?" in str(error.value)
    assert "`ablate list probes`" in str(error.value)
    assert registry.select(["kurtosis", "kurtosis"]) == registry.select(["kurtosis"])


def test_every_definition_of_a_stream_says_what_it_is_over():
    """The batch jointly, each token by itself, or within each sequence."""
    for probe in registry.probes().values():
        if probe.spec.reads == "stream":
            over = ("the batch jointly", "over the tokens of the batch of each token's")
            assert all(any(text in d.definition for text in over) for d in probe.spec.metrics), probe.spec.metrics
        if probe.spec.reads == "sequences":
            assert all("within each sequence" in d.definition for d in probe.spec.metrics)


def test_sequences_are_told_apart_from_the_batch(build, tokens):
    """A probe of sequences is given the same stream, not yet joined."""
    model = build()
    readings = step(model, tokens, ["token_cosine"])
    for site, x in stream_inputs(model, tokens).items():
        units = (x / np.linalg.norm(x, axis=-1, keepdims=True)).reshape(3, 5, -1)
        cosines = [np.mean((u @ u.T)[~np.eye(5, dtype=bool)]) for u in units]
        assert readings["token_cosine", site] == pytest.approx(np.mean(cosines), rel=1e-12)


def test_what_fills_up_a_sequence_is_not_read(build, tokens):
    model = build()
    real = torch.arange(tokens.shape[1])[None] < torch.tensor([tokens.shape[1] - 2, *[3] * (len(tokens) - 1)])[:, None]
    names = ("kurtosis", "token_cosine")
    with torch.no_grad(), watching(model, registry.select(names), lambda: real) as readings:
        model(tokens)
    read = {(r.metric, r.address): r.value.item() for r in readings if r.metric in names}
    whole = step(model, tokens, names)
    for site, x in stream_inputs(model, tokens).items():
        kept = x[real.flatten().numpy()]
        squares = (kept**2).mean(0)
        assert read["kurtosis", site] == pytest.approx((squares**2).mean() / squares.mean() ** 2, rel=1e-5)
        cosines = []
        for sequence, mask in zip(x.reshape(*tokens.shape, -1), real.numpy(), strict=True):
            unit = sequence[mask] / np.linalg.norm(sequence[mask], axis=-1, keepdims=True)
            products = unit @ unit.T
            cosines.append(products[~np.eye(len(unit), dtype=bool)].mean())
        assert read["token_cosine", site] == pytest.approx(np.mean(cosines), rel=1e-5)
        for name in names:
            assert read[name, site] != pytest.approx(whole[name, site], rel=1e-5), "else this could not fail"
    alone = real.clone()
    alone[0, 1:] = False
    with torch.no_grad(), watching(model, registry.select(names), lambda: alone) as readings:
        model(tokens)
    assert all(r.value.isfinite() for r in readings), "a sequence of one token has no cosine, and is left out"
    matrices = registry.select(("token_kernel",))
    with (
        pytest.raises(ValueError, match="over positions, but sequences are of different lengths"),
        watching(model, matrices, lambda: real),
    ):
        model(tokens)
    entropy = registry.select(("attention_entropy",))
    with pytest.raises(ValueError, match="attention does not know it"), watching(model, entropy, lambda: real):
        model(tokens)
