"""The Ray cluster of a run: one of our own on this machine, or an existing one; entered, and left as it was.

Ray is imported inside the functions and not before: it reads some settings from the environment at import.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ablate.errors import RefusedError
from ablate.execute.ray import keeper

LONGEST_FOLDER = 40
"""Ray puts sockets some 60 characters below its folder, and a socket's path has at most 107."""

OBJECT_STORE = 80 * 2**20
"""Bytes; Ray's minimum is 75 MiB. Messages are small and do not use it."""

CONNECT_WITHIN = 5.0
"""Seconds for a cluster to answer at its address."""

ANSWER_WITHIN = 60.0
"""Seconds for all nodes to report their GPUs: each starts a process for it."""

SAY_GPUS = "  = give each trial a share of a GPU, such as --gpus 0.5, instead of --pack"

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the old output can be silenced
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # of answers that nobody waits for; deaths are reported otherwise
}
OWN = {
    "RAY_worker_niceness": "0",
    "RAY_prestart_worker_first_driver": "0",  # workers that Tune could not use
}
"""For the servers of a cluster of our own."""

PATIENCE = {
    "RAY_py_gcs_connect_timeout_s": "5",
    "RAY_gcs_rpc_server_connect_timeout_s": "2",
    "RAY_gcs_server_port_wait_time_s": "1",
}
"""How long to wait for a cluster that does not answer; by default Ray waits for minutes."""

TUNE = {
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",
    "TUNE_MAX_PENDING_TRIALS_PG": "100000",  # no limit: our searcher never suggests more than there are slots
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "inf",
    "RAY_TRAIN_COUNT_PREEMPTION_AS_FAILURE": "1",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}
"""Tune reads these while it runs, and passes the last one to its workers."""


@contextmanager
def own(cpus: int, *, gpus: bool) -> Iterator[Path]:
    """Start a cluster on this machine with `cpus` logical CPUs and, if requested, its GPUs; give a folder for its run.

    All of its processes and its folder are gone when this is left, and within two seconds of this process's death.
    """
    with _folder() as folder:
        environment = QUIET | TUNE | {keeper.MARK: str(folder)} | OWN
        if not _has_token():
            environment["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        with _connected(
            environment,
            address="local",
            num_cpus=cpus,
            num_gpus=None if gpus else 0,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE,
            _temp_dir=str(folder),
        ):
            # Its processes have the mark by now. What this one starts later, such as a sender to MLflow, outlives it.
            del os.environ[keeper.MARK]
            yield folder


@contextmanager
def joined(address: str) -> Iterator[Path]:
    """Join the cluster at `address` (`host:port`, or `auto` for that of this machine); give a folder for its run.

    Its workers run this process's `ablate`, and end when it does. RefusedError if it is missing or cannot be joined.
    """
    if "://" in address:
        raise RefusedError(
            f"{address}: the executor does not work through the Ray client\n"
            "  = start the run on a node of the cluster, with --address auto"
        )
    if address != "auto":
        _reach(address)
    code = str(Path(__file__).parents[2])
    with (
        _folder() as folder,
        _connected(QUIET | TUNE | PATIENCE, address=address, runtime_env={"py_modules": [code]}),
    ):
        yield folder


def nodes() -> tuple[Mapping[str, float], ...]:
    """Return the resources of each node of the cluster, by name."""
    import ray

    return tuple(node["Resources"] for node in ray.nodes() if node["Alive"])  # type: ignore[no-untyped-call]


def gpu_memory() -> int:
    """Return the bytes of the cluster's smallest GPU, as reported by its nodes; RefusedError if one cannot tell."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    query = ray.remote(num_cpus=0, max_retries=0)(_smallest_gpu)
    answers = {
        query.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(): node
        for node in alive
        if node["Resources"].get("GPU")
    }
    try:
        memories = ray.get(list(answers), timeout=ANSWER_WITHIN)
    except ray.exceptions.RayError as error:
        raise RefusedError(f"the nodes do not report the memory of their GPUs: {error}\n{SAY_GPUS}") from error
    for memory, node in zip(memories, answers.values(), strict=True):
        if not memory:
            raise RefusedError(f"{node['NodeManagerHostname']} reports GPUs, but sees none\n{SAY_GPUS}")
    return min(memories)


def _smallest_gpu() -> int:
    from ablate.execute.device import gpus

    return min((gpu.memory for gpu in gpus()), default=0)


@contextmanager
def _connected(environment: Mapping[str, str], **options: Any) -> Iterator[None]:
    with _environment(environment):
        import ray

        if ray.is_initialized():
            raise RefusedError(
                "this process is already connected to a Ray cluster\n"
                "  = call ray.shutdown() first, and give the address of the cluster"
            )
        try:
            with _handlers_kept():
                _connect(**options)
            with _handlers_kept(), _speechless():
                yield
        finally:
            try:
                ray.shutdown()
            except KeyboardInterrupt:
                ray.shutdown()  # or the rest would be done at exit, in a folder that no longer exists
                raise


def _connect(*, address: str, **options: Any) -> None:
    """Start or join a cluster, with or without a token: a cluster without one loses the actors of a driver that sends
    one, and a cluster with one rejects a driver that sends none."""
    import ray

    given = os.environ.get("RAY_AUTH_MODE")
    modes = (given,) if given or address == "local" else ("disabled", "token") if _has_token() else ("disabled",)
    for mode in modes:
        if mode:
            os.environ["RAY_AUTH_MODE"] = mode
        _reread()
        with _hushed() as heard:
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **options)
                return
            except SystemExit as stopped:  # a SIGTERM, whose handler is Ray's own until it is connected
                raise KeyboardInterrupt from stopped
            except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
                wants_token = "Unauthenticated" in heard() or "AuthenticationError" in str(error.__cause__)
                if not wants_token or mode == modes[-1]:
                    raise _no_cluster(address, error, wants_token) from error


def _reread() -> None:
    """Make Ray read the environment again, which it does only at import; it also caches the first token it finds."""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _no_cluster(address: str, error: Exception, wants_token: bool) -> RefusedError:
    if address == "local":
        return RefusedError(f"Ray could not be started on this machine: {error}\n  = use --executor local")
    if wants_token:
        return RefusedError(
            f"the Ray cluster at {address} requires a token\n"
            "  = set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or ~/.ray/auth_token to the cluster's"
        )
    reason = str(error).partition(". ")[0].partition("\n")[0] or repr(error)
    return RefusedError(f"no Ray cluster to join at {address}: {reason}\n  = start one: ray start --head")


def _reach(address: str) -> None:
    """Raise RefusedError at once if nothing listens at `address`: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    way_out = "  = give the address that `ray start` shows, as host:port, or start a cluster: ray start --head"
    if not host or not port.isdecimal():
        raise RefusedError(f"{address!r} is not the address of a Ray cluster\n{way_out}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise RefusedError(f"no Ray cluster answers at {address}: {error}\n{way_out}") from error


def _has_token() -> bool:
    """Return whether Ray finds a token by itself."""
    return (
        any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
        or (Path.home() / ".ray" / "auth_token").is_file()
    )


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a new folder; a keeper process ends its cluster and deletes it once this is left or the driver is dead."""
    place = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="ablate-ray-", dir=place if len(place) + 20 < LONGEST_FOLDER else "/tmp"))
    command = [sys.executable, "-I", keeper.__file__, str(folder)]
    silent = subprocess.DEVNULL
    # In a session of its own, so that killing the driver's whole group spares it.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=silent, stderr=silent, start_new_session=True
    ) as process:
        try:
            yield folder
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Apply `changes` to the environment while entered; restore it afterwards, including what Ray has changed."""

    def ours(name: str) -> bool:
        return name in changes or name.startswith("RAY_") or name == "PYTHONBREAKPOINT"

    before = {name: value for name, value in os.environ.items() if ours(name)}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in filter(ours, tuple(os.environ)):
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Put back the signal handlers that Ray and Tune replace by their own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def _hushed() -> Iterator[Any]:
    """Capture what Ray's C++ writes to standard error while it connects; a function returns the text."""
    with tempfile.TemporaryFile() as file:

        def heard() -> str:
            file.seek(0)
            return file.read().decode(errors="replace")

        screen = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield heard
        finally:
            os.dup2(screen, 2)
            os.close(screen)


@contextmanager
def _speechless() -> Iterator[None]:
    """Suppress Ray's messages about lost workers and nodes, with pages of their logs, on standard output.

    No setting turns them off, and lost trials are reported anyway.
    """
    from ray._private import worker

    name = "print_to_stdstream"
    before = getattr(worker, name, None)
    setattr(worker, name, lambda *_, **__: None)
    try:
        yield
    finally:
        setattr(worker, name, before)
