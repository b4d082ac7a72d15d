"""MLflow's pages answer this machine alone: by where they listen, and by the name they are asked under."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from store_fixtures import fill

from ablate.store.mirror import mirror

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SERVE = """
import sys
from pathlib import Path
from ablate.store.mirror import serve
serve(Path(sys.argv[1]), port=0, say=lambda text: print(text, flush=True))
"""
WEAKENED = {
    "MLFLOW_HOST": "0.0.0.0",
    "MLFLOW_SERVER_ALLOWED_HOSTS": "*",
    "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": "*",
    "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE": "true",
}
"""What a user's environment might say for another server: none of it counts here."""
LISTENING = "0A"
POISON = ("mlflow", "json", "uvicorn", "sitecustomize", "usercustomize")
"""Modules that lie in the results of somebody else."""


class Port(int):
    """The port of a server, and the folder that it serves."""

    def __new__(cls, number, folder):
        port = super().__new__(cls, number)
        port.folder = folder
        return port


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The port of a server over a small store."""
    folder = tmp_path_factory.mktemp("results")
    fill(folder)
    mirror(folder)
    for name in POISON:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'code_has_run')!r}, 'w')\n")
    command = [sys.executable, "-c", SERVE, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **WEAKENED})
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith("Ctrl-C"):
            break
    yield Port(re.search(r"http://127\.0\.0\.1:(\d+)/", said)[1], folder)
    process.terminate()
    process.wait(20)


def asked(port, path="/health", body=None, **headers):
    """The status of an answer, and its headers."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", body, {k.replace("_", "-"): v for k, v in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers)


@pytest.mark.full
def test_it_listens_on_loopback_alone(served):
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    at = {
        row[1].partition(":")[0] for row in rows if row[3] == LISTENING and int(row[1].partition(":")[2], 16) == served
    }
    assert at == {"0100007F"}


@pytest.mark.full
def test_it_answers_to_its_own_names(served):
    for name in ("127.0.0.1", "localhost"):
        assert asked(served, "/", Host=f"{name}:{served}")[0] == 200


@pytest.mark.sampled(0, gate=2)
@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:{port}", "192.168.1.7:{port}", "localhost.evil.example:{port}"]
)
def test_a_name_that_is_made_to_resolve_here_is_refused(served, name):
    """DNS rebinding: a page of evil.example asks evil.example, which now resolves to 127.0.0.1."""
    assert asked(served, "/", Host=name.format(port=served))[0] == 403
    search = "/api/2.0/mlflow/experiments/search?max_results=1"
    assert asked(served, search, Host=name.format(port=served))[0] == 403


@pytest.mark.full
@pytest.mark.parametrize("origin", ["http://evil.example", "https://localhost.evil.example", "null"])
def test_a_page_from_elsewhere_cannot_write_or_read(served, origin):
    body = json.dumps({"name": "stolen"}).encode()
    path = "/api/2.0/mlflow/experiments/create"
    assert asked(served, path, body, Origin=origin, Content_Type="application/json")[0] == 403
    _, headers = asked(served, "/api/2.0/mlflow/experiments/search?max_results=1", Origin=origin)
    assert headers.get("access-control-allow-origin") not in ("*", origin)


def test_its_own_page_can(served):
    """The twin."""
    body = json.dumps({"experiment_ids": ["1"], "max_results": 1}).encode()
    own = f"http://127.0.0.1:{served}"
    status, headers = asked(served, "/api/2.0/mlflow/runs/search", body, Origin=own, Content_Type="application/json")
    assert status == 200
    assert headers.get("X-Frame-Options", headers.get("x-frame-options")) in ("SAMEORIGIN", "DENY")


@pytest.mark.full
def test_no_module_is_taken_from_the_results(served):
    assert not (served.folder / "code_has_run").exists()
    subprocess.run([sys.executable, "-m", "json.tool"], cwd=served.folder, stdin=subprocess.DEVNULL, check=False)
    assert (served.folder / "code_has_run").exists(), "the twin"
