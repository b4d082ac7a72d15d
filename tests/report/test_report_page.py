"""The page of a space: whole in itself, well formed, the same every time, and true to its record."""

from __future__ import annotations

import functools
import hashlib
import html
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import page_fixtures as worlds
import pytest
from page_fixtures import WORLDS, record

from ablate.report import wording
from ablate.report.html_renderer import CSS, with_code
from ablate.report.page import answer, to_html, to_markdown
from ablate.report.page import answer as answer_of

GOLDEN = Path(__file__).parent / "golden" / "page"
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


SELDOM = ("partial", "many", "gains")
EACH = [pytest.param(name, marks=pytest.mark.full if name in SELDOM else ()) for name in WORLDS]


@functools.cache
def page_of(name: str) -> str:
    return to_html(WORLDS[name]())


@functools.cache
def markdown_of(name: str) -> str:
    return to_markdown(WORLDS[name]())


@pytest.mark.full
@pytest.mark.parametrize("name", EACH)
def test_it_is_well_formed_and_needs_nothing_else(name: str) -> None:
    page = Read(page_of(name))
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "image", "iframe", "object", "embed", "form"}
    for tag, attributes in page.tags:
        for key in ("src", "href", "xlink:href", "action", "data", "srcset"):
            value = attributes.get(key)
            assert value is None or value.startswith("#"), (tag, key, value)
        assert not any(key.startswith("on") for key in attributes)
    assert not re.search(r"url\((?!#)", page_of(name)) and "@import" not in page_of(name)
    assert "default-src 'none'" in page_of(name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EACH)
def test_ids_are_its_own_and_references_have_one(name: str) -> None:
    page = Read(page_of(name))
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert [id for id, n in ids.items() if n > 1] == []
    for target in re.findall(r'(?:href="|url\()#([^")]+)', page_of(name)):
        assert target in ids
    for _, attributes in page.tags:
        assert attributes.get("aria-labelledby") is None or attributes["aria-labelledby"] in ids


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EACH)
def test_it_can_be_heard(name: str) -> None:
    page = Read(page_of(name))
    tags = Counter(tag for tag, _ in page.tags)
    assert ("html", {"lang": "en"}) in page.tags and tags["h1"] == tags["main"] == 1
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in page.tags if tag == "th")
    regions = [attributes for _, attributes in page.tags if attributes.get("role") == "region"]
    assert tags["table"] == len(regions) and all(one["aria-label"] for one in regions)
    plots = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert all(one["role"] == "img" and "aria-labelledby" in one for one in plots)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EACH)
def test_every_plot_says_where_its_numbers_are(name: str) -> None:
    titles = re.findall(r'<title id="[^"]+-about">([^<]+)</title>', page_of(name))
    assert len(titles) == page_of(name).count("<svg")
    assert all(re.search(r"[Tt]he tables?\b", title) for title in titles), titles


@pytest.mark.parametrize("name", EACH)
def test_colours_are_those_of_the_page(name: str) -> None:
    assert not re.search(r"#(0[1-9a]){3}\b|#(1[0-5]){3}\b|#(2[0-7]){3}\b", page_of(name))


@pytest.mark.full
@pytest.mark.parametrize("name", EACH)
def test_every_effect_is_on_both_pages_with_its_interval_and_verdict(name: str) -> None:
    found = WORLDS[name]()
    said, text = Read(page_of(name)).said, markdown_of(name)
    for effect in found.summary.effects:
        shown = wording.verdict(effect) + effect.metric + wording.difference(effect)  # cells side by side
        assert shown in said, shown
        assert f"| {wording.verdict(effect)} | {effect.metric} | {wording.difference(effect)}" in text


@pytest.mark.parametrize("name", EACH)
def test_every_variant_and_every_trial_is_named(name: str) -> None:
    found = WORLDS[name]()
    said = Read(page_of(name)).said
    for variant in found.plan.variants:
        assert variant.id in said and variant.name in said
    assert all(trial.id in said for trial in found.plan.trials)


def test_the_order_is_from_the_answer_to_the_definitions() -> None:
    page = page_of("factorial")
    titles = [html.unescape(title) for title in re.findall(r"<h2[^>]*>([^<]*)</h2>", page)]
    assert titles == [
        "Comparisons", "Verdicts", "Factorial", "Training", "Layers", "Trade-offs", "Blocks",
        "What did not help", "Cost", "Equal terms", "Noise and power", "Repeat it", "What the numbers mean",
    ]  # fmt: skip
    assert page.index('class="answer"') < page.index('class="grid"') < page.index("<nav") < page.index("<h2")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["whole", "diverged", "noise", "factorial", "nothing_run"])
def test_markdown_says_this(name: str, golden) -> None:
    golden(GOLDEN / f"{name}.md", markdown_of(name))


def test_there_is_no_golden_page_without_a_test() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {"whole", "diverged", "noise", "factorial", "nothing_run"}


def test_names_are_text_and_never_markup() -> None:
    evil = '<img src=x onerror="alert(1)">&amp;$x_1$'
    whole = worlds.gains()
    plan = replace(
        whole.plan,
        question=evil,
        space=evil,
        variants=tuple(replace(one, names=(f"{one.name} {evil}",)) for one in whole.plan.variants),
    )
    arms = tuple(replace(arm, name=f"{arm.name} {evil}") for arm in whole.summary.arms)
    effects = tuple(replace(effect, change=f"{effect.change} {evil}") for effect in whole.summary.effects)
    found = replace(
        whole,
        plan=plan,
        summary=replace(whole.summary, arms=arms, effects=effects, question=evil, baseline=f"pre_ln {evil}"),
        again=(evil,),
        corpus=(evil,),
        source=evil,
        resolved=evil,
        versions={"v0": {"python": evil}},
        blocks=tuple(replace(one, block=evil, edits=((evil, evil),)) for one in whole.blocks),
    )
    page = Read(to_html(found))
    assert "img" not in {tag for tag, _ in page.tags}
    assert page.said.count(evil) > 20


@pytest.mark.full
def test_the_same_record_gives_the_same_page_in_every_process() -> None:
    code = "import sys, hashlib; sys.path[:0] = sys.argv[1:]; import page_fixtures as w; " \
           "from ablate.report.page import to_html; " \
           "print(hashlib.sha256(to_html(w.factorial()).encode()).hexdigest())"  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", code, str(Path(worlds.__file__).parent)],
        env={**os.environ, "PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.strip() == hashlib.sha256(page_of("factorial").encode()).hexdigest()
    assert page_of("whole") != page_of("partial")


@pytest.mark.full
def test_only_what_draws_loads_matplotlib() -> None:
    code = "import sys, ablate.report.page, ablate.cli.reporting; print('matplotlib' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_what_is_undecided_stands_apart_from_what_was_found() -> None:
    found = record()
    grid = answer.grid(found.summary)
    assert grid is not None
    cells = {(label, name): cell for label, of in grid.rows for name, cell in zip(grid.heading[1:], of, strict=True)}
    verdicts = {(subject, m.name): e for e in found.summary.effects for m in found.summary.metrics
                for subject in [answer_of.subject(e, found.summary)] if e.metric == m.name}  # fmt: skip
    names = {f"{m.name.replace('_', ' ')} ({m.better} is better)": m.name for m in found.summary.metrics}
    assert len(cells) == 4 * 3 and {cell.verdict for cell in cells.values()} > {"undecided"}
    for (label, name), cell in cells.items():
        effect = verdicts[label, names[name]]
        assert (cell.verdict, cell.words) == (effect.verdict, wording.verdict(effect))
        assert cell.number == wording.difference(effect)
    page = page_of("whole")
    for verdict in {cell.verdict for cell in cells.values()}:
        assert (f'class="v-{verdict}"' in page and f".v-{verdict}" in CSS) or verdict == "undecided"


def test_the_first_sentence_is_the_answer_with_sign_and_size() -> None:
    summary = record().summary
    sentence, edits = answer.conclusion(summary)
    assert (
        edits.startswith("Of its edits, +qk_norm: eval loss equivalent within 1 %") and "peak kurtosis better" in edits
    )
    assert "token" not in edits  # of which nothing is found
    whole = [e for e in summary.effects if e.kind == "baseline" and e.after == "v3"]
    assert sentence.startswith("op against pre_ln, 5 seeds: eval loss ")
    assert all(wording.difference(effect) in sentence for effect in whole)
    assert page_of("whole").index(with_code(sentence)) < page_of("whole").index('class="grid"')
    waiting = answer.conclusion(worlds.nothing_run().summary)
    assert waiting[-1].startswith("No verdicts yet: 20 of 20 trials have not ended")
    many = answer.conclusion(worlds.factorial().summary)
    assert many[0].startswith("op against pre_ln")


@pytest.mark.full
def test_a_page_before_the_end_says_so() -> None:
    assert "Preliminary: 8 of 20 trials have not ended" in Read(page_of("partial")).said
    assert "Preliminary" not in page_of("whole")
    opened = record(plan=replace(record().plan, open=True))
    assert "Preliminary: more trials may be added" in Read(to_html(opened)).said


def test_what_did_not_help_is_listed_with_what_has_no_result() -> None:
    lines = answer_of.negatives(worlds.diverged())
    assert any(line.startswith("diverged: op at 5 of 5 seeds (share of seeds that finish: 0 % to") for line in lines)
    assert any(line.startswith("diverged: pre_ln + +qk_norm at 2 of 5 seeds") for line in lines)
    assert any("missing: pre_ln + residual.gain=1/sqrt(2*depth) at seed" in line for line in lines)
    assert any(line.startswith("could not be judged") and "-layer_norm" in line for line in lines)
    assert not any(line.startswith(("diverged", "missing")) for line in answer_of.negatives(record()))


def test_noise_reads_as_no_finding() -> None:
    found = worlds.noise()
    said = Read(page_of("noise")).said
    assert "A/A, nothing but the initialisation changed: eval loss differs by" in said
    lines = answer_of.negatives(found)
    assert not any("A/A" in line for line in lines)
    rows = re.findall(r"\| A/A[^\n]*", to_markdown(found))
    assert rows and not any(verdict in row for row in rows for verdict in ("better", "worse", "undecided"))
    assert "Numbers of pre_ln, A/A are only in the tables" in said


def test_the_floor_is_shown_with_what_can_be_seen_above_it() -> None:
    found = worlds.noise()
    said = Read(page_of("noise")).said
    floor = found.floors[0]
    low, high = floor.sd_interval()
    seen, least, most = floor.visible(5, 0.04 / found.summary.tests)
    assert f"{floor.sd:.2g} [{low:.2g}, {high:.2g}]" in said
    assert f"{seen:.2g} [{least:.2g}, {most:.2g}]" in said
    assert "no A/A arms under these conditions for token_correlation" in said
    assert "no A/A arms under these conditions for eval_loss" in Read(page_of("whole")).said


def test_more_trials_than_fit_are_said() -> None:
    plan = replace(record().plan, trials=tuple(worlds.trial("v0", seed) for seed in range(600)))
    text = to_markdown(record(plan, {}, curves=(), layers=(), endings=()))
    assert "lists the other 100" in text and text.count("| v0-") == 500


def test_what_was_unequal_is_a_table_and_what_was_equal_a_line() -> None:
    text = to_markdown(record())
    assert "| op | parameters | 1,249,024 | 1,246,336 | -0.22 % | no |" in text
    assert "- the same for all: steps, tokens" in text


def test_no_line_of_a_sentence_ends_within_an_edit_or_before_a_percent_sign():
    shown = with_code("-layer_norm and +qk_norm within 5 %; `ablate run -x 5 %` <b>")
    assert shown == "-\u2060layer_norm and +qk_norm within 5\u00a0%; <code>ablate run -x 5 %</code> &lt;b&gt;"
