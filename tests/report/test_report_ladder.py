"""What a ladder says: speed-ups against the formula, the trend as a verdict, the next size, screen and table."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
from matplotlib.figure import Figure
from report_fixtures import LOSS, PEAK, rules
from rich.console import Console
from tiny_spaces import write_world

import ablate
from ablate.plan.plan import Comparison, LadderStep, PlannedLadder
from ablate.report import json_form
from ablate.report.comparisons import shown_once
from ablate.report.effect_tables import to_markdown
from ablate.report.figures.export import methods_sentence
from ablate.report.page import ladder_plots
from ablate.report.screens.result import result_screen
from ablate.report.terminal_renderer import Screen
from ablate.report.wording import TESTS
from ablate.store.query import query
from ablate.verdict.experiment import Experiment, Treatment
from ablate.verdict.judge import judge
from ablate.verdict.summary import Method

COMPUTE = (1e15, 1.6e16, 2.5e17)
SIZES = ("small", "middle", "large")
SEEDS = 4
NO_BOUND = {"low": 0.0, "high": math.inf}
NOISE = np.array([0.004, -0.001, -0.005, 0.002])
OTHER = np.array([0.001, -0.002, 0.0015, -0.0005])


def ids(name):
    return tuple(f"{name}-{size}" for size in SIZES)


def experiment(*, unpaired=(), law="power", seeds=SEEDS):
    pairs = list(zip(ids("base"), ids("new"), strict=True))
    ladder = PlannedLadder(
        baseline="base",
        treatments=("new",),
        law=law,
        steps=tuple(
            LadderStep(size=size, variants=(("base", x), ("new", y))) for size, (x, y) in zip(SIZES, pairs, strict=True)
        ),
    )
    compute = dict(zip([*ids("base"), *ids("new")], COMPUTE * 2, strict=True))
    edits = (
        Comparison(kind="edit", change=after, detail="", before=before, after=after, unpaired=unpaired)
        for before, after in pairs
    )
    trend = Comparison(kind="trend", change="new over sizes", detail="", before="", after="", unpaired=unpaired)
    return Experiment(
        space="ladder",
        question="Does it keep what it saves?",
        design="ladder",
        baseline="base-large",
        variants=tuple(Treatment(id=id, name=id, compute=flops) for id, flops in compute.items()),
        comparisons=(*edits, trend),
        seeds=tuple(range(seeds)),
        trials={id: {seed: f"{id}.{seed}" for seed in range(seeds)} for id in compute},
        ladders=(("", ladder),),
    )


def finals(speed_ups=(1.3, 1.3, 1.3), *, rng=None, lost=()):
    """Final losses of the law L = 20·C^-0.05, of the treatment at compute times its speed-up."""
    ends = {}
    for name, factors in (("base", (1.0, 1.0, 1.0)), ("new", speed_ups)):
        for k, id in enumerate(ids(name)):
            own = NOISE + (OTHER if name == "new" else 0.0)
            noise = own if rng is None else 0.004 * rng.standard_normal(SEEDS)
            for seed, z in enumerate(noise):
                loss = 20 * (COMPUTE[k] * factors[k]) ** -0.05 * math.exp(z)
                status = "diverged" if (id, seed) in lost else "finished"
                metrics = {"eval_loss": loss, "peak_kurtosis": 3.0 + seed} if status == "finished" else {}
                ends[f"{id}.{seed}"] = {"status": status, "step": 10, "metrics": metrics}
    return ends


RULES = rules(eval_loss=LOSS, peak_kurtosis=PEAK)


def effect_of(summary, kind="trend"):
    return next(effect for effect in summary.effects if effect.kind == kind)


@pytest.mark.fast
def test_a_speed_up_is_that_of_the_law():
    summary = judge(experiment(), RULES, finals((1.5, 1.3, 1.1)))
    (one,) = summary.ladders
    d = np.array([np.mean(-OTHER) + 0.05 * math.log(s) for s in (1.5, 1.3, 1.1)])
    assert [size.speed_up for size in one.sizes[:3]] == pytest.approx(np.exp(d / 0.05), rel=1e-9)
    assert one.exponent == pytest.approx(0.05, rel=1e-9) and one.sizes[0].n == SEEDS
    assert [size.extrapolated for size in one.sizes] == [False, False, True, True]


@pytest.mark.fast
def test_the_next_size_is_as_far_above_the_last_as_that_is_above_the_one_before():
    (one,) = judge(experiment(), RULES, finals()).ladders
    ahead = one.sizes[-1]
    assert not ahead.trained and ahead.compute == pytest.approx(COMPUTE[2] ** 2 / COMPUTE[1])
    assert ahead.cost == pytest.approx(2 * SEEDS * ahead.compute)
    assert one.spent == pytest.approx(2 * SEEDS * sum(COMPUTE))
    law = 20 * math.exp(NOISE.mean()) * ahead.compute**-0.05
    assert ahead.baseline_loss == pytest.approx(law, rel=1e-9)
    assert 0.9 < ahead.decided <= 1 and ahead.better <= ahead.decided


@pytest.mark.fast
@pytest.mark.parametrize(
    ("speed_ups", "verdict"), [((1.1, 1.3, 1.6), "better"), ((1.6, 1.3, 1.1), "worse"), ((1.3, 1.3, 1.3), "undecided")]
)
def test_a_trend_is_a_verdict(speed_ups, verdict):
    summary = judge(experiment(), RULES, finals(speed_ups))
    trend = effect_of(summary)
    assert (trend.verdict, trend.metric, trend.scale, trend.method) == (verdict, "eval_loss", "log", "simulated_t")
    x = np.log(COMPUTE)
    assert trend.estimate == pytest.approx(np.polyfit(x, np.log(speed_ups), 1)[0] * math.log(10), abs=0.02)
    assert (trend.adjusted_low < 0 < trend.adjusted_high) == (verdict == "undecided")
    assert trend.adjusted_low <= trend.low and trend.high <= trend.adjusted_high


@pytest.mark.fast
def test_a_trend_is_in_the_family_of_its_loss_and_of_no_other_metric():
    summary = judge(experiment(), RULES, finals())
    assert [effect.metric for effect in summary.effects if effect.kind == "trend"] == ["eval_loss"]
    assert summary.tests == 4
    p = sorted(effect.p for effect in summary.effects if effect.metric == "eval_loss")
    first = min((e for e in summary.effects if e.metric == "eval_loss"), key=lambda effect: effect.p)
    assert first.p_adjusted == pytest.approx(min(1.0, 4 * p[0]))


@pytest.mark.fast
def test_a_diverged_run_leaves_a_trend_unjudged():
    trend = effect_of(judge(experiment(), RULES, finals((1.1, 1.3, 1.6), lost={("new-large", 2)})))
    assert trend.verdict == "undecided" and trend.p is None and trend.estimate is not None
    assert "not judged: 1 run diverged, at 1 size" in trend.note
    both = finals((1.1, 1.3, 1.6), lost={("new-large", seed) for seed in (0, 1, 2)})
    (one,) = judge(experiment(), RULES, both).ladders
    assert one.why == "no law: size 3 has fewer than 2 seeds with a loss on both sides" and not one.sizes


@pytest.mark.fast
def test_what_is_not_paired_is_not_taken_as_paired():
    apart = judge(experiment(unpaired=("recipe.batch",)), RULES, finals())
    paired = judge(experiment(), RULES, finals())
    wide, narrow = (one.ladders[0].sizes[0] for one in (apart, paired))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


@pytest.mark.fast
def test_a_lost_run_takes_its_pair_with_it_only_where_seeds_are_paired():
    ends = finals()
    ends["new-small.3"] = {"status": "bug", "step": 0, "metrics": {}}
    law = 20 * COMPUTE[0] ** -0.05
    for unpaired, noise in (((), NOISE[:3]), (("recipe.batch",), NOISE)):
        (one,) = judge(experiment(unpaired=unpaired), RULES, ends).ladders
        assert one.sizes[0].baseline_loss == pytest.approx(law * math.exp(noise.mean()), rel=1e-12)


@pytest.mark.fast
def test_what_is_the_same_under_several_terms_is_shown_once():
    summary = judge(experiment(), RULES, finals())
    (one,) = summary.ladders
    other = replace(one, terms="other", sizes=tuple(replace(size, after=f"{size.after}-matched") for size in one.sizes))
    assert shown_once(replace(summary, ladders=(one, replace(one, terms="same"), other))) == [one, other]


@pytest.mark.fast
def test_losses_that_bend_away_from_the_law_are_told():
    ends = finals()
    for id, end in ends.items():
        if "middle" in id:
            end["metrics"]["eval_loss"] *= 1.05
    assert "bend away from the power law" in effect_of(judge(experiment(), RULES, ends)).note
    assert effect_of(judge(experiment(), RULES, finals())).note == ""


@pytest.mark.slow
def test_a_trend_that_is_not_there_is_seldom_called_and_its_twin_is():
    """Of 150 ladders with a slope of 0, less than 8 % are called at a level of 5 % split over four comparisons."""
    rng = np.random.default_rng(11)
    null = [effect_of(judge(experiment(), RULES, finals(rng=rng))).verdict for _ in range(150)]
    assert sum(verdict != "undecided" for verdict in null) <= 12
    rising = [effect_of(judge(experiment(), RULES, finals((1.0, 2.0, 4.0), rng=rng))).verdict for _ in range(20)]
    assert rising.count("better") >= 18


@pytest.mark.fast
def test_screen_table_and_json_say_it():
    summary = judge(experiment(), RULES, finals((1.6, 1.3, 1.1)))
    console = Console(width=110)
    with console.capture() as capture:
        console.print(Screen(result_screen(summary)))
    screen = " ".join(capture.get().split())
    assert (
        "new over sizes: eval loss: the speed-up shrinks, ×" in screen and "for ten times the compute (worse)" in screen
    )
    assert "base needs ×1.6" in screen and "would be found different with a chance of" in screen
    text = to_markdown(summary, {})
    assert "| small | 1e+15 |" in text and "next (not trained)" in text
    told = json.loads(json_form.to_json(summary))["ladders"][0]
    assert told["treatment"] == "new" and len(told["sizes"]) == 4
    plain = replace(summary, ladders=())
    assert "ladders" not in json.loads(json_form.to_json(plain))


@pytest.mark.fast
def test_a_methods_sentence_and_a_footnote_name_the_test_of_a_trend():
    summary = judge(experiment(), RULES, finals((1.6, 1.3, 1.1)))
    said = methods_sentence(summary)
    assert "t of a trend over sizes, against that of simulated ladders (1 of 7 tests)" in said
    assert "adjusted by Holm over up to 4 comparisons per metric" in said
    assert set(get_args(Method)) == set(TESTS)
    console = Console(width=300)
    with console.capture() as capture:
        console.print(Screen(result_screen(summary)))
    assert "of a trend over sizes by t of simulated ladders" in capture.get()


@pytest.mark.fast
def test_the_bar_of_a_speed_up_without_a_bound_leaves_the_plot():
    summary = judge(experiment(), RULES, finals())
    (one,) = summary.ladders
    first, *rest = one.sizes
    record = SimpleNamespace(
        summary=replace(summary, ladders=(replace(one, sizes=(replace(first, **NO_BOUND), *rest)),))
    )
    bounded, unbounded = (list(ladder_plots.plots(of))[1] for of in (SimpleNamespace(summary=summary), record))
    assert "no bound" in unbounded.caption and "no bound" not in bounded.caption
    for plot, leaves in ((bounded, False), (unbounded, True)):
        axes = Figure().add_subplot()
        plot.draw[0](axes)
        bottom, top = axes.get_ylim()
        (start, end) = axes.containers[0].lines[2][0].get_segments()[0][:, 1]
        assert (start < bottom, end > top) == (leaves, leaves)
        assert start < first.speed_up < end


def test_a_ladder_is_trained_judged_and_kept(tmp_path):
    path = write_world(tmp_path, steps=8, seeds=2)
    sizes = "[{recipe.steps: 4}, {recipe.steps: 8}, {recipe.steps: 16}]"
    text = path.read_text(encoding="utf-8").replace(
        "design: {path: {from: pre_ln, to: op}}", f"design: {{ladder: {{compare: [pre_ln, op], sizes: {sizes}}}}}"
    )
    path.write_text(text, encoding="utf-8")
    results = tmp_path / "results"
    done = ablate.run(
        ablate.load_space(path), results=results, executor="inline", console=Console(quiet=True), mirror=False
    )
    assert done.ended.kinds == {"finished": 12}
    rows = query(results, "SELECT size, trained, n, baseline_loss FROM sizes ORDER BY position").rows
    (one,) = done.summary.ladders
    assert one.why == ""
    assert [row[:3] for row in rows][:3] == [(f"steps={steps}", True, 2) for steps in (4, 8, 16)]
    assert rows[-1][:2] == ("next", False)
    judged = query(results, "SELECT change, metric FROM effects WHERE kind = 'trend'").rows
    assert list(judged) == [("op over sizes", "eval_loss")]
