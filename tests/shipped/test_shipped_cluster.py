"""The manual's steps to a cluster, as they stand: two machines on this one, each with a home and ports of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from documents import MANUAL
from tiny_spaces import ROOT, write_world

from ablate.store.query import query

MARK = "ABLATE_TEST_CLUSTER"
"""In the environment of everything that is started here, so that all of it can be ended, and nothing else."""
APART = "--num-cpus=1 --min-worker-port=0 --max-worker-port=0"
"""What two nodes on one machine need besides: a CPU each, and ports that are free."""
TOO_SLOW = "timed out during startup"
LIGHT = "--include-dashboard=false"

TWO_AT_A_TIME = """
WITH spans AS (PIVOT (FROM timings WHERE name IN ('began', 'ended')) ON name USING max(seconds) GROUP BY trial_id)
SELECT a.trial_id FROM spans a JOIN spans b ON a.trial_id < b.trial_id AND a.began < b.ended AND b.began < a.ended
"""


def steps() -> list[tuple[str, str]]:
    """Machine and command of each line, from `Start Ray` on; what has no machine before it is typed on the head."""
    text = MANUAL["clusters"]
    section = text[text.index("**3. Start Ray.**") : text.index("**5. When something is lost.**")]
    lines = [line for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL) for line in block.splitlines()]
    found = [re.fullmatch(r"(?:(head|worker)\$ +)?(.+)", line) for line in lines]
    return [(match[1] or "head", match[2]) for match in found if match]


class Machine:
    """A shell whose exports stay from one command to the next, with a home of its own."""

    def __init__(self, folder: Path, name: str, mark: str, shared: Path):
        self.home = folder / name
        self.shared = shared
        (self.home / "tmp").mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"HOME": str(self.home), "RAY_TMPDIR": str(self.home / "tmp"), "PATH": path, MARK: mark, "COLUMNS": "100"}
        self.environment = {**kept, **own}

    def type(self, command: str, attempts: int = 3) -> str:
        """What a command says. Ray gives a node half a minute to start, which a busy machine may not keep to."""
        exports, said = self.home / "exports", self.home / "said"
        with said.open("wb") as file:  # not a pipe, which the servers it leaves behind would hold open
            done = subprocess.run(
                ["bash", "-c", f"set -e\n{command}\nenv -0 > {exports}"],
                env=self.environment,
                cwd=self.shared,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                timeout=300,
            )
        text = said.read_text(errors="replace")
        if done.returncode and TOO_SLOW in text and attempts > 1:
            end(f"HOME={self.home}")  # what is left of it still has its port
            return self.type(command, attempts - 1)
        assert done.returncode == 0, f"{command}\n{text}"
        self.environment = dict(entry.split("=", 1) for entry in exports.read_text().split("\0") if entry)
        return text


def started(entry: str) -> list[int]:
    """The processes that have this in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if entry.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def end(entry: str) -> None:
    """End them, and nothing else."""
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        for process in started(entry):
            with suppress(ProcessLookupError):
                os.kill(process, number)
        time.sleep(1)


@pytest.fixture
def machines() -> Iterator[dict[str, Machine]]:
    folder, mark = Path(tempfile.mkdtemp(prefix="r", dir="/tmp")), uuid.uuid4().hex
    try:
        (folder / "bin").mkdir()
        ssh = folder / "bin" / "ssh"
        ssh.write_text(f'#!/bin/sh\n[ "$1" = worker ] && HOME={folder}/worker exec sh -c "$2"\n')
        ssh.chmod(0o700)
        shared = folder / "shared"
        shared.mkdir()
        write_world(shared, steps=12, seeds=2)
        (shared / "spaces").mkdir()
        text = (shared / "tiny.yaml").read_text().replace("texts/**", f"{shared}/texts/**")
        (shared / "spaces" / "op_vs_preln.yaml").write_text(text.replace("space: tiny", "space: op_vs_preln"))
        machines = {name: Machine(folder, name, mark, shared) for name in ("head", "worker")}
        token = machines["head"].home / ".ray" / "auth_token"  # of an earlier cluster: the head then asks for it
        token.parent.mkdir(mode=0o700)
        token.write_text(uuid.uuid4().hex * 2)
        yield machines
    finally:
        end(f"{MARK}={mark}")
        shutil.rmtree(folder, ignore_errors=True)
        assert not started(f"{MARK}={mark}")


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


@pytest.mark.slow
def test_what_readme_tells_to_type_ends_in_verdicts_from_both_machines(machines):
    port, said = free_port(), {}
    for machine, command in steps():
        here = command.replace("head:", "127.0.0.1:").replace("6379", str(port))
        here = here.replace("/shared/results", str(machines["head"].shared / "results"))
        if here.startswith("ray start"):
            here = re.sub(r"( *#|$)", rf" {APART} {LIGHT if '--head' in here else ''}\1", here, count=1)
        elif here.startswith("ablate run"):
            here += " --no-mlflow"
        said[command.split("  ")[0]] = machines[machine].type(here)
    assert (machines["worker"].home / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600
    assert len(re.findall(r"node_[0-9a-f]+", said["ray status"])) == 2, said["ray status"]
    screen = next(text for command, text in said.items() if command.startswith("ablate run"))
    assert re.search(r"Variants, each against pre_ln", screen), screen
    results = machines["head"].shared / "results"
    # A node has one CPU, which is what a trial takes: two at a time are on two nodes.
    assert query(results, TWO_AT_A_TIME).rows
    assert query(results, "SELECT DISTINCT status FROM trials").rows == (("finished",),)


def test_every_shell_has_the_token_before_it_starts_ray_or_a_run():
    typed: dict[str, list[str]] = {"head": [], "worker": []}
    order = [command for _, command in steps()]
    for machine, command in steps():
        if command.startswith(("ray start", "ablate run")):
            assert "export RAY_AUTH_MODE=token" in typed[machine], command
        typed[machine].append(command)
    made, given, first = (
        next(place for place, command in enumerate(order) if word in command)
        for word in ("get-auth-token --generate", "ssh worker", "ray start --head")
    )
    assert made < given < first
    assert any(command.startswith("ray start --address=head") for command in typed["worker"])


def test_ray_is_bounded_where_its_defaults_change():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [ray] = [needed for needed in project["dependencies"] if needed.startswith("ray")]
    assert ray == "ray[tune]>=2.52,<2.61"
