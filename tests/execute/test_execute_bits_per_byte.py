"""Bits per byte of an evaluation, held against a computation of its own: bytes by the tokenizers' library, nats by
NumPy in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from objectives import next_token
from tiny_spaces import write_world
from tokenizers import Tokenizer

import ablate
from ablate.compiler import compile_model
from ablate.components.registry import declarations
from ablate.data.streams import prepare
from ablate.execute import work, worker
from ablate.execute.executor import Task
from ablate.probes.registry import select
from ablate.train.events import Outcome, Row
from ablate.train.microbatches import BatchShares
from ablate.train.objective import evaluate


@pytest.fixture(scope="module", params=["bytes", "{bpe: 300}"])
def planned(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    settings = [f"data.tokenizer={request.param}", "seeds=2", "recipe.dtype=float64"]
    return ablate.plan_space(ablate.load_space(write_world(folder), settings=settings), results=folder / "r")


def windows_of(trial, folder, monkeypatch):
    given = []

    def train(model, trial, batches, evaluation, **how):
        given.append(evaluation)
        yield Outcome("interrupted", 0)

    with monkeypatch.context() as patched:
        patched.setattr(work, "train", train)
        for _ in worker.messages(Task(trial=trial, folder=folder), lambda: False):
            pass
    return given.pop()


def bytes_of(tokens, tokenizer):
    """Decoded by the library, window by window (the texts are ASCII, so no character is cut), and a byte for each
    separator."""
    if (trained := tokenizer.to_json()) is None:
        return sum(len(bytes(row)) for row in tokens)
    library = Tokenizer.from_str(trained)
    texts = [library.decode(row, skip_special_tokens=True) for row in tokens]
    return sum(len(text.encode()) for text in texts) + sum(row.count(0) for row in tokens)


def nats_of(model, windows):
    with torch.no_grad():
        logits = model(windows.inputs).numpy().astype(np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -math.fsum(np.take_along_axis(log_p, windows.targets.numpy()[..., None], -1).ravel())


def test_bits_per_byte_are_all_nats_over_the_bytes_that_the_targets_stand_for(planned, tmp_path, monkeypatch):
    by_trial = {}
    for trial in [one for one in planned.plan.trials if one.variant == planned.plan.baseline]:
        windows = windows_of(trial, tmp_path, monkeypatch)
        streams = prepare(trial.work.data, planned.space.path.parent, tmp_path / "cache")
        assert windows.bytes == bytes_of(windows.targets.tolist(), streams.tokenizer)
        model = compile_model(trial.work.architecture, declarations(()), seed=trial.seed, dtype=torch.float64)
        rows = [
            row
            for row in evaluate(model, windows, 0, trial, BatchShares(), next_token(), select(()))
            if isinstance(row, Row)
        ]
        row = next(row for row in rows if row.metric == "eval_bits_per_byte")
        assert row.value == pytest.approx(nats_of(model, windows) / (math.log(2) * windows.bytes), rel=1e-12)
        assert (row.step, row.address) == (0, "")
        by_trial[trial.seed] = windows, row.value, next(row.value for row in rows if row.metric == "eval_loss")
    if planned.space.data.tokenizer == "bytes":
        assert all(bits == nats / math.log(2) and w.bytes == w.targets.numel() for w, bits, nats in by_trial.values())
    else:  # bytes are counted seed by seed, on the windows of each
        assert by_trial[0][0].bytes != by_trial[1][0].bytes
        assert all(
            w.bytes > 1.5 * w.targets.numel() and bits < nats / math.log(2) for w, bits, nats in by_trial.values()
        )


def test_windows_without_text_behind_them_have_no_bits_per_byte(planned, tmp_path, monkeypatch):
    trial = planned.plan.trials[0]
    windows = windows_of(trial, tmp_path, monkeypatch)._replace(bytes=None)
    model = compile_model(trial.work.architecture, declarations(()), seed=trial.seed, dtype=torch.float64)
    rows = {
        row.metric for row in evaluate(model, windows, 0, trial, BatchShares(), next_token()) if isinstance(row, Row)
    }
    assert rows == {"eval_loss"}
