"""What goes wrong in a user's own component while it is planned or shown: told with its file, and no traceback."""

import re
import subprocess
import sys

import pytest
from builders import CATALOGUE, architecture, node, sequence
from tiny_spaces import write_world

import ablate
from ablate.block.sizes import Cost
from ablate.errors import InputError
from ablate.plan.size import cost as cost_of

PLUGIN = """\
\"\"\"A norm of one's own.\"\"\"
from ablate.components.declare import Cost, component, implements
from ablate.errors import InputError

@component("odd", slots=("part", "norm"), source="nowhere")
class Config:
    def cost(self, sizes, width=None):
        {cost}

    def equation(self, x):
        {equation}

from torch import nn

@implements(Config)
class Odd(nn.Module): ...

"""
FINE = {"cost": "return Cost()", "equation": "return f'odd({x})'"}
ODD = "compare: [pre_ln, odd]}\nblocks: {odd: [residual: [odd, attention], residual: [odd, mlp]]}"


@pytest.fixture
def world(tmp_path):
    """From the lines of the plugin's methods to a space that asks for it, and the plugin."""
    space, plugin = write_world(tmp_path, steps=5, seeds=1), tmp_path / "odd.py"
    space.write_text(space.read_text().replace("path: {from: pre_ln, to: op}}", ODD))

    def written(**methods):
        plugin.write_text(PLUGIN.replace("{cost}", methods["cost"]).replace("{equation}", methods["equation"]))
        return space, plugin

    return written


@pytest.mark.fast
@pytest.mark.parametrize(
    ("cost", "said"),
    [
        ("return Cost(1 // 0)", ":8, fails in cost: ZeroDivisionError: integer division or modulo by zero"),
        ("return sizes.widht", ":8, fails in cost: AttributeError: 'Sizes' object has no attribute 'widht'"),
        ("return 7", ", fails in cost: TypeError: it gives 7, which is not a Cost"),
    ],
)
def test_a_cost_that_fails_is_told_with_component_file_and_error(world, cost, said):
    space, plugin = world(**FINE | {"cost": cost})
    with pytest.raises(InputError, match=f"component odd, from {re.escape(str(plugin))}{re.escape(said)}") as refused:
        ablate.check(ablate.load_space(space, plugins=[plugin]))
    text = str(refused.value)
    assert "\n  = fix it there; " in text and "in this block" in text


@pytest.mark.fast
def test_what_a_component_refuses_itself_is_said_as_it_says_it(world):
    space, plugin = world(**FINE | {"cost": "raise InputError('odd is at odds\\n  = choose another')"})
    with pytest.raises(InputError, match="error: odd is at odds\n") as refused:
        ablate.check(ablate.load_space(space, plugins=[plugin]))
    assert "fails in" not in str(refused.value)


@pytest.mark.fast
def test_a_component_of_ours_keeps_its_traceback(monkeypatch):
    """The twin: what fails in one of these is a bug here, and nobody else's to mend."""
    monkeypatch.setattr(CATALOGUE["gelu"].config, "cost", lambda config, sizes: Cost(1 // 0))
    with pytest.raises(ZeroDivisionError):
        cost_of(architecture(sequence(node("mlp", activation="gelu"))), CATALOGUE)


@pytest.mark.fast
def test_one_that_works_is_planned(world):
    space, plugin = world(**FINE)
    assert [v.name for v in ablate.check(ablate.load_space(space, plugins=[plugin])).variants] == ["pre_ln", "odd"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("method", "verb"), [("cost", ("plan", "tiny.yaml")), ("equation", ("show", "odd", "--space", "tiny.yaml"))]
)
def test_the_command_line_says_so_and_exits_with_2(world, tmp_path, method, verb):
    _, plugin = world(**FINE | {method: "raise KeyError('width')"})
    done = subprocess.run(
        [sys.executable, "-c", "from ablate.cli import main; main()", *verb, "--plugin", plugin.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    place = {"cost": 8, "equation": 11}[method]
    assert re.search(rf"component odd, from \S*odd\.py:{place}, fails in {method}: KeyError: 'width'", done.stderr)
