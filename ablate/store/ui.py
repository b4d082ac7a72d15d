"""`ablate ui`: MLflow's own server over a results folder's mirror, for this machine alone, until Ctrl-C.

It binds 127.0.0.1 and nothing else. What MLflow would start beside it (job runners, a store for uploads, telemetry)
stays off. The server is a child in a process group of its own, so that Ctrl-C reaches us first and nothing is left
behind; on Linux it also ends when we are killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from ablate.errors import RefusedError
from ablate.store.mirror import address, read_sent, sent_elsewhere
from ablate.store.mlflow.connection import ARTIFACTS, QUIET, STORE, sqlite_uri
from ablate.store.mlflow.views import links

HOST, PORT = "127.0.0.1", 5000
NAMES = (HOST, "localhost")
"""The host names a browser may use: a page under another name can neither read nor write, whatever it resolves to."""
CLOSED = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE": "false"}
START_WITHIN, STOP_WITHIN = 90.0, 5.0
"""Seconds that a server has to answer for the first time, and to stop by itself."""
PR_SET_PDEATHSIG = 1

Say = Callable[[str], None]


def serve(folder: Path, *, port: int = PORT, browse: bool = False, say: Say = print) -> None:
    """Serve `<folder>/mlflow.db` until Ctrl-C or SIGTERM, then return.

    A `port` that is taken (or 0) is replaced by a free one; `say` is told so, and the addresses. `browse` opens the
    first address in a browser. Raises RefusedError where there are no runs yet or the server does not start.
    """
    elsewhere = [(f"{space} on {where}", address(sent)) for (where, space), sent in sent_elsewhere(folder).items()]
    if not (folder / STORE).exists():
        if elsewhere:
            listed = "".join(f"\n  = {name}: {page}" for name, page in elsewhere)
            raise RefusedError(
                f"there is nothing to show here: the runs of {folder} went to a tracking server{listed}\n"
                f"  = `ablate mlflow --results {folder}` sends them here, too"
            )
        raise RefusedError(
            f"there is nothing to show: {folder} has no {STORE}\n"
            "  = `ablate run` fills it when trials have ended; name the folder with --results"
        )
    chosen = _free(port)
    if chosen != port and port:
        say(f"port {port} is in use; {chosen} is used instead")
    try:
        with _server(folder, chosen) as server:
            root = f"http://{HOST}:{chosen}/"
            spaces = sorted(read_sent(folder, "").items())
            addresses = [(space, links(sent.experiment, root=root)[0][1]) for space, sent in spaces]
            addresses += elsewhere
            addresses.append(("all" if spaces else "MLflow", f"{root}#/experiments?workflowType=machine_learning"))
            say("\n".join([*(f"{name}: {address}" for name, address in addresses), "Ctrl-C stops it"]))
            if browse:
                webbrowser.open(addresses[0][1])
            server.wait()
    except KeyboardInterrupt:
        return
    raise RefusedError("the MLflow server stopped by itself\n  = start it again; the results are safe")


def _free(port: int) -> int:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except (OSError, OverflowError):
            trial.bind((HOST, 0))
        return int(trial.getsockname()[1])


@contextmanager
def _server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server and wait until it answers; when the block ends, in whatever way, stop all of its processes."""
    root = folder.resolve()
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", sqlite_uri(root / STORE), "--no-serve-artifacts"]
    command += ["--default-artifact-root", (root / ARTIFACTS).as_uri(), "--uvicorn-opts", "--log-level warning"]
    command += ["--allowed-hosts", ",".join(f"{name}:{port}" for name in NAMES)]
    command += ["--cors-allowed-origins", ",".join(f"http://{name}:{port}" for name in NAMES)]
    environment = {**os.environ, **QUIET, **CLOSED, "PYTHONSAFEPATH": "1"}
    linux = sys.platform == "linux"
    # SIGINT too: a process started in the background by a shell ignores it.
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.default_int_handler) for number in signals}
    # Python and uvicorn import modules from the working directory: use an empty folder, not the results, which may be
    # somebody else's.
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory(prefix="ablate-ui-") as empty:
        server = subprocess.Popen(
            command,
            cwd=empty,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, signal.SIGTERM) if linux else None,
        )
        try:
            _wait_until_it_answers(server, port, log)
            yield server
        finally:
            for number in before:
                signal.signal(number, signal.SIG_IGN)
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(STOP_WITHIN)
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # with whatever it has started
            server.wait()
            for number, handler in before.items():
                signal.signal(number, handler)


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_WITHIN
    while server.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2):
            return
        time.sleep(0.1)
    log.seek(0)
    lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    raise RefusedError(
        f"the MLflow server did not start: {lines[-1] if lines else 'it printed nothing'}\n"
        f"  = choose another port with --port; if it happens again, delete {STORE}: it is rebuilt from the results"
    )
