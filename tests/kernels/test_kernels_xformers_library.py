"""Where xformers is not installed, does not fit this PyTorch or has no kernels, one line says so and nothing fails."""

import sys
import tomllib
from pathlib import Path

import pytest
import torch
from fake_cuda import fake_cuda, inputs
from packaging.requirements import Requirement

from ablate.kernels import attend, xformers
from ablate.kernels.attend import BACKENDS
from ablate.kernels.choose import WAY_OUT, dispatch_xformers, missing_xformers
from ablate.kernels.xformers import Dispatch

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]


class Package:
    """Stands for an installed xformers: a folder that is found before any other, with what its files say."""

    def __init__(self, monkeypatch, folder):
        self.monkeypatch, self.folder = monkeypatch, folder / "xformers"
        monkeypatch.setattr(torch, "__version__", "2.15.0+cu130")
        for name in [name for name in sys.modules if name.partition(".")[0] == "xformers"]:
            monkeypatch.delitem(sys.modules, name)
        missing_xformers.cache_clear()

    def says(self, **files):
        self.folder.mkdir()
        for name, text in {"__init__": "", "ops": "", "_cpp_lib": "", **files}.items():
            (self.folder / f"{name}.py").write_text(text, encoding="utf-8")
        self.monkeypatch.syspath_prepend(self.folder.parent)


@pytest.fixture
def package(monkeypatch, tmp_path):
    yield Package(monkeypatch, tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "xformers"]:
        del sys.modules[name]
    missing_xformers.cache_clear()


LOADS_NOT = """
import logging, types
failed = RuntimeError("xFormers can't load C++/CUDA extensions. xFormers was built for:\\n    PyTorch 2.10.0")
failed.build_info = types.SimpleNamespace(torch_version="2.10.0+cu128")
failed.__cause__ = OSError("Could not load this library: _C.so")
failed.__cause__.__cause__ = OSError("libcudart.so.12: cannot open shared object file")
_cpp_library_load_exception = failed
logging.getLogger("xformers").warning("WARNING[XFORMERS]: many\\nlines")
"""


def test_one_that_is_not_there(package, monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    assert missing_xformers() == f"xformers is not installed; {WAY_OUT}"


def test_one_that_uses_what_a_newer_pytorch_has_not(package):
    package.says(ops="raise AttributeError(\"module 'torch' has no attribute 'gone'\\nand more\")")
    assert missing_xformers() == (
        "xformers cannot be imported beside PyTorch 2.15.0+cu130 "
        f"(AttributeError: module 'torch' has no attribute 'gone'); {WAY_OUT}"
    )


def test_one_that_needs_another_package(package):
    package.says(ops="import xformers_is_not_alone")
    assert missing_xformers().startswith(
        "xformers is not whole beside PyTorch 2.15.0+cu130 (ModuleNotFoundError: No module"
    )


def test_one_whose_kernels_do_not_load_says_so_in_one_line_and_not_in_its_own(package, capfd):
    package.says(ops="import xformers._cpp_lib", _cpp_lib=LOADS_NOT)
    assert missing_xformers() == (
        "xformers has no kernels here: its library, built for PyTorch 2.10.0+cu128, does not load beside PyTorch "
        f"2.15.0+cu130 (OSError: libcudart.so.12: cannot open shared object file); {WAY_OUT}"
    )
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("ops", ["raise AttributeError('gone')", "import xformers._cpp_lib"])
def test_the_next_backend_computes_and_one_that_is_asked_for_by_name_is_refused(package, monkeypatch, ops):
    package.says(ops=ops, _cpp_lib=LOADS_NOT)
    used = []
    monkeypatch.setitem(BACKENDS, "sdpa", lambda q, k, v, **asked: used.append(asked) or v)
    with fake_cuda(built="13.0"):
        q, k, v, _ = inputs(gradient=False)
        attend(q, k, v, causal=True, scale=0.3)
        with pytest.raises(ValueError, match=r"kernel 'xformers': xformers .* beside PyTorch 2.15.0"):
            attend(q, k, v, causal=True, scale=0.3, kernel="xformers")
    assert len(used) == 1


def test_a_dispatcher_that_fails_is_a_refusal_too(package, monkeypatch):
    package.says()

    def fails(*args, **asked):
        raise TypeError("Inputs() has no argument 'p'\nand more")

    monkeypatch.setattr(xformers, "dispatch", fails)
    refusal = f"xformers fails beside PyTorch 2.15.0+cu130 (TypeError: Inputs() has no argument 'p'); {WAY_OUT}"
    assert dispatch_xformers(*inputs(device="cpu")[:3], causal=True, scale=0.3) == Dispatch(refusal=refusal)


def test_one_that_loads_is_asked(package, monkeypatch):
    """The twin: nothing is wrong with it."""
    package.says()
    monkeypatch.setattr(xformers, "dispatch", lambda *args, **asked: Dispatch(operators="F, B"))
    assert missing_xformers() == ""
    assert dispatch_xformers(*inputs(device="cpu")[:3], causal=True, scale=0.3) == Dispatch(operators="F, B")


def test_no_newer_pytorch_is_refused_for_the_sake_of_xformers():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {needed.name: needed for needed in map(Requirement, project["dependencies"])}
    assert "0.0.35" in needed["xformers"].specifier and "0.0.40" in needed["xformers"].specifier
    assert "2.10.0" in needed["torch"].specifier and "2.15.0" in needed["torch"].specifier
    assert "2.9.1" not in needed["torch"].specifier
    pair = {needed.name: str(needed.specifier) for needed in map(Requirement, project["optional-dependencies"]["cuda"])}
    assert pair == {"torch": "==2.10.0", "xformers": "==0.0.35"}
