"""The experiment on a search that skips what is in danger: its figures, from the blocks and searches that are kept."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "tests" / "benchmarks"
KEPT = ROOT / "results" / "bench" / "2026-11-27-search_prior.jsonl"
LINES = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]
UNIGRAM = LINES[0]["unigram_loss"]
BLOCKS = {line["block"]: line for line in LINES if line.get("block")}
LOSSES = {block: np.inf if line["loss"] is None else line["loss"] for block, line in BLOCKS.items()}
SKIPPED = {block for block, line in BLOCKS.items() if line["dangers"]}
RUNS = {(line["sampler"], line["arm"], line["seed"]): line["trained"] for line in LINES if "arm" in line}
LOWEST, NEAR = {min(LOSSES, key=LOSSES.get)}, {b for b, loss in LOSSES.items() if loss <= 1.01 * min(LOSSES.values())}
SEEDS = range(20)


@pytest.fixture(scope="module")
def program():
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("search_prior_program", BENCHMARKS / "search_prior.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]
    sys.path.remove(str(BENCHMARKS))


def needed(sampler, arm, best, seeds):
    """The blocks trained until the first of the best, by seed."""
    runs = [RUNS[sampler, arm, seed] for seed in seeds]
    return np.array([min((run.index(b) for b in best if b in run), default=len(BLOCKS)) + 1 for run in runs])


def test_all_that_is_skipped_failed_and_nothing_of_the_best_is():
    failed = {block for block, loss in LOSSES.items() if not loss < UNIGRAM}
    assert (len(BLOCKS), len(failed), len(SKIPPED), len(NEAR)) == (123, 47, 36, 12)
    assert failed >= SKIPPED and not SKIPPED & NEAR


def test_no_search_trains_a_block_twice_or_one_that_it_skips():
    for (_, arm, _), trained in RUNS.items():
        assert len(set(trained)) == len(trained) and set(trained) <= set(BLOCKS)
        assert arm != "avoid" or not SKIPPED & set(trained)
    assert any(SKIPPED & set(trained) for (_, arm, _), trained in RUNS.items() if arm == "ignore")


def test_the_program_counts_as_this_test_does(program):
    for line in program.figures(LINES):
        best = LOWEST if line["best"] == "lowest" else NEAR
        without, with_it = (needed(line["sampler"], arm, best, SEEDS) for arm in ("ignore", line["arm"]))
        assert (line["of"], line["ignore"], line["median"]) == (len(best), np.median(without), np.median(with_it))
        assert line["difference"] == np.median(with_it - without)
        assert (line["fewer"], line["more"]) == ((with_it < without).sum(), (with_it > without).sum())
        assert line["interval"][0] <= line["difference"] <= line["interval"][1]


def test_a_random_search_comes_to_the_lowest_sooner_and_its_twin_does_not(program):
    """The twin skips as many blocks, of random ones: its interval has 0, and some of its searches never come to it."""
    of_random = [line for line in program.figures(LINES) if (line["best"], line["sampler"]) == ("lowest", "random")]
    avoid, permuted = of_random
    assert (avoid["arm"], permuted["arm"]) == ("avoid", "permuted")
    assert avoid["interval"][1] < 0 and avoid["without"] == 0
    assert permuted["interval"][1] >= 0 and permuted["without"] == 5


def test_the_manual_has_these_figures(program):
    """Each row of its table is the program's, in its order."""
    manual = (files("ablate.docs") / "search.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| (within 1 %|lowest) \| (random|tpe) \| (.+) \|$", manual, re.M)
    assert shown == list(rows(program.figures(LINES)))
    assert all(
        text in " ".join(manual.split()) for text in ("123 blocks", "47 failed", "skips 36 of them, all of which")
    )


def rows(figures):
    """The rows of the table: both medians, the difference, its interval, fewer and more; these three of the twin."""
    lines = list(figures)
    for avoid, permuted in zip(lines[::2], lines[1::2], strict=True):
        cells = [f"{avoid['ignore']:g}", f"{avoid['median']:g}", counted(avoid), counted(permuted)]
        yield avoid["best"].replace("%", " %"), avoid["sampler"], " | ".join(cells)


def counted(line):
    low, high = line["interval"]
    return f"{line['difference']:g} [{low:g}, {high:g}], {line['fewer']} : {line['more']}"
