"""Probes inside a float32 training step: each number against NumPy float64, and Eq. 4 from the rows of a real step."""

import copy

import numpy as np
import pytest
import torch

from ablate.train.events import Row
from ablate.train.loop import train

PROBES = ("kurtosis", "max_median_ratio", "token_correlation", "activation_rms", "gram", "attention_entropy")


@pytest.fixture
def measured(build, make_trial, data):
    """Rows of step 3 of a float32 run, and what entered blocks, head and attention in a run of the test's own."""
    model = build()
    trial = make_trial(measure__probes=PROBES)
    snapshots = []
    events = train(
        model, trial, data, data.evaluation, should_stop=lambda: bool(snapshots.append(copy.deepcopy(model)))
    )
    rows = {(e.metric, e.address): e.value for e in events if isinstance(e, Row) and e.step == 3}
    at_step_3, inputs = snapshots[3], {}
    sites = {"layers.1": "layers.1", "layers.2": "layers.2", "head": "head"}
    sites |= {f"layers.{i}.attention": f"layers.{i}.attention.core" for i in (1, 2)}
    for address, module in sites.items():
        hook = lambda m, seen, address=address: inputs.update({address: [s.detach().double().numpy() for s in seen]})  # noqa: E731
        at_step_3.get_submodule(module).register_forward_pre_hook(hook)
    with torch.no_grad():
        at_step_3(data.at(3)[0])
    return rows, inputs


def streams(inputs):
    return {a: seen[0].reshape(-1, seen[0].shape[-1]) for a, seen in inputs.items() if "attention" not in a}


def test_stream_probes_in_a_float32_run(measured):
    rows, inputs = measured
    for address, x in streams(inputs).items():
        n, d = x.shape
        s = np.sqrt(np.mean(x**2, axis=0))
        assert rows["kurtosis", address] == pytest.approx(np.mean(s**4) / np.mean(s**2) ** 2, rel=1e-5)
        ratio = np.max(np.abs(x), axis=1) / np.median(np.abs(x), axis=1)
        assert rows["max_median_ratio", address] == pytest.approx(np.mean(ratio), rel=1e-5)
        m2 = np.mean(x**2)
        assert rows["activation_rms", address] == pytest.approx(np.sqrt(m2), rel=1e-5)
        tokens = (x @ x.T / d / m2)[~np.eye(n, dtype=bool)]
        assert rows["token_correlation_mean", address] == pytest.approx(np.mean(tokens), rel=1e-5, abs=1e-6)
        assert rows["token_correlation_rms", address] == pytest.approx(np.sqrt(np.mean(tokens**2)), rel=1e-5)
        features = (x.T @ x / n / m2)[~np.eye(d, dtype=bool)]
        assert rows["feature_correlation_rms", address] == pytest.approx(np.sqrt(np.mean(features**2)), rel=1e-5)
        norms = np.mean(x**2, axis=1) / m2
        assert rows["token_norm_kurtosis", address] == pytest.approx(np.mean(norms**2), rel=1e-5)


def test_attention_entropy_in_a_float32_run(measured):
    rows, inputs = measured
    for address in ("layers.1.attention", "layers.2.attention"):
        q, k, _ = inputs[address]
        logits = 0.5 * q @ k.swapaxes(-1, -2)
        weights = np.exp(logits) * np.tril(np.ones(logits.shape[-2:]))
        weights /= weights.sum(-1, keepdims=True)
        entropy = -np.sum(weights * np.log(np.where(weights > 0, weights, 1)), axis=-1)
        assert rows["attention_entropy", address] == pytest.approx(np.mean(entropy), rel=1e-5)


def test_equation_4_balances_in_the_rows_of_a_real_step(measured):
    rows, inputs = measured
    for address, x in streams(inputs).items():
        n, d = x.shape
        kurtosis, features = rows["kurtosis", address], rows["feature_correlation_rms", address]
        norms, tokens = rows["token_norm_kurtosis", address], rows["token_correlation_rms", address]
        left = n**2 * d * kurtosis + n**2 * d * (d - 1) * features**2
        right = n * d**2 * norms + n * (n - 1) * d**2 * tokens**2
        assert left == pytest.approx(right, rel=1e-12)
        without_kurtosis = left - n**2 * d * kurtosis
        assert without_kurtosis != pytest.approx(right, rel=1e-2)


def test_numbers_differ_from_place_to_place(measured):  # the tests above can tell one place from another
    rows, _ = measured
    assert len({rows["kurtosis", address] for address in ("layers.1", "layers.2", "head")}) == 3
