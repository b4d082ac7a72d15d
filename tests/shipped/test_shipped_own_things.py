"""The manual's examples of what one file adds, as they stand there, hold their contracts and can be listed."""

from __future__ import annotations

import json
import re

import pytest
from documents import MANUAL, code
from typer.testing import CliRunner

from ablate.cli import app
from ablate.extension.declaration import OPTIMIZER
from ablate.extension.loader import shipped

TOPICS = {
    "optimizer": ("optimizers", "sign"),
    "schedule": ("schedules", "stairs"),
    "objective": ("objectives", "previous_token"),
    "sampler": ("samplers", "neighbour"),
    "probe": ("probes", "sparsity"),
    "corpus": ("corpora", "verses"),
}
"""Pages of the manual, with the list that names their example."""


@pytest.fixture(params=TOPICS)
def example(request, tmp_path, monkeypatch):
    """A page, and a folder with its example as a file."""
    monkeypatch.chdir(tmp_path)
    _, name = TOPICS[request.param]
    (tmp_path / f"{name}.py").write_text(code(request.param, "python")[0], encoding="utf-8")
    (tmp_path / "poems.txt").write_text("one line\nand another\n", encoding="utf-8")
    return request.param


@pytest.mark.sampled(1)
def test_it_holds_the_contract(example):
    names: dict[str, object] = {}
    exec(code(example, "python")[1], names)
    (checks,) = [value() for name, value in names.items() if name.startswith("Test")]
    checks.check_all()


@pytest.mark.fast
def test_it_is_listed(example):
    plural, name = TOPICS[example]
    done = CliRunner().invoke(app, ["list", plural, "--plugin", f"{name}.py", "--json"])
    assert done.exit_code == 0, done.output
    assert name in [entry["name"] for entry in json.loads(done.stdout)]


@pytest.mark.fast
def test_it_names_every_optimiser_that_ships():
    (listed,) = re.findall(r"defaults of ([a-z, ]+)\.", " ".join(MANUAL["space"].split()))
    assert sorted(re.findall(r"\w+", listed.replace(" and ", " "))) == [spec.name for spec in shipped(OPTIMIZER)]
