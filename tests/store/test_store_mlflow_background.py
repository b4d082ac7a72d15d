"""Trials are mirrored while others train: by a process that goes with its driver, and whose faults cost no trial."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import mlflow_fixtures
import pytest
from mlflow_fixtures import REPORT, client_of, free_port, runs_of, told, verdicts_of
from store_fixtures import DOCUMENTS, course, opened, plan, refuse

from ablate.errors import RefusedError
from ablate.session import mirroring
from ablate.session.mirroring import MirrorError, Mirroring
from ablate.store.mirror import Texts, mirror

KILLED = """
import os, signal, sys, time
from pathlib import Path
from store_fixtures import DOCUMENTS, course, opened, plan
from ablate.session.mirroring import Mirroring

folder, wait = Path(sys.argv[1]), float(sys.argv[2])
space = plan(seeds=tuple(range(10)))
with opened(folder, say=print) as results, Mirroring(results, "small", None) as mirroring:
    results.record_plan(space, DOCUMENTS)
    for trial in space.trials:
        results.begin(trial)
        results.append(trial.id, course(trial.id))
        mirroring.ended(trial.id)
    while mirroring._process is None:
        time.sleep(0.01)
    print("sender", mirroring._process._process.pid, flush=True)
    if wait >= 0:
        while not (folder / "mlflow.db").exists():
            time.sleep(0.01)
        time.sleep(wait)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@contextmanager
def running(folder, seeds=(0, 1), uri=None, say=refuse):
    """A run whose trials have not ended yet: its results, its trials, its mirror, which is to `say` nothing."""
    space = plan(seeds=seeds)
    with (
        opened(folder) as results,
        Mirroring(results, "small", uri, say=say, command="ablate run it") as sender,
    ):
        results.record_plan(space, DOCUMENTS)
        yield results, list(space.trials), sender


def end(results, sender, trial):
    results.begin(trial)
    results.append(trial.id, course(trial.id))
    sender.ended(trial.id)


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def sent_of(folder):
    """The runs that are whole."""
    if not (folder / "mlflow.db").exists():
        return {}
    client = client_of(folder)
    if client.get_experiment_by_name("small") is None:
        return {}
    return {name: run for name, run in runs_of(client).items() if run.info.status == "FINISHED"}


@pytest.mark.full
def test_trials_are_in_mlflow_while_others_run_and_the_rest_at_the_end(tmp_path):
    said = []
    with running(tmp_path) as (results, trials, sender):
        end(results, sender, trials[0])
        wait_until(lambda: set(sent_of(tmp_path)) == {"pre_ln seed 0"})
        for trial in trials[1:3]:
            end(results, sender, trial)
        wait_until(lambda: len(sent_of(tmp_path)) == 3)
        assert not (tmp_path / "mlflow.jsonl").exists(), "nothing is brought up to date yet"
        first = {run.info.run_id for run in sent_of(tmp_path).values()}
        for trial in trials[3:]:
            end(results, sender, trial)
        results.refresh()
        done = sender.finish({"small": REPORT}, said.append)
    assert (done.sent, done.spaces, done.where) == (6, ("small",), str(tmp_path / "mlflow.db"))
    runs = sent_of(tmp_path)
    assert len(runs) == 6 and first < {run.info.run_id for run in runs.values()}
    client = client_of(tmp_path)
    assert {file.path for file in client.list_artifacts(verdicts_of(client).info.run_id)} == set(REPORT)
    assert told(tmp_path) == [] and not mirror(tmp_path) and not list(tmp_path.glob("mlflow.db?*"))


def test_a_report_is_handed_to_the_process_with_its_texts_made_and_known_by_those_that_identify_it():
    report = Texts({"verdicts.md": "better"}, lambda: {"page.html": "<p>better</p>"})
    handed = pickle.loads(pickle.dumps(report))
    assert dict(handed) == {"verdicts.md": "better", "page.html": "<p>better</p>"} and handed.told == report.told


@pytest.mark.full
def test_a_run_without_a_trial_of_its_own_starts_no_process_and_says_nothing(tmp_path):
    with running(tmp_path) as (results, trials, sender):
        assert not sender.finish({}, refuse) and sender._process is None
        for trial in trials:
            results.begin(trial)
            results.append(trial.id, course(trial.id))
        results.refresh()
    with running(tmp_path) as (results, trials, sender):
        assert sender.finish({"small": REPORT}, lambda text: None).sent == 6 and sender._process is None


@pytest.mark.full
def test_what_is_waited_for_at_the_end_is_said_where_it_takes_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(mirroring, "PATIENCE", 0.0)
    said = []
    with running(tmp_path) as (results, trials, sender):
        for trial in trials:
            end(results, sender, trial)
        results.refresh()
        sender.finish({}, said.append)
    assert said == [
        "results are final; sending 6 trials to MLflow… "
        "(Ctrl-C is safe: the next run sends the rest; --no-mlflow skips this)"
    ]
    assert len(sent_of(tmp_path)) == 6


@pytest.mark.sampled(0, gate=2)
@pytest.mark.parametrize("wait", [-1, 0, 0.3, 0.8])
def test_a_driver_killed_at_any_moment_takes_it_along_and_nothing_is_doubled_or_lost(tmp_path, wait):
    here = [str(Path(mlflow_fixtures.__file__).parent)]
    script = f"import sys; sys.path[:0] = {here!r}\n{KILLED}"
    done = subprocess.run([sys.executable, "-c", script, tmp_path, str(wait)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    sender = Path("/proc") / done.stdout.split("sender ")[1].strip()
    wait_until(lambda: not sender.exists() or "Z" in (sender / "stat").read_text().rpartition(")")[2], seconds=5)
    with opened(tmp_path, say=lambda text: None) as results:
        results.refresh()
    mirror(tmp_path)
    runs = runs_of(client_of(tmp_path))
    assert len(runs) == 30 and {run.info.status for run in runs.values()} == {"FINISHED"}
    assert all(len(client_of(tmp_path).get_metric_history(runs[name].info.run_id, "train_loss")) == 4 for name in runs)
    assert told(tmp_path) == []


@pytest.mark.full
def test_a_server_that_is_down_costs_no_trial_any_time_and_is_told_once_at_the_end(tmp_path):
    address = f"http://127.0.0.1:{free_port()}"
    with running(tmp_path, uri=address) as (results, trials, sender):
        for trial in trials:
            began = time.monotonic()
            end(results, sender, trial)
            assert time.monotonic() - began < 5
        results.refresh()
        with pytest.raises(RefusedError, match="nothing answers there"):
            sender.finish({"small": REPORT}, lambda text: None)
    assert mirror(tmp_path).sent == 6, "the results are safe"


@pytest.mark.full
def test_a_sender_that_dies_is_told_as_such_and_the_next_run_sends_what_it_has_not(tmp_path):
    with running(tmp_path) as (results, trials, sender):
        end(results, sender, trials[0])
        wait_until(lambda: sent_of(tmp_path))
        sender._process._process.kill()
        for trial in trials[1:]:
            end(results, sender, trial)
        results.refresh()
        with pytest.raises(MirrorError, match="its process ended with -9"):
            sender.finish({}, lambda text: None)
    assert mirror(tmp_path).sent == 5 and len(sent_of(tmp_path)) == 6


@pytest.mark.full
def test_a_run_that_is_stopped_waits_for_nothing_and_says_what_it_has_not_sent(tmp_path):
    said = []
    with running(tmp_path, say=said.append) as (results, trials, sender):
        for trial in trials:
            end(results, sender, trial)
        wait_until(lambda: sender._process is not None)
        began = time.monotonic()
    assert time.monotonic() - began < 3
    assert said[-1:] == ["not yet, or not completely, in MLflow: 6 trials; to send what is missing: ablate run it"]
    with opened(tmp_path) as results:
        results.refresh()
    mirror(tmp_path)
    assert len(sent_of(tmp_path)) == 6 and told(tmp_path) == []


def test_a_run_that_stops_just_when_a_batch_begins_does_not_wait_for_it(tmp_path, monkeypatch):
    """The process that sends is being started, so that there is none to be ended yet."""
    starting = threading.Event()

    class Slow(mirroring._Process):
        def __init__(self, *words):
            starting.set()
            time.sleep(0.5)
            super().__init__(*words)

        def ask(self, request):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=8)  # a long batch, which ends when the process does
            return super().ask(request)

    monkeypatch.setattr(mirroring, "_Process", Slow)
    said = []
    with running(tmp_path, say=said.append) as (results, trials, sender):
        monkeypatch.setattr(results, "refresh", lambda: True)
        end(results, sender, trials[0])
        assert starting.wait(20)
        began = time.monotonic()
    assert time.monotonic() - began < 6
    assert said[-1] == "not yet, or not completely, in MLflow: 1 trial; to send what is missing: ablate run it"


def test_a_process_that_does_not_die_holds_nobody_up(tmp_path, monkeypatch):
    monkeypatch.setattr(mirroring, "FAREWELL", 0.2)
    said = []
    with running(tmp_path, say=said.append) as (results, trials, sender):
        end(results, sender, trials[0])
        wait_until(lambda: sender._process is not None)
        process = sender._process._process
        monkeypatch.setattr(process, "kill", lambda: None)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    monkeypatch.undo()
    process.kill()
    process.wait()
    assert said[-1:] == ["not yet, or not completely, in MLflow: 1 trial; to send what is missing: ablate run it"]


@pytest.mark.full
def test_an_interrupt_while_all_is_brought_up_to_date_says_what_is_not(tmp_path, monkeypatch):
    said = []
    with pytest.raises(KeyboardInterrupt), running(tmp_path, say=said.append) as (results, trials, sender):
        end(results, sender, trials[0])
        wait_until(lambda: len(sent_of(tmp_path)) == 1 and not sender._ended)

        def interrupted(request):
            raise KeyboardInterrupt

        monkeypatch.setattr(sender._process, "ask", interrupted)
        sender.finish({}, lambda text: None)
    assert said == ["the page of small in MLflow is not up to date; to complete it: ablate run it"]


@pytest.mark.sampled(0, gate=2)
@pytest.mark.parametrize("when", ["between batches", "before the end", "before the first"])
def test_a_store_that_is_deleted_while_it_is_written_to_is_filled_anew_and_that_is_said_once(tmp_path, when):
    said = []
    if when == "before the first":
        with running(tmp_path) as (results, trials, sender):
            end(results, sender, trials[0])
            results.refresh()
            sender.finish({"small": REPORT}, lambda text: None)
    with running(tmp_path, say=said.append) as (results, trials, sender):
        first, *others = trials if when != "before the first" else trials[1:]
        if when == "before the first":
            (tmp_path / "mlflow.db").unlink()
        end(results, sender, first)
        wait_until(lambda: sent_of(tmp_path) and not sender._ended)
        if when == "between batches":
            (tmp_path / "mlflow.db").unlink()
        for trial in others:
            end(results, sender, trial)
        wait_until(lambda: not sender._ended)
        if when == "before the end":
            (tmp_path / "mlflow.db").unlink()
        results.refresh()
        sender.finish({"small": REPORT}, lambda text: None)
    assert said == [
        f"{tmp_path / 'mlflow.db'} was deleted or replaced during this run; it is filled again from the results"
    ]
    assert len(sent_of(tmp_path)) == 6 and told(tmp_path) == [] and not mirror(tmp_path)
    assert {file.path for file in client_of(tmp_path).list_artifacts(verdicts_of(client_of(tmp_path)).info.run_id)} == {
        *REPORT
    }


@pytest.mark.full
def test_a_store_that_was_not_synced_when_the_machine_stopped_is_filled_anew(tmp_path):
    with running(tmp_path) as (results, trials, sender):
        for trial in trials:
            end(results, sender, trial)
        results.refresh()
        sender.finish({}, lambda text: None)
    before = {run.info.run_id for run in sent_of(tmp_path).values()}
    (tmp_path / "mlflow.db.unsynced").write_text("an earlier start of the machine")
    assert told(tmp_path) == ["repaired: may be damaged: the machine stopped while it was written"]
    mirror(tmp_path)
    after = sent_of(tmp_path)
    assert len(after) == 6 and not before & {run.info.run_id for run in after.values()}
    assert not (tmp_path / "mlflow.db.unsynced").exists() and told(tmp_path) == []
