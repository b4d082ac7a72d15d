"""Trials that share logical GPUs on Ray: Ray takes our word that there are any, and gives them away as if."""

import math
import os
import signal
import tempfile
import threading
import time
from dataclasses import replace
from io import StringIO

import pytest
from device_fixtures import notes_of, write_metered
from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate
from ablate.components.registry import declarations
from ablate.errors import RefusedError
from ablate.execute.executor import Task
from ablate.execute.gpu import CONTEXT, MemoryForecast
from ablate.execute.local import Inline
from ablate.execute.ray import RayTune
from ablate.store import claim
from ablate.store.snapshot import Snapshot
from ablate.train.events import Outcome, Row

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

QUIET = {"console": Console(quiet=True), "mirror": False}


@pytest.fixture(scope="module")
def cluster():
    """One node that says it has two GPUs."""
    from ray.cluster_utils import Cluster

    folder = tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True)
    with folder as name, pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_TMPDIR", name)
        head = {"num_cpus": 8, "num_gpus": 2, "include_dashboard": False}
        found = Cluster(initialize_head=True, head_node_args=head)
        yield found
        found.shutdown()


def intervals(folder):
    """When each model of the metered block was in training, and on which GPU."""
    notes = notes_of(folder).values()
    return [(min(n[0] for n in one), max(n[0] for n in one), one[0][3]) for one in notes]


def at_once(spans):
    """The most of these intervals that overlap."""
    return max((sum(begin <= moment < end for begin, end, _ in spans) for moment, _, _ in spans), default=0)


@pytest.mark.slow
def test_three_trials_on_each_of_two_gpus(cluster, tmp_path):
    """All six places are used at once, none is used twice, and no trial is without a GPU."""
    path, plugin = write_metered(tmp_path, together=6, seconds=0.05, seeds=8, steps=6)
    text = path.read_text().replace("layers: 2", "layers: 1").replace("[pre_ln, metered]", "[metered, pre_ln]")
    path.write_text(text)
    space = ablate.load_space(path, plugins=[plugin])
    tasks = tasks_of(space, tmp_path / "results", plugins=(plugin,), block="metered")
    messages = carried_out(RayTune(None, address=cluster.address, cpus=0.5, gpus=0.33), tasks)
    outcomes = [message.events[-1] for message in messages if message.events]
    assert sum(isinstance(one, Outcome) and one.kind == "finished" for one in outcomes) == 8
    spans = intervals(tmp_path)
    assert {gpu for _, _, gpu in spans} == {"0", "1"}
    assert at_once(spans) == 6
    for gpu in ("0", "1"):
        assert at_once([span for span in spans if span[2] == gpu]) == 3


def test_what_a_trial_needs_says_how_many_share_a_gpu(tmp_path):
    """Half as much memory in each GPU, half as many trials: the parts are what the ledger of memory says."""
    path, plugin = write_metered(tmp_path, seeds=1)
    (task, *_) = tasks_of(ablate.load_space(path, plugins=[plugin]), tmp_path / "results")
    forecast = MemoryForecast(
        declarations((plugin,)), [(task.trial, Outcome("finished", 12, {"peak_memory": 16 * 2**30}))]
    )
    for times, gpus in ((8, 0.125), (4, 0.25), (3, 0.375), (1.5, 0.75), (0.5, 1.0)):
        memory = math.ceil(times * forecast.needed(task)) + 8 * CONTEXT
        executor = RayTune(None, address="x:1", pack=8, forecast=forecast, gpu_memory=memory)
        executor._demand = type(executor._demand)(1, executor._gpus_of_each([{"CPU": 8, "GPU": 2}]))
        assert executor._gpus_of(task) == pytest.approx(gpus), times
    assert executor._gpus_of(replace(task, memory=1.0)) == 1


@pytest.mark.full
def test_packing_by_memory_and_alone_after_a_lack_of_it(cluster, tmp_path):
    """Two share a GPU until one lacks memory there; then it waits for one of its own, and comes through in parts."""
    path, plugin = write_metered(tmp_path, most=2, seeds=1, steps=6)
    screen = Console(record=True, width=200, file=StringIO())
    space = ablate.load_space(path, plugins=[plugin])
    more = {"executor": "ray", "address": cluster.address, "cpus": 0.5, "gpus": 0.5, "plugins": [plugin]}
    done = ablate.run(space, results=tmp_path / "results", console=screen, mirror=False, **more)
    assert done.ended.kinds == {"finished": 2}
    text = screen.export_text()
    assert "metered · seed 0: out of memory while sharing its GPU; it resumes with a GPU of its own" in text
    assert "metered · seed 0: out of memory; it starts over with each batch in 2 parts" in text
    details = [outcome.detail for outcome in Snapshot(tmp_path / "results").outcomes().values()]
    assert [1, 1] in [detail.get("out_of_memory") for detail in details]


@pytest.mark.full
def test_what_has_no_gpu_to_pack_is_said(cluster, tmp_path):
    """Nodes are asked what memory their GPUs have; these have none that could be seen."""
    with pytest.raises(RefusedError, match="reports GPUs, but sees none\n  = give each trial a share of a GPU"):
        RayTune(None, address=cluster.address, pack="auto").run(lambda: None, print, lambda: False)


@pytest.mark.slow
def test_a_preempted_worker_saves_its_trial_and_another_goes_on(cluster, tmp_path):
    """SIGTERM to the worker: nothing is lost but the time to start another, and the rows are the same bits."""
    space = ablate.load_space(write_world(tmp_path, steps=400, seeds=1), settings=["measure.checkpoint_every=1000"])
    ablate.run(space, results=tmp_path / "calm", executor="inline", **QUIET)
    screen = Console(record=True, width=200, file=StringIO())
    sent = []

    def preempt():
        until = time.monotonic() + 120
        while time.monotonic() < until and not sent:
            for holder in claim.holders(tmp_path / "rough").values():
                if holder.alive and holder.step > 50:
                    os.kill(holder.pid, signal.SIGTERM)
                    sent.append(holder)
                    break
            time.sleep(0.05)

    thread = threading.Thread(target=preempt, daemon=True)
    thread.start()
    more = {"executor": "ray", "address": cluster.address, "gpus": 0, "workers": 2}
    done = ablate.run(space, results=tmp_path / "rough", console=screen, mirror=False, **more)
    thread.join()
    assert sent, "no worker came far enough to be preempted"
    assert done.ended.kinds == {"finished": 4}
    text = screen.export_text()
    assert "its worker was asked to stop; it resumes from its checkpoint" in text and "was lost" not in text
    assert rows_of(tmp_path / "rough") == rows_of(tmp_path / "calm")
    with pytest.raises(ProcessLookupError):  # its process is not used again
        os.kill(sent[0].pid, 0)


def tasks_of(space, results, block=None, **more):
    plan = ablate.plan_space(space, results=results).plan
    trials = (trial for trial in plan.trials if block in (None, plan.variant(trial.variant).name))
    results.mkdir(exist_ok=True)
    return [Task(trial=trial, folder=results, **more) for trial in trials]


def carried_out(executor, tasks):
    messages = []
    executor.run(lambda: tasks.pop() if tasks else None, messages.append, lambda: False)
    return messages


@pytest.mark.full
def test_ranks_of_a_trial_are_on_one_node(cluster, tmp_path):
    """Two processes for a trial ask for two GPUs of one node, and give the rows that they give without Ray."""
    (task, *_) = tasks_of(ablate.load_space(write_world(tmp_path, seeds=1)), tmp_path / "results", ranks=2)
    heard = []
    for executor in (Inline(), RayTune(None, address=cluster.address, cpus=2, ranks=2)):
        messages = carried_out(executor, [task])
        heard.append([event for message in messages for event in message.events if isinstance(event, Row)])
        assert messages[-1].events[-1].kind == "finished"
    assert heard[0] == heard[1] and len(heard[0]) > 20
    with pytest.raises(RefusedError, match="a trial needs 1 CPU and 4 GPUs, and no node of the Ray cluster has"):
        RayTune(None, address=cluster.address, ranks=4).run(lambda: None, print, lambda: False)
