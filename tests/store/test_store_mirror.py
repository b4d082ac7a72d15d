"""MLflow shows what the store has: one experiment for a space, one run for a trial of it, sent once."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from store_worlds import DOCUMENTS, STEPS, course, fill, number, opened, plan, trial

from ablate.store.mirror import PARAM_LENGTH, TAG_LENGTH, mirror
from ablate.train.events import Outcome, Row


@pytest.fixture(scope="module")
def client():
    mlflow = pytest.importorskip("mlflow")
    return lambda folder: mlflow.MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")


def runs_of(client, space="small"):
    experiment = client.get_experiment_by_name(space)
    return {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}


def test_runs_params_tags_and_curves_and_sent_once(tmp_path, client):
    fill(tmp_path)
    with opened(tmp_path):
        assert mirror(tmp_path) == 6
        assert mirror(tmp_path) == 0
    runs = runs_of(client(tmp_path))
    assert sorted(runs) == sorted(f"{name} seed {seed}" for name in ("pre_ln", "half", "op") for seed in (0, 1))
    run = runs["op seed 0"]
    assert run.data.params["recipe.optimizer.adamw.lr"] == "0.01" and run.data.params["seed"] == "0"
    assert run.data.tags["edits"] == run.data.tags["difference"] == "+qk_norm; residual.gain=0.5"
    assert (run.data.tags["status"], run.data.tags["against"], run.info.status) == ("finished", "pre_ln", "FINISHED")
    assert set(run.data.metrics) == {"train_loss", "eval_loss", "peak_kurtosis", "token_correlation"}
    curve = client(tmp_path).get_metric_history(run.info.run_id, "train_loss")
    assert {point.step: point.value for point in curve} == {s: number("c30000", s, "train_loss") for s in STEPS}
    lost = runs["op seed 1"]
    assert (lost.data.tags["status"], lost.info.status) == ("diverged", "FAILED")
    curve = client(tmp_path).get_metric_history(lost.info.run_id, "train_loss")
    assert [point.step for point in curve] == [0, 10], "the NaN at step 20 is no point"

    # Only what is new is sent; a crash before the line that says so leads to a run replaced, not doubled.
    fill(tmp_path, plan(seeds=(0, 1, 2)))
    with opened(tmp_path):
        assert mirror(tmp_path) == 3
        sent = tmp_path / "mlflow.jsonl"
        sent.write_bytes(b"".join(sent.read_bytes().splitlines(keepends=True)[:-1]))
        assert mirror(tmp_path) == 1
    assert len(runs_of(client(tmp_path))) == 9
    assert len(client(tmp_path).search_runs(["1"])) == 9


def test_a_trial_trained_again_replaces_its_run_and_long_texts_fit(tmp_path, client):
    wordy = plan(seeds=(0,))
    edits = tuple(f"edit_{n}" for n in range(3000))
    wordy = replace(wordy, variants=(*wordy.variants[:2], replace(wordy.variants[2], edits=edits)))
    many = [Row(step, "train_loss", "", 1.0 + step) for step in range(2500)]
    with opened(tmp_path) as results:
        results.record_plan(wordy, DOCUMENTS)
        for trains in range(2):
            results.begin(replace(trial("c3"), corpus="x" * 10_000))
            results.append("c30000", [*many, Row(2500, "eval_loss", "", float(trains)), Outcome("finished", 40)])
            results.refresh()
            assert mirror(tmp_path) == 1
    (run,) = runs_of(client(tmp_path)).values()
    assert run.data.metrics["eval_loss"] == 1.0 and run.data.tags["ablate.attempt"] == "2"
    assert len(client(tmp_path).get_metric_history(run.info.run_id, "train_loss")) == 2500
    assert len(run.data.tags["edits"]) <= TAG_LENGTH and run.data.tags["edits"].endswith("…")
    assert all(len(value) <= PARAM_LENGTH for value in run.data.params.values())


QUIET = """
import json, sys
from pathlib import Path
from ablate.store.mirror import mirror
sent = mirror(Path(sys.argv[1]))
print(json.dumps([sent, "mlflow" in sys.modules]))
"""


def test_mlflow_says_nothing_and_is_not_imported_for_nothing(tmp_path):
    with opened(tmp_path) as results:
        results.record_plan(plan(seeds=(0,)), DOCUMENTS)
        results.begin(trial())
        results.append("a10000", course("a10000"))
        results.refresh()
    for expected in ([1, True], [0, False]):
        told = subprocess.run([sys.executable, "-c", QUIET, tmp_path], capture_output=True, text=True, check=True)
        assert json.loads(told.stdout) == expected
        assert told.stderr == ""
