"""Where trials run, as it is asked for: what goes together, what is kept, and what this machine makes of it."""

import dataclasses
import json

import pytest
from rich.console import Console
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate import api
from ablate.cli.app import app
from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.execute import executor, gpu
from ablate.execute.executor import NO_STEP, SHARE, ExecutorOptions, Task, default_workers
from ablate.execute.gpu import CONTEXT, Gpu, Packer
from ablate.execute.local import Inline, Local, build_executor
from ablate.train.events import Outcome, Row

GIB = 2**30


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return ablate.load_space(write_world(tmp_path_factory.mktemp("world"), seeds=1))


def tasks_of(space, results, **changes):
    plan = ablate.plan_space(space, results=results).plan
    return [Task(trial=trial, folder=results, **changes) for trial in plan.trials]


@pytest.mark.fast
@pytest.mark.parametrize(
    "options",
    [
        ExecutorOptions(pack=3),
        ExecutorOptions(pack="auto", workers=4),
        ExecutorOptions(executor="ray", pack=2, ranks=1),
        ExecutorOptions(executor="ray", ranks=2, gpus=0, cpus=3),
        ExecutorOptions(executor="inline", ranks=2),
    ],
    ids=str,
)
def test_options_come_back_as_they_were_kept(options):
    assert ExecutorOptions.of(json.loads(json.dumps(options.document()))) == options


@pytest.mark.fast
@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"pack": 10_000}, "--pack: that many trials on a GPU\n  = give a number from 1 to 9999, or auto"),
        ({"pack": 10**5000}, "--pack: that many trials on a GPU\n  = give a number from 1 to 9999, or auto"),
        ({"pack": 0}, "--pack: 0 trials on a GPU\n  = give a number from 1 to 9999, or auto"),
        ({"pack": "all"}, "--pack: all trials"),
        ({"ranks": 0}, "--ranks: 0 processes per trial\n  = give at least one"),
        ({"pack": 2, "ranks": 2}, "--pack has no effect with --ranks 2: each process has a GPU of its own\n  = leave"),
        ({"pack": 2, "executor": "inline"}, "--pack has no effect with --executor inline, which runs one trial"),
        ({"pack": 2, "executor": "ray", "gpus": 0.5}, "--pack has no effect with --gpus\n  = leave one"),
        ({"ranks": 2, "executor": "ray", "gpus": 0.5}, "--gpus 0.5 does not fit a trial of 2 processes\n  = each "),
    ],
)
def test_what_does_not_go_together_is_refused(asked, message):
    with pytest.raises(InputError) as refused:
        ExecutorOptions(**asked)
    assert message in str(refused.value)


@pytest.mark.fast
@pytest.mark.parametrize(("text", "pack"), [("3", 3), ("auto", "auto")])
def test_pack_as_one_writes_it(text, pack):
    assert api.read_pack(text) == pack


@pytest.mark.fast
@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "all", "²", "10000", "9" * 5000])
def test_pack_as_nobody_can_mean_it(text):
    with pytest.raises(InputError, match="trials on a GPU\n  = give a number from 1 to 9999, or auto"):
        api.read_pack(text)


@pytest.mark.fast
@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("30m", 1800.0), ("1.5h", 5400.0), ("7", 7.0)])
def test_a_time_as_one_writes_it(text, seconds):
    assert api.read_seconds(text) == seconds


@pytest.mark.fast
@pytest.mark.parametrize("text", ["0", "0s", "-1m", "nan", "inf", "1e400h", "", "m", "soon"])
def test_a_time_as_nobody_can_mean_it(text):
    with pytest.raises(InputError, match="is not a time\n  = write it as 90s, 30m or 2h"):
        api.read_seconds(text)


def test_a_batch_that_cannot_be_shared_out_is_refused_before_anything_is_begun(space, tmp_path):
    with pytest.raises(InputError) as refused:
        ablate.run(space, results=tmp_path / "results", ranks=3, console=Console(quiet=True))
    assert str(refused.value) == (
        "a batch of 4 sequences cannot be divided evenly among 3 processes\n  = use --ranks 2, 4, or another "
        "recipe.batch"
    )
    assert not (tmp_path / "results").exists()


@pytest.mark.fast
def test_another_executor_forgets_the_cluster_of_the_first():
    options = ExecutorOptions(executor="ray", address="auto", gpus=0, ranks=2, limit=60.0)
    assert options.changed(workers=3) == dataclasses.replace(options, workers=3)
    assert options.changed(executor="ray", ranks=4) == dataclasses.replace(options, ranks=4)
    assert options.changed(executor="local", workers=3) == ExecutorOptions(workers=3, ranks=2, limit=60.0)


@pytest.mark.fast
def test_what_an_older_or_newer_version_kept_is_understood():
    assert ExecutorOptions.of({}) == ExecutorOptions()
    assert ExecutorOptions.of({"executor": "ray", "priority": 3}) == ExecutorOptions(executor="ray")


@pytest.mark.full
def test_ranks_are_resumed_as_they_were_asked_for(space, tmp_path, monkeypatch):
    from ablate.execute.controller import Interrupt

    monkeypatch.setattr(Interrupt, "__call__", lambda self: True)
    asked = {"executor": "inline", "ranks": 2, "console": Console(quiet=True), "mirror": False}
    assert ablate.run(space, results=tmp_path, **asked).ended.waiting == 4
    (found,), refused = api.resumable(tmp_path)
    assert refused == () and found.left == 4
    assert found.options == ExecutorOptions(executor="inline", ranks=2)


def test_a_run_is_resumed_with_its_profile_and_settings(tmp_path, monkeypatch):
    from ablate.execute.controller import Interrupt

    path = write_world(tmp_path, seeds=1)
    path.write_text(path.read_text(encoding="utf-8") + "profiles: {small: {recipe: {batch: 2}}}\n", encoding="utf-8")
    asked = ablate.load_space(path, profile="small", settings=["seeds=[7]"])
    monkeypatch.setattr(Interrupt, "__call__", lambda self: True)
    ablate.run(asked, results=tmp_path, executor="inline", console=Console(quiet=True), mirror=False)
    (found,), refused = api.resumable(tmp_path)
    assert refused == () and (found.space.recipe.batch, found.space.seeds) == (2, asked.seeds)
    assert ablate.load_space(path).seeds != asked.seeds


@pytest.mark.fast
def test_the_command_line_refuses_nonsense_in_words(tmp_path):
    path = write_world(tmp_path)
    for words in (["--pack", "0"], ["--pack", "2", "--ranks", "2"], ["--executor", "inline", "--pack", "2"]):
        done = CliRunner().invoke(app, ["run", str(path), "--results", str(tmp_path / "results"), *words])
        assert isinstance(done.exception, InputError) and "--pack" in str(done.exception)


@pytest.mark.fast
def test_workers_by_cores_and_gpus(monkeypatch):
    monkeypatch.setattr(executor, "available_cores", lambda: 16)
    assert [default_workers(threads, (), ranks) for threads, ranks in ((1, 1), (3, 1), (2, 2), (16, 2))] == [
        16,
        5,
        4,
        1,
    ]
    two = (80 * GIB, 12 * GIB)
    assert default_workers(1, two) == 8 + 3, "one for each 4 GiB, eight at most"
    assert default_workers(1, two, pack=1) == 2 and default_workers(1, two, pack=4) == 8
    assert default_workers(4, two) == 4, "each needs its cores"
    assert default_workers(1, two, ranks=2) == 1


@pytest.mark.fast
def test_what_this_machine_makes_of_it(monkeypatch):
    notices = []
    monkeypatch.setattr(executor, "available_cores", lambda: 16)
    assert build_executor(ExecutorOptions(), 1, notices.append).workers == 16 and notices == []
    assert build_executor(ExecutorOptions(pack=2), 1, notices.append).workers == 16
    assert notices.pop() == "--pack 2 has no effect: this machine has no GPU"
    assert build_executor(ExecutorOptions(ranks=2), 4, notices.append).workers == 2
    monkeypatch.setattr(gpu, "gpus", lambda: (Gpu(0, 80 * GIB), Gpu(1, 80 * GIB)))
    for given, workers in (({}, 16), ({"pack": 3}, 6), ({"workers": 3}, 3), ({"ranks": 2}, 1)):
        assert build_executor(ExecutorOptions(**given), 1, notices.append).workers == workers, given
    assert notices == []
    assert build_executor(ExecutorOptions(workers=9, pack=1), 1, notices.append).workers == 2
    assert notices.pop() == "the GPUs can run 2 trials at a time, of the 9 requested"
    with pytest.raises(InputError, match="--ranks 4: each process needs a GPU of its own, and this machine has 2"):
        build_executor(ExecutorOptions(ranks=4), 1, notices.append)


class Recording(Packer):
    """Notes which places were given, and how many trials were on each GPU at most."""

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.given, self.here, self.most = [], {}, {}

    def placed(self, task):
        placed = super().placed(task)
        if placed is not None:
            self.given.append((placed.gpu, placed.memory))
            self.here[task.trial.id] = placed.gpu
            for gpu in self.here.values():
                self.most[gpu] = max(self.most.get(gpu, 0), list(self.here.values()).count(gpu))
        return placed

    def over(self, task, message):
        super().over(task, message)
        del self.here[task.trial.id]


@pytest.mark.full
def test_workers_share_logical_gpus(space, tmp_path):
    """Four trials on two GPUs, two on each at once; each is held to its half, what contexts take is left out."""
    gpus = [Gpu(0, 16 * GIB), Gpu(1, 16 * GIB)]
    packer = Recording(gpus, declarations(), workers=4, pack=2)
    messages, tasks = [], tasks_of(space, tmp_path)
    Local(4, packer).run(lambda: tasks.pop() if tasks else None, messages.append, lambda: False)
    assert [m.events[-1].kind for m in messages if m.events and isinstance(m.events[-1], Outcome)] == ["finished"] * 4
    half = (16 * GIB - 4 * CONTEXT) / (16 * GIB) / 2
    assert [gpu for gpu, _ in packer.given] == [0, 1, 0, 1]
    assert [memory for _, memory in packer.given] == pytest.approx([half] * 4)
    assert packer.most == {0: 2, 1: 2} and packer.here == {}


@pytest.mark.full
def test_a_trial_without_a_place_waits_and_is_told_of_when_the_run_is_stopped(space, tmp_path):
    """Three workers, one place. The one that waits has begun in the books: it ends as interrupted, too."""
    packer = Recording([Gpu(0, 16 * GIB)], declarations(), workers=1, pack=1)
    heard, tasks = [], tasks_of(space, tmp_path)
    handed = []

    def next_task():
        handed.append(tasks.pop())
        return handed[-1]

    def stop():
        return len(heard) > 0

    Local(3, packer).run(next_task, heard.append, stop)
    assert len(handed) == 2 and packer.most == {0: 1}
    endings = {m.trial_id: m.events[-1] for m in heard if m.events and isinstance(m.events[-1], Outcome)}
    assert set(endings) == {task.trial.id for task in handed}
    assert endings[handed[1].trial.id].detail == {"error": NO_STEP}


def test_alone_is_the_whole_gpu_and_ranks_have_gpus_in_a_row(space, tmp_path):
    (task, other, third, _) = tasks_of(space, tmp_path)
    packer = Packer([Gpu(n, 16 * GIB) for n in range(2)], declarations(), workers=4, pack=2)
    assert packer.placed(dataclasses.replace(task, memory=1.0)).memory == 1.0
    assert packer.placed(other).gpu == packer.placed(third).gpu == 1
    packer = Packer([Gpu(n, 16 * GIB) for n in range(5)], declarations(), workers=2, ranks=2)
    found = [packer.placed(dataclasses.replace(one, ranks=2)) for one in (task, other, third)]
    assert [one and (one.gpu, one.memory) for one in found] == [(0, 1.0), (2, 1.0), None]


def test_the_share_of_a_trial_that_had_no_whole_gpu_is_in_its_outcome():
    from ablate.execute.executor import Message
    from ablate.execute.gpu import with_share

    lacking = Message("t", (Outcome("out_of_memory", 3, {"cause": "…"}),), 3)
    assert with_share(lacking, 0.25).events[0].detail == {"cause": "…", SHARE: 0.25}
    assert with_share(Message("t", (Outcome("finished", 3),), 3), 0.25).events[0].detail == {SHARE: 0.25}
    for whole in (None, 1.0):
        assert with_share(lacking, whole) == lacking


@pytest.mark.full
def test_ranks_give_the_same_rows_in_a_worker_as_in_this_process(space, tmp_path):
    (task, *_) = tasks_of(space, tmp_path, ranks=2)
    heard = {}
    for each in (Inline(), Local(1)):
        messages, tasks = [], [task]
        each.run(lambda: tasks.pop() if tasks else None, messages.append, lambda: False)
        heard[each] = [event for message in messages for event in message.events if isinstance(event, Row)]
        assert messages[-1].events[-1].detail["ranks"] == 2
    first, second = heard.values()
    assert first == second and len(first) > 20
