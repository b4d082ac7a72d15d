"""Real MLflow for the tests of the mirror: clients, runs by name, and tracking servers on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ablate.store.mirror import examine
from ablate.store.mlflow_client import QUIET

os.environ.update(QUIET)

REPORT = {"verdicts.md": "| edit | verdict |\n|---|---|\n| `+qk_norm` | better |\n", "verdicts.json": '{"n": 2}'}


def client_of(place: Path | str) -> Any:
    """A client of a results folder's own store, or of a server."""
    import mlflow

    uri = f"sqlite:///{place / 'mlflow.db'}" if isinstance(place, Path) else place
    return mlflow.MlflowClient(tracking_uri=uri)


def runs_of(client: Any, space: str = "small", view: int = 1) -> dict[str, Any]:
    """The runs of a space's trials by name; AssertionError if one is there twice. `view` 1: active ones, 2: deleted."""
    found = [
        run
        for run in client.search_runs([client.get_experiment_by_name(space).experiment_id], run_view_type=view)
        if run.data.tags.get("ablate.kind") == "trial"
    ]
    runs = {run.info.run_name: run for run in found}
    assert len(runs) == len(found), "a run is there twice"
    return runs


def verdicts_of(client: Any, space: str = "small") -> Any:
    """The one run that holds a space's report."""
    experiment = client.get_experiment_by_name(space).experiment_id
    (run,) = client.search_runs([experiment], filter_string="tags.`ablate.kind` = 'verdicts'")
    return run


def told(folder: Path) -> list[str]:
    """What a look at a results folder's own mirror finds."""
    return [f"{finding.severity}: {finding.what}" for finding in examine(folder)]


def free_port() -> int:
    """A port that nobody had a moment ago."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


@contextmanager
def tracking_server(folder: Path) -> Iterator[str]:
    """MLflow's own server over an empty store in `folder`: its URI."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'server.db'}"]
    command += ["--artifacts-destination", str(folder / "files")]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/health")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def wait_for(address: str, seconds: float = 90) -> None:
    """Until it answers."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except OSError:
            assert time.monotonic() < deadline, f"{address} does not answer"
            time.sleep(0.1)
