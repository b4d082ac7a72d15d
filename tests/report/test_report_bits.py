"""Bits per byte stand beside nats per token wherever these are judged, and are judged themselves where a space asks."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace

import pytest
from page_fixtures import ends, record
from report_fixtures import LOSS, PEAK, finals, path, rules
from test_report_tables import render

from ablate.report.effect_tables import to_markdown
from ablate.report.json_form import to_json
from ablate.report.page import to_html
from ablate.report.page import to_markdown as page_markdown
from ablate.report.screens.result import result_screen
from ablate.verdict.judge import judge

NATS, BITS = "eval_loss", "eval_bits_per_byte"


def summary(*edits, without=(), **metrics):
    plan = path(*(edits or ("+qk_norm",)))
    told = finals(ends(plan, 5))
    for end in told.values():
        end["metrics"] = {name: value for name, value in end["metrics"].items() if name not in without}
    return judge(plan, rules(**(metrics or {NATS: LOSS, "peak_kurtosis": PEAK})), told)


def said(screen):
    return " ".join(render(screen, 100).split())


@pytest.mark.fast
def test_the_screen_and_the_verdicts_as_markdown_say_them_in_a_line():
    judged = summary()
    told = finals(ends(path("+qk_norm"), 5))
    of = {arm.name: [told[f"{arm.variant}-{seed}"]["metrics"][BITS] for seed in range(1, 6)] for arm in judged.arms}
    means = ", ".join(
        f"{name} {statistics.fmean(bits):.3f} ± {statistics.stdev(bits):.3f}" for name, bits in of.items()
    )
    line = f"eval_loss in bits per byte of text: {means}; only these can be compared across tokenizers"
    assert line in said(result_screen(judged)) and line in to_markdown(judged, {})
    arms = json.loads(to_json(judged))["arms"]
    assert [arm["bits"]["mean"] for arm in arms] == [pytest.approx(statistics.fmean(bits)) for bits in of.values()]


@pytest.mark.fast
def test_of_many_variants_it_says_the_least_and_the_largest():
    judged = summary(*(f"edit{n}" for n in range(9)))
    means = sorted(arm.bits.mean for arm in judged.arms)
    text = said(result_screen(judged))
    assert f"bits per byte of text: {means[0]:.3f} ±" in text and f"(op) to {means[-1]:.3f} ±" in text


@pytest.mark.fast
@pytest.mark.parametrize("metrics", [{BITS: LOSS}, {NATS: LOSS, BITS: LOSS}, {"peak_kurtosis": PEAK}])
def test_where_they_are_judged_or_nats_are_not_there_is_no_such_line(metrics):
    assert "in bits per byte of text" not in said(result_screen(summary(**metrics)))


def test_where_no_text_is_behind_the_tokens_nothing_is_invented():
    judged = summary(without=(BITS,))
    assert "bits per byte" not in said(result_screen(judged)) and {arm.bits for arm in judged.arms} == {None}
    page = record()
    assert BITS not in page_markdown(replace(page, summary=judged, curves=()))


@pytest.mark.fast
def test_they_are_judged_by_a_margin_that_is_a_share_as_nats_are():
    """Under the tokenizer of bytes they are the same numbers in another unit, and so the same verdicts."""
    judged = summary(**{NATS: LOSS, BITS: LOSS})
    by = {effect.metric: effect for effect in judged.effects if effect.kind == "baseline"}
    assert by[BITS].estimate == pytest.approx(by[NATS].estimate / math.log(2))
    assert by[BITS].margin == pytest.approx(by[NATS].margin / math.log(2))
    assert by[BITS].p == pytest.approx(by[NATS].p) and by[BITS].verdict == by[NATS].verdict


@pytest.mark.full
def test_the_page_has_a_column_and_draws_their_course_where_they_are_judged():
    page = record()
    text = page_markdown(page)
    assert "| variant | eval_loss | eval_bits_per_byte | peak_kurtosis |" in text
    assert "- eval_bits_per_byte: the same by bytes of text" in text
    assert "curve-eval-loss-0" in to_html(page) and "curve-eval-bits-per-byte-0" not in to_html(page)
    asked = rules(**{BITS: LOSS})
    told = finals(ends(page.plan, 5))
    own = replace(page, rules=asked, summary=judge(page.plan, asked, told))
    assert "curve-eval-bits-per-byte-0" in to_html(own)
    assert "| variant | eval_bits_per_byte | finished |" in page_markdown(own)
