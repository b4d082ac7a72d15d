"""An executor in one file of a user's own, for Slurm: jobs are submitted, followed, killed and cancelled.

Slurm is played by three scripts on PATH that run a job in the background; a job's id is that of its process.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import MappingProxyType

import pytest
from rich.console import Console
from typer.testing import CliRunner

import ablate
from ablate.cli.app import app
from ablate.errors import InputError, RefusedError
from ablate.store import claim
from ablate.testing import ExecutorContract
from ablate.testing.executors import _Once, train

PLUGIN = Path(__file__).parents[1] / "support" / "slurm_executor.py"
COMMANDS = {
    "sbatch": """
for script; do :; done
setsid sh "$script" > "$(dirname "$script")/output" 2>&1 < /dev/null &
echo $!
""",
    "squeue": """
for word; do case $word in --jobs=*) jobs=${word#--jobs=};; esac; done
for job in $(echo $jobs | tr , ' '); do
  case $(ps -o stat= -p $job) in Z*|'') echo $job FAILED;; *) echo $job RUNNING;; esac
done
""",
    "scancel": """
signal=KILL
for word; do case $word in --signal=*) signal=${word#--signal=};; esac; done
kill -$signal $word
""",
}


@pytest.fixture(autouse=True)
def cluster(tmp_path, monkeypatch):
    for name, text in COMMANDS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.full
class TestSlurm(ExecutorContract):
    plugins = (PLUGIN,)
    executor = "slurm"
    options = MappingProxyType({"workers": 2})


@pytest.mark.fast
def test_it_is_listed_and_suggested_and_says_what_it_refuses(tmp_path):
    done = CliRunner().invoke(app, ["list", "executors", "--plugin", str(PLUGIN)])
    assert done.exit_code == 0 and "slurm" in done.output and "inline" in done.output
    for options, message in (
        ({"executor": "slrum"}, "did you mean 'slurm'?"),
        (
            {"executor": "slurm", "gpus": 1.0},
            "--gpus is for placing trials on Ray, and has no effect with --executor s",
        ),
        ({"executor": "slurm", "cpus": 0.5}, "Slurm gives a job whole cores, not 0.5"),
    ):
        with pytest.raises(InputError) as refused:
            train(tmp_path, plugins=(PLUGIN,), **options)
        assert message in str(refused.value)
    assert not (tmp_path / "results").exists()


@pytest.mark.fast
def test_without_slurm_the_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RefusedError, match="there is no sbatch on this machine"):
        train(tmp_path, plugins=(PLUGIN,), executor="slurm")


@pytest.mark.full
def test_a_stopped_run_is_resumed_by_its_name_alone(tmp_path):
    """The folder keeps the executor and its file; no job's files are left."""
    results = tmp_path / "results"
    with _Once(results, lambda pid: os.kill(os.getpid(), signal.SIGINT)):
        assert train(tmp_path, plugins=(PLUGIN,), executor="slurm", workers=1).ended.interrupted
    (found,), refused = ablate.api.resumable(results)
    assert refused == () and (found.options.executor, found.plugins) == ("slurm", (PLUGIN,))
    done = CliRunner().invoke(app, ["resume", "--results", str(results), "--no-mlflow"])
    assert done.exit_code == 0, done.output
    assert not claim.holders(results) and not list((results / "slurm").iterdir())


@pytest.mark.full
def test_a_job_beyond_its_limit_ends_as_timeout(tmp_path):
    screen = Console(quiet=True)
    with pytest.raises(ablate.errors.FailedError) as failed:
        train(tmp_path, screen, plugins=(PLUGIN,), executor="slurm", limit=0.01)
    assert set(failed.value.run.ended.kinds) == {"timeout"}
