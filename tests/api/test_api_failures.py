"""Trials that fail are told: raised where nothing else came of a run, printed else, and named among what is known."""

from __future__ import annotations

import io
import json
import pickle

import pytest
from rich.console import Console
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate import errors
from ablate.cli import app

BOOM = '''\
"""Boom: raises when it is trained, and is nothing otherwise."""

from ablate.components.declare import Cost, Sizes, component, implements


@component("boom", slots=("part",), role="boom", source="none")
class Config:
    """Nothing."""

    def cost(self, sizes: Sizes) -> Cost:
        return Cost()

    def equation(self, x: str) -> str:
        return x


import torch
from torch import nn


@implements(Config)
class Boom(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.requires_grad:
            raise LookupError("nothing is here")
        return x
'''


def write(folder, blocks):
    """A space over the blocks, of which `broken` and `worse` raise when they are trained."""
    path = write_world(folder, seeds=1)
    text = path.read_text().replace("design: {path: {from: pre_ln, to: op}}", f"design: {{compare: [{blocks}]}}")
    own = "blocks: {broken: [residual: [mlp, boom]], worse: [residual: [mlp, boom, boom]]}\n"
    text = text.replace("block: {attention.position: rope}\n", "")
    path.write_text(text.replace("against: pre_ln", f"against: {blocks.partition(',')[0]}") + own)
    (folder / "boom.py").write_text(BOOM)
    return ablate.load_space(path, plugins=[folder / "boom.py"])


def run(space, said=None):
    console = Console(file=said or io.StringIO(), width=200)
    return ablate.run(
        space,
        results=space.folder / "results",
        executor="inline",
        mirror=False,
        plugins=[space.folder / "boom.py"],
        console=console,
    )


def cli(space, *words):
    folder = ("--results", str(space.folder / "results"), "--plugin", str(space.folder / "boom.py"))
    return CliRunner().invoke(app, [words[0], str(space.path), *words[1:], *folder], env={"COLUMNS": "300"})


def test_a_run_of_which_every_trial_failed_raises_and_has_the_run(tmp_path):
    space = write(tmp_path, "broken, worse")
    with pytest.raises(
        errors.AblateError, match=r"every trial that tiny was to train failed \(2 failed with bug\)"
    ) as error:
        run(space)
    assert "LookupError: nothing is here (2 times)" in str(error.value)
    assert f"ablate retry tiny --results {tmp_path / 'results'}" in str(error.value)
    assert isinstance(error.value, errors.FailedError) and error.value.exit_code == 1
    assert [outcome.kind for _, outcome in error.value.run.failed] == ["bug", "bug"]
    assert str(pickle.loads(pickle.dumps(errors.FailedError("text", 3)))) == "text"

    # Again: nothing is trained, and that it had failed is neither hidden nor a success.
    with pytest.raises(errors.AblateError, match="nothing was trained: every trial of tiny is known to have failed"):
        run(space)
    again = cli(space, "run", "--executor", "inline", "--no-mlflow")
    assert again.exit_code == 1
    assert "all known already" not in again.stdout
    assert "2 known already, of which 2 failed with bug, nothing to run" in again.stdout
    assert f"ablate retry tiny --results {tmp_path / 'results'}" in again.stdout


@pytest.mark.full
def test_a_run_of_which_some_trials_failed_prints_them_and_returns(tmp_path):
    space, said = write(tmp_path, "pre_ln, broken"), io.StringIO()
    done = run(space, said)
    assert [outcome.kind for _, outcome in done.failed] == ["bug"]
    assert "failed (bug): broken, seed 0, step 0: LookupError: nothing is here" in said.getvalue()
    assert "ablate retry tiny" in said.getvalue()
    planned = ablate.plan_space(space, results=tmp_path / "results")
    assert list(planned.failed.values()) == ["bug"] and len(planned.known) == 2

    asked = cli(space, "plan")
    assert asked.exit_code == 0
    assert "2 known already, of which 1 failed with bug, nothing to run" in asked.stdout
    assert [row for row in asked.stdout.splitlines() if "broken" in row and row.rstrip().endswith("1, 1 failed")]
    trials = json.loads(cli(space, "plan", "--json").stdout)["trials"]
    assert sorted((one["known"], one["failed"] or "") for one in trials) == [(True, ""), (True, "bug")]

    resumed = CliRunner().invoke(app, ["resume", "--results", str(tmp_path / "results")])
    assert "nothing to resume" in resumed.stdout and "tiny: 1 failed with bug; to retry them" in resumed.stdout

    # Where something was trained beside what is known to have failed, that is what counts.
    more = ablate.load_space(space.path, settings=["seeds=[0, 1]"], plugins=[tmp_path / "boom.py"])
    assert len(run(more).failed) == 2


@pytest.mark.full
def test_a_run_without_failures_is_told_as_before(tmp_path):
    """The twin: nothing is printed of failures, and what is known is known."""
    space, said = write(tmp_path, "pre_ln, op"), io.StringIO()
    assert not run(space, said).failed and "failed" not in said.getvalue()
    assert "2 trials over 1 seed: all known already, nothing to run" in cli(space, "plan").stdout
    assert not [one for one in json.loads(cli(space, "plan", "--json").stdout)["trials"] if one["failed"]]
