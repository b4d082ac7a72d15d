"""README's optimiser of one's own, as it stands there, holds the contract and can be listed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ablate.cli import app
from ablate.extension.kinds import OPTIMIZER
from ablate.extension.loader import shipped

pytestmark = pytest.mark.fast

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("## Add your own optimiser or schedule\n")[2].split("\n## ")[0]
CODE = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "sign.py"
    path.write_text(CODE[0], encoding="utf-8")
    return path


def test_it_holds_the_contract(plugin):
    names: dict[str, object] = {}
    exec(CODE[1], names)
    checks = names["TestSign"]()
    assert checks.plugins == (plugin.name,)
    checks.plugins = (plugin,)
    checks.check_all()


def test_it_is_listed(plugin):
    done = CliRunner().invoke(app, ["list", "optimizers", "--plugin", str(plugin), "--json"])
    assert done.exit_code == 0, done.output
    assert "sign" in [entry["name"] for entry in json.loads(done.stdout)]


def test_it_names_every_optimiser_that_ships():
    (listed,) = re.findall(r"defaults of ([a-z, ]+) stand", README)
    assert sorted(re.findall(r"\w+", listed.replace(" and ", " "))) == [spec.name for spec in shipped(OPTIMIZER)]
