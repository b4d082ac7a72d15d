"""A file that declares something is one module: its head runs while planning, the rest when it is asked for."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from builders import CATALOGUE

from ablate.components.registry import declarations, implementation
from ablate.extension.head import complete, import_head, put_off

OWN = '''"""Twice: twice x."""
from ablate.components.declare import Cost, component, implements

@component("twice", slots=("part", "norm"), source="this test")
class Config:
    """No fields."""

    def cost(self, sizes, width=None):
        return Cost()

FACTOR = 2
"""What x is multiplied by."""

import torch
from torch import nn

"""A text that stands first below."""

@implements(Config)
class Twice(nn.Module):
    def __init__(self, config, sizes, width=None):
        super().__init__()
        assert isinstance(config, Config)

    def forward(self, x):
        return FACTOR * x
'''


def heads(name: str, path: Path):
    """The module of a file, whose head runs without anything being noted."""

    def run(statement, execute):
        execute()
        return True

    return import_head(name, path, ast.parse(path.read_text()), run)


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "twice.py"
    path.write_text(OWN)
    yield heads("a_file_of_this_test", path)
    sys.modules.pop("a_file_of_this_test", None)


@pytest.mark.fast
def test_what_stands_below_torch_runs_when_a_name_of_it_is_asked_for(module):
    assert put_off(module) and "Twice" not in vars(module) and module.FACTOR == 2
    assert module.Twice.Config is module.Config
    assert not put_off(module) and type(module) is type(ast)


@pytest.mark.fast
def test_an_import_statement_completes_it_too(module):
    from a_file_of_this_test import Twice

    assert Twice is module.Twice and importlib.import_module("a_file_of_this_test") is module


@pytest.mark.fast
def test_its_documentation_is_its_own_and_not_a_text_below(module):
    assert module.__doc__ == "Twice: twice x."
    complete(module)
    assert module.__doc__ == "Twice: twice x."


@pytest.mark.fast
def test_a_name_that_is_nowhere_is_an_attribute_error_as_ever(module):
    with pytest.raises(AttributeError, match="has no attribute '__path__'"):
        module.__path__
    assert put_off(module)
    with pytest.raises(AttributeError, match="has no attribute 'Thrice'"):
        module.Thrice


@pytest.mark.fast
def test_what_the_rest_raises_is_raised_each_time(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("import torch\nNUMBER = 1 // 0\n")
    module = heads("a_broken_file_of_this_test", path)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            module.NUMBER
    assert put_off(module)


@pytest.mark.fast
def test_a_changed_plugin_is_read_again(tmp_path):
    path = tmp_path / "twice.py"
    path.write_text(OWN)
    first = declarations((path,))["twice"]
    path.write_text(OWN.replace("FACTOR = 2", "FACTOR = 3"))
    second = declarations((path,))["twice"]
    assert first.module != second.module
    factors = [vars(sys.modules[spec.module])["FACTOR"] for spec in (first, second)]
    assert factors == [2, 3] and declarations((path,))["twice"] is second


@pytest.mark.fast
def test_two_plugins_of_one_file_name_are_two_modules(tmp_path):
    paths = []
    for name in ("twice", "again"):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "own.py")
        paths[-1].write_text(OWN.replace('"twice"', f'"{name}"'))
    known = declarations(tuple(paths))
    assert known["twice"].module != known["again"].module
    assert implementation(known["twice"]) is not implementation(known["again"])


@pytest.mark.fast
@pytest.mark.parametrize("spec", [spec for spec in CATALOGUE if spec.needs_below], ids=lambda spec: spec.name)
def test_a_config_is_of_the_class_that_its_module_has(spec):
    config = object.__new__(spec.config)  # whatever its values
    assert isinstance(config, implementation(spec).Config)
    assert spec.config is vars(importlib.import_module(spec.module))[spec.config.__name__]


def test_planning_imports_no_torch_and_a_plain_import_gives_the_same_class():
    program = """
import sys
from ablate.components.registry import declarations
known = declarations()
assert "torch" not in sys.modules
from ablate.components.norms.rms_norm import Config, RMSNorm
assert "torch" in sys.modules
assert known["rms_norm"].config is Config is RMSNorm.Config
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.full
def test_the_other_order_gives_the_same_class():
    program = """
from ablate.components.norms.rms_norm import Config, RMSNorm
from ablate.components.registry import declarations
assert declarations()["rms_norm"].config is Config is RMSNorm.Config
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.fast
def test_a_file_that_planning_has_read_is_an_attribute_of_its_package():
    """As after a plain import, which finds the module there already and binds nothing."""
    program = """
from ablate.components.registry import declarations
declarations()
import ablate.data.corpora.hub
assert ablate.data.corpora.hub.HubDataset.__name__ == "HubDataset"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
