"""A GPU that is lost, closed, unseen or smaller than another: what its trial and the ones after it are told."""

from types import SimpleNamespace

import pytest
import torch
from device_fixtures import notes_of, write_metered

import ablate
from ablate.components.registry import declarations
from ablate.errors import RefusedError
from ablate.execute import gpu
from ablate.execute.executor import SHARE, Attempt, Message, Task, after_lack
from ablate.execute.gpu import CONTEXT, Gpu, Packer, with_share
from ablate.execute.local import Local
from ablate.execute.worker import ending_of
from ablate.train.events import Outcome

GIB = 2**30
ASSERT = "CUDA error: device-side assert triggered"
LOST = f"""
import sys

from ablate.execute import gpu

if IN_USE and "pytest" not in sys.modules:  # in the workers alone
    gpu._in_use = lambda: True
    torch.cuda.empty_cache = lambda: lost()


def lost():
    raise RuntimeError("{ASSERT}")
"""


def executors():
    from ablate.execute.ray import RayTune

    return {"local": lambda: Local(1), "ray": lambda: RayTune(workers=1, gpus=0)}


@pytest.mark.parametrize(
    "executor", [pytest.param("local", marks=pytest.mark.full), pytest.param("ray", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("on_gpu", [True, False])
def test_after_a_bug_on_a_gpu_its_process_does_no_other_trial(tmp_path, executor, on_gpu):
    """What comes after an error on the device fails in that process, too. The twin: without a GPU it goes on."""
    path, plugin = write_metered(tmp_path, seeds=3)
    text = plugin.read_text().replace("raise torch.OutOfMemoryError(f", "raise RuntimeError(f")
    plugin.write_text(text + LOST.replace("IN_USE", str(on_gpu)))
    path.write_text(path.read_text().replace("meter: {most: 64", "meter: {most: 0"))
    plan = ablate.plan_space(ablate.load_space(path, plugins=[plugin]), results=tmp_path / "results").plan
    (tmp_path / "results").mkdir(exist_ok=True)
    trials = [trial for trial in plan.trials if plan.variant(trial.variant).name == "metered"]
    tasks = [Task(trial=trial, folder=tmp_path / "results", plugins=(plugin,)) for trial in trials]
    heard = []
    executors()[executor]().run(lambda: tasks.pop() if tasks else None, heard.append, lambda: False)
    ended = [event for message in heard for event in message.events if isinstance(event, Outcome)]
    assert [outcome.kind for outcome in ended] == ["bug"] * 3
    assert len({notes[0][2] for notes in notes_of(tmp_path).values()}) == (3 if on_gpu else 1)


@pytest.fixture
def broken(monkeypatch):
    """A machine whose one GPU answers everything with an error."""

    def give(error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        for name in ("set_device", "empty_cache", "max_memory_allocated"):
            monkeypatch.setattr(torch.cuda, name, fail)

    return give


@pytest.mark.fast
def test_a_gpu_that_cannot_be_used_is_no_bug_of_a_trial(broken):
    broken(RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable\nmore"))
    with pytest.raises(
        RefusedError, match=r"GPU 0 cannot be used: CUDA error: .*unavailable\n  = .*--pack 1"
    ) as refused:
        gpu.take(None, 0.5)
    assert ending_of(refused.value, 0).kind == "interrupted"


@pytest.mark.fast
@pytest.mark.parametrize(
    "said",
    [
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    ],
)
def test_one_without_room_for_a_context_lacks_memory(broken, said):
    broken(RuntimeError(said))
    with pytest.raises(RuntimeError) as lacking:
        gpu.take(0, None)
    assert ending_of(lacking.value, 4).kind == "out_of_memory"


@pytest.mark.fast
def test_one_that_is_lost_hides_no_outcome(broken):
    assert gpu.give_back() and not gpu.spoils(Outcome("bug", 1)), "nothing of it without CUDA"
    broken(RuntimeError(ASSERT))
    assert gpu.peak() == {} and not gpu.give_back()
    assert gpu.spoils(Outcome("bug", 1)) and not gpu.spoils(Outcome("diverged", 1))


@pytest.mark.fast
def test_contexts_are_left_out_of_what_is_shared():
    assert gpu.usable(80 * GIB, 0) == 1.0
    assert gpu.usable(80 * GIB, 8) == (80 * GIB - 8 * CONTEXT) / (80 * GIB)
    assert 8 * 0.125 * gpu.usable(24 * GIB, 8) * 24 * GIB + 8 * CONTEXT == 24 * GIB
    assert gpu.usable(2 * GIB, 8) == 0.5, "as much again for tensors"


def test_a_part_of_a_gpu_on_ray_is_one_of_what_contexts_leave():
    from ablate.execute.ray_driver import _with_memory_share

    task = Task(trial=None, folder=None, memory=1.0)
    assert (_with_memory_share(task, 0.125, 8).memory, _with_memory_share(task, 0.125, 8).contexts) == (0.125, 8)
    assert (_with_memory_share(task, 1.0, 8).memory, _with_memory_share(task, 1.0, 8).contexts) == (None, 0)


def test_a_gpu_that_is_there_and_not_seen_is_told_of_once(tmp_path, monkeypatch):
    from ablate.execute.ray_driver import Conductor

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpu, "Path", lambda name: tmp_path / name.strip("/"))
    assert not gpu.unseen(), "Ray was only told of one"
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert gpu.unseen()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not gpu.unseen()
    notices = []
    conductor = Conductor(lambda: None, print, lambda: False, lambda: 1, lambda task: 1.0, say=notices.append)
    for text in ("", "a: none", "b: none", "a: none", ""):
        conductor.warned(text)
    assert notices == ["a: none", "b: none"]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("running", "waits"),
    [
        ([(0.125, True), (0.5, False), (1.0, True)], True),
        ([(0.125, True), (1.0, False)], True),
        ([(0.125, False), (0.5, True)], False),
        ([(0.5, False), (0.5, True)], False),
        ([], False),
    ],
)
def test_a_trial_of_middle_size_is_waited_for_too(running, waits):
    from ablate.execute.ray_driver import Conductor

    conductor = Conductor(lambda: None, print, lambda: False, lambda: 9, lambda task: 1.0)
    for place, (gpus, has_worker) in enumerate(running):
        conductor.running[str(place)] = SimpleNamespace(gpus=gpus, worker=object() if has_worker else None)
    assert conductor._one_waits_for_more() is waits


def test_the_whole_of_a_small_gpu_is_a_share_of_the_largest(tmp_path, monkeypatch):
    """So a trial that lacked memory there is tried as it is on the largest, before its bits are changed."""
    path, plugin = write_metered(tmp_path, seeds=1)
    trials = ablate.plan_space(ablate.load_space(path, plugins=[plugin]), results=tmp_path / "results").plan.trials
    monkeypatch.setattr(gpu.MemoryForecast, "needed", lambda self, task: 20 * GIB)
    packer = Packer([Gpu(0, 24 * GIB), Gpu(1, 80 * GIB)], declarations((plugin,)), workers=2, pack=1)
    first, second = (packer.placed(Task(trial=trial, folder=tmp_path)) for trial in trials)
    assert (first.gpu, first.memory, second.gpu) == (0, 1.0, 1)
    assert (packer.share(first), packer.share(second)) == (0.3, 1.0)
    lack = Message(first.trial.id, (Outcome("out_of_memory", 0, {"cause": "…"}),), 0)
    (outcome,) = with_share(lack, packer.share(first)).events
    assert after_lack(Attempt(), most=4, share=outcome.detail[SHARE]) == Attempt(1, True, (1,))
    assert with_share(lack, packer.share(second)) == lack, "where it had all of the largest, it is cut into parts"
    packer.over(first, lack)
    packer.over(second, lack)
    again = packer.placed(Task(trial=trials[0], folder=tmp_path, memory=1.0))
    assert (again.gpu, packer.share(again)) == (1, 1.0)
