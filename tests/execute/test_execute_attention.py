"""What computes a trial's attention is found before its first step, said, kept, and the same on all ranks."""

import io
import re
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from tiny_spaces import write_world

import ablate
from ablate.execute import worker
from ablate.execute.executor import Task
from ablate.execute.work import agreed_backends
from ablate.kernels import BackendChoice, Needs, gate
from ablate.kernels.attend import BACKENDS
from ablate.store.query import query
from ablate.store.results import Results
from ablate.train.events import Began, KernelUse, Outcome, Row

SDPA = BACKENDS["sdpa"]


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A trial, and the results folder that holds its corpus."""
    folder = tmp_path_factory.mktemp("world")
    plan = ablate.plan_space(ablate.load_space(write_world(folder, steps=9, seeds=1)), results=folder / "results").plan
    return plan.trials[0], folder / "results"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(gate.THIS_PROCESS, "outcomes", {})


def carried_out(planned, should_stop=lambda: False, **how):
    """What a worker says of the trial."""
    trial, folder = planned
    task = Task(trial=trial, folder=folder, **how)
    return [event for message in worker.messages(task, should_stop) for event in message.events]


def losses(events):
    return [event.value for event in events if isinstance(event, Row) and event.metric == "train_loss"]


def off(events, right):
    return max(abs(one - other) for one, other in zip(losses(events), losses(right), strict=True))


def breaking(monkeypatch, how):
    """Break SDPA in this process; the batches that it is given from then on."""
    batches = []

    def broken(q, *rest, **asked):
        batches.append(q.shape[0])
        return how(SDPA(q, *rest, **asked))

    monkeypatch.setitem(BACKENDS, "sdpa", broken)
    return batches


def refuse(result):
    raise NotImplementedError("no kernel image is available\nfor this device")


def test_a_backend_that_adds_a_hundredth_is_caught_before_the_first_step(planned, monkeypatch):
    right = carried_out(planned)
    batches = breaking(monkeypatch, lambda y: y + 1e-2)
    caught = carried_out(planned)
    assert set(batches) == {1}, "it trained, or evaluated, on what the gate is there to keep out"
    (use,) = caught[0].attention
    assert use.kernel == "eager" and use.refused
    assert re.match(
        r"sdpa gives wrong numbers here \(its output is off by \d+ times what rounding allows\); eager", use.reason
    )
    # The twin: without the gate it trains on it, and the numbers are others.
    monkeypatch.setattr(gate.Gate, "choose", lambda self, site: BackendChoice("sdpa", "not looked at"))
    broken = carried_out(planned)
    assert 4 in batches
    assert off(broken, right) > 10 * off(caught, right)


def test_where_eager_alone_is_left_what_it_takes_is_said_and_kept(planned, monkeypatch):
    breaking(monkeypatch, refuse)
    began, *_, outcome = carried_out(planned)
    why = "sdpa fails here (NotImplementedError: no kernel image is available)"
    # 3 · 4 sequences · 2 heads · 16² · 4 bytes, in two layers
    line = f"layers.*.attention uses eager: {why}; eager holds all scores, 48.0 KiB in a step"
    assert [use.described for use in began.attention] == [line]
    assert outcome.kind == "finished"
    assert outcome.detail["attention"] == [line]


def test_the_run_says_once_what_computes_and_keeps_it_with_the_trials(tmp_path):
    """Blocks that need different backends are compared all the same: what they use follows from what they are."""
    path = write_world(tmp_path, steps=2, seeds=2)
    capped = "[residual: [layer_norm, attention: {entropy: {softcap: 5}}], residual: [layer_norm, mlp]]"
    text = path.read_text(encoding="utf-8").replace(
        "design: {path: {from: pre_ln, to: op}}", f"design: {{compare: [pre_ln, capped]}}\nblocks: {{capped: {capped}}}"
    )
    path.write_text(text, encoding="utf-8")
    console, results = Console(record=True, width=200, file=io.StringIO()), tmp_path / "results"
    done = ablate.run(ablate.load_space(path), results=results, executor="inline", mirror=False, console=console)
    shown = console.export_text()
    assert shown.count("layers.*.attention uses sdpa: first choice on cpu") == 1
    mapped = (
        "layers.*.attention uses eager: sdpa takes no map on the logits; eager holds all scores, 48.0 KiB in a step"
    )
    assert shown.count(mapped) == 1
    assert shown.index(mapped) < shown.index("capped · seed 0: finished")
    kept = query(results, "SELECT DISTINCT attention, detail->>'$.attention' FROM trials ORDER BY ALL").rows
    assert list(kept) == [("layers.*.attention eager", None), ("layers.*.attention sdpa", None)]
    assert query(results, "SELECT count(DISTINCT versions_id) FROM trials").rows == ((1,),)
    assert query(results, "SELECT count(*) FROM versions WHERE name = 'attention'").rows == ((0,),)
    assert {effect.n for effect in done.summary.effects} == {2}


@pytest.mark.parametrize("broken", [True, False], ids=["another operator", "the same operator"])
def test_a_trial_goes_on_with_the_operator_that_it_began_with_or_starts_over(planned, tmp_path, monkeypatch, broken):
    trial, corpus = planned
    (tmp_path / "corpus").symlink_to(corpus / "corpus")
    notices = []
    with Results(tmp_path, say=notices.append) as results:
        start = results.begin(trial)
        asked = iter([False] * 6 + [True] * 9)
        results.append(trial.id, carried_out((trial, tmp_path), lambda: next(asked), versions=start.versions))
        start = results.begin(trial)
        assert start.resume is not None and start.resume.step == 6
        assert start.versions["attention"] == "layers.*.attention sdpa"
        if broken:
            breaking(monkeypatch, refuse)
        events = carried_out((trial, tmp_path), resume=start.resume, versions=start.versions)
        results.append(trial.id, events)
    assert isinstance(events[0], Began) and events[0].step == (0 if broken else 6)
    assert next(event.step for event in events if isinstance(event, Row)) == (0 if broken else 8)
    assert isinstance(events[-1], Outcome) and events[-1].kind == "finished"
    over = [f"trial {trial.id} was started with other versions (attention); it starts over"]
    assert notices == (over if broken else [])


def test_the_driver_hears_at_once_that_a_trial_was_taken_up(planned):
    trial, folder = planned
    first = next(worker.messages(Task(trial=trial, folder=folder), lambda: False))
    assert [type(event) for event in first.events] == [Began]
    assert first.events[0].attention == (KernelUse("layers.*.attention", "sdpa", "first choice on cpu"),)


def test_agreed_is_the_last_of_what_ranks_chose_in_their_order():
    needs = Needs(causal=True, dtype="bfloat16", d_head=64)
    site = SimpleNamespace(needs=needs, device=torch.device("cuda"))
    mine = {"layers.1.attention": BackendChoice("xformers", "first choice on cuda", "fa2F@2.5.7-pt")}
    theirs = {"layers.1.attention": BackendChoice("sdpa", "xformers gives wrong numbers here")}
    for held in ([mine, theirs], [theirs, mine]):
        ranks = SimpleNamespace(size=2, gathered=lambda found, held=held: held)
        assert agreed_backends(held[0], {"layers.1.attention": site}, ranks) == theirs
    ranks = SimpleNamespace(size=2, gathered=lambda found: [mine, mine])
    assert agreed_backends(mine, {"layers.1.attention": site}, ranks) == mine
