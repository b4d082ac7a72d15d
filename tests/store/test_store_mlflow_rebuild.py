"""The results folder's own mirror is a projection: deleted, damaged, moved or killed half-way, it is filled again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time

import pytest
from mlflow_fixtures import REPORT, client_of, runs_of, told, verdicts_of
from store_fixtures import fill, plan

from ablate.errors import RefusedError
from ablate.store.mirror import mirror, rebuild
from ablate.store.mlflow_pages import TRIAL

KILLED = """
import os, signal, sys
from pathlib import Path
import mlflow
from ablate.store.mirror import mirror

name, last = sys.argv[2], int(sys.argv[3])
real, calls = getattr(mlflow.MlflowClient, name), 0

def counted(*args, **kwargs):
    global calls
    calls += 1
    if calls == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)

setattr(mlflow.MlflowClient, name, counted)
mirror(Path(sys.argv[1]))
"""


def kill_at(folder, call, last):
    """Mirror in a process that is killed when it is about to make its `last` such call."""
    done = subprocess.run([sys.executable, "-c", KILLED, folder, call, str(last)], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    fill(folder)
    kill_at(folder, "log_batch", 3)
    assert not (folder / "mlflow.db").exists(), "a store in the making is not shown"
    mirror(folder, reports={"small": REPORT})
    assert not list(folder.glob("mlflow.db.*")), "nor is anything left of it"
    return folder


@pytest.mark.sampled(0, gate=1)
@pytest.mark.parametrize("call, last, half", [("log_batch", 2, 1), ("set_experiment_tag", 1, 0)])
def test_a_kill_in_the_middle_doubles_nothing(folder, call, last, half):
    space = f"killed_at_{call}"
    seed = 40 + half
    one = plan(seeds=(seed,), space=space)
    fill(folder, one, diverge="")
    kill_at(folder, call, last)
    client = client_of(folder)
    statuses = [run.info.status for run in runs_of(client, space).values()]
    assert statuses.count("RUNNING") == half, "the kill hit the middle"
    assert (f"repaired: {space}: 1 run half-sent" in told(folder)) == bool(half)
    mirror(folder)
    runs = runs_of(client, space)
    assert {run.info.status for run in runs.values()} == {"FINISHED"} and len(runs) == 3
    assert all(len(client.get_metric_history(run.info.run_id, "train_loss")) == 4 for run in runs.values())
    assert told(folder) == []


@pytest.mark.full
def test_a_rebuilt_mirror_is_as_the_first_one_was_and_says_so(folder):
    client = client_of(folder)
    before = {name: (run.data.metrics, run.data.params, run.data.tags) for name, run in runs_of(client).items()}
    wanted = [run.info.run_id for run in runs_of(client).values()]
    client.delete_run(wanted[0])
    client.set_tag(wanted[1], "ablate.digest", "another")
    copy = client.create_run(
        client.get_experiment_by_name("small").experiment_id, tags=client.get_run(wanted[2]).data.tags
    )
    client.set_terminated(copy.info.run_id)
    kinds = ["1 run stale: the trial or its space has changed since", "1 run there twice"]
    assert told(folder) == [f"repaired: small: {kind}" for kind in kinds] + ["harmless: small: 1 run deleted by hand"]
    old = verdicts_of(client).info.run_id
    done = rebuild(folder)
    assert done.sent >= 6 and "small" in done.spaces and told(folder) == []
    after = {name: (run.data.metrics, run.data.params, run.data.tags) for name, run in runs_of(client).items()}
    assert after == before
    assert {one.path for one in client.list_artifacts(verdicts_of(client).info.run_id)} == set(REPORT)
    assert not (folder / "mlruns" / old).exists(), "files of runs that are gone go with them"
    assert not mirror(folder)


@pytest.mark.full
def test_a_store_that_was_deleted_is_filled_again(folder):
    experiments = [one.experiment_id for one in client_of(folder).search_experiments()]
    runs = len([run for run in client_of(folder).search_runs(experiments) if TRIAL in run.data.tags])
    (folder / "mlflow.db").unlink()
    (folder / "mlflow.db-journal").write_bytes(b"of the old file")
    assert told(folder) == [f"repaired: is missing, with {runs} runs"] and runs >= 6
    assert mirror(folder).sent >= 6
    client = client_of(folder)
    assert {one.path for one in client.list_artifacts(verdicts_of(client).info.run_id)} == set(REPORT)
    assert len(runs_of(client)) == 6 and not (folder / "mlflow.db-journal").exists()


@pytest.mark.full
def test_a_folder_that_was_moved_is_mirrored_anew_where_it_is_now(folder, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    assert f"repaired: small: its files are expected in {(folder / 'mlruns').as_uri()}" in " ".join(told(moved))
    assert mirror(moved)
    client = client_of(moved)
    assert {one.path for one in client.list_artifacts(verdicts_of(client).info.run_id)} == set(REPORT)
    assert str(tmp_path) in verdicts_of(client).info.artifact_uri and told(moved) == []


def waited(seconds):
    raise AssertionError(f"nobody waits {seconds} s for a file that is no database")


@pytest.mark.full
def test_a_damaged_store_is_one_line_with_a_way_out_and_rebuilt(folder, tmp_path, monkeypatch):
    damaged = shutil.copytree(folder, tmp_path / "damaged", ignore=shutil.ignore_patterns("mlflow*"))
    (damaged / "mlflow.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(RefusedError) as refused, monkeypatch.context() as patched:
        patched.setattr(time, "sleep", waited)
        mirror(damaged)
    text = str(refused.value)
    assert "not a database" in text and f"delete {damaged / 'mlflow.db'}" in text and len(text.splitlines()) == 2
    (line,) = told(damaged)
    assert line.startswith("repaired: cannot be read: MLflow at") and "not a database" in line
    assert rebuild(damaged).sent >= 6 and told(damaged) == []


def test_where_nothing_was_mirrored_nothing_is_missing(tmp_path):
    assert not mirror(tmp_path) and told(tmp_path) == []
    fill(tmp_path)
    assert told(tmp_path) == [] and not (tmp_path / "mlflow.db").exists(), "a mirror is nobody's duty"
