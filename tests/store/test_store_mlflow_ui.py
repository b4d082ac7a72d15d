"""`ablate ui`'s server: this machine alone, another port if one is taken, and no process left however it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from mlflow_fixtures import REPORT
from store_fixtures import fill

from ablate.errors import RefusedError
from ablate.store.mirror import mirror, rebuild, serve

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
SERVE = """
import sys
from pathlib import Path
from ablate.store.mirror import serve
serve(Path(sys.argv[1]), port=int(sys.argv[2]), say=lambda text: print(text, flush=True))
print("ended", flush=True)
"""
LISTENING = "0A"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    fill(folder)
    mirror(folder, reports={"small": REPORT})
    return folder


@contextmanager
def served(folder, port):
    """A process that serves, once it answers: it, the address it told, and all it said until then."""
    command = [sys.executable, "-c", SERVE, folder, str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if line.startswith("Ctrl-C"):
                break
        assert said, process.stderr.read()
        yield process, re.search(r"http://[^/]+", "".join(said))[0], "".join(said)
    finally:
        process.kill()
        process.wait()


def runs_at(address):
    """The ids of the runs that a server shows of its first experiment."""
    body = json.dumps({"experiment_ids": ["1"], "max_results": 10}).encode()
    search = urllib.request.Request(f"{address}/api/2.0/mlflow/runs/search", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(search) as answer:
        return {run["info"]["run_id"] for run in json.load(answer)["runs"]}


def family(pid):
    """The processes that descend from one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def listens_at(pids):
    """The addresses, as /proc writes them, at which processes accept connections."""
    inodes = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                inodes.add(re.sub(r"socket:\[(\d+)\]", r"\1", str(handle.readlink())))
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == LISTENING and row[9] in inodes}


def gone(pids, seconds=10):
    deadline = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.full
@linux
def test_it_shows_the_results_to_this_machine_alone_and_ctrl_c_leaves_nothing(folder):
    before = set(folder.iterdir())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with served(folder, port) as (process, address, said):
            assert f"port {port} is in use; {address.rpartition(':')[2]} is used instead" in said
            assert re.search(
                r"small: \S+/#/experiments/1/runs\?workflowType=machine_learning&viewStateShareKey=\S+", said
            )
            shown = runs_at(address)
            assert len(shown) == 7
            rebuild(folder)
            assert len(runs_at(address)) == 7 and not shown & runs_at(address), "a new store is shown at once"
            children = family(process.pid)
            assert len(children) == 2, "the server and its one worker, no job runners"
            assert listens_at([process.pid, *children]) == {"0100007F"}
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
            assert (out, err, process.returncode) == ("ended\n", "", 0)
            assert gone(children)
    assert set(folder.iterdir()) == before, "nothing is written beside the results"


@pytest.mark.full
@linux
def test_killed_it_takes_its_server_along(folder):
    with served(folder, 0) as (process, _, _):
        children = family(process.pid)
        assert children
        process.kill()
        assert gone(children)


def test_without_runs_it_says_so(tmp_path):
    with pytest.raises(RefusedError, match=r"there is nothing to show: .* has no mlflow.db\n  = `ablate run`"):
        serve(tmp_path)


@pytest.mark.full
def test_a_store_that_mlflow_cannot_open_is_told_with_a_way_out(tmp_path):
    (tmp_path / "mlflow.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(RefusedError, match=r"the MLflow server did not start: .*\n  = .*delete mlflow.db"):
        serve(tmp_path, port=0)
