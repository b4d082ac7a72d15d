"""Probes in a float32 run: each number against NumPy float64 over held-out windows, and Eq. 4 from the rows."""

import copy

import numpy as np
import pytest
import torch

from ablate.data.batch import Examples
from ablate.probes.registry import definitions
from ablate.train.events import Row
from ablate.train.loop import train

BATCH = 4
"""As the trial has it."""

PROBES = ("kurtosis", "max_median_ratio", "token_correlation", "activation_rms", "gram", "attention_entropy")

READ = {
    "kurtosis",
    "max_median_ratio",
    "token_correlation_rms",
    "activation_rms",
    "token_norm_kurtosis",
    "attention_entropy",
}


@pytest.fixture
def measured(build, make_trial, data):
    """Rows of an evaluation on one batch of windows, and what enters blocks, head and attention on these windows."""
    return read(build, make_trial, data, Examples(*(window[:BATCH] for window in data.evaluation[:2]), bytes=None))


def read(build, make_trial, data, windows, dropout=0.0):
    model = build(dropout=dropout)
    trial = make_trial(measure__probes=PROBES)
    snapshots = []
    events = train(model, trial, data, windows, should_stop=lambda: bool(snapshots.append(copy.deepcopy(model))))
    rows = {(e.metric, e.address): e.value for e in events if isinstance(e, Row) and e.step == 4}
    return rows, inputs_of(snapshots[4], windows[0])


def inputs_of(model, tokens):
    inputs = {}
    sites = {"layers.1": "layers.1", "layers.2": "layers.2", "head": "head"}
    sites |= {f"layers.{i}.attention": f"layers.{i}.attention.core" for i in (1, 2)}
    for address, module in sites.items():
        hook = lambda m, seen, address=address: inputs.update({address: [s.detach().double().numpy() for s in seen]})  # noqa: E731
        model.get_submodule(module).register_forward_pre_hook(hook)
    with torch.no_grad():
        model.eval()(tokens)
    return inputs


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


def kurtosis(x):
    s = np.sqrt(np.mean(x**2, axis=0))
    return np.mean(s**4) / np.mean(s**2) ** 2


def test_probes_of_activations_read_all_windows_without_dropout_a_batch_at_a_time(build, make_trial, data):
    """Ten windows in batches of four: the mean over 4, 4 and 2 of them, weighted so."""
    rows, inputs = read(build, make_trial, data, data.evaluation, dropout=0.5)
    for address in ("layers.1", "layers.2", "head"):
        (x,) = inputs[address]
        by_batch = [kurtosis(x[first : first + BATCH].reshape(-1, x.shape[-1])) for first in (0, 4, 8)]
        assert rows["kurtosis", address] == pytest.approx(np.average(by_batch, weights=[4, 4, 2]), rel=1e-5)
        assert rows["kurtosis", address] != pytest.approx(kurtosis(x.reshape(-1, x.shape[-1])), rel=1e-3)


def test_what_is_read_of_activations_is_of_the_windows_and_not_of_a_batch(build, make_trial, data):
    """At step 0, where no training has told one text from another."""
    elsewhere = type(data)(seed=1)

    def at_start(batches, windows):
        events = train(build(), make_trial(measure__probes=PROBES), batches, windows, should_stop=lambda: False)
        return {(e.metric, e.address): e.value for e in events if isinstance(e, Row) and e.step == 0}

    own, other_batches = at_start(data, data.evaluation), at_start(elsewhere, data.evaluation)
    other_windows = at_start(data, elsewhere.evaluation)
    same = {metric for metric, address in own if own[metric, address] == other_batches[metric, address]}
    apart = {metric for metric, address in own if own[metric, address] != other_windows[metric, address]}
    assert {"eval_loss", *READ} <= apart and {"eval_loss", *READ} <= same
    assert "train_loss" not in apart | same


def test_the_definition_of_a_probe_says_which_text_it_reads():
    read = {d.metric: d.definition.rpartition("; read ")[2] for d in definitions()}
    assert {read[metric] for metric in READ} == {
        "on the seed's evaluation windows, without dropout: mean over batches of them"
    }
    assert {read[metric] for metric in ("gradient_norm", "gain")} == {"in steps of training, on their batch"}
