"""Trials on Ray: on a cluster that is joined by its address, of two nodes on this machine, and on one of our own."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from crashes import ALLOWED, start, strike, wait_until
from own_fixtures import write_own_world
from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate
from ablate.errors import RefusedError
from ablate.execute import ray_keeper
from ablate.execute.executor import Message, Task
from ablate.execute.ray import RayTune, own_cluster
from ablate.store import claim

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

QUIET = {"console": Console(quiet=True), "mirror": False}
STEPS = 400


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one CPU each; the second one says that it has a GPU."""
    from ray.cluster_utils import Cluster

    folder = tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True)
    with folder as name, pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_TMPDIR", name)
        started = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        started.add_node(num_cpus=1, num_gpus=1)
        yield started
        started.shutdown()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A space, and the rows of a run of it that nobody disturbed."""
    folder = tmp_path_factory.mktemp("world")
    space = ablate.load_space(write_world(folder, steps=STEPS, seeds=1))
    ablate.run(space, results=folder / "calm", executor="inline", **QUIET)
    return SimpleNamespace(folder=folder, space=space, rows=rows_of(folder / "calm"))


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """The same for a few steps, where nothing has to happen in the middle of them."""
    folder = tmp_path_factory.mktemp("short")
    space = ablate.load_space(write_world(folder, steps=24, seeds=1))
    ablate.run(space, results=folder / "calm", executor="inline", **QUIET)
    return SimpleNamespace(folder=folder, space=space, rows=rows_of(folder / "calm"))


def on(cluster, **more):
    return {"executor": "ray", "address": cluster.address, "gpus": 0, **more}


@pytest.mark.full
def test_a_cluster_that_was_joined_gives_the_same_bits(world, cluster, temporary, tmp_path, capfd):
    before = surroundings()
    done = ablate.run(world.space, results=tmp_path, **on(cluster), **QUIET)
    assert done.ended.kinds == {"finished": 4}
    assert rows_of(tmp_path) == world.rows
    assert capfd.readouterr() == ("", "")
    assert surroundings() == before


@pytest.mark.full
def test_a_component_of_plain_layers_gives_the_same_bits_whatever_ran_before(cluster, tmp_path):
    """On Ray a worker has had other trials before; in this process there were none."""
    rows = []
    for order, options in (("plain, pre_ln", {"executor": "inline"}), ("pre_ln, plain", on(cluster, workers=1))):
        space, plugin = write_own_world(tmp_path, order)
        results = tmp_path / options["executor"]
        ablate.run(ablate.load_space(space, plugins=[plugin]), results=results, plugins=[plugin], **options, **QUIET)
        rows.append(rows_of(results))
    assert rows[0] == rows[1] and len({row[0] for row in rows[0]}) == 2


def surroundings() -> list[object]:
    """What a run may change in its process and must put back, and what it leaves in the folder for temporary files."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    return [*sorted(os.environ.items()), handlers, list(Path(tempfile.gettempdir()).iterdir())]


@pytest.fixture
def temporary(monkeypatch):
    """A folder for temporary files that no other run on this machine uses; short, as sockets want it."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def test_a_cluster_of_our_own_gives_the_same_bits_and_leaves_nothing(short, temporary, tmp_path, capfd, monkeypatch):
    seen = []
    monkeypatch.setattr(RayTune, "_tune", lambda *given, tune=RayTune._tune: (seen.append(given[1]), tune(*given)))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # where Ray would keep a token
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # not ours to follow
    before = surroundings()
    done = ablate.run(short.space, results=tmp_path / "results", executor="ray", workers=2, **QUIET)
    assert done.ended.kinds == {"finished": 4}
    assert rows_of(tmp_path / "results") == short.rows
    assert capfd.readouterr() == ("", "")
    assert surroundings() == before
    assert not (tmp_path / "home").exists()
    assert [folder.parent for folder in seen] == [temporary], "the twin: that is where it would be"


@pytest.mark.full
def test_what_a_driver_starts_beside_a_cluster_of_its_own_outlives_that(temporary):
    """A sender to MLflow was killed with the cluster, and its store was not there, or half written."""
    with own_cluster(1, gpus=False) as folder:
        beside = subprocess.Popen(["sleep", "60"])
        its = {*ray_keeper.belonging(str(folder))}
    with beside:
        assert its and beside.pid not in its
        assert beside.poll() is None
        beside.kill()


@pytest.mark.full
def test_a_killed_worker_costs_nothing_but_time(world, cluster, tmp_path):
    screen = Console(record=True, width=200, file=StringIO())
    with meanwhile(tmp_path, lambda holders: os.kill(holders[0].pid, signal.SIGKILL), workers=1) as struck:
        done = ablate.run(world.space, results=tmp_path, **on(cluster), console=screen, mirror=False)
    assert struck() and done.ended.kinds == {"finished": 4}
    killed = struck()[0]
    assert f"its worker was lost (process {killed.pid} on {killed.host}); it resumes from" in screen.export_text()
    assert rows_of(tmp_path) == world.rows


@pytest.mark.slow
def test_a_lost_node_costs_nothing_but_time(world, cluster, tmp_path, capfd):
    """Two nodes have a trial each when one is gone: its trial goes on on the other, and nothing is said by Ray."""
    screen = Console(record=True, width=200, file=StringIO())
    node = cluster.add_node(num_cpus=1, resources={"lost": 1})
    with meanwhile(tmp_path, lambda _: cluster.remove_node(node, allow_graceful=False), workers=3) as struck:
        done = ablate.run(world.space, results=tmp_path, **on(cluster), console=screen, mirror=False)
    assert struck() and done.ended.kinds == {"finished": 4}
    assert "its worker was lost" in screen.export_text()
    assert rows_of(tmp_path) == world.rows
    assert "raylet" not in "".join(capfd.readouterr())


@pytest.mark.full
def test_stopped_on_ray_and_gone_on_elsewhere(world, cluster, tmp_path, monkeypatch):
    """What runs saves where it is, within moments of being asked; it goes on in this process to the same bits."""
    from ablate.execute.controller import Interrupt

    times = []

    def stop(self):
        if not times and any(holder.step > 50 for holder in claim.holders(tmp_path).values()):
            times.append(time.monotonic())
        return bool(times)

    with monkeypatch.context() as patched:
        patched.setattr(Interrupt, "__call__", stop)
        done = ablate.run(world.space, results=tmp_path, **on(cluster), **QUIET)
    assert time.monotonic() - times[0] < 5
    assert done.ended.kinds["interrupted"] >= 1 and done.ended.waiting >= 1
    assert claim.holders(tmp_path) == {}
    ablate.run(world.space, results=tmp_path, executor="inline", **QUIET)
    assert rows_of(tmp_path) == world.rows


@pytest.mark.full
def test_a_killed_driver_takes_its_workers_on_a_cluster_along(world, cluster, tmp_path):
    run = start(
        world.folder, tmp_path, "run", "tiny.yaml", "--executor", "ray", "--address", cluster.address, "--gpus", "0"
    )
    wait_until(run, lambda: any(holder.step > 0 for holder in claim.holders(tmp_path).values()))
    strike(run, "driver")
    until = time.monotonic() + ALLOWED
    while living := [holder for holder in claim.holders(tmp_path).values() if holder.alive]:
        assert time.monotonic() < until, living
        time.sleep(0.02)
    run.process.wait()


@pytest.mark.full
def test_a_trial_that_hangs_and_one_that_cannot_be_built(world, cluster, tmp_path, monkeypatch):
    """The one is killed after its limit, and says where it hung; the other fails with its trace. The next one runs."""
    monkeypatch.chdir(tmp_path)  # Ray lets workers look for code where the driver stands, too
    hanging, broken, good = tasks_of(world.space, tmp_path)[:3]
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\n\ntime.sleep(600)\n")
    hanging = dataclasses.replace(hanging, limit=3.0, plugins=(sleeper,))
    broken = dataclasses.replace(broken, trial=dataclasses.replace(broken.trial, seed="seven"))
    messages = carried_out(RayTune(None, address=cluster.address, gpus=0), [good, broken, hanging])
    outcomes = {message.trial_id: message.events[-1] for message in messages if message.events}
    assert outcomes[good.trial.id].kind == "finished"
    bug, timeout = outcomes[broken.trial.id], outcomes[hanging.trial.id]
    assert bug.kind == "bug" and "Traceback" in bug.detail["trace"]
    assert "py_modules_files" in bug.detail["trace"], "nodes run the driver's code, whatever they have installed"
    assert timeout.kind == "timeout" and timeout.detail["limit"] == 3.0
    assert "hung" in timeout.detail["error"] and "sleeper.py" in timeout.detail["trace"]
    assert not list((tmp_path / "running").glob("*.trace"))


@pytest.mark.full
def test_what_goes_wrong_in_the_driver_comes_out_as_it_was(world, cluster, tmp_path):
    """Not as an error of Tune's, and not after it has waited for its workers."""
    raised = OSError("no space left")
    when = []

    def handle(message):
        when.append(time.monotonic())
        raise raised

    waiting = tasks_of(world.space, tmp_path)
    with pytest.raises(OSError) as caught:
        RayTune(None, address=cluster.address, gpus=0).run(waiting.pop, handle, lambda: False)
    assert caught.value is raised and len(when) == 1
    assert time.monotonic() - when[0] < 5


@pytest.mark.full
def test_trials_share_a_gpu_and_nodes_are_counted_as_they_come(world, cluster, tmp_path):
    """GPUs are counted, not touched: Ray takes our word that a node has them."""
    executor = RayTune(None, address=cluster.address, cpus=0.25, gpus=0.5)
    with pytest.raises(RefusedError, match=r"needs 0.25 CPUs and 2 GPUs.*: 1 CPU and 0 GPUs; 1 CPU and 1 GPU"):
        RayTune(None, address=cluster.address, cpus=0.25, gpus=2).run(lambda: None, print, lambda: False)
    seen = []

    def handle(message):
        seen.append(executor.workers)
        if len(seen) == 1:
            nodes.append(cluster.add_node(num_cpus=1, num_gpus=1))

    nodes = []
    waiting = tasks_of(world.space, tmp_path)
    executor.run(lambda: waiting.pop() if waiting else None, handle, lambda: False)
    cluster.remove_node(nodes[0])
    assert seen[0] == 2 and seen[-1] == 4


@pytest.mark.full
def test_only_the_gpus_that_were_asked_for_are_seen(cluster):
    """Ray shows a trial that asked for none all of them."""
    import ray

    from ablate.execute.ray import joined_cluster
    from ablate.execute.ray_driver import RayWorker

    class Seen(RayWorker):
        def step(self):
            return {"seen": os.environ.get("CUDA_VISIBLE_DEVICES"), "done": True}

    with joined_cluster(cluster.address):
        for gpus, seen in ((0, ""), (1, "0")):
            worker = ray.remote(num_gpus=gpus, num_cpus=1)(Seen).remote()
            assert ray.get(worker.train.remote())["seen"] == seen


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://127.0.0.1:10001", "does not work through the Ray client\n  = start the run on a node of the cluster"),
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1: .*refused\n  = give the address that `ray start`"),
        ("here", "'here' is not the address of a Ray cluster\n  = give the address"),
        ("host:port", "'host:port' is not the address of a Ray cluster\n  = give the address"),
    ],
)
def test_an_address_without_a_cluster_is_refused_at_once(address, message):
    started = time.monotonic()
    with pytest.raises(RefusedError, match=message):
        RayTune(1, address=address).run(lambda: None, print, lambda: False)
    assert time.monotonic() - started < 5


def tasks_of(space, results: Path) -> list[Task]:
    plan = ablate.plan_space(space, results=results).plan
    return [Task(trial=trial, folder=results) for trial in plan.trials]


def carried_out(executor: RayTune, tasks: list[Task]) -> list[Message]:
    """All messages of these tasks; each ends with its outcome."""
    messages: list[Message] = []
    executor.run(lambda: tasks.pop() if tasks else None, messages.append, lambda: False)
    return messages


class meanwhile:
    """While entered, wait until so many `workers` have come some way, and then do something, once.

    As it is entered it gives a function of no arguments: who had a trial when it was done, nothing if it never was.
    """

    def __init__(self, results: Path, what: Callable[[list[claim.Holder]], object], *, workers: int):
        self._results, self._what, self._workers = results, what, workers
        self._struck: list[claim.Holder] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def __enter__(self) -> Callable[[], list[claim.Holder]]:
        self._thread.start()
        return lambda: self._struck

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _wait(self) -> None:
        while not self._over.wait(0.05):
            holders = [holder for holder in claim.holders(self._results).values() if holder.alive and holder.step > 20]
            if len(holders) >= self._workers:
                self._what(holders)
                self._struck = holders
                return
