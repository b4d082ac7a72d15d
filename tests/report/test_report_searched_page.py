"""The page of a search: whole in itself, well formed, the same every time, and true to the record."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import searched_fixtures
from searched_fixtures import (
    ELOSS,
    KURTOSIS,
    WORLDS,
    confirmed,
    entries,
    entry,
    one_goal,
    record,
    three_goals,
    with_rungs,
)

from ablate.report.plot import svg_of
from ablate.report.searched import plots, to_html
from ablate.report.searched.analysis import SearchAnalysis, analyse
from ablate.report.searched.plots import frame
from ablate.report.searched.record import SearchRecord

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Read(HTMLParser):
    """Tags, attributes and text of a page; every tag is closed by its own end."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text.append(data)

    @property
    def said(self) -> str:
        return " ".join("".join(self.text).split())


def found_plot(record: SearchRecord, found: SearchAnalysis) -> str:
    """The plot of its blocks, as on the page."""
    return svg_of(next(plots.plots(record, found)))


@functools.cache
def page_of(name: str) -> str:
    return to_html(WORLDS[name]())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WORLDS)
def test_it_is_well_formed_and_needs_nothing_else(name: str) -> None:
    page = Read(page_of(name))
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object", "embed", "form"}
    for tag, attributes in page.tags:
        for key in ("src", "href", "xlink:href", "action", "data", "srcset"):
            value = attributes.get(key)
            assert value is None or value.startswith("#"), (tag, key, value)
        assert not any(key.startswith("on") for key in attributes)
    assert not re.search(r"url\((?!#)", page_of(name)) and "@import" not in page_of(name)
    assert "default-src 'none'" in page_of(name)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", WORLDS)
def test_ids_are_its_own_and_references_have_one(name: str) -> None:
    page = Read(page_of(name))
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert max(ids.values(), default=1) == 1
    for target in re.findall(r'(?:href="|url\()#([^")]+)', page_of(name)):
        assert target in ids
    for _, attributes in page.tags:
        assert attributes.get("aria-labelledby") is None or attributes["aria-labelledby"] in ids


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WORLDS)
def test_it_can_be_heard(name: str) -> None:
    page = Read(page_of(name))
    tags = Counter(tag for tag, _ in page.tags)
    assert ("html", {"lang": "en"}) in page.tags and tags["h1"] == tags["main"] == 1
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in page.tags if tag == "th")
    regions = [attributes for _, attributes in page.tags if attributes.get("role") == "region"]
    assert tags["table"] == len(regions) and all(one["aria-label"] for one in regions)
    plots = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert all(one["role"] == "img" and "aria-labelledby" in one for one in plots)


def test_it_says_what_the_screen_says_and_every_block() -> None:
    said = Read(page_of("confirmed")).said
    assert "8 of the 40 blocks that finished beat pre_ln on both eval loss and peak kurtosis" in said
    assert "Of the 3 best, confirmed at 5 fresh seeds, p13, p32 are better than pre_ln on both" in said
    for one in confirmed().entries:
        assert f" {one.name} " in said or one.name in said
        for edit in one.edits:
            assert edit in said
    assert "path: {from: pre_ln, to: p32}" in said or "path: {from: pre_ln, to: p13}" in said


def test_names_are_text_and_never_markup() -> None:
    evil = '<img src=x onerror="alert(1)">&amp;'
    first, second, *others = entries()
    bad = replace(second, name=evil, edits=(evil,), details=(evil,), values=(1.0, 0.5))
    found = record(question=evil, space=evil, entries=(replace(first, name=evil), bad, *others), reference=evil,
                   refused={evil: 3}, again=evil, grammar=evil)  # fmt: skip
    page = Read(to_html(found))
    assert "img" not in {tag for tag, _ in page.tags}
    assert page.said.count(evil) > 5


@pytest.mark.full
def test_the_same_record_gives_the_same_page_in_every_process() -> None:
    code = "import sys, hashlib; sys.path[:0] = sys.argv[1:]; import searched_fixtures as w; " \
           "from ablate.report.searched import to_html; " \
           "print(hashlib.sha256(to_html(w.ties()).encode()).hexdigest())"  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", code, str(Path(searched_fixtures.__file__).parent)],
        env={**os.environ, "PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.strip() == hashlib.sha256(page_of("ties").encode()).hexdigest()
    assert to_html(confirmed()) == page_of("confirmed") != page_of("plain")


@pytest.mark.full
def test_only_what_draws_loads_matplotlib() -> None:
    code = "import sys, ablate.report.searched.sections; print('matplotlib' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.full
def test_there_is_a_plot_where_there_is_something_to_plot() -> None:
    count = {name: page_of(name).count("<svg") for name in WORLDS}
    assert count["plain"] == count["three_goals"] == 2 and count["one_goal"] == 1
    assert count["no_finisher"] == count["nothing"] == 0
    assert count["ties"] == count["all_diverged"] == 1  # no hypervolume without two different results


def test_the_margin_counts_what_is_not_drawn() -> None:
    found = record()
    assert "not shown: 8 diverged, 6 outside the frame" in found_plot(found, analyse(found))
    assert "32 pruned, 8 diverged" in found_plot(with_rungs(), analyse(with_rungs()))
    clean = record(entries=(entry(0), entry(1, values=(2.2, 3.1)), entry(2, values=(2.4, 2.9))))
    assert "not shown" not in found_plot(clean, analyse(clean))


def test_points_are_drawn_once_each() -> None:
    """One use of the marker for each block that finished, is in the frame, and is neither front nor reference."""
    found = record()
    reckoned = analyse(found)
    svg = found_plot(found, reckoned)
    plain = len(reckoned.compared) - len(reckoned.front) - 1 - 6
    dots = re.findall(r"<use[^>]*fill: var\(--faint\)", svg)
    assert len(dots) == plain + 1  # and one in the legend


def test_colours_are_those_of_the_page() -> None:
    svg = found_plot(confirmed(), analyse(confirmed()))
    assert "var(--front)" in svg and "var(--fresh)" in svg and "var(--reference)" in svg
    assert not re.search(r"#0[1-6]0[1-6]0[1-6]", svg)


@pytest.mark.parametrize("goal", ["min", "max"])
def test_goals_of_either_kind_are_drawn(goal: str) -> None:
    goals = (ELOSS, replace(KURTOSIS, goal=goal))
    found = record(objectives=goals)
    assert f"peak kurtosis ({'lower' if goal == 'min' else 'higher'} is better" in found_plot(found, analyse(found))
    one = replace(one_goal(), objectives=(replace(ELOSS, goal=goal),))
    assert "best so far" in found_plot(one, analyse(one))


def test_a_frame_shows_what_matters_and_is_not_squashed_by_one_outlier() -> None:
    values = [2.0 + k / 100 for k in range(20)] + [900.0]
    assert frame(values, [2.0], ELOSS)[1] < 3
    assert frame(values, [2.0, 900.0], ELOSS)[1] > 900
    low, high = frame([-v for v in values], [-2.0], replace(ELOSS, goal="max"))
    assert -3 < low < -2.15 and high > -2.0
    assert frame([3.0], [3.0], KURTOSIS)[0] < 3.0 < frame([3.0], [3.0], KURTOSIS)[1]


def test_of_three_objectives_the_first_stands_against_each() -> None:
    svg = found_plot(three_goals(), analyse(three_goals()))
    assert svg.count("eval loss (lower is better)") == 2
    assert "token correlation (lower is better)" in svg
