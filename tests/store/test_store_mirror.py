"""MLflow shows what the store has: one experiment for a space, one run for a trial of it, sent once."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from store_worlds import DOCUMENTS, STEPS, fill, number, opened, plan, trial

from ablate.store.mirror import PARAM_LENGTH, TAG_LENGTH, mirror
from ablate.train.events import Outcome, Row

MIRROR = """
import json, sys
from pathlib import Path
from ablate.store.mirror import mirror
sent = mirror(Path(sys.argv[1]))
print(json.dumps([sent, "mlflow" in sys.modules]))
"""


def mirror_apart(folder):
    """Mirror in a process of its own: runs sent, whether MLflow was imported, and what was said."""
    told = subprocess.run([sys.executable, "-c", MIRROR, folder], capture_output=True, text=True, check=True)
    return (*json.loads(told.stdout), told.stderr)


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """A space of six trials, sent for the first time, and what was said of it."""
    folder = tmp_path_factory.mktemp("results")
    fill(folder)
    return folder, mirror_apart(folder)


@pytest.fixture
def folder(mirrored):
    return mirrored[0]


@pytest.fixture
def client(folder):
    return pytest.importorskip("mlflow").MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")


def runs_of(client, space="small"):
    found = list(client.search_runs([client.get_experiment_by_name(space).experiment_id]))
    runs = {run.info.run_name: run for run in found}
    assert len(runs) == len(found), "a run is there twice"
    return runs


def test_it_is_silent_and_mlflow_is_not_imported_for_nothing(mirrored):
    folder, first = mirrored
    assert first == (6, True, "")
    assert mirror_apart(folder) == (0, False, "")


def test_a_run_has_its_params_tags_and_curves(client):
    runs = runs_of(client)
    assert sorted(runs) == sorted(f"{name} seed {seed}" for name in ("pre_ln", "half", "op") for seed in (0, 1))
    run = runs["op seed 0"]
    assert run.data.params["recipe.optimizer.adamw.lr"] == "0.01" and run.data.params["seed"] == "0"
    assert run.data.tags["edits"] == run.data.tags["difference"] == "+qk_norm; residual.gain=0.5"
    assert (run.data.tags["status"], run.data.tags["against"], run.info.status) == ("finished", "pre_ln", "FINISHED")
    assert set(run.data.metrics) == {"train_loss", "eval_loss", "peak_kurtosis", "token_correlation"}
    curve = client.get_metric_history(run.info.run_id, "train_loss")
    assert {point.step: point.value for point in curve} == {s: number("c30000", s, "train_loss") for s in STEPS}


def test_a_diverged_trial_is_a_run_and_nan_is_no_point(client):
    run = runs_of(client)["op seed 1"]
    assert (run.data.tags["status"], run.info.status) == ("diverged", "FAILED")
    assert [point.step for point in client.get_metric_history(run.info.run_id, "train_loss")] == [0, 10]


def test_a_crash_before_the_line_that_says_sent_doubles_no_run(folder, client):
    sent = folder / "mlflow.jsonl"
    sent.write_bytes(b"".join(sent.read_bytes().splitlines(keepends=True)[:-1]))
    assert mirror(folder) == 1
    assert len(runs_of(client)) == 6


def test_a_trial_trained_again_replaces_its_run_and_long_texts_fit(folder, client):
    wordy = plan(seeds=(7,), space="wordy")
    edits = tuple(f"edit_{n}" for n in range(3000))
    wordy = replace(wordy, variants=(*wordy.variants[:2], replace(wordy.variants[2], edits=edits)))
    many = [Row(step, "train_loss", "", 1.0 + step) for step in range(2500)]
    with opened(folder) as results:
        results.record_plan(replace(wordy, trials=(replace(trial("c3", 7), corpus="x" * 10_000),)), DOCUMENTS)
        for trains in range(2):
            results.begin(trial("c3", 7))
            results.append("c30007", [*many, Row(2500, "eval_loss", "", float(trains)), Outcome("finished", 40)])
            results.refresh()
            assert mirror(folder) == 1
    (run,) = runs_of(client, "wordy").values()
    assert run.data.metrics["eval_loss"] == 1.0 and run.data.tags["ablate.attempt"] == "2"
    assert len(client.get_metric_history(run.info.run_id, "train_loss")) == 2500
    assert len(run.data.tags["edits"]) == TAG_LENGTH and run.data.tags["edits"].endswith("…")
    assert max(map(len, run.data.params.values())) == PARAM_LENGTH
