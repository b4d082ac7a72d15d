"""The honest answer where numbers are missing, alike, few, or made under unlike conditions: `honest/*.txt`.

After a change that means to move them, `pytest --update-goldens` writes them anew; read the diff.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from designed_fixtures import designed, ends
from report_fixtures import LOSS, PEAK, finals, path
from report_fixtures import rules as judging
from test_report_tables import AFTER, BEFORE, DEFINITIONS, render, single, with_peak

from ablate.output.escape import for_markdown
from ablate.plan.plan import Comparison, Plan
from ablate.report.effect_tables import to_markdown
from ablate.report.json_form import to_json
from ablate.report.screens.result import result_screen
from ablate.space.judge import Judged
from ablate.verdict.experiment import Final
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

HONEST = Path(__file__).parent / "honest"
WIDTHS = (80, 120)
MARGIN = Judged(margin=0.02, scale="linear", better="lower")
DIVERGED: Final = {"status": "diverged", "step": 7, "metrics": {}}


def results(plan: Plan, effect: Callable[[tuple[str, ...]], float], *, sd: float = 0.002) -> dict[str, Final]:
    """Losses that a variant's edits move, and peaks; seeds share noise, each trial has a little of its own."""
    random = np.random.default_rng(8)
    shared = random.normal(0, 0.02, len(plan.seeds))
    loss = np.array([2.3 + effect(variant.edits) + shared for variant in plan.variants])
    loss = loss + random.normal(0, sd, loss.shape)
    peak = np.exp(1.1 + 8 * (loss - 2.3) + random.normal(0, 0.02, loss.shape))
    return ends(plan, {"eval_loss": loss, "peak_kurtosis": peak})


def by_edit(*sizes: float, together: float = 0.0) -> Callable[[tuple[str, ...]], float]:
    """The first edit moves the loss by the first size, …; the first two `together` by so much more."""
    order = ["qk_norm", "gain", "layer_norm", "a", "b", "c", "d", "e"]

    def moved(edits: tuple[str, ...]) -> float:
        there = [next((i for i, name in enumerate(order) if name in edit), len(sizes) - 1) for edit in edits]
        return sum(sizes[i] for i in there) + (together if {0, 1} <= set(there) else 0.0)

    return moved


def judged(plan: Plan, rows: dict[str, Final], **metrics: Judged) -> Summary:
    return judge(plan, judging(**(metrics or {"eval_loss": MARGIN, "peak_kurtosis": PEAK})), rows)


def factorial(seeds: int = 4, **lost: Final | None) -> Summary:
    """A full factorial with an interaction; `lost` says what became of runs (by edits' letters and seed) instead."""
    plan = designed("factorial", seeds=seeds)
    rows = results(plan, by_edit(-0.03, 0.01, 0.0, together=-0.02))
    names = {variant.name: variant.id for variant in plan.variants}
    for cell, end in lost.items():
        letters, seed = cell.rsplit("_", 1)
        name = {"none": "pre_ln", "ABC": "op"}.get(letters, f"pre_ln+{letters}")
        (trial,) = [t.id for t in plan.trials if t.variant == names[name] and t.seed == int(seed)]
        rows.pop(trial) if end is None else rows.update({trial: end})
    return judged(plan, rows)


def without_a_run(run: str) -> Summary:
    """A full factorial one of whose runs diverged at every seed, so that not all effects can be told."""
    return factorial(3, **{f"{run}_{seed}": DIVERGED for seed in range(3)})


def inestimable() -> Summary:
    """All runs without the first edit diverged but one: what it does cannot be told from what else differs."""
    plan = designed("factorial", seeds=3)
    rows = results(plan, by_edit(-0.03, 0.01, 0.0))
    gone = {v.id for v in plan.variants if not any("qk_norm" in edit for edit in v.edits)}
    return judged(plan, {t.id: DIVERGED if t.variant in gone else rows[t.id] for t in plan.trials})


def other_versions() -> Summary:
    ended = finals({"v0": BEFORE, "v1": AFTER})
    made: dict[str, Final] = {
        id: {**end, "versions": "new" if id in ("v1-4", "v1-5") else "old"} for id, end in ended.items()
    }
    return judge(path("qk_norm"), judging(eval_loss=LOSS, peak_kurtosis=PEAK), made)


def added() -> Summary:
    """Each edit alone does little, all together more than their sum."""
    plan = designed("{add_one_in: {from: pre_ln, to: op}}", seeds=6)
    return judged(plan, results(plan, by_edit(-0.02, -0.01, 0.03, together=-0.05)))


def with_noise() -> Summary:
    plan = designed("{compare: [pre_ln, op]}", seeds=6, extra="{seeds: 6}")
    return judged(plan, results(plan, lambda edits: 0.0))


def looked(seeds: int) -> Summary:
    plan = designed("{compare: [pre_ln, op, sas]}", looks=(4, 6, 9))
    rows = results(plan, lambda edits: 0.0, sd=0.02)
    cut = tuple(t for t in plan.trials if t.seed < seeds)
    return judged(replace(plan, seeds=plan.seeds[:seeds], trials=cut), rows)


def under_terms() -> Summary:
    """The same two blocks under equal steps, and once more under equal parameters, where one is another model."""
    plan = path("sas", seeds=4)
    wider = replace(plan.variants[1], id="v2", names=("op, equal parameters",), parameters=1_249_000)
    pairs = [("equal steps", "v1", "op"), ("equal FLOPs", "v1", "op"), ("equal parameters", "v2", wider.name)]
    asked = tuple(
        Comparison(kind="baseline", change=name, detail="", before="v0", after=id, terms=terms)
        for terms, id, name in pairs
    )
    more = tuple(replace(t, id=t.id.replace("v1", "v2"), variant="v2") for t in plan.trials if t.variant == "v1")
    plan = replace(plan, variants=(*plan.variants, wider), comparisons=asked, trials=(*plan.trials, *more))
    rows = finals({"v0": BEFORE[:4], "v1": AFTER[:4], "v2": [*AFTER[1:4], AFTER[0]]})
    return judge(plan, judging(eval_loss=LOSS, peak_kurtosis=PEAK), rows)


WORLDS: dict[str, Callable[[], Summary]] = {
    "some_diverged": lambda: single(BEFORE, [AFTER[0], "diverged", AFTER[2], AFTER[3], "diverged"]),
    "all_diverged": lambda: single(BEFORE, ["diverged"] * 5),
    "missing_seeds": lambda: single([*BEFORE[:4], None], [AFTER[0], None, *AFTER[2:]]),
    "unequal_n": lambda: single([*BEFORE[:3], "bug", None], [*AFTER[:4], "out_of_memory"]),
    "ties": lambda: single(BEFORE, BEFORE),
    "zero_variance": lambda: single(with_peak(*[(2.3, 3.0)] * 6), with_peak(*[(2.2, 1.5)] * 6)),
    "one_seed": lambda: single(BEFORE[:1], AFTER[:1]),
    "one_pair": lambda: single([BEFORE[0], "diverged", BEFORE[2]], [AFTER[0], AFTER[1], None]),
    "other_versions": other_versions,
    "factorial": factorial,
    "factorial_lost_cells": lambda: factorial(AB_1=DIVERGED, C_2=None),
    "factorial_lost_run": lambda: without_a_run("AB"),
    "factorial_one_seed": lambda: factorial(1),
    "inestimable": inestimable,
    "added": added,
    "noise": with_noise,
    "looked_first": lambda: looked(4),
    "looked_last": lambda: looked(9),
    "terms": under_terms,
    "nothing_run": lambda: judged(designed("factorial", seeds=3), {}),
}


def shown(name: str) -> str:
    """The world at both widths, one below the other."""
    screen = result_screen(WORLDS[name](), DEFINITIONS)
    return "\n".join(f"── {width} columns ".ljust(width, "─") + f"\n\n{render(screen, width)}" for width in WIDTHS)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", WORLDS)
def test_answers(name, golden):
    golden(HONEST / f"{name}.txt", shown(name))


@pytest.mark.fast
def test_no_answer_is_left_over():
    assert {file.stem for file in HONEST.glob("*.txt")} == {*WORLDS}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", WORLDS)
def test_nothing_is_cut_off_and_json_and_markdown_say_the_same(name):
    summary = WORLDS[name]()
    for width in WIDTHS:
        text = render(result_screen(summary, DEFINITIONS), width)
        assert max(map(len, text.splitlines())) <= width and "…" not in text

    def refuse(constant: str):
        raise AssertionError(f"{constant} is not JSON")

    document = json.loads(to_json(summary, DEFINITIONS), parse_constant=refuse)
    assert [told["verdict"] for told in document["effects"]] == [effect.verdict for effect in summary.effects]
    assert document["decided"] == summary.decided
    page = to_markdown(summary, DEFINITIONS)
    assert all(f"| {for_markdown(effect.change)} | {effect.metric} |" in page for effect in summary.effects)


@pytest.mark.fast
def test_a_diverged_arm_is_no_worse_arm():
    assert {effect.verdict for effect in WORLDS["all_diverged"]().effects} == {"diverged"}


@pytest.mark.fast
def test_what_cannot_be_told_has_no_number():
    summary = WORLDS["inestimable"]()
    told = {effect.change: effect for effect in summary.effects if effect.metric == "eval_loss"}
    gone = told["+qk_norm"]
    assert (gone.estimate, gone.low, gone.p, gone.verdict) == (None, None, None, "diverged")
    assert "it does not vary among the runs with results" in gone.note
    why = "confounded with other effects in the runs with results: +qk_norm × -layer_norm"
    assert why in told["-layer_norm"].note
    assert told["residual.gain=1/sqrt(2*depth) × -layer_norm"].estimate is not None
