"""The plots of a page: what is drawn, what is left out, and that this is said."""

from __future__ import annotations

import html
import math
import re
from dataclasses import replace

import page_fixtures as worlds
import pytest
from matplotlib.figure import Figure
from page_fixtures import QUESTION, course, layer_courses, record

from ablate.report.page import curves, differences, forest, gains, heatmaps, panels, pareto
from ablate.report.page.heatmaps import Shades, _edges, _join
from ablate.report.plot import SERIES, SHADES, Plot, svg_of
from ablate.store.pages import DifferenceCurve
from ablate.verdict.summary import Metric

METRIC = Metric(name="eval_loss", scale="linear", better="lower", margin=0.02, stated="0.02", why_no_margin="")


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_forest_has_each_comparison_with_its_verdict_in_words() -> None:
    found = record()
    plots = list(forest.plots(found.summary))
    assert len(plots) == len(found.summary.metrics)
    for plot, metric in zip(plots, found.summary.metrics, strict=True):
        svg, caption = svg_of(plot), plot.caption
        effects = [effect for effect in found.summary.effects if effect.metric == metric.name]
        said = texts(svg)
        for effect in effects:
            assert any(effect.verdict in text for text in said)
        assert {"+qk_norm", "-layer_norm", "op", "pre_ln + +qk_norm"} <= set(said)
        assert "Whole variants are against pre_ln." in caption
        assert "← better" in said and "worse →" in said
        assert ("Shaded: the margin" in caption) == (metric.margin is not None)
        assert ("var(--wash)" in svg) == (metric.margin is not None)


def test_where_higher_is_better_the_sides_are_the_other_way_round() -> None:
    found = record()
    metrics = tuple(replace(metric, better="higher") for metric in found.summary.metrics)
    svg = svg_of(next(forest.plots(replace(found.summary, metrics=metrics))))
    assert "← worse" in texts(svg) and "better →" in texts(svg)


def test_a_long_forest_is_in_parts_none_of_which_lacks_a_comparison() -> None:
    found = worlds.many()
    plots = [plot for plot in forest.plots(found.summary) if plot.caption.startswith("Eval loss")]
    effects = [effect for effect in found.summary.effects if effect.metric == "eval_loss"]
    assert len(plots) == math.ceil(len(effects) / forest.ROWS) == 2
    assert f"comparisons {forest.ROWS + 1} to {len(effects)} of {len(effects)}" in plots[1].caption
    said = [text for plot in plots for text in texts(svg_of(plot))]
    assert all(f"edit_{k}" in said for k in range(13))


def test_a_metric_without_a_pair_has_no_forest_and_that_is_said() -> None:
    from ablate.report.page import to_html

    assert list(forest.plots(worlds.all_diverged().summary)) == []
    assert "No plot of eval_loss, peak_kurtosis, token_correlation" in to_html(worlds.all_diverged())


def test_a_frame_holds_what_matters_and_neither_a_wild_estimate_nor_a_wide_interval_squashes_it() -> None:
    effects = [effect for effect in record().summary.effects if effect.metric == "eval_loss"]
    low, high = forest._frame(effects, METRIC)
    assert all(low <= e.adjusted_low and e.adjusted_high <= high for e in effects)
    assert low < -0.02 and high > 0.02
    wild = [*effects, replace(effects[0], estimate=1e6, low=9e5, high=1.1e6, adjusted_low=None)]
    assert forest._frame(wild, METRIC)[1] < 1
    wide = [*effects, replace(effects[0], estimate=0.0, low=-1e3, high=math.inf, adjusted_low=None)]
    assert forest._frame(wide, METRIC)[0] > -1 and forest._frame(wide, METRIC)[1] < 1
    none = [replace(effects[0], estimate=None, low=None, high=None, adjusted_low=None)]
    assert forest._frame(none, METRIC)[0] < 0 < forest._frame(none, METRIC)[1]
    same = [replace(effects[0], estimate=0.0, low=0.0, high=0.0, adjusted_low=None)]
    assert forest._frame(same, replace(METRIC, margin=None))[0] < 0


def test_an_interval_that_leaves_the_frame_ends_in_an_arrow_and_the_caption_says_so() -> None:
    found = record()
    first, *others = found.summary.effects
    wide = replace(first, low=-1e3, high=math.inf, adjusted_low=None)
    plot, *_ = forest.plots(replace(found.summary, effects=(wide, *others)))
    assert "An arrow: the interval extends beyond the frame." in plot.caption
    plain, *_ = forest.plots(found.summary)
    assert "An arrow" not in plain.caption
    single, *_ = forest.plots(worlds.one_seed().summary)
    assert "A point without a line: one pair, so no interval." in single.caption


def test_curves_are_of_the_model_or_of_the_largest_part_where_that_is_judged() -> None:
    found = record()
    assert {one.of for one in curves.chosen(found, "eval_loss").values()} == {"whole"}
    assert {one.of for one in curves.chosen(found, "kurtosis").values()} == {"largest"}
    metrics = tuple(metric for metric in found.summary.metrics if metric.name != "peak_kurtosis")
    unjudged = replace(found, summary=replace(found.summary, metrics=metrics))
    assert {one.of for one in curves.chosen(unjudged, "kurtosis").values()} == {"mean"}
    assert curves.is_log(found, "kurtosis") and not curves.is_log(unjudged, "kurtosis")
    assert curves.names(found)[:2] == ("eval_loss", "train_loss")


def test_two_judged_forms_of_a_probe_have_a_plot_each() -> None:
    found = record()
    (peak,) = (metric for metric in found.summary.metrics if metric.name == "peak_kurtosis")
    both = replace(
        found, summary=replace(found.summary, metrics=(*found.summary.metrics, replace(peak, name="kurtosis")))
    )
    assert (curves.forms(found, "kurtosis"), curves.forms(both, "kurtosis")) == (("largest",), ("largest", "mean"))
    drawn = [plot for plot, _ in curves.plots(both, "kurtosis")]
    assert [plot.name for plot in drawn] == ["training-kurtosis", "training-kurtosis-mean"]
    assert len({plot.id for plot in drawn}) == 2 and drawn[0].rows != drawn[1].rows
    assert "the mean over the parts measured" in drawn[1].caption
    names = [row[0] for row in curves.table(both, "kurtosis").rows]
    assert names[:2] == ["pre_ln, largest", "pre_ln, mean"] and len(names) == 2 * len(found.plan.variants)
    assert len(curves.table(found, "kurtosis").rows) == len(found.plan.variants)

    course_of = {"variant": "v1", "metric": "kurtosis", "log": False, "steps": (0, 1), "n": (2, 2), "sd": (0.1, 0.1)}
    two = (
        DifferenceCurve(over="largest", mean=(1.0, 2.0), measured=2, **course_of),
        DifferenceCurve(over="mean", mean=(3.0, 4.0), measured=2, **course_of),
    )
    plots = list(differences.plots(replace(found, differences=two)))
    assert [plot.name for plot in plots] == ["differences-kurtosis-largest", "differences-kurtosis-mean"]
    assert [plot.rows[0][4] for plot in plots] == [1.0, 3.0]
    assert plots[0].caption.startswith("Kurtosis, the largest over the parts measured: difference against")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("n", "bands"), [((1, 1), 0), ((1, 5), 1), ((5, 5), 1)])
def test_ratios_have_a_band_where_there_are_seeds_to_judge_by(n: tuple[int, ...], bands: int) -> None:
    of_one = DifferenceCurve(
        variant="v1",
        metric="kurtosis",
        over="largest",
        log=True,
        steps=(0, 1),
        n=n,
        mean=(0.1, 0.2),
        sd=tuple(0.1 if seeds > 1 else None for seeds in n),
        measured=2,
    )
    (plot,) = differences.plots(replace(record(), differences=(of_one,)))
    axes = Figure().subplots()
    plot.draw[0](axes)
    (band,) = axes.collections
    assert len(band.get_paths()) == bands
    ends = [end for path in band.get_paths() for end in path.vertices[:, 1]]
    assert all(math.isfinite(end) for end in ends)


@pytest.mark.filterwarnings("error")
def test_a_name_that_drives_a_terminal_is_written_out_in_a_drawing() -> None:
    hostile = "e\x1b[31m\u202ev<i>l"

    def draw(axes) -> None:
        axes.plot([0, 1], [0, 1], label=hostile)
        axes.set_xlabel(hostile)

    drawing = svg_of(
        Plot(name="", id="hostile", draw=(draw,), about=hostile, caption="", height=4.2, columns=(), rows=())
    )
    assert "\x1b" not in drawing and "\u202e" not in drawing and "<i>" not in drawing
    assert drawing.count(r"\x1b[31m\u202ev&lt;i&gt;l") == 3, "what it is, its axis, its legend"


def test_what_soars_is_on_the_log_scale_where_it_has_a_sign() -> None:
    soaring = course("v0", "train_loss", "whole", 2.0, 3e6)
    assert curves.is_log(record(curves=(soaring,)), "train_loss")
    signed = replace(soaring, log_mean=(None, *soaring.log_mean[1:]))
    assert not curves.is_log(record(curves=(signed,)), "train_loss")


def test_captions_say_how_many_seeds_which_diverged_and_which_steps_are_left_out() -> None:
    ((plot, _),) = curves.plots(record(), "train_loss")
    assert "n = 5 each." in plot.caption and "diverged" not in plot.caption and "Drawn at" not in plot.caption
    ((plot, _),) = curves.plots(worlds.diverged(), "train_loss")
    assert "×: a seed diverged there" in plot.caption
    thinned = tuple(replace(one, measured=8000) for one in record().curves)
    ((plot, _),) = curves.plots(record(curves=thinned), "train_loss")
    assert "Drawn at 4 of 8,000 measured steps." in plot.caption
    uneven = tuple(replace(one, n=(3,) * 4) if one.variant == "v1" else one for one in record().curves)
    ((plot, _),) = curves.plots(record(curves=uneven), "train_loss")
    assert "n: pre_ln 5, pre_ln + +qk_norm 3" in plot.caption
    assert "Cut off" not in plot.caption
    wild = replace(course("v3", "train_loss", "whole", 5.0, 1.0), mean=(5.0, 900.0, 3.0, 1.0), log_mean=(None,) * 4)
    kept = tuple(one for one in record().curves if one.variant != "v3")
    ((plot, _),) = curves.plots(record(curves=(*kept, wild)), "train_loss")
    assert "Cut off at the top: a curve, or its band, leaves the frame." in plot.caption


def test_variants_stand_in_groups_each_with_the_baseline() -> None:
    found = worlds.many()
    groups = panels.groups(found, [variant.id for variant in found.plan.variants])
    assert [len(group) for group in groups] == [6, 6, 4]
    assert all(group[0].id == found.plan.baseline and len(group) <= SERIES for group in groups)
    assert {v.id for group in groups for v in group} == {v.id for v in found.plan.variants}
    without = panels.groups(found, ["v1", "v2"])
    assert [[v.id for v in group] for group in without] == [["v1", "v2"]]
    colours = {panels.colour(place, without[0], found) for place in range(2)}
    assert panels.colour(0, groups[0], found) not in colours and len(colours) == 2


@pytest.mark.full
def test_every_variant_is_drawn_or_folded_under_its_name() -> None:
    from ablate.report.page import to_html

    page = to_html(worlds.many())
    folded = re.findall(r"<summary>([^<]*)</summary>", page)
    later = ", ".join(v.name for v in worlds.many().plan.variants[6:])
    assert f"eval loss of {later}" in folded
    assert f"maps of 8 more variants: {later}" in folded


@pytest.mark.parametrize("value", [1.0, 1.5, 2.5, 8.9])
def test_a_shade_is_that_whose_key_holds_the_value(value: float) -> None:
    scale = Shades(edges=tuple(float(edge) for edge in range(1, 9)), log=False)
    assert scale.shade(value) == min(SHADES - 1, math.floor(value) - 1)
    assert scale.shade(-5.0) == 0 and scale.shade(99.0) == SHADES - 1


def test_a_map_has_all_layers_and_its_key_all_shades() -> None:
    ((plot, group),) = heatmaps.plots(record(), "kurtosis")
    svg = svg_of(plot)
    assert [v.name for v in group] == [v.name for v in record().plan.variants]
    assert [shade for shade, _ in heatmaps.key(heatmaps.scale_of(record(), "kurtosis"))] == list(range(SHADES))
    assert {f"var(--shade{shade})" for shade in range(SHADES)} >= set(re.findall(r"var\(--shade\d\)", svg))
    assert sum(text == "head" for text in texts(svg)) == 4


def test_a_map_of_one_value_and_one_of_none() -> None:
    flat = tuple(replace(one, mean=(2.0,) * 4) for one in layer_courses(["v0"]))
    assert heatmaps.key(heatmaps.scale_of(record(layers=flat), "kurtosis")) == [(0, "2.00")]
    lost = tuple(replace(one, mean=(None, math.inf, math.nan, None)) for one in layer_courses(["v0"]))
    assert heatmaps.plots(record(layers=lost), "kurtosis") == []


def test_cells_of_one_shade_are_one_box() -> None:
    boxes: list[tuple[float, float, float]] = []
    for row, start, end in ((0, 0, 1), (0, 1, 2), (0, 3, 4), (1, 4, 5)):
        _join(boxes, row, start, end)
    assert boxes == [(0, 0, 2), (0, 3, 4), (1, 4, 5)]
    assert _edges((0, 10, 30)) == [-5, 5, 20, 40] and _edges((7,)) == [6.5, 7.5]


def test_parts_are_in_the_order_of_the_model() -> None:
    assert heatmaps.in_order(["head", "10", "2", "embedding", "final_norm", "1"]) == [
        "embedding", "1", "2", "10", "final_norm", "head",
    ]  # fmt: skip
    assert heatmaps.in_order(["head", "10", "encoder_norm", "encoder 10", "encoder 2 attention", "1", "encoder 2"]) == [
        "encoder 2", "encoder 2 attention", "encoder 10", "encoder_norm", "1", "10", "head",
    ]  # fmt: skip


def test_trained_gains_are_drawn_and_all_are_in_the_table() -> None:
    found = worlds.gains()
    plots = list(gains.plots(found))
    # root mean squares are in the table alone, deviations are bands
    names = [variant.name for _, variant in plots]
    assert names == ["op"] * 3
    banded = ["± one standard deviation over channels or heads" in plot.caption for plot, _ in plots]
    assert banded == [False, True, False]
    assert "Drawn at 4 of 800 measured steps." in plots[0][0].caption
    rows = gains.table(found).rows
    assert len(rows) == 40
    last = ("op", "layers.4.mlp_residual.gain, root mean square", "0", "0.400", "0.05", "5")
    assert rows[-1] == last


def test_the_front_is_drawn_without_arms_of_noise_and_says_who_is_missing() -> None:
    plots = list(pareto.front_plots(worlds.noise()))
    assert len(plots) == 2 and not any("A/A" in text for plot in plots for text in texts(svg_of(plot)))
    plot, *_ = pareto.front_plots(worlds.diverged())
    assert "Not shown: 1 without a finished seed." in plot.caption
    assert list(pareto.front_plots(worlds.all_diverged())) == []
    one = record(summary=replace(record().summary, metrics=record().summary.metrics[:1]))
    assert list(pareto.front_plots(one)) == []


def test_two_edits_interact_by_the_means_of_their_runs() -> None:
    found = worlds.factorial()
    ((terms, factors),) = found.plan.factors
    metric = found.summary.metrics[0]
    means = {arm.variant: arm.levels["eval_loss"].mean for arm in found.summary.arms}
    assert pareto._mean(found, factors, metric, {0: 1, 1: -1}) == means["f1"]
    assert math.isclose(pareto._mean(found, factors, metric, {0: 1}), (means["f1"] + means["f3"]) / 2)
    log = found.summary.metrics[1]
    peaks = {arm.variant: arm.levels["peak_kurtosis"].mean for arm in found.summary.arms}
    assert math.isclose(pareto._mean(found, factors, log, {0: 1}), math.sqrt(peaks["f1"] * peaks["f3"]))
    assert len(list(pareto.interaction_plots(found, factors, terms))) == 3
    alone = replace(factors, effects=factors.effects[:2])
    assert list(pareto.interaction_plots(found, alone, terms)) == []


def test_frames_of_courses_cut_what_soars_and_nothing_else() -> None:
    assert panels.framed([1.0, 2.0, 3.0, 4.0], log=False)[2] is False
    low, high, cut = panels.framed([*(1.0 + k / 10 for k in range(20)), 1e9], log=False)
    assert cut and low < 1.0 and 2.0 < high < 100
    assert panels.framed([*(1.0 + k / 10 for k in range(20)), 1e9, 50.0], log=False, must=[50.0])[1] > 50
    assert panels.framed([math.nan, math.inf], log=True) == (1.0, 10.0, False)
    assert panels.framed([2.0], log=False)[0] < 2.0 < panels.framed([2.0], log=False)[1]


def test_a_plan_without_courses_has_no_plots_but_all_its_parts() -> None:
    from ablate.report.page import to_html

    page = to_html(worlds.nothing_run())
    assert page.count("<svg") == 0
    assert 'id="training"' not in page and 'id="layers"' not in page and 'id="verdicts"' in page
    assert html.escape(QUESTION) in page
