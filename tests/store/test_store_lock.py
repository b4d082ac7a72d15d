"""One driver at a time, and a refusal that says who, where and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from store_fixtures import fill, opened, rows_at, trial

from ablate.errors import RefusedError
from ablate.store.durable import Lock
from ablate.store.query import query

HOLD = """
import sys, time
from pathlib import Path
from ablate.store.durable import Lock
Lock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_driver_is_refused_by_name(tmp_path, holder):
    with pytest.raises(RefusedError) as refused, opened(tmp_path):
        pass
    said = str(refused.value)
    assert f"process {holder.pid} on {os.uname().nodename}, since 20" in said
    assert str(tmp_path) in said and "--results" in said
    assert not isinstance(refused.value.__cause__, OSError)


def test_a_killed_driver_holds_nothing(tmp_path, holder):
    holder.kill()
    holder.wait()
    with opened(tmp_path) as results:
        assert results.outcomes() == {}


@pytest.mark.fast
def test_a_second_driver_in_this_process_is_refused_and_the_first_keeps_its_lock(tmp_path):
    with opened(tmp_path):
        with pytest.raises(RefusedError, match="already has it open"), opened(tmp_path / ".." / tmp_path.name):
            pass
        other = subprocess.run([sys.executable, "-c", HOLD, tmp_path], capture_output=True, text=True)
        assert "RefusedError" in other.stderr
    with opened(tmp_path):
        pass


@pytest.mark.fast
def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RefusedError, match="cannot use") as refused, opened(tmp_path / "file" / "results"):
        pass
    assert "choose another folder with --results" in str(refused.value)


@pytest.mark.fast
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RefusedError, match="Permission denied"), opened(tmp_path / "results"):
        pass


def test_reading_needs_no_lock(tmp_path):
    fill(tmp_path)
    with Lock(tmp_path):
        assert query(tmp_path, "SELECT count(*) FROM final").rows == ((6,),)


def test_rows_are_on_the_disk_within_a_second(tmp_path, monkeypatch):
    synced = []
    real = os.fsync

    def watched(descriptor):
        real(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", watched)
    with opened(tmp_path) as results:
        results.begin(trial())
        synced.clear()
        results.append("a10000", rows_at("a10000", 0))
        deadline = time.monotonic() + 1
        while not synced and time.monotonic() < deadline:
            time.sleep(0.02)
        assert synced == [(tmp_path / "journal" / "a10000.jsonl").stat().st_ino]
