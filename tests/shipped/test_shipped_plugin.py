"""A component of one's own: the manual's example as it stands there, and those that other distributions bring."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import warnings
from pathlib import Path

import documents
import pytest
import yaml
from rich.console import Console
from tiny_spaces import write_world

import ablate
from ablate import api
from ablate.block.equation import equation
from ablate.components.registry import _declarations
from ablate.errors import AblateWarning
from ablate.extension.loader import installed
from ablate.report.screens.block import DISPLAY
from ablate.testing import ComponentContract

ROOT = Path(__file__).parents[2]
GRAMMAR = ROOT / "grammars" / "transformer.yaml"


def code(language: str) -> list[str]:
    """The code blocks of one language in the manual's page about components."""
    return documents.code("component", language)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """The example as a file."""
    path = tmp_path / "dyt.py"
    path.write_text(code("python")[0], encoding="utf-8")
    return path


def contract(plugin: Path) -> ComponentContract:
    """The second block of code, run as it stands, for the file as it is here."""
    names: dict[str, object] = {}
    exec(code("python")[2], names)
    checks = names["TestDyT"]()
    assert checks.plugins == (plugin.name,)
    checks.plugins, checks.grammar = (plugin,), GRAMMAR
    return checks


def test_the_example_holds_the_contract(plugin: Path) -> None:
    contract(plugin).check_all()


@pytest.mark.parametrize(
    ("as_it_is", "broken", "said"),
    [
        ("2 * (width or sizes.d_model)", "1", "declared"),
        ("return self.scale *", "x = x.cumsum(1).flip(1)\n        return self.scale *", "earlier tokens change"),
        ("+ self.bias", "+ self.bias * torch.rand(())", "differ"),
    ],
)
def test_the_contract_refuses_a_broken_example(plugin: Path, as_it_is: str, broken: str, said: str) -> None:
    plugin.write_text(plugin.read_text(encoding="utf-8").replace(as_it_is, broken), encoding="utf-8")
    with pytest.raises(AssertionError, match=said):
        contract(plugin).check_all()


def test_the_example_is_checked_planned_shown_and_trained(plugin: Path, tmp_path: Path) -> None:
    written = write_world(tmp_path, steps=5, seeds=1)
    blocks = yaml.safe_load(code("yaml")[0])
    text = written.read_text(encoding="utf-8").replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, dyt]}")
    written.write_text(f"{text}{yaml.safe_dump(blocks)}", encoding="utf-8")
    space = ablate.load_space(written, plugins=[plugin])
    assert [variant.name for variant in ablate.check(space).variants] == ["pre_ln", "dyt"]
    text = equation(space.blocks["dyt"], DISPLAY, space.grammar.catalogue).text
    assert "x₁ = x + Attn(DyT₁(x))" in text and "slope₁: trained from 0.5" in text
    quiet = Console(quiet=True)
    results = tmp_path / "results"
    ran = ablate.run(space, results=results, executor="inline", plugins=[plugin], console=quiet, mirror=False)
    assert not ran.failed and len(ran.plan.trials) == 2
    losses = ablate.query("SELECT value FROM metrics WHERE metric = 'train_loss' ORDER BY step", results=results)
    assert len(losses) and losses.value.notna().all()


def test_the_example_of_plain_layers_holds_the_contract_and_takes_attentions_place(tmp_path: Path) -> None:
    plugin = tmp_path / "pool.py"
    plugin.write_text(code("python")[1], encoding="utf-8")

    class Pool(ComponentContract):
        plugins = (plugin,)
        component = "pool: {dropout: 0.1}"
        grammar = GRAMMAR

    Pool().check_all()
    written = write_world(tmp_path, steps=5, seeds=2)
    text = written.read_text(encoding="utf-8").replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, pool]}")
    block = "blocks: {pool: [residual: [layer_norm, pool: {dropout: 0.1}], residual: [layer_norm, mlp]]}\n"
    written.write_text(f"{text}{block}", encoding="utf-8")
    checked = ablate.check(ablate.load_space(written, plugins=[plugin]))
    assert [variant.name for variant in checked.variants] == ["pre_ln", "pool"]
    assert not [note for note in checked.notes if not note.startswith("equal terms: ")]


def test_the_example_of_losses_holds_the_contract_and_is_recorded(tmp_path: Path) -> None:
    plugin = tmp_path / "quiet.py"
    plugin.write_text(code("python")[3], encoding="utf-8")

    class Quiet(ComponentContract):
        plugins = (plugin,)
        component = "quiet: {weight: 0.5, target: 0.5, rate: 0.1}"
        grammar = GRAMMAR

    Quiet().check_all()
    written = write_world(tmp_path, steps=5, seeds=1)
    text = written.read_text(encoding="utf-8").replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, quiet]}")
    loud = "quiet: {weight: 0.5, target: 0, rate: 0.1}"
    block = f"blocks: {{quiet: [residual: [layer_norm, attention], {loud}, residual: [layer_norm, mlp]]}}\n"
    written.write_text(f"{text}{block}", encoding="utf-8")
    space = ablate.load_space(written, plugins=[plugin])
    results = tmp_path / "results"
    how = {"executor": "inline", "plugins": [plugin], "console": Console(quiet=True), "mirror": False}
    assert not ablate.run(space, results=results, **how).failed
    statement = "SELECT metric, address, step, value FROM metrics WHERE metric IN ('added_loss', 'after_step')"
    found = ablate.query(f"{statement} ORDER BY ALL", results=results)
    rows = {(row.metric, row.address, row.step): row.value for row in found.itertuples()}
    named = {address.rpartition(".")[2] for _, address, _ in rows}
    assert named == {"size", "weight"}
    weights = [value for (metric, address, _), value in rows.items() if metric == "after_step" and ".1." in address]
    assert weights == pytest.approx([0.5 * 1.1 ** (step + 1) for step in (0, 4)], rel=1e-6)


PACKAGE = {
    "bringer/__init__.py": "raise RuntimeError('nobody may import me')\n",
    "bringer/dyt.py": None,
    "bringer-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: bringer\nVersion: 1.2\n",
}


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a distribution that brings the example under some entry points, for the length of a test."""
    folder = tmp_path / "site"

    def install(points: str, package: str = "") -> None:
        for name, text in PACKAGE.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code("python")[0] if text is None else text, encoding="utf-8")
        if package or points:
            (folder / "bringer" / "__init__.py").write_text(package or PACKAGE["bringer/__init__.py"])
        described = f"[ablate.components]\n{points}"
        (folder / "bringer-1.2.dist-info" / "entry_points.txt").write_text(described, encoding="utf-8")
        monkeypatch.syspath_prepend(folder)
        forget()

    yield install
    monkeypatch.undo()
    for name in [name for name in sys.modules if name.split(".")[0] == "bringer"]:
        del sys.modules[name]
    forget()


def forget() -> None:
    importlib.invalidate_caches()
    installed.cache_clear()
    _declarations.cache_clear()


def test_an_entry_point_brings_a_component_without_importing_its_package(distribution) -> None:
    distribution("dyt = bringer.dyt\n")
    assert "dyt" in api.catalogue() and "bringer" not in sys.modules
    assert api.catalogue()["dyt"].path.parts[-2:] == ("bringer", "dyt.py")


def test_an_entry_point_may_name_a_package_within_its_own(distribution, tmp_path: Path) -> None:
    inner = tmp_path / "site" / "bringer" / "inner"
    inner.mkdir(parents=True)
    (inner / "__init__.py").write_text(code("python")[0], encoding="utf-8")
    distribution("dyt = bringer.inner\n")
    assert api.catalogue()["dyt"].path == inner / "__init__.py" and "bringer" not in sys.modules


def test_its_module_is_imported_by_its_own_name(distribution) -> None:
    distribution("dyt = bringer.dyt\n", package="IMPORTED = True\n")

    class Installed(ComponentContract):
        component = "dyt: {slope: {init: 0.5, trainable: true}}"
        grammar = GRAMMAR

    Installed().check_all()
    assert sys.modules["bringer.dyt"].DyT.Config.spec.name == "dyt"


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ("gone = bringer.nothing\n", "there is no module bringer.nothing"),
        ("gone = no_such_package.nothing\n", "there is no module no_such_package.nothing"),
        ("empty = bringer\n", "RuntimeError: nobody may import me"),
        ("broken = bringer.broken\n", "this is not Python: invalid syntax, in line 1 of"),
        ("taken = bringer.taken\n", "there is a component 'mlp' already"),
    ],
)
def test_a_broken_distribution_is_told_and_the_rest_works(distribution, tmp_path: Path, points: str, said: str) -> None:
    (tmp_path / "site" / "bringer").mkdir(parents=True)
    (tmp_path / "site" / "bringer" / "broken.py").write_text("def\n")
    (tmp_path / "site" / "bringer" / "taken.py").write_text(code("python")[0].replace('"dyt"', '"mlp"'))
    distribution(f"{points}dyt = bringer.dyt\n")
    with pytest.warns(AblateWarning, match=re.escape(said)) as told:
        known = api.catalogue()
    assert "dyt" in known and known["mlp"].path.is_relative_to(ROOT / "ablate")
    assert "bringer 1.2" in str(told[0].message) and "uninstall it" in str(told[0].message)


def test_without_others_nothing_is_told() -> None:
    forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "mlp" in api.catalogue()


@pytest.mark.full
def test_the_command_line_prints_it_as_a_note(tmp_path: Path) -> None:
    (tmp_path / "bad-1.dist-info").mkdir()
    (tmp_path / "bad-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1\n")
    (tmp_path / "bad-1.dist-info" / "entry_points.txt").write_text("[ablate.components]\nx = nowhere.x\n")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['ablate', 'list', 'components']\n"
    program += "from ablate.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "rms_norm" in done.stdout
    assert done.stderr.startswith("note: the entry point 'x' of bad 1") and ".py:" not in done.stderr
