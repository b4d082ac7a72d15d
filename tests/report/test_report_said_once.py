"""What is the same under several terms is said once, and numbers have the digits that tell them apart."""

from __future__ import annotations

import math
from dataclasses import replace

import page_fixtures as worlds
import pytest
from page_fixtures import EDITS, QUESTION, record
from report_fixtures import path
from test_report_tables import render

from ablate.plan.plan import Plan
from ablate.report import wording
from ablate.report.answers import answers, sentences
from ablate.report.document import Statements, plain
from ablate.report.html_renderer import CSS
from ablate.report.page import PageRecord, answer, cost, forest, heatmaps, panels, to_html, to_markdown, verdicts
from ablate.report.page.heatmaps import Shades
from ablate.report.plot import svg_of
from ablate.report.screens.result import result_screen
from ablate.verdict.summary import Arm, Effect, Level, Metric

LOSS = Metric(name="eval_loss", scale="linear", better="lower", margin=0.02, stated="1%", why_no_margin="")
PEAK = Metric(name="peak_kurtosis", scale="log", better="lower", margin=None, stated="none", why_no_margin="no margin")
TERMS = ("equal steps", "equal FLOPs", "same size")


def under_terms(change_nothing: bool) -> PageRecord:
    """A path whose comparisons are made under three terms: of the same variants, or of others in the last."""
    plan = path(*EDITS, question=QUESTION)
    comparisons = tuple(replace(one, terms=terms) for terms in TERMS for one in plan.comparisons)
    if not change_nothing:
        comparisons = tuple(
            replace(one, before="v1", after="v3") if one.terms == TERMS[2] else one for one in comparisons
        )
    plan = replace(plan, comparisons=comparisons)
    return record(plan, worlds.ends(plan, 5))


def effect(
    log: bool, estimate: float, low: float | None = None, high: float | None = None, **changed: object
) -> Effect:
    some = worlds.record().summary.effects[0]
    scale = "log" if log else "linear"
    alone = {"low": low, "high": high, "adjusted_low": None, "adjusted_high": None}
    return replace(some, estimate=estimate, scale=scale, **(alone | changed))  # type: ignore[arg-type]


@pytest.mark.fast
def test_an_answer_that_terms_share_is_there_once_with_all_of_them() -> None:
    found = under_terms(True)
    grid, alone = answer.grid(found.summary), answer.grid(record().summary)
    assert grid is not None and alone is not None
    labels = [label for label, _ in grid.rows]
    assert labels[0] == "+qk_norm under equal steps, equal FLOPs and same size"
    assert len(labels) == len(set(labels)) == len(alone.rows)
    assert len(answer.conclusion(found.summary)) == len(answer.conclusion(record().summary)) == 2
    screen = [plain(line.words) for line in sentences(found.summary)]
    assert sum(line.startswith("+qk_norm under equal steps, equal FLOPs and same size") for line in screen) == 1
    assert isinstance(answers(found.summary), Statements)


@pytest.mark.fast
def test_tables_forests_and_negatives_have_it_once_too() -> None:
    found, alone = under_terms(True), record()
    titles = [grid.title for grid in verdicts.verdicts(found)]
    assert titles[0] == "Edits, under equal steps, equal FLOPs and same size" and len(titles) == 2
    assert [len(grid.rows) for grid in verdicts.verdicts(found)] == [len(g.rows) for g in verdicts.verdicts(alone)]
    assert len(list(forest.plots(found.summary))) == len(list(forest.plots(alone.summary)))
    assert "<text" in svg_of(next(forest.plots(found.summary)))
    assert len(answer.negatives(found)) == len(answer.negatives(alone))
    assert not any(line.count("+qk_norm (") > 1 for line in answer.negatives(found))


@pytest.mark.fast
def test_what_terms_do_not_share_stays_apart() -> None:
    found = under_terms(False)
    titles = [grid.title for grid in verdicts.verdicts(found)]
    assert "Edits, under equal steps and equal FLOPs" in titles and "Edits, under same size" in titles


@pytest.mark.fast
def test_the_same_pair_is_one_of_what_did_not_help() -> None:
    lines = answer.negatives(record())
    assert not any("pre_ln + +qk_norm against pre_ln" in line for line in lines)  # that is the edit +qk_norm
    assert any("op against pre_ln" in line or "+qk_norm" in line for line in lines)


def arm(flops: int, steps: int | None, spared: int = 0) -> Arm:
    return Arm(variant="v", name="v", edits=(), parameters=100, flops=flops, training_flops=3 * flops - spared,
               finished=1, diverged=0, missing=(), levels={}, steps=steps)  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (arm(1000, 120), arm(1000, 110), "parameters the same, FLOPs per pass the same, training FLOPs -8.3 %"),
        (arm(1000, 150), arm(875, 171), "parameters the same, FLOPs per pass -12.5 %, training FLOPs -0.2 %"),
        (arm(1000, 120), arm(500, 240), "parameters the same, FLOPs per pass -50.0 %, training FLOPs the same"),
        (arm(1000, 120), arm(1100, 120), "parameters the same, FLOPs +10.0 %"),
        (arm(1000, 120), arm(1100, None), "parameters the same, FLOPs +10.0 %"),
        (
            arm(1000, 120),
            arm(1000, 120, spared=111),
            "parameters the same, FLOPs per pass the same, training FLOPs -3.7 %",
        ),
        (arm(1000, None, spared=30), arm(2000, None, spared=60), "parameters the same, FLOPs +100.0 %"),
    ],
)
def test_the_cost_is_of_training_where_steps_differ(before: Arm, after: Arm, said: str) -> None:
    assert wording.cost(before, after) == said


@pytest.mark.fast
def test_the_steps_of_an_arm_are_those_it_was_trained_for() -> None:
    assert {one.steps for one in record().summary.arms} == {300}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("estimate", "low", "high", "said"),
    [
        (0.0004, -0.0011, 0.0019, "×1.0004 [0.9989, 1.0019]"),
        (-0.2, -0.3, -0.1, "×0.819 [0.741, 0.905]"),
        (-3.0, -9.0, 3.0, "×0.0498 [0.000123, 20.1]"),
        (0.0004, None, None, "×1.00040"),
        (0.5, None, None, "×1.65"),
        (0.0, None, None, "×1.00"),
    ],
)
def test_factors_have_the_digits_that_their_interval_leaves(
    estimate: float, low: float | None, high: float | None, said: str
) -> None:
    assert wording.difference(effect(True, estimate, low, high)) == said


@pytest.mark.fast
def test_a_level_that_hardly_varies_keeps_its_digits() -> None:
    assert wording.level(Level(mean=1.00231, sd=0.0012, n=5), PEAK) == "1.0023 ×÷ 1.0012"
    assert wording.level(Level(mean=3.02, sd=0.08, n=5), PEAK) == "3.02 ×÷ 1.08"


@pytest.mark.fast
def test_nought_has_no_sign() -> None:
    assert wording.difference(effect(False, -1e-7, -0.002, 0.0021)) == "0.0000 [-0.0020, +0.0021]"
    assert wording.difference(effect(False, -0.0001, -0.002, 0.0021)) == "-0.0001 [-0.0020, +0.0021]"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("estimate", "said"), [(0.0093, "+0.009"), (-0.051, "-0.1"), (-0.049, "-0.05"), (0.0, "0.0"), (9e-5, "0.0")]
)
def test_a_wide_interval_leaves_an_estimate_a_digit(estimate: float, said: str) -> None:
    assert wording.difference(effect(False, estimate, -1.5, 1.5)) == f"{said} [-1.5, +1.5]"


@pytest.mark.fast
def test_below_many_notes_the_conclusion_is_there_again() -> None:
    screen = " ".join(render(result_screen(record().summary), 200).split())
    (whole,) = [plain(line.words) for line in sentences(record().summary) if line.mark == "→"]
    assert screen.count(whole) == 2 and screen.endswith(f"→ {whole}")


@pytest.mark.fast
def test_edits_that_add_up_are_said_to_have_no_interaction() -> None:
    some = effect(False, 0.001, -0.001, 0.002, kind="interaction", verdict="equivalent", differs=False)
    said = "no interaction in eval loss: within 1% of what each does by itself (equivalent)"
    assert wording.phrase(some, LOSS) == said


@pytest.mark.fast
@pytest.mark.parametrize(
    ("ticks", "said"),
    [
        ((5.45, 5.4525, 5.455), ["5.4500", "5.4525", "5.4550"]),
        ((0.99995, 1.0, 1.00005), ["0.99995", "1.00000", "1.00005"]),
        ((-0.02, 0.0, 0.02), ["-0.02", "0.00", "0.02"]),
        ((0.01, 0.1, 1.0, 10.0), ["0.01", "0.1", "1", "10"]),
        ((0.0, 5000.0, 10000.0), ["0", "5000", "10000"]),
    ],
)
def test_ticks_are_told_apart(ticks: tuple[float, ...], said: list[str]) -> None:
    assert [panels.tick(one, ticks) for one in ticks] == said


@pytest.mark.fast
def test_shades_are_told_apart() -> None:
    edges = tuple(1.12 + 0.0004 * place for place in range(8))
    key = heatmaps.key(Shades(edges=edges, log=False))
    assert len({text for _, text in key[1:]}) == 7 and key[0][1] == key[1][1].replace("from", "below")
    assert panels.apart([1.0, 2.0]) == ["1.00", "2.00"]


@pytest.mark.fast
def test_time_in_the_table_of_cost_is_what_it_took() -> None:
    found = record()
    short = tuple(replace(one, seconds=0.3 + place / 10) for place, one in enumerate(found.endings))
    column = [row[-1] for row in cost.cost(replace(found, endings=short)).rows]
    assert len(set(column)) == len(column) and column[0] == f"{sum(0.3 + k / 10 for k in range(5)):.1f} s"


@pytest.mark.fast
def test_a_page_that_may_grow_says_so_beside_what_has_not_ended() -> None:
    found = worlds.partial()
    assert "not ended, and more may be added" in answer.unfinished(replace(found, plan=replace(found.plan, open=True)))
    assert "more" not in answer.unfinished(found)


@pytest.mark.full
def test_a_variant_with_steps_of_its_own_says_them_on_both_pages() -> None:
    found = record()
    own = replace(found.plan.variants[3], setting=replace(found.plan.variants[3].setting, steps=143))
    plan: Plan = replace(found.plan, variants=(*found.plan.variants[:3], own))
    changed = replace(found, plan=plan)
    assert "Its own: steps 143." in to_html(changed) and "Its own: steps 143." in to_markdown(changed)
    waiting = replace(own, setting=replace(own.setting, steps=None, open=True))
    assert list(cost.own(waiting)) == ["Its own: steps or settings not known yet."]
    assert "Its own" not in to_html(found)


@pytest.mark.full
def test_notes_have_a_heading_of_their_own() -> None:
    page = to_html(worlds.diverged())
    assert page.index("<nav") < page.index('<h2 id="notes">') < page.index('class="beware"')
    assert "## Notes" in to_markdown(worlds.diverged()) and "## Notes" not in to_markdown(record())


@pytest.mark.fast
def test_on_paper_no_heading_is_left_alone() -> None:
    rule = CSS.split("@media print", 1)[1].split("{break-after:avoid}")[0].rsplit("}", 1)[1]
    assert {"h2", "h3", "summary", "caption"} <= set(rule.split(","))


@pytest.mark.fast
def test_runs_of_a_factorial_without_a_comparison_are_explained() -> None:
    text = " ".join(render(result_screen(worlds.factorial().summary), 120).split())
    assert "Variants, of which op against pre_ln; edits are judged over all runs, above" in text
    assert "Variants, each against pre_ln" in render(result_screen(record().summary), 120)


@pytest.mark.fast
def test_a_small_change_of_training_is_no_bare_nought() -> None:
    assert wording.cost(arm(10_000, 100), arm(9_999, 101)).endswith("training FLOPs +1.0 %")
    assert wording.cost(arm(100_000, 100), arm(99_008, 101)).endswith("training FLOPs -0.002 %")
    assert math.isclose(99_008 * 101 / 1e7, 0.9999808)
