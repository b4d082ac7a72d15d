"""`--help` tells every line whole, `--version` and `--show-completion` answer, and shells complete verbs and names."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tiny_spaces import ROOT

import ablate
from ablate.cli import app

ABLATE = "import sys; sys.argv[0] = 'ablate'; from ablate.cli import main; main()"


def run(*words: str, cwd: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ABLATE, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "80", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def groups(command, *words):
    """Every group of verbs, with the words that call it."""
    if hasattr(command, "commands"):
        yield words, command
        for name, inner in command.commands.items():
            yield from groups(inner, *words, name)


GROUPS = dict(groups(typer.main.get_command(app)))


@pytest.mark.parametrize("words", GROUPS, ids=lambda words: " ".join(words) or "ablate")
def test_every_verb_s_line_is_told_whole_at_80_columns(words):
    shown = run(*words, "--help")
    listed = " ".join(shown.partition("Commands:")[2].split())
    verbs = GROUPS[words].commands
    assert len(verbs) >= 5
    for name, verb in verbs.items():
        summary = " ".join(inspect.cleandoc(verb.help).partition("\n\n")[0].split())
        assert summary.endswith(".") and f"{name} {summary}" in listed, name
    assert "..." not in shown.partition("Options:")[2] and "…" not in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert run("--version") == f"ablate {ablate.__version__}\n"
    assert ablate.__version__ == version("ablate")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_shown_for_a_shell_that_is_named(shell):
    script = run("--show-completion", shell)
    assert f"_ABLATE_COMPLETE=complete_{shell}" in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stderr) == (0, "")


def complete(shell: str, typed: str, cwd: Path) -> str:
    """What a shell is told for a line that was typed so far."""
    if shell == "bash":
        given = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    else:
        given = {"_TYPER_COMPLETE_ARGS": typed, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return run(cwd=cwd, _ABLATE_COMPLETE=f"complete_{shell}", **given)


def test_topics_of_the_manual_are_completed(tmp_path):
    assert complete("bash", "ablate docs ver", tmp_path).split() == ["verdicts"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_verbs_and_names_of_spaces_are_completed(shell, tmp_path):
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "op_of_mine.yaml").touch()
    verbs = complete(shell, "ablate st", tmp_path)
    assert "status" in verbs and "plan" not in verbs
    others = ("ablate check op_", "ablate report op_", "ablate show op --space op_") if shell == "bash" else ()
    for typed in ("ablate run op_", *others):
        told = complete(shell, typed, tmp_path)
        assert all(name in told for name in ("op_factorial", "op_of_mine", "op_vs_preln")), told
        assert "skipless" not in told


def test_an_example_is_completed_with_what_ships_alone(tmp_path):
    (tmp_path / "op_of_mine.yaml").touch()
    assert complete("bash", "ablate init --example op_", tmp_path).split() == [
        "op_encoder",
        "op_factorial",
        "op_final_norm",
        "op_ladder",
        "op_vs_preln",
    ]


def test_what_is_told_of_a_verb_stands_in_one_line(tmp_path):
    """zsh takes each line for a word of its own."""
    told = complete("zsh", "ablate ", tmp_path)
    lines = told.splitlines()
    assert len(lines) == len(GROUPS[()].commands) and all(line.count('":"') == 1 for line in lines)


def test_files_are_left_to_the_shell_where_no_name_fits(tmp_path):
    assert complete("bash", "ablate run ./", tmp_path).split() == []
    assert complete("zsh", "ablate run ./", tmp_path).split() == ["_files"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_itself_completes_with_the_script(tmp_path):
    program = tmp_path / "ablate"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{ABLATE}" "$@"\n')
    program.chmod(0o755)
    asks = (
        'eval "$(ablate --show-completion bash)"; COMP_WORDS=(ablate run skip); COMP_CWORD=2; '
        '_ablate_completion ablate skip run; echo "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", asks],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": path},
    )
    assert done.stdout.split() == ["skipless"], done.stderr
