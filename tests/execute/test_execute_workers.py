"""Worker processes that die, leave, hang or cannot start: none costs a result, and none runs the user's file again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from io import StringIO

import pytest
from crashes import ABLATE
from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate
from ablate.errors import RefusedError
from ablate.execute.executor import NO_STEP, Task
from ablate.execute.local import Inline, Local
from ablate.store.snapshot import Snapshot

QUIET = {"console": Console(quiet=True), "mirror": False}
PATIENCE = 120.0

SCRIPT = """\
import pathlib
import ablate

with pathlib.Path("ran").open("a") as file:
    file.write("once ")
done = ablate.run(ablate.load_space("tiny.yaml"), results="script", workers=2, mirror=False)
print(dict(done.ended.kinds), [outcome.detail for _, outcome in done.failed])
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with a space, and the rows of a run of it that nobody disturbed."""
    folder = tmp_path_factory.mktemp("world")
    space = ablate.load_space(write_world(folder, seeds=1))
    ablate.run(space, results=folder / "calm", executor="inline", **QUIET)
    return folder, space, rows_of(folder / "calm")


def task_of(space, results, **changes):
    (trial, *_) = ablate.plan_space(space, results=results).plan.trials
    return Task(trial=trial, folder=results, **changes)


def carried_out(executor, task):
    """The messages of one trial; an error where it has not ended in time."""
    end = time.monotonic() + PATIENCE

    def in_time():
        if time.monotonic() > end:
            raise TimeoutError(f"no outcome within {PATIENCE:g} s")
        return False

    waiting, messages = [task], []
    executor.run(lambda: waiting.pop() if waiting else None, messages.append, in_time)
    return messages


def plugin(folder, name, text):
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


@pytest.mark.full
def test_a_script_without_a_guard_runs_once_and_trains_all(world):
    folder, _, calm = world
    script = plugin(folder, "script", SCRIPT)
    done = subprocess.run([sys.executable, str(script)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "{'finished': 4} []", done.stderr[-2000:]
    assert (folder / "ran").read_text() == "once "
    assert rows_of(folder / "script") == calm


@pytest.mark.full
def test_a_worker_that_leaves_with_exit_code_0_in_mid_trial_is_a_lost_one(world, tmp_path):
    _, space, _ = world
    leaves = plugin(tmp_path, "leaves", "import os\n\nos.write(2, b'so long\\n')\nos._exit(0)\n")
    (message,) = carried_out(Local(workers=1), task_of(space, tmp_path, plugins=(leaves,)))
    outcome = message.events[-1]
    assert outcome.kind == "interrupted" and outcome.detail["error"].endswith(", ended with exit code 0)")
    assert outcome.detail["stderr"] == "so long"


@pytest.mark.full
@pytest.mark.parametrize(
    "executor", [Inline(), pytest.param(Local(workers=1), marks=pytest.mark.full)], ids=["inline", "local"]
)
def test_sys_exit_in_a_component_is_its_bug(world, tmp_path, executor):
    """It ends neither a worker nor this process."""
    _, space, _ = world
    exits = plugin(tmp_path, "exits", "import sys\n\nsys.exit(0)\n")
    _, message = carried_out(executor, task_of(space, tmp_path, plugins=(exits,)))  # behind that it began
    outcome = message.events[-1]
    assert outcome.kind == "bug"
    assert "the file fails when it is read: SystemExit: 0" in outcome.detail["error"]
    assert "exits.py:3:1" in outcome.detail["error"]


@pytest.mark.full
def test_a_trial_that_never_comes_to_its_next_step_does_not_keep_the_run_from_stopping(world, tmp_path):
    from ablate.store import claim

    _, space, _ = world
    hangs = plugin(tmp_path, "hangs", "import time\n\ntime.sleep(600)\n")
    waiting, messages = [task_of(space, tmp_path, plugins=(hangs,))], []
    end = time.monotonic() + PATIENCE

    def stop():
        if time.monotonic() > end:
            raise TimeoutError("the run does not stop")
        return any(holder.alive for holder in claim.holders(tmp_path).values())

    Local(workers=1).run(lambda: waiting.pop() if waiting else None, messages.append, stop)
    assert messages[-1].events[-1].kind == "interrupted"
    assert messages[-1].events[-1].detail["error"] == NO_STEP  # so it is dropped at once


SABOTAGE = """\
import os, sys
if not any("ablate.cli" in word for word in sys.orig_argv):
    print("no memory left in here", file=sys.stderr, flush=True)
    os._exit(1)
"""


@pytest.mark.full
def test_workers_that_cannot_start_stop_the_run_and_cost_no_trial(world, tmp_path):
    folder, _, calm = world
    (tmp_path / "sitecustomize.py").write_text(SABOTAGE)
    results = tmp_path / "results"
    given = {"cwd": folder, "capture_output": True, "text": True, "timeout": 300}
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [*ABLATE, "run", "tiny.yaml", "--no-mlflow", "--workers", "2", "--results", str(results)]
    refused = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, **given)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "error: no worker can be started: 8 starts in a row failed" in refused.stderr
    assert "ended with exit code 1\n  | no memory left in here\n  = what was trained is kept" in refused.stderr
    assert Snapshot(results).outcomes() == {}
    resumed = subprocess.run([*ABLATE, "resume", "--no-mlflow", "--results", str(results)], **given)
    assert resumed.returncode == 0, resumed.stderr
    assert rows_of(results) == calm


@pytest.mark.full
def test_a_worker_that_never_gets_ready_is_given_up(tmp_path, monkeypatch):
    from ablate.execute import supervisor

    (tmp_path / "sitecustomize.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(supervisor, "READY_WITHIN", 0.5)
    notices, calls = [], []
    with pytest.raises(RefusedError, match=r"no worker can be started.* not ready within 0.5 s"):
        Local(workers=1, say=notices.append).run(lambda: calls.append(1), print, lambda: False)
    assert len(notices) == 1 and "trying another" in notices[0]
    assert calls == [], "nothing is begun before a worker is there"


@pytest.mark.full
def test_what_a_worker_prints_while_it_starts_is_shown_once_it_is_there(world, tmp_path, monkeypatch, capfd):
    _, space, _ = world
    (tmp_path / "sitecustomize.py").write_text("import os\nos.write(2, b'a warning\\n')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    said = Console(file=StringIO())
    ablate.run(space, results=tmp_path / "results", workers=1, console=said, mirror=False)
    assert capfd.readouterr().err.splitlines().count("a warning") == 1


def test_workers_of_a_cluster_that_never_take_a_trial_up_stop_the_run(world, tmp_path):
    """Nor do they cost the trials anything: such a death is none of theirs."""
    from ray.exceptions import ActorDiedError

    from ablate.execute.executor import STARTS_ALLOWED, UNTOUCHED
    from ablate.execute.ray_driver import Conductor, Escape

    _, space, _ = world
    task, heard = task_of(space, tmp_path), []
    conductor = Conductor(lambda: task, heard.append, lambda: False, lambda: 9, lambda task: 0.0)
    for number in range(STARTS_ALLOWED - 1):
        conductor.take(str(number))
        conductor.lost(str(number), ActorDiedError())
    assert all(UNTOUCHED in message.events[-1].detail for message in heard)
    conductor.take("last")
    with pytest.raises(Escape) as stopped:
        conductor.lost("last", ActorDiedError())
    assert isinstance(stopped.value.__cause__, RefusedError)
    assert str(stopped.value.__cause__).startswith("no worker can be started: 8 in a row were lost before they began")
