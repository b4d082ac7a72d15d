"""Ray keeper: ends a Ray cluster with its driver: a script that runs in its own process and session.

    python -I ray_keeper.py FOLDER    its standard input is a pipe that nobody but the driver can write to

When the pipe ends, because the driver has closed it or is dead, every process of the cluster in FOLDER is killed, and
FOLDER is deleted. Ray's own clean-up takes seconds, and misses its agents. Without /proc (not on Linux) processes are
left to Ray, and only the folder is deleted.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "ABLATE_RAY_CLUSTER"  # the environment variable that all processes of a cluster inherit: its folder
GIVE_UP = 10.0  # seconds after which a process that does not die (it hangs in the kernel) is left alone


def keep(folder: str) -> None:
    sys.stdin.buffer.read()
    give_up = time.monotonic() + GIVE_UP
    # More than once: a process may just be starting another.
    while (processes := tuple(belonging(folder))) and time.monotonic() < give_up:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)


def belonging(folder: str) -> Iterator[int]:
    mark = f"{MARK}={folder}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            marked = mark in (path / "environ").read_bytes().split(b"\0")
            # Ray writes titles over some of its processes' environments. Their logs are in the folder.
            if marked or ((path / "cmdline").read_bytes().startswith(b"ray::") and has_open(path, folder)):
                yield int(path.name)
        except OSError:  # gone by now, or another user's
            continue


def has_open(process: Path, folder: str) -> bool:
    for file in (process / "fd").iterdir():
        try:
            if str(file.readlink()).startswith(folder + "/"):
                return True
        except FileNotFoundError:  # closed by now
            continue
    return False


if __name__ == "__main__":
    keep(sys.argv[1])
