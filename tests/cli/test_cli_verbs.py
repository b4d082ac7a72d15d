"""The verbs that start nothing: quick, and plain about mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "ray", "mlflow", "optuna", "cmaes", "datasets", "duckdb", "pandas", "pyarrow", "scipy", "matplotlib"}


def run(*words: str, heavy: set[str] = HEAVY, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a verb in a process of its own, which also checks that nothing heavy was imported."""
    program = (
        f"import sys; sys.argv = ['ablate', *{list(words)!r}]\n"
        "from ablate.cli import main\n"
        "code = 0\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code or 0\n"
        f"loaded = {heavy!r} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
        "sys.exit(code)\n"
    )
    return subprocess.run([sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=120)


def test_help_imports_nothing_heavy():
    done = run("--help", heavy=HEAVY | {"pydantic", "yaml", "rich", "numpy"})
    assert done.returncode == 0, done.stderr
    for verb in ("check", "plan", "run", "sql", "show", "diff", "list"):
        assert verb in done.stdout


@pytest.mark.full
def test_check_of_the_shipped_space():
    done = run("check", "spaces/op_vs_preln.yaml")
    assert done.returncode == 0, done.stderr
    assert "4 variants × 5 seeds: 20 trials" in done.stdout
    assert "+qk_norm" in done.stdout


@pytest.mark.full
def test_check_reads_the_profiles_too(tmp_path):
    text = (ROOT / "spaces" / "op_vs_preln.yaml").read_text(encoding="utf-8")
    text = text.replace("smoke: {recipe: {steps: 20}", "smoke: {recipe: {stepz: 20}")
    text = text.replace("grammar: transformer", f"grammar: {ROOT}/grammars/transformer.yaml")
    (tmp_path / "space.yaml").write_text(text, encoding="utf-8")
    done = run("check", "space.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "with --profile smoke" in done.stderr and "did you mean 'steps'" in done.stderr


def test_diff_names_the_edits():
    done = run("diff", "pre_ln", "op")
    assert done.returncode == 0, done.stderr
    for edit in ("+qk_norm", "residual.gain=1/sqrt(2*depth)", "-layer_norm"):
        assert edit in done.stdout.replace("\n", "").replace(" ", "")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "pre_lm"), "did you mean 'pre_ln'"),
        (("show", "op", "--heads", "5"), "a width of 768 does not divide into 5 heads"),
        (("plan", "spaces/op_vs_preln.yaml", "--set", "recipe.stpes=3"), "did you mean 'steps'"),
        *(
            pytest.param(*one, marks=pytest.mark.full)
            for one in (
                (("show", "op", "--svg", "/nowhere/op.svg"), "cannot write /nowhere/op.svg"),
                (("check", "grammars/transformer/espa.yaml"), "check the grammar that includes it"),
                (("check", "nowhere.yaml"), "nowhere.yaml"),
                (("run", "spaces/op_vs_preln.yaml", "--profile", "smok"), "smok"),
                (("run", "spaces/op_vs_preln.yaml", "--results", "/proc/nowhere"), "/proc/nowhere"),
            )
        ),
    ],
)
def test_mistakes_exit_with_2_and_no_traceback(words, said):
    done = run(*words, heavy=set())
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_show_has_tree_equations_diagram_and_costs(tmp_path):
    done = run("show", "op", "--layers", "6", "--svg", str(tmp_path / "op.svg"))
    assert done.returncode == 0, done.stderr
    for said in ("entropy: {qk_norm:", "x₁ = x + β Attn(x)", "β = 1/√(2L) = 0.2887", "⊕─ × 1/√(2L)", "all 6 blocks"):
        assert said in done.stdout
    assert (tmp_path / "op.svg").read_text(encoding="utf-8").startswith("<svg ")


@pytest.mark.full
def test_show_as_a_space_has_it():
    done = run("show", "op", "--space", "spaces/op_vs_preln.yaml")
    assert done.returncode == 0, done.stderr
    assert "of op_vs_preln, with its overrides" in " ".join(done.stdout.split())
    assert "RoPE" in done.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "words",
    [
        ("show", "op"),
        ("list", "blocks"),
        *(
            pytest.param(words, marks=pytest.mark.full)
            for words in (("diff", "pre_ln", "op"), ("list", "presets"), ("list", "components"))
        ),
    ],
    ids=" ".join,
)
def test_json_is_json_and_nothing_else(words):
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.full
def test_the_probes_are_listed_with_what_they_mean():
    done = run("list", "probes", heavy=HEAVY - {"torch"})
    assert done.returncode == 0, done.stderr
    assert "kurtosis" in done.stdout and "arXiv:2405.19279" in done.stdout


@pytest.mark.full
def test_the_metrics_are_listed_with_the_probe_they_need():
    done = run("list", "metrics", "--json")
    assert done.returncode == 0, done.stderr
    assert {one["metric"]: one["probe"] for one in json.loads(done.stdout)}["peak_kurtosis"] == "kurtosis"


@pytest.mark.full
def test_a_block_that_is_not_there_is_told_by_those_near_it():
    done = run("show", "outlier_table2_pre_ln")
    assert done.returncode == 2
    nearest = "outlier_table2_pre_ln_tanh, outlier_table2_pre_ln_qk_norm, outlier_table3_pre_rms"
    assert f"= the nearest names: {nearest}" in done.stderr
    assert "`ablate list blocks` lists" in done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 120


@pytest.mark.full
@pytest.mark.parametrize(
    "what", ["blocks", *(pytest.param(w, marks=pytest.mark.full) for w in ("presets", "components"))]
)
def test_lists_name_the_papers(what):
    done = run("list", what)
    assert done.returncode == 0, done.stderr
    assert "arXiv:2302.10322" in done.stdout.replace("\n", "")
