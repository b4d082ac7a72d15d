"""One trial in several processes, joined by gloo: the numbers of one, and what becomes of it when one is lost."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from crashes import MARK, alive
from tiny_spaces import write_world

import ablate
from ablate.execute import worker
from ablate.execute import worker as together
from ablate.execute.executor import REFUSED, Task
from ablate.execute.local import Local
from ablate.store import claim, journal
from ablate.train import data_parallel as ranks_module
from ablate.train.data_parallel import RankLost, Ranks
from ablate.train.events import Began, Outcome, Row, Saved

STEPS, SAVED = 24, 23
EXACT = {"train_loss", "eval_loss", "gradient_norm", "learning_rate"}
CLOSE = {"float64": 1e-9, "float32": 1e-4}

PLUGIN = """\
import os, signal, sys

from ablate.components.declare import Cost, component, implements


@component("unused_{name}", slots=("part",), source="of this test")
class Config:
    def cost(self, sizes):
        return Cost()


if sys.argv[0] == "-c" and sys.argv[1:] == [str(os.getppid())]:  # as ranks but 0 are started; not here
    from ablate.train.microbatches import Passes
    from ablate.train.data_parallel import Ranks

    backward, passes = Passes.backward, []

    def at_step_5(self, parts):
        passes.append(parts)
        if len(passes) == 6:
            {act}
        return backward(self, parts)

    {patch}

from torch import nn

@implements(Config)
class Unused(nn.Module): ...
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A task for a trial of a shipped block: at its type of numbers, with what else is set."""
    folder = tmp_path_factory.mktemp("world")
    path = write_world(folder, steps=STEPS, seeds=1)

    def task(results: str, *settings: str, plugin: Path | None = None, **how) -> Task:
        space = ablate.load_space(path, settings=[f"measure.checkpoint_every={SAVED}", "recipe.clip=0.5", *settings])
        (folder / results).mkdir(exist_ok=True)
        trial = ablate.plan_space(space, results=folder / results).plan.trials[-1]
        return Task(trial=trial, folder=folder / results, plugins=(plugin,) if plugin else (), **how)

    return task


def carried_out(task, should_stop=lambda: False):
    return [event for message in worker.messages(task, should_stop) for event in message.events]


def rows(events):
    return {(e.metric, e.address, e.step): e.value for e in events if isinstance(e, Row)}


def exact(events):
    return {key: value for key, value in rows(events).items() if key[0] in EXACT}


def parameters(task, events):
    saved = next(e for e in events if isinstance(e, Saved))
    state = journal.read_checkpoint(task.folder, task.trial.id, saved)
    return torch.load(io.BytesIO(state), weights_only=True)["model"]


def plugin(folder, name, act="pass", patch="Passes.backward = at_step_5"):
    path = folder / f"{name}.py"
    path.write_text(PLUGIN.format(name=name, act=act, patch=patch))
    return path


@pytest.mark.parametrize(
    ("dtype", "how"),
    [
        ("float64", {"ranks": 2}),
        pytest.param("float32", {"ranks": 2}, marks=pytest.mark.full),
        pytest.param("float64", {"ranks": 3, "parts": 2}, marks=pytest.mark.full),
        pytest.param("float64", {"parts": 2}, marks=pytest.mark.full),
    ],
)
def test_it_is_the_trial_of_one_process(world, dtype, how):
    alone = world("alone", f"recipe.dtype={dtype}")
    shared = replace(world("-".join(how), f"recipe.dtype={dtype}"), **how)
    expected, actual = carried_out(alone), carried_out(shared)
    assert actual[-1].kind == expected[-1].kind == "finished"
    assert rows(actual).keys() == rows(expected).keys() and {m for m, _, _ in exact(actual)} == EXACT
    whole = {key: value for key, value in exact(expected).items() if dtype == "float64" or not key[1]}
    assert {key: exact(actual)[key] for key in whole} == pytest.approx(whole, rel=CLOSE[dtype])
    ours = parameters(shared, actual)
    for name, there in parameters(alone, expected).items():
        assert (ours[name] - there).abs().max() <= CLOSE[dtype] * there.abs().max(), name
    said = {name: str(n) for name, n in how.items()}
    assert isinstance(actual[0], Began) and said.items() <= actual[0].versions.items()
    assert how.items() <= actual[-1].detail.items() and "readings" in actual[-1].detail
    assert not {"parts", "ranks", "readings"} & {*expected[0].versions, *expected[-1].detail}


def probed(world, name, *probes, **how):
    wanted = ", ".join(["kurtosis", *probes])
    return replace(world(name, "recipe.dtype=float32", f"measure.probes=[{wanted}]"), **how)


@pytest.mark.full
@pytest.mark.parametrize("probe", ["gradient_normality", "moment_update"])
def test_what_reads_in_steps_changes_no_bit_of_what_two_ranks_train(world, probe):
    plain, watched = (probed(world, f"watched-{len(by)}-{probe}", *by, ranks=2) for by in ((), (probe,)))
    expected, actual = carried_out(plain), carried_out(watched)
    assert actual[-1].kind == expected[-1].kind == "finished"
    assert {key: rows(actual)[key] for key in rows(expected)} == rows(expected)
    assert len(rows(actual)) > len(rows(expected))
    ours = parameters(watched, actual)
    assert all(torch.equal(ours[name], there) for name, there in parameters(plain, expected).items())


@pytest.mark.full
@pytest.mark.parametrize("how", [{"ranks": 2}, {"ranks": 3, "parts": 2}])
def test_experts_are_balanced_by_the_load_of_all_ranks(world, how):
    """The bias is the same to the bit; losses of the router that are linear in the tokens are those of one process."""
    experts = "moe: {experts: 4, active: 2, balance: 0, bias_rate: 0.01}"
    block = f"blocks={{experts: [residual: [layer_norm, attention], residual: [layer_norm, {experts}]]}}"
    settings = ("recipe.dtype=float64", block, "design={compare: [pre_ln, experts]}")
    alone = world("experts", *settings)
    shared = replace(world("experts-" + "-".join(how), *settings), **how)
    expected, actual = carried_out(alone), carried_out(shared)
    assert actual[-1].kind == expected[-1].kind == "finished"
    of_parts = [
        {k: v for k, v in rows(each).items() if k[0] in ("added_loss", "after_step")} for each in (actual, expected)
    ]
    assert of_parts[0] and of_parts[0] == pytest.approx(of_parts[1], rel=1e-9)
    ours, theirs = parameters(shared, actual), parameters(alone, expected)
    biases = [name for name in theirs if name.endswith("mlp.bias")]
    assert len(biases) == 2 and all(theirs[name].any() for name in biases)
    assert all((ours[name] == theirs[name]).all() for name in biases)


@pytest.mark.full
@pytest.mark.parametrize("how", [{"ranks": 2}, {"ranks": 3, "parts": 2}])
def test_logits_are_clipped_by_the_largest_of_all_ranks(world, how):
    """Sinks are summed over ranks as any gradient is."""
    attention = "attention: {entropy: {qk_clip: {tau: 0.05}}, sink: learned_sink}"
    block = f"blocks={{clipped: [residual: [layer_norm, {attention}], residual: [layer_norm, mlp]]}}"
    settings = ("recipe.dtype=float64", block, "design={compare: [pre_ln, clipped]}")
    alone = world("clipped", *settings)
    shared = replace(world("clipped-" + "-".join(how), *settings), **how)
    expected, actual = carried_out(alone), carried_out(shared)
    assert actual[-1].kind == expected[-1].kind == "finished"
    after = [{k: v for k, v in rows(each).items() if k[0] == "after_step"} for each in (actual, expected)]
    assert after[0] and after[0] == pytest.approx(after[1], rel=1e-9)
    assert any(value > 0 for (_, address, _), value in after[0].items() if address.endswith("clipped_heads"))
    ours = parameters(shared, actual)
    for name, there in parameters(alone, expected).items():
        assert (ours[name] - there).abs().max() <= 1e-9 * there.abs().max(), name


@pytest.mark.full
def test_without_the_sum_over_ranks_it_is_another(world, tmp_path, monkeypatch):  # the test above can fail
    alone = world("alone", "recipe.dtype=float64")
    monkeypatch.setattr(Ranks, "add_gradients", lambda self, gradients: None)
    path = plugin(tmp_path, "no_sum", patch="Ranks.add_gradients = lambda self, gradients: None")
    apart = world("apart", "recipe.dtype=float64", plugin=path, ranks=2)
    expected, found = carried_out(alone), carried_out(apart)
    assert found[-1].kind == "finished"
    assert exact(found) != pytest.approx(exact(expected), rel=1e-4)


DROPOUT = "model.embedding.dropout=0.2"


@pytest.fixture(scope="module")
def calm(world):
    """What a trial of two ranks with dropout, which each of them draws by itself, yields undisturbed."""
    return carried_out(world("calm", DROPOUT, ranks=2))


@pytest.mark.full
def test_interrupted_and_gone_on_with_is_undisturbed_bit_for_bit(world, calm, monkeypatch):
    monkeypatch.setattr(worker, "SPEAK_EVERY", 0.0)
    rough, before = world("rough", DROPOUT, ranks=2), []
    for message in worker.messages(rough, lambda: any(row.step >= 8 for row in before if isinstance(row, Row))):
        before.extend(message.events)
    assert before[-1].kind == "interrupted" and 8 < before[-1].step < STEPS
    saved = [event for event in before if isinstance(event, Saved)][-1]
    assert saved.step == before[-1].step
    after = carried_out(replace(rough, resume=saved, versions=before[0].versions))
    assert after[0].step == saved.step and after[-1].kind == "finished"
    assert rows(before) | rows(after) == rows(calm)


@pytest.mark.full
def test_ranks_draw_dropout_apart(world, calm):
    """One process has other masks; and a rank that drew those of rank 0 would have them twice (the twin)."""
    assert exact(calm) != pytest.approx(exact(carried_out(world("alone", DROPOUT))), rel=1e-4)
    drawn = []
    for rank in (0, 1, 2, 1):
        torch.manual_seed(7)
        Ranks(rank, 3).draw_apart(seed=0, step=4)
        drawn.append(torch.rand(3))
    assert torch.equal(drawn[1], drawn[3]) and not any(torch.equal(drawn[a], drawn[b]) for a, b in [(0, 1), (1, 2)])
    Ranks(1, 3).draw_apart(seed=0, step=5)
    assert not torch.equal(torch.rand(3), drawn[1])


@pytest.mark.slow
def test_an_actor_of_ray_has_ranks_too_and_goes_on_where_this_process_paused(world, calm):
    from ablate.execute.ray import RayTune

    task = world("on_ray", DROPOUT, ranks=2)
    events = carried_out(replace(task, until=8))
    assert events[-1].kind == "paused" and events[-2].step == 9
    waiting = [replace(task, resume=events[-2], versions=events[0].versions)]
    executor = RayTune(workers=1, gpus=0)
    executor.run(lambda: waiting.pop() if waiting else None, lambda said: events.extend(said.events), lambda: False)
    assert events[-1].kind == "finished" and rows(events) == rows(calm)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_which_gpu_and_how_much_of_it_is_no_matter_where_there_is_none(world):
    """As on the logical GPUs that placement is tested with."""
    task = world("alone", "recipe.steps=2", gpu=1, memory=0.3)
    assert carried_out(task)[-1] == Outcome("finished", 2)


@pytest.mark.gpu
def test_parts_need_less_of_a_gpu(world):
    """And a trial that needs more than its share of one has run out of memory."""
    large = ("recipe.steps=2", "recipe.batch=256", "model.width=256", "model.context=64")
    whole, cut = (carried_out(world("gpu", *large, gpu=0, parts=parts))[-1] for parts in (1, 8))
    assert 0 < cut.detail["peak_memory"] < 0.5 * whole.detail["peak_memory"]
    share = cut.detail["peak_memory"] / torch.cuda.get_device_properties(0).total_memory
    held = carried_out(world("gpu", *large, gpu=0, memory=share))[-1]
    assert held.kind == "out_of_memory" and held.detail["peak_memory"] > 0


@pytest.mark.gpu
def test_more_ranks_than_gpus_are_refused(world):
    count = torch.cuda.device_count()
    outcome = carried_out(world("gpus", "recipe.batch=64", ranks=count + 1))[-1]
    assert outcome.detail[REFUSED].startswith(f"a trial was assigned GPU {count}, but only {count} ")


@pytest.mark.full
@pytest.mark.parametrize(
    ("act", "kind", "says"),
    [
        pytest.param(
            "import torch; raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2 GiB.')",
            "out_of_memory",
            {"cause": "CUDA out of memory. Tried to allocate 2 GiB."},
            marks=pytest.mark.full,
        ),
        pytest.param("raise ValueError('not mine')", "bug", {"error": "ValueError: not mine"}, marks=pytest.mark.full),
        ("os.kill(os.getpid(), signal.SIGKILL)", "interrupted", {"error": "its rank 1 was lost (by signal 9)"}),
    ],
    ids=["memory", "bug", "killed"],
)
def test_what_a_rank_meets_with_is_what_the_trial_meets_with(world, tmp_path, act, kind, says):
    task = world(kind, plugin=plugin(tmp_path, kind, act), ranks=2)
    started = time.monotonic()
    *events, outcome = carried_out(task)
    assert isinstance(outcome, Outcome) and (outcome.kind, outcome.step) == (kind, 5)
    assert says.items() <= outcome.detail.items() and outcome.detail["rank"] == 1
    assert kind != "bug" or "at_step_5" in outcome.detail["trace"]
    assert max(event.step for event in events if isinstance(event, Row)) == 4
    assert time.monotonic() - started < 60
    assert children() == []


@pytest.mark.full
def test_last_words_that_no_pipe_holds_are_cut(world, tmp_path):
    """Rank 0 listens once the other has ended, which it could not if it had more to say than the pipe takes."""
    act = "raise ValueError('ä' * 300_000)"
    (*_, outcome) = carried_out(world("loud", plugin=plugin(tmp_path, "loud", act), ranks=2))
    assert outcome.kind == "bug" and outcome.detail["error"].startswith("ValueError: ä")
    assert 2**15 - 2 <= len(outcome.detail["trace"].encode()) <= 2**15 and len(outcome.detail["error"]) < 2**12


AGREE = """    from ablate.train import loop

    build, agree = loop.build_optimizer, Ranks.agree

    def other(model, *chosen):
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.data = tensor.data + 1
        return build(model, *chosen)

    loop.build_optimizer = other
"""


@pytest.mark.full
def test_a_rank_with_other_parameters_is_put_right(world, calm, tmp_path):
    """As one whose kernels round otherwise would build them; rank 0's stay, bit for bit."""
    path = plugin(tmp_path, "other", patch=AGREE.lstrip())
    assert rows(carried_out(world("other", DROPOUT, plugin=path, ranks=2))) == rows(calm)


@pytest.mark.full
def test_one_that_is_not_put_right_makes_another_trial(world, calm, tmp_path, monkeypatch):  # the test above can fail
    monkeypatch.setattr(Ranks, "agree", lambda self, tensors: None)
    path = plugin(tmp_path, "wrong", patch=AGREE.lstrip() + "    Ranks.agree = lambda self, tensors: None")
    found = carried_out(world("wrong", DROPOUT, plugin=path, ranks=2))
    assert found[-1].kind == "finished" and exact(found) != pytest.approx(exact(calm), rel=1e-2)


def test_tensors_of_all_types_agree(monkeypatch):
    """NaN, minus zero, nothing at all; what is as on rank 0 is not written to."""
    theirs = [
        torch.tensor([float("nan"), -0.0, 3.0]),
        torch.tensor(True),
        torch.zeros(0, dtype=torch.float64),
        torch.arange(6.0, dtype=torch.bfloat16).reshape(2, 3).t(),
        torch.tensor([2**40, -1]),
    ]
    ours = [torch.zeros_like(tensor) for tensor in theirs[:-1]] + [theirs[-1].clone()]
    said = iter([torch.cat([ranks_module._bytes_of(tensor) for tensor in theirs])])
    monkeypatch.setattr(ranks_module.dist, "broadcast", lambda tensor, src: tensor.copy_(next(said)))
    before = [tensor._version for tensor in ours]
    Ranks(1, 2).agree(ours)
    for mine, wanted in zip(ours, theirs, strict=True):
        assert torch.equal(ranks_module._bytes_of(mine), ranks_module._bytes_of(wanted))
    assert [tensor._version > was for tensor, was in zip(ours, before, strict=True)] == [True, True, False, True, False]


@pytest.mark.full
def test_ranks_take_no_module_from_where_they_are_begun(world, tmp_path, monkeypatch):
    """`python -m` would look there first; its twin is below."""
    poison = tmp_path / "here"
    poison.mkdir()
    for name in ("json", "pickle", "ablate"):
        (poison / f"{name}.py").write_text(f"open({str(tmp_path / 'code_has_run')!r}, 'w')\n")
    task = world("poisoned", "recipe.steps=2", ranks=2)
    monkeypatch.chdir(poison)
    assert carried_out(task)[-1].kind == "finished"
    assert not (tmp_path / "code_has_run").exists()
    subprocess.run([sys.executable, "-m", "json.tool"], stdin=subprocess.DEVNULL, check=False)
    assert (tmp_path / "code_has_run").exists()


@pytest.mark.full
def test_ranks_that_do_not_meet_are_lost_soon(monkeypatch):
    monkeypatch.setattr(together, "MEET_WITHIN", timedelta(seconds=1))
    store = together._rank_store(2)
    with (
        pytest.raises(RankLost, match="ranks could not connect"),
        together._process_group(store, 0, 2, timedelta(minutes=9)),
    ):
        raise AssertionError("there is no other")
    assert not any(name in os.environ for name in together.RANKS_INTERFACES)


@pytest.mark.full
def test_divergence_is_found_where_it_is(world, tmp_path):
    """What is not finite is of another rank's sequences: rank 0 has nothing of it but what it is told."""
    act = "self.model.layers['2'].register_forward_hook(lambda layer, given, output: output * float('nan'))"
    outcome = carried_out(world("diverging", plugin=plugin(tmp_path, "diverging", act), ranks=2))[-1]
    assert (outcome.kind, outcome.step, outcome.detail["address"]) == ("diverged", 5, "layers.2")
    assert outcome.detail["seen"] == "output" and "train_loss is nan" in outcome.detail["cause"]


@pytest.mark.full
def test_what_cannot_be_is_refused_in_words(world):
    (*_, outcome) = carried_out(world("refused", ranks=5))
    assert outcome.kind == "interrupted"
    assert outcome.detail[REFUSED].startswith("a batch of 4 sequences cannot be divided among 5 ranks")
    assert children() == []


@pytest.mark.full
def test_a_worker_process_has_ranks_too_and_its_death_is_theirs(world, tmp_path):
    """Killed, it leaves none behind, and what it was doing can be done by another."""
    task = world("pool", "recipe.steps=300", ranks=2)
    waiting, messages, killed = [task], [], []

    def handle(message):
        messages.append(message)
        holder = claim.read(task.folder / claim.FOLDER / task.trial.id)
        if not killed and holder is not None and message.step > 20:
            followers = children(holder.pid)
            os.kill(holder.pid, signal.SIGKILL)
            killed.append((holder.pid, *followers))

    Local(workers=1).run(lambda: waiting.pop() if waiting else None, handle, lambda: False)
    assert len(killed[0]) == 2
    assert messages[-1].events[-1].kind == "interrupted"
    end = time.monotonic() + 5
    while left := [pid for pid in killed[0] if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < end, left
        time.sleep(0.02)


@pytest.mark.full
def test_nothing_outlives_a_parent_that_is_killed(world, tmp_path):
    task = world("orphans", "recipe.steps=100000", ranks=3)
    program = (
        "import pickle, sys\nfrom ablate.execute.worker import messages\n"
        "for message in messages(pickle.load(sys.stdin.buffer), lambda: False): print(message.step, flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {MARK: "orphans of ranks"},
    )
    with process:
        process.stdin.write(pickle.dumps(task))
        process.stdin.close()
        while int(process.stdout.readline()) < 5:
            pass
        assert len(alive("orphans of ranks")) == 3
        process.kill()
    end = time.monotonic() + 5
    while left := alive("orphans of ranks"):
        assert time.monotonic() < end, left
        time.sleep(0.02)


def children(of: int | None = None) -> list[int]:
    """The living processes that a process (this one) has started to be ranks."""
    processes = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
                command = (place / "cmdline").read_bytes()
            except OSError:
                continue
            if int(parent) == (of or os.getpid()) and state != "Z" and b"import main_of_rank" in command:
                processes.append(int(place.name))
    return processes


@pytest.mark.full
@pytest.mark.parametrize("how", [{"ranks": 2}, {"ranks": 2, "parts": 2}])
def test_a_batch_that_grows_and_averaged_weights_are_those_of_one_process(world, how):
    """Also where the parts of a rank are more than the first batches have sequences."""
    grows = "recipe.batch_ramp={from: 2, until: 60%}"
    settings = ("recipe.dtype=float64", "recipe.batch=6", grows, "recipe.average={last: 3, every: 4}")
    alone = world("grows", *settings)
    shared = replace(world("grows-" + "-".join(how), *settings), **how)
    expected, actual = carried_out(alone), carried_out(shared)
    assert actual[-1].kind == expected[-1].kind == "finished"
    of_each = [
        {key: value for key, value in rows(each).items() if key[0] in EXACT or "averaged" in key[0]}
        for each in (actual, expected)
    ]
    assert ("eval_loss_averaged_weights", "", STEPS) in of_each[0]
    assert of_each[0] == pytest.approx(of_each[1], rel=1e-9)


@pytest.mark.full
def test_ranks_skip_the_same_steps(world):
    """In float16, at a scale that overflows: each rank has the gradient of all, so that all of them skip or none."""
    task = world("scaled", "recipe.dtype=float16", "recipe.loss_scale={initial: 16777216, every: 5}", "measure.every=1")
    events = carried_out(replace(task, ranks=2))
    assert events[-1].kind == "finished"
    skipped = events[-1].detail["skipped_steps"]
    found = rows(events)
    assert 1 <= skipped < STEPS and found["skipped_steps", "", STEPS - 1] == skipped
    assert sum(metric == "gradient_norm" and not place for metric, place, _ in found) == STEPS - skipped
