"""A tracking server by its URI: sent once, files through the server, shared with others, and down without harm."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from mlflow_fixtures import REPORT, client_of, free_port, runs_of, tracking_server, verdicts_of
from store_fixtures import DOCUMENTS, course, fill, opened, plan, trial

from ablate.errors import InputError, RefusedError
from ablate.store.mirror import mirror
from ablate.store.mlflow_client import without_secrets

REPORTS = {"small": REPORT}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with tracking_server(tmp_path_factory.mktemp("server")) as uri:
        yield uri


@pytest.fixture(scope="module")
def folder(tmp_path_factory, server):
    folder = tmp_path_factory.mktemp("results")
    fill(folder)
    done = mirror(folder, uri=server, reports=REPORTS)
    assert (done.where, done.sent, done.spaces) == (server, 6, ("small",))
    return folder


@pytest.fixture
def client(server):
    return client_of(server)


def ids(client, space="small"):
    return {name: run.info.run_id for name, run in runs_of(client, space).items()}


@pytest.mark.full
def test_a_server_gets_what_the_folders_own_store_gets_and_keeps_the_files(folder, server, client):
    assert mirror(folder, reports=REPORTS).sent == 6, "each place is remembered on its own"
    own = runs_of(client_of(folder))
    there = runs_of(client)
    assert {name: (run.data.metrics, run.data.params, run.data.tags) for name, run in there.items()} == {
        name: (run.data.metrics, run.data.params, run.data.tags) for name, run in own.items()
    }
    run = verdicts_of(client)
    assert run.info.artifact_uri.startswith("mlflow-artifacts:/")
    assert {one.path for one in client.list_artifacts(run.info.run_id)} == set(REPORT)
    assert not mirror(folder, uri=server, reports=REPORTS)
    assert not mirror(folder, uri=f"{server}/", reports=REPORTS)


@pytest.mark.full
def test_a_server_that_was_emptied_is_filled_again(folder, server, client):
    experiment = client.get_experiment_by_name("small").experiment_id
    client.rename_experiment(experiment, "gone")
    assert mirror(folder, uri=server, reports=REPORTS).sent == 6
    assert len(ids(client)) == 6 and client.get_experiment_by_name("small").experiment_id != experiment


@pytest.mark.full
def test_two_folders_on_one_server_leave_each_other_alone(folder, server, client, tmp_path):
    before = ids(client)
    half = plan(seeds=(0,))
    with opened(tmp_path) as results:
        results.record_plan(half, DOCUMENTS)
        for one in half.trials:
            results.begin(one)
            results.append(one.id, course(one.id))
        results.refresh()
    mirror(tmp_path, uri=server)
    assert ids(client) == before, "what only the other folder asks for stays, and what both have is there once"


@pytest.mark.full
def test_a_password_is_neither_kept_nor_shown(folder, server):
    secret = server.replace("://", "://me:s3cret@")
    assert mirror(folder, uri=secret, reports=REPORTS).where == server
    assert b"s3cret" not in (folder / "mlflow.jsonl").read_bytes()
    wrong = ("me:s3cret@host", "http://me:s3cret@no host", f"{server}/?token=s3cret", "postgresql://me:s3cret@host/db")
    for address in (f"http://me:s3cret@127.0.0.1:{free_port()}", *wrong):
        with pytest.raises((RefusedError, InputError)) as refused:
            mirror(folder, uri=address)
        assert "s3cret" not in str(refused.value)
    assert without_secrets("postgresql://me:s3cret@host/db?password=s3cret") == "postgresql://host/db"


@pytest.mark.full
def test_a_server_that_is_down_is_one_line_soon_and_what_is_missing_is_sent_later(folder, tmp_path):
    fill(tmp_path, plan(seeds=(0,)))
    address = f"http://127.0.0.1:{free_port()}"
    script = "import sys; from pathlib import Path; from ablate.store.mirror import mirror\n"
    script += "mirror(Path(sys.argv[1]), uri=sys.argv[2])"
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script, tmp_path, address], capture_output=True, text=True)
    assert time.monotonic() - began < 15
    *trace, told, way_out = done.stderr.strip().splitlines()
    assert told.endswith(f"MLflow at {address} was not brought up to date: nothing answers there (connection refused)")
    assert way_out.startswith("  = check that the server runs")
    assert trace[0].startswith("Traceback"), "nothing was said but the error"
    assert not (tmp_path / "mlflow.jsonl").exists()


@pytest.mark.full
def test_a_trial_trained_again_is_replaced_on_the_server(folder, server, client):
    old = ids(client)["half seed 1"]
    with opened(folder) as results:
        results.begin_anew([trial("b2", 1)])
        results.begin(trial("b2", 1))
        results.append("b20001", course("b20001"))
        results.refresh()
    assert mirror(folder, uri=server).sent == 1
    assert ids(client)["half seed 1"] != old and len(ids(client)) == 6
