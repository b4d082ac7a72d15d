"""A wheel, and an editable install, in an empty folder: what ships is there by name, and no file of a clone is needed.

Built from a copy of the tree, as a build leaves folders behind; installed in environments of their own, which see the
libraries of the one the tests run in.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TREE = ("ablate", "grammars", "spaces", "README.md", "pyproject.toml")
SPACES = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "spaces").glob("*.yaml")}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what a build reads."""
    folder = tmp_path_factory.mktemp("tree")
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, folder)
    return folder


def build(tree: Path, kind: str, into: Path) -> Path:
    """What pip has setuptools make of a tree: `wheel`, `editable` or `sdist`."""
    program = f"import sys; from setuptools import build_meta as b; print(b.build_{kind}(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", program, into], cwd=tree, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return into / done.stdout.split()[-1]


class Installed:
    """An environment with `ablate`, and an empty folder to call it from."""

    def __init__(self, wheel: Path, folder: Path):
        self.python, self.here = folder / "venv" / "bin" / "python", folder / "empty"
        self.here.mkdir()
        venv.create(folder / "venv", with_pip=False)
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "-q", "--no-deps", "--no-index", wheel]
        done = subprocess.run(pip, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")

    def __call__(self, program: str, *words: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [self.python.with_name(program), *words],
            cwd=self.here,
            capture_output=True,
            text=True,
            timeout=1800,
            env={**environment, "COLUMNS": "100", "NO_COLOR": "1"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module", params=["wheel", "editable"])
def installed(request, tree, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    found = Installed(build(tree, request.param, folder), folder)
    whose = found("python", "-c", "import ablate; print(ablate.__file__)").strip()
    assert Path(whose).is_relative_to(tree if request.param == "editable" else folder / "venv"), whose
    return found


def test_a_wheel_has_all_that_is_in_the_tree_and_nothing_else(tree, tmp_path):
    wheel = build(tree, "wheel", tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {path.relative_to(tree).as_posix() for path in (tree / "ablate").rglob("*") if path.is_file()}
    for folder in ("grammars", "spaces"):
        files = [path for path in (tree / folder).rglob("*") if path.is_file()]
        assert files
        expected |= {f"ablate/{path.relative_to(tree).as_posix()}" for path in files}
    assert there == {name for name in expected if ".egg-info" not in name and "__pycache__" not in name}


def test_nothing_else_stands_at_the_top_of_the_tree():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = {name.partition("/")[0] for name in listed.stdout.split("\n") if name}
    assert {name for name in names if not name.startswith(".")} == {*TREE, "results", "tests"}


@pytest.mark.full
def test_a_wheel_of_a_source_distribution_is_that_of_the_tree(tree, tmp_path):
    archive = build(tree, "sdist", tmp_path)
    shutil.unpack_archive(archive, tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    names = []
    for folder in (tree, unpacked):
        into = tmp_path / f"from_{len(names)}"
        into.mkdir()
        names.append(set(zipfile.ZipFile(build(folder, "wheel", into)).namelist()))
    assert names[0] == names[1]


@pytest.mark.full
def test_what_ships_is_there_by_name(installed):
    assert "+qk_norm" in installed("ablate", "diff", "pre_ln", "op")
    assert installed("ablate", "docs", "verdicts").startswith("# Is it noise?")
    program = (
        "import ablate, sys\n"
        f"spaces = [ablate.load_space(name) for name in {sorted(SPACES)!r}]\n"
        "print(*(space.name for space in spaces), sep='\\n')\n"
        "assert ablate.load_grammar('transformer').path.samefile(spaces[0].grammar.path)\n"
    )
    assert installed("python", "-c", program).split() == sorted(SPACES)
    assert not list(installed.here.iterdir())


@pytest.mark.slow
def test_what_init_writes_is_run_to_a_verdict(installed):
    assert "wrote spaces/mine.yaml" in installed("ablate", "init")
    screen = installed("ablate", "run", "mine", "--no-mlflow")
    answer = " ".join(screen.partition("• half_norm against pre_ln: ")[2].split())
    assert re.match(r"(lowers|raises) eval loss by .* \((better|worse)\)|eval loss (equivalent|undecided)", answer), (
        screen
    )
    assert "its page: " in screen
    installed("ablate", "report", "mine")
    assert (installed.here / "results" / "pages" / "mine.html").is_file()
