"""Asking again at the command line: arms deleted, other seeds, another space, other names, order, scale or metric.

Trials are trained once, seed by seed, which judges nothing; then each question is asked as a user would ask it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from test_cli_run import ablate
from tiny_spaces import write_world

ARMS = ("op", "sas", "sas_p")
TABLES = ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9), (10, 11, 12, 13, 14))
PLAIN = "judge={against: pre_ln, metrics: {eval_loss: {margin: none}}}"
WITH_OTHERS = ("other_seeds", "more_seeds", "chain")
"""The ways of asking at data that were not judged before."""


def asked(arms: tuple[str, ...], seeds: tuple[int, ...], judge: str = PLAIN) -> list[str]:
    words = [f"design={{compare: [pre_ln, {', '.join(arms)}]}}", f"seeds={list(seeds)}", judge]
    return [word for setting in words for word in ("--set", setting)]


def run(where: Path, *words: str) -> str:
    done = ablate("run", *words, cwd=where)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("accounts")
    path = write_world(folder, steps=8)
    lines = path.read_text(encoding="utf-8").splitlines()
    judge = (
        "judge: {against: pre_ln, metrics: {eval_loss: {margin: none}}}"  # one metric: --set adds to those there are
    )
    path.write_text("\n".join([*lines[:-1], judge, ""]), encoding="utf-8")
    for seed in range(15):
        run(folder, "tiny.yaml", *asked(ARMS, (seed,)))
    return folder


def rows(folder: Path, statement: str) -> list[dict[str, object]]:
    done: subprocess.CompletedProcess[str] = ablate("sql", statement, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def verdict(folder: Path, space: str, arm: str) -> str:
    loss = "metric IN ('eval_loss', 'perplexity')"
    statement = f"SELECT change, verdict FROM verdicts WHERE space = '{space}' AND current AND {loss}"
    return next(str(row["verdict"]) for row in rows(folder, statement) if arm in str(row["change"]))


def other_file(folder: Path, name: str, old: str, new: str) -> str:
    """The space in another file, with something else in it."""
    text = (folder / "tiny.yaml").read_text(encoding="utf-8")
    assert old in text
    (folder / f"{name}.yaml").write_text(text.replace(old, new), encoding="utf-8")
    return f"{name}.yaml"


def ways(folder: Path, best: str, seeds: tuple[int, ...]) -> dict[str, list[list[str]]]:
    """What is asked after all arms at these seeds, each as one or more commands."""
    others = tuple((seed + 5) % 15 for seed in seeds)
    log = PLAIN.replace("margin: none", "margin: none, scale: log")
    up = PLAIN.replace("margin: none", "margin: none, better: higher")
    page = PLAIN.replace("}}}", "}, peak_kurtosis: {scale: log, margin: none}}, family: page}")
    perplexity = PLAIN.replace("eval_loss", "perplexity")
    function = other_file(folder, "function", "eval_loss: {margin", "perplexity: {margin")
    moved = other_file(folder, "moved", "space: tiny", "space: moved")
    return {
        "delete": [["tiny.yaml", *asked((best,), seeds)]],
        "subset": [["tiny.yaml", *asked((best, next(arm for arm in ARMS if arm != best)), seeds)]],
        "other_seeds": [["tiny.yaml", *asked((best,), others)]],
        "more_seeds": [["tiny.yaml", *asked((best,), (*seeds, *others[:3]))]],
        "moved": [[moved, *asked((best,), seeds)]],
        "reordered": [["tiny.yaml", *asked(ARMS[::-1], seeds[::-1])]],
        "scale": [["tiny.yaml", *asked(ARMS, seeds, log)]],
        "direction": [["tiny.yaml", *asked((best,), seeds, up)]],
        "function": [[function, *asked(ARMS, seeds, perplexity)]],
        "family": [["tiny.yaml", *asked(ARMS, seeds, page)]],
        "chain": [
            ["tiny.yaml", *asked((best,), seeds)],
            [moved, *asked((best,), seeds)],
            [moved, *asked((best,), seeds[::-1], log)],
            [moved, *asked((best,), seeds, perplexity)],
            [moved, *asked((best,), seeds, page)],
            ["tiny.yaml", *asked((best,), (*seeds, *others[:3]))],
        ],
    }


@pytest.mark.parametrize("seeds", TABLES, ids=["first", "second", "third"])
@pytest.mark.parametrize(
    "way",
    [
        *(
            pytest.param(way, marks=pytest.mark.slow)
            for way in ("subset", "other_seeds", "moved", "reordered", "scale")
        ),
        *(
            pytest.param(way, marks=pytest.mark.slow)
            for way in ("delete", "direction", "function", "family", "more_seeds")
        ),
        pytest.param("chain", marks=pytest.mark.slow),
    ],
)
def test_asking_again_changes_no_verdict_and_spends_what_is_printed(trained, tmp_path, way, seeds):
    folder = tmp_path / "again"
    shutil.copytree(trained, folder)
    first = run(folder, "tiny.yaml", *asked(ARMS, seeds))
    assert "judged before" not in first
    before = {arm: verdict(folder, "tiny", arm) for arm in ARMS}
    best = next((arm for arm in ARMS if before[arm] in ("better", "worse")), "op")
    for words in ways(folder, best, seeds)[way]:
        screen = run(folder, *words)
    flat = " ".join(screen.split())
    states = [str(row["state"]) for row in rows(folder, "SELECT DISTINCT state FROM accounts ORDER BY state")]
    if way in WITH_OTHERS:
        assert f"judged a second time, at 0.8 % over all {4 if way == 'chain' else 3}" in flat, (
            "4 behind a family of the page, of two metrics"
        )
        assert states[0] == "again"
        return
    if way == "reordered":  # the same question at the same data, and so the same judgement
        assert states == ["new"]
    else:
        assert states == ["new", "settled"]
        assert ("are new, each at 4 %" if way == "family" else "judged before") in flat
    turned = {"better": "worse", "worse": "better"} if way == "direction" else {}
    space = "moved" if way == "moved" else "tiny"
    assert verdict(folder, space, best) == turned.get(before[best], before[best])
    (spent,) = rows(folder, "SELECT max(so_far) AS so_far FROM questions")
    # A page that adds a metric tests its comparisons at 4 % over all six, beside those of before at 4 % over three.
    assert spent["so_far"] == pytest.approx(0.06 if way == "family" else 0.04)
