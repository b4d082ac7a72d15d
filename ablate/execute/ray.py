"""Ray Tune: trials in processes that Ray places, on a cluster started on this machine or on one given by its address.

`RayTune` is the executor. Tune keeps no state: it places trials, reuses their processes and carries their messages
(`ray_driver`); retries, checkpoints and resume are the controller's. A separate process ends a cluster of our own with
its driver (`ray_keeper`).

Each trial requests its own share of a GPU, and Tune hands a process on only to a trial with the same placement group.
So shares come in steps (1/8, 2/8, …), and while a trial waits for a larger share than others have, no other is started:
it would wait forever.

2026-11-21, Ray 2.60, two cores. Starting a cluster of our own takes 2 to 4 s, joining one under 1 s, the first workers
3 to 5 s more, leaving it 1 to 2 s. A trial of 1 s on a warm worker takes 8 ms longer than in this process; a request to
stop takes effect within 0.3 s; after `kill -9` of the driver, or of its whole group, all is gone within 0.4 s, and so
are the workers on a cluster that was joined. A lost node is noticed within 2.5 s if its connections break, else when
Ray gives it up.

Surprising behaviour of Ray, and what is done about it, beside what the code says at its place:
- after `kill -9` of the driver its workers live on for 3 s, two of its agents for minutes: see `ray_keeper`;
- its workers run at niceness 15, so any other load on the machine starves them: ours run at 0;
- its servers listen on every network interface, guarded by a token kept in the home folder: ours is made for the run;
- Tune itself restarts a trial whose node was preempted, even with no failures allowed, unless preemption is set to
  count as a failure;
- a trial is assigned to its actor before that process is running, and stays with a reused one that may be dead: whether
  a worker took the trial is known from its answer, and if none ever does the run stops;
- `ray.init` and Tune replace our handlers for SIGTERM, SIGINT and SIGUSR1, and `breakpoint`, by their own;
- after SIGTERM a worker would die at once, with its trial: ours saves the trial, reports that, and ends when it is told
  to continue (one that reported that it is done would be given the next trial). SIGTERM to a node's raylet reaches no
  worker: Ray kills them, and trials resume elsewhere from their last checkpoints.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from ablate.errors import InputError, RefusedError
from ablate.execute import ray_keeper
from ablate.execute.executor import (
    ROUNDING,
    STOP_WITHIN,
    Demand,
    Emit,
    Message,
    NextTask,
    Pack,
    ShouldStop,
    Task,
    available_cores,
    on_a_gpu,
)
from ablate.execute.gpu import MemoryForecast, usable
from ablate.train.events import Outcome

COUNT_EVERY = 2.0  # seconds between counts of how many trials the cluster can run: nodes come and go


class RayTune:
    """The executor on Ray Tune: up to `workers` trials at once, each on `cpus` cores and `gpus` GPUs; None: as many as
    the cluster can run, and one GPU for each of a trial's `ranks` processes if there are any.

    With an `address` (`host:port`, or `auto`: that of this machine) they run on that Ray cluster, whose nodes all see
    the results folder under the same path; without, on one of our own, which lives as long as the run. A trial without
    a GPU is computed on the CPU, whatever its node has. With `pack`, up to that many trials share a GPU (`auto`: see
    `on_a_gpu`): each has the share that `forecast` says it needs, in steps of the smallest share. `gpu_memory` is the
    memory of the smallest GPU in bytes; None: the nodes are queried.

    The attribute `workers` is how many trials run at once, as far as is known: on a joined cluster, once `run` has seen
    it. Trials have `stop_within` seconds to save when the run is asked to stop. `say` is called when the cluster can
    run fewer than requested. InputError for an impossible demand.
    """

    def __init__(
        self,
        workers: int | None,
        *,
        address: str | None = None,
        cpus: float = 1,
        gpus: float | None = None,
        ranks: int = 1,
        pack: Pack = None,
        forecast: MemoryForecast | None = None,
        gpu_memory: int | None = None,
        stop_within: float = STOP_WITHIN,
        say: Callable[[str], None] = warnings.warn,
    ):
        if workers is not None and workers < 1:
            raise InputError(f"{workers} workers\n  = give at least one")
        self._demand, self._gpus, self._ranks = Demand(cpus, gpus or 0), gpus, ranks
        self._pack, self._forecast, self._gpu_memory = pack, forecast, gpu_memory
        self._address, self._asked, self._stop_within = address, workers, stop_within
        self._borne, self._counted, self._say = -1, float("-inf"), say
        self.workers = workers or (1 if address else max(1, int(available_cores() // cpus)))

    def run(self, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        """RefusedError if there is no such cluster, or none of its nodes can run a trial; see `Executor.run`."""
        with self._cluster() as folder:
            from ablate.execute.ray_driver import Escape

            nodes = cluster_nodes()
            if self._gpus is None:
                self._demand = replace(self._demand, gpus=self._gpus_of_each(nodes))
            self._demand.require(nodes)
            try:
                self._tune(folder, next_task, handle, should_stop)
            except Escape as escape:
                assert escape.__cause__ is not None
                raise escape.__cause__ from None

    def _gpus_of_each(self, nodes: Collection[Mapping[str, float]]) -> float:
        if not any(node.get("GPU") for node in nodes):
            if self._pack is not None:
                self._say(f"--pack {self._pack} has no effect: no node of the Ray cluster has a GPU")
            return 0
        if self._pack is None:
            return self._ranks
        self._gpu_memory = self._gpu_memory or smallest_gpu_memory()
        return 1 / on_a_gpu(self._gpu_memory, self._pack)

    def _gpus_of(self, task: Task) -> float:
        """The common share, or more if that is too little or the trial is to have a GPU alone."""
        each = self._demand.gpus
        if not 0 < each < 1:
            return each
        if task.memory == 1.0:
            return 1
        if self._forecast is None or not self._gpu_memory:
            return each
        step = self._gpu_memory * usable(self._gpu_memory, self._sharing) * each
        return min(1.0, each * math.ceil(self._forecast.needed(task) / step))

    @property
    def _sharing(self) -> int:
        return math.floor(1 / self._demand.gpus + ROUNDING) if 0 < self._demand.gpus < 1 else 1

    def _learn(self, task: Task, message: Message) -> None:
        for event in message.events:
            if self._forecast is not None and isinstance(event, Outcome):
                self._forecast.learn(task.trial, task.parts, task.ranks, event)

    def _cluster(self) -> AbstractContextManager[Path]:
        if self._address:
            return joined_cluster(self._address)
        cpus = self._asked * self._demand.cpus if self._asked else max(available_cores(), self._demand.cpus)
        return own_cluster(math.ceil(cpus), gpus=self._gpus != 0)

    def _tune(self, folder: Path, next_task: NextTask, handle: Emit, should_stop: ShouldStop) -> None:
        from ray import tune

        from ablate.execute.ray_driver import GPUS, Conductor, Ear, RayWorker, StopWaiting, Tasks

        demand = self._demand
        conductor = Conductor(
            next_task,
            handle,
            should_stop,
            self._slots,
            self._gpus_of,
            self._learn,
            sharing=self._sharing,
            stop_within=self._stop_within,
            say=self._say,
        )
        ear = Ear(conductor)
        try:
            tune.run(
                # One node for all of a trial. Tune hands a worker on only to a trial with the same resources.
                tune.with_resources(
                    RayWorker, lambda config: tune.PlacementGroupFactory([demand.bundle(config[GPUS])])
                ),
                name=folder.name,
                num_samples=-1,
                search_alg=Tasks(conductor),
                callbacks=[ear],
                stop=StopWaiting(conductor),
                reuse_actors=True,
                max_failures=0,
                raise_on_failed_trial=False,
                storage_path=str(folder / "tune"),
                verbose=0,
            )
        finally:
            if ear.staging is not None:
                shutil.rmtree(ear.staging, ignore_errors=True)
                with suppress(OSError):  # a run that began in the same second has its folder there, too
                    ear.staging.parent.rmdir()
        conductor.end_waiting()

    def _slots(self) -> int:
        """The number of trials that may run at once: 0 while a joined cluster has lost all nodes that can run one."""
        if time.monotonic() - self._counted > COUNT_EVERY:
            borne = self._demand.slots(cluster_nodes())
            if self._asked and borne < self._asked and borne != self._borne:
                self._say(f"the cluster can run {borne} trials at a time now, of the {self._asked} requested")
            self._borne = min(borne, self._asked or borne)
            self.workers = self._borne or self.workers
            self._counted = time.monotonic()
        return self._borne


# The Ray cluster of a run: one of our own on this machine, or an existing one; entered, and left as it was. Ray is
# imported inside the functions and not before: it reads some settings from the environment at import.

LONGEST_FOLDER = 40  # Ray puts sockets some 60 characters below its folder, and a socket's path has at most 107
OBJECT_STORE = 80 * 2**20
"""Bytes; Ray's minimum is 75 MiB. Messages are small and do not use it."""
CONNECT_WITHIN = 5.0  # seconds for a cluster to answer at its address
ANSWER_WITHIN = 60.0  # seconds for all nodes to report their GPUs: each starts a process for it
SAY_GPUS = "  = give each trial a share of a GPU, such as --gpus 0.5, instead of --pack"

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the old output can be silenced
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # of answers that nobody waits for; deaths are reported otherwise
}
OWN_CLUSTER = {
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
def own_cluster(cpus: int, *, gpus: bool) -> Iterator[Path]:
    """Start a cluster on this machine with `cpus` logical CPUs and, if requested, its GPUs; give a folder for its run.
    All of its processes and its folder are gone when this is left, and within two seconds of this process's death."""
    with _folder() as folder:
        environment = QUIET | TUNE | {ray_keeper.MARK: str(folder)} | OWN_CLUSTER
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
            del os.environ[ray_keeper.MARK]
            yield folder


@contextmanager
def joined_cluster(address: str) -> Iterator[Path]:
    """Join the cluster at `address` (`host:port`, or `auto` for that of this machine); give a folder for its run. Its
    workers run this process's `ablate`, and end when it does. RefusedError if it is missing or cannot be joined."""
    if "://" in address:
        raise RefusedError(
            f"{address}: the executor does not work through the Ray client\n"
            "  = start the run on a node of the cluster, with --address auto"
        )
    if address != "auto":
        _reach(address)
    code = str(Path(__file__).parents[1])
    with (
        _folder() as folder,
        _connected(QUIET | TUNE | PATIENCE, address=address, runtime_env={"py_modules": [code]}),
    ):
        yield folder


class _Node(TypedDict):
    NodeID: str
    NodeManagerHostname: str
    Resources: Mapping[str, float]


def _alive() -> list[_Node]:
    import ray

    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def cluster_nodes() -> tuple[Mapping[str, float], ...]:
    return tuple(node["Resources"] for node in _alive())


def smallest_gpu_memory() -> int:
    """The bytes of the cluster's smallest GPU, as reported by its nodes; RefusedError if one cannot tell."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    query = ray.remote(num_cpus=0, max_retries=0)(_smallest_gpu_here)
    answers = {
        query.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(): node
        for node in _alive()
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


def _smallest_gpu_here() -> int:
    from ablate.execute.gpu import gpus

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
    """Start or join a cluster, with or without a token: a cluster without one lets in a driver that sends one and loses
    its actors without an explanation; one with a token rejects a driver that sends none, after 20 s."""
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
    """RefusedError at once if nothing listens at `address`: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    way_out = "  = give the address that `ray start` shows, as host:port, or start a cluster: ray start --head"
    if not host or not port.isdecimal():
        raise RefusedError(f"{address!r} is not the address of a Ray cluster\n{way_out}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise RefusedError(f"no Ray cluster answers at {address}: {error}\n{way_out}") from error


def _has_token() -> bool:
    return (
        any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
        or (Path.home() / ".ray" / "auth_token").is_file()
    )


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a new folder; a keeper process ends its cluster and deletes it once this is left or the driver is dead."""
    place = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="ablate-ray-", dir=place if len(place) + 20 < LONGEST_FOLDER else "/tmp"))
    command = [sys.executable, "-I", ray_keeper.__file__, str(folder)]
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
    """Apply `changes` while entered; restore the environment afterwards, including what Ray has changed."""

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
def _hushed() -> Iterator[Callable[[], str]]:
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
    """Suppress Ray's messages about lost workers and nodes on standard output, with pages of their logs: no setting
    turns them off, and lost trials are reported anyway."""
    from ray._private import worker

    name = "print_to_stdstream"
    before = getattr(worker, name, None)
    setattr(worker, name, lambda *_, **__: None)
    try:
        yield
    finally:
        setattr(worker, name, before)
