"""A trial has one worker, and the lock that says so dies with it."""

import json
import multiprocessing
import os
import signal
import time

import pytest

from ablate.errors import RefusedError
from ablate.store import claim
from ablate.store.claim import Claim
from ablate.store.results import Results


def hold(folder, held):
    with Claim(folder, "a1"):
        held.set()
        time.sleep(60)


@pytest.fixture
def other(tmp_path):
    """Another process that has the trial."""
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    process = context.Process(target=hold, args=(tmp_path, held), daemon=True)
    process.start()
    assert held.wait(20)
    yield process
    process.kill()
    process.join()


def test_a_claim_says_who_and_how_far(tmp_path, monkeypatch):
    monkeypatch.setattr(claim, "BEAT_EVERY", 0.0)
    with Claim(tmp_path, "a1", step=3) as held:
        (holder,) = claim.holders(tmp_path).values()
        assert (holder.trial_id, holder.pid, holder.step, holder.alive) == ("a1", os.getpid(), 3, True)
        held.beat(7)
        assert claim.holders(tmp_path)["a1"].step == 7
        assert abs(holder.heard - time.time()) < 5
    assert claim.holders(tmp_path) == {}


def test_a_second_worker_is_refused_by_name(tmp_path, other):
    with pytest.raises(RefusedError, match=f"a1 is already being trained by process {other.pid} on "):
        Claim(tmp_path, "a1", patience=0.3).__enter__()
    with Claim(tmp_path, "b2", patience=0.3):
        pass


def test_a_hold_dies_with_its_worker_and_can_be_taken(tmp_path, other):
    os.kill(other.pid, signal.SIGKILL)
    other.join()
    holder = claim.holders(tmp_path)["a1"]
    assert not holder.alive and holder.pid == other.pid
    with Claim(tmp_path, "a1", patience=0.3):
        assert claim.holders(tmp_path)["a1"].pid == os.getpid()


def test_forgetting_spares_the_living(tmp_path, other):
    claim.forget(tmp_path, "a1")
    assert claim.holders(tmp_path)["a1"].alive
    os.kill(other.pid, signal.SIGKILL)
    other.join()
    claim.forget(tmp_path, "a1")
    assert claim.holders(tmp_path) == {}


def test_forgetting_takes_the_trace_of_the_dead_alone(tmp_path, other):
    trace = claim.trace_of(tmp_path, "a1")
    trace.write_text("File sleeper.py")
    claim.forget(tmp_path, "a1")
    assert trace.exists()
    os.kill(other.pid, signal.SIGKILL)
    other.join()
    claim.forget(tmp_path, "a1")
    assert not list(trace.parent.iterdir())


def test_a_run_sweeps_as_it_begins(tmp_path):
    (tmp_path / "running").mkdir()
    for name in ("a1", "b2.trace"):
        (tmp_path / "running" / name).write_text("")
    with Results(tmp_path):
        assert not list((tmp_path / "running").iterdir())


def test_forgetting_asks_the_lock_and_not_the_text(tmp_path):
    """A worker that has locked its file and not yet written into it is not to lose it."""
    with Claim(tmp_path, "a1") as held:
        os.truncate(held.path, 0)
        claim.forget(tmp_path, "a1")
        assert held.path.exists()


def test_a_file_that_cannot_be_deleted_keeps_no_trial(tmp_path):
    moved = tmp_path / "moved"
    with Claim(tmp_path, "a1") as held:
        held.path.rename(moved)
        held.path.mkdir()
        assert claim.read(moved).alive
    assert not claim.read(moved).alive


def test_waiting_for_a_hold_that_ends(tmp_path):
    """Whoever had it deletes the file: the one that waited must not end up with a lock on nothing."""
    import threading

    first = Claim(tmp_path, "a1").__enter__()
    threading.Timer(0.4, first.__exit__, (None, None, None)).start()
    with Claim(tmp_path, "a1", patience=5.0), pytest.raises(RefusedError):
        Claim(tmp_path, "a1", patience=0.2).__enter__()


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(RefusedError, match="cannot be reached from"):
        Claim(tmp_path / "elsewhere", "a1").__enter__()


def test_a_file_that_says_nothing_yet_is_no_holder(tmp_path):
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / "a1").write_text("")
    assert claim.holders(tmp_path) == {}
    (tmp_path / "running" / "b2").write_text(json.dumps({"pid": 1}))
    assert claim.holders(tmp_path) == {}
