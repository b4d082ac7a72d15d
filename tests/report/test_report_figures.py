"""Figures for a paper: their sizes, fonts and colours, the numbers behind them, and what is written beside them."""

from __future__ import annotations

import csv
import io
import re
import struct
import xml.etree.ElementTree as ET
import zlib
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import page_fixtures as worlds
import pytest
import searched_fixtures
import typer
from markdown_it import MarkdownIt
from tiny_spaces import write_world
from typer.testing import CliRunner

from ablate import api
from ablate.cli.reporting import report as verb
from ablate.errors import RefusedError
from ablate.execute.executor import ExecutorOptions
from ablate.output.escape import for_latex, numbers_for_latex, visible
from ablate.report.figures import Export, of_search, of_space
from ablate.report.figures.export import caption, latex_table, methods_sentence
from ablate.report.figures.files import PAPER, belongs_to_export, file_names, files_of, lightness, numbers
from ablate.report.page.forest import LOOKS
from ablate.report.plot import INK, SERIES, SHADES, Plot
from ablate.report.searched import page as page_of_search
from ablate.report.searched.sections import from_json, to_json
from ablate.session import reporting
from ablate.session.running import run

COLUMN, PAGE = 3.25 * 72, 6.75 * 72
HOSTILE = "<script>\\input{x}%$&_#\x1b[31m\u202e漢"


def plots_of(export: Export) -> dict[str, Plot]:
    return dict(export.plots)


@pytest.fixture(scope="module")
def forest() -> dict[str, bytes]:
    """The files of one forest."""
    plot = plots_of(of_space(worlds.record()))["forest-eval_loss"]
    return dict(files_of(plot, "forest-eval_loss"))


def rows(plot: Plot) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(numbers(plot))))


def objects(pdf: bytes) -> bytes:
    """A PDF with what is compressed in it unpacked behind it."""
    found = [pdf]
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        try:
            found.append(zlib.decompress(stream))
        except zlib.error:
            continue
    return b"\n".join(found)


@pytest.mark.full
def test_every_plot_has_its_files_at_both_widths_and_its_numbers(forest: dict[str, bytes]) -> None:
    drawings = {f"forest-eval_loss.{size}.{kind}" for size in ("column", "page") for kind in ("svg", "pdf", "png")}
    assert forest.keys() == {*drawings, "forest-eval_loss.csv"}


@pytest.mark.parametrize(("size", "width"), [("column", COLUMN), ("page", PAGE)])
def test_sizes_are_those_of_a_column_and_of_a_page(forest: dict[str, bytes], size: str, width: float) -> None:
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", objects(forest[f"forest-eval_loss.{size}.pdf"]))
    assert box is not None and float(box[1]) == width
    svg = ET.fromstring(forest[f"forest-eval_loss.{size}.svg"])
    assert svg.attrib["width"] == f"{width:g}pt"
    assert float(svg.attrib["height"].removesuffix("pt")) == pytest.approx(float(box[2]), abs=0.01)
    across, up = struct.unpack(">II", forest[f"forest-eval_loss.{size}.png"][16:24])
    assert across == width / 72 * 300
    assert up == pytest.approx(float(box[2]) / 72 * 300, abs=1)


def test_fonts_are_in_the_pdf_and_the_svg_needs_none(forest: dict[str, bytes]) -> None:
    for size in ("column", "page"):
        pdf = objects(forest[f"forest-eval_loss.{size}.pdf"])
        fonts = set(re.findall(rb"/BaseFont /(\S+)", pdf))
        assert fonts and all(b"DejaVuSans" in font for font in fonts)
        assert pdf.count(b"/FontFile2") >= 1 and b"/Type3" not in pdf
        svg = forest[f"forest-eval_loss.{size}.svg"].decode()
        assert "<text" not in svg and "font-family" not in svg and "var(--" not in svg
        assert not re.search(r'(?:href="|url\()(?!#)', svg)


def test_all_text_has_eight_points(forest: dict[str, bytes]) -> None:
    for size in ("column", "page"):
        pdf = objects(forest[f"forest-eval_loss.{size}.pdf"])
        assert {float(one) for one in re.findall(rb"/F\d+ ([\d.]+) Tf", pdf)} == {8.0}


@pytest.mark.full
def test_nothing_is_left_in_a_colour_that_only_a_page_knows() -> None:
    for export in (of_space(worlds.factorial()), of_search(searched_fixtures.confirmed())):
        for name, plot in export.plots:
            svg = dict(files_of(plot, name))[f"{name}.column.svg"].decode()
            assert not {value for value in INK.values() if value in svg.lower()}, name


@pytest.mark.full
def test_the_same_record_gives_the_same_bytes(forest: dict[str, bytes]) -> None:
    plot = plots_of(of_space(worlds.record()))["forest-eval_loss"]
    assert dict(files_of(plot, "forest-eval_loss")) == forest


def test_colours_of_one_plot_stay_apart_in_grey() -> None:
    lines = [lightness(PAPER[f"line{place}"]) for place in range(SERIES)]
    assert min(abs(one - other) for one, other in combinations(lines, 2)) >= 9
    assert lines == sorted(lines) and lines[-1] <= 75  # still to be seen on white
    shades = [lightness(PAPER[f"shade{place}"]) for place in range(SHADES)]
    assert all(one - other >= 9 for one, other in pairwise(shades))
    looks = [(lightness(PAPER[ink]), marker, filled) for ink, marker, filled in LOOKS.values()]
    for (one, *form), (other, *others) in combinations(looks, 2):
        assert form != others or abs(one - other) >= 15
    assert PAPER.keys() == INK.keys()
    assert abs(lightness("#0b57d0") - lightness("#8b21c8")) < 9  # two of the page's, which would not do


def test_the_numbers_of_a_forest_are_those_of_the_verdicts() -> None:
    record = worlds.record()
    found = rows(plots_of(of_space(record))["forest-eval_loss"])
    effects = [effect for effect in record.summary.effects if effect.metric == "eval_loss"]
    assert len(found) == len(effects)
    for row, effect in zip(found, effects, strict=True):
        for name in ("estimate", "low", "high", "adjusted_low", "adjusted_high", "margin", "p_adjusted"):
            assert float(row[name]) == getattr(effect, name)
        assert row["verdict"] == effect.verdict and int(row["n"]) == effect.n


def test_the_numbers_of_courses_maps_gains_and_trade_offs_are_those_of_the_record() -> None:
    record = worlds.gains()
    plots = plots_of(of_space(record))
    courses = {
        (record.plan.variant(one.variant).name, step): mean
        for one in record.curves
        if one.metric == "eval_loss"
        for step, mean in zip(one.steps, one.mean, strict=True)
    }
    found = rows(plots["training-eval_loss"])
    assert {(row["variant"], int(row["step"])): float(row["mean"]) for row in found} == courses
    layers = [one for one in record.layers if one.metric == "kurtosis"]
    cells = rows(plots["layers-kurtosis"])
    assert len(cells) == sum(len(one.steps) for one in layers)
    assert {float(row["mean"]) for row in cells} == {mean for one in layers for mean in one.mean}
    trained = rows(plots["gains-op"])
    assert {row["gain"] for row in trained} == {one.of for one in record.gains if one.metric == "gain"}
    arms = {arm.name: arm for arm in record.summary.arms}
    for row in rows(plots["trade-off-eval_loss-peak_kurtosis"]):
        assert float(row["peak_kurtosis_mean"]) == arms[row["variant"]].levels["peak_kurtosis"].mean


def test_the_numbers_of_a_search_are_those_of_its_blocks() -> None:
    record = searched_fixtures.confirmed()
    plots = plots_of(of_search(record))
    assert plots.keys() == {"front", "hypervolume", "forest-eval_loss", "forest-peak_kurtosis"}
    found = rows(plots["front"])
    assert len(found) == len(record.entries)
    for row, entry in zip(found, record.entries, strict=True):
        values = tuple(float(row[one.metric]) for one in record.objectives) if row["eval_loss"] else ()
        assert values == entry.values
        assert bool(row["eval_loss_fresh"]) == (entry.name in record.chosen)


@pytest.mark.parametrize("name", searched_fixtures.WORLDS)
def test_the_record_of_a_search_is_whole_in_its_json(name: str) -> None:
    record = searched_fixtures.WORLDS[name]()
    assert from_json(to_json(record)) == record


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"space": 1}'])
def test_json_that_is_no_search_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        from_json(text)


def hostile() -> Export:
    """The figures of a plan with a variant and an edit of a name that would do harm."""
    record = worlds.record()
    first, second, *others = record.plan.variants
    plan = replace(record.plan, variants=(first, replace(second, names=(f"={HOSTILE}",)), *others))
    arms = tuple(replace(a, name=f"={HOSTILE}") if a.variant == second.id else a for a in record.summary.arms)
    effects = tuple(replace(e, change=f"={HOSTILE}") if e.kind == "edit" else e for e in record.summary.effects)
    return of_space(replace(record, plan=plan, summary=replace(record.summary, arms=arms, effects=effects)))


@pytest.mark.full
def test_hostile_names_do_no_harm_in_any_file() -> None:
    export = hostile()
    assert "\\input{" not in export.texts["verdicts.tex"] and "\x1b" not in export.texts["verdicts.tex"]
    assert r"\textbackslash{}input\{x\}\%\$\&\_\#" in export.texts["verdicts.tex"]
    assert "\x1b" not in export.texts["captions.md"] and "\u202e" not in export.texts["captions.md"]
    plots = plots_of(export)
    for name in ("forest-eval_loss", "training-eval_loss", "layers-kurtosis", "trade-off-eval_loss-peak_kurtosis"):
        files = dict(files_of(plots[name], name))
        ET.fromstring(files[f"{name}.column.svg"])
        assert b"<script" not in files[f"{name}.column.svg"]
        cells = [cell for row in csv.reader(io.StringIO(files[f"{name}.csv"].decode())) for cell in row]
        assert any(cell.startswith(f"'={HOSTILE}") for cell in cells)
        assert not any(cell.startswith("=") for cell in cells)


QUESTIONS = (
    "Does *norm* of q_k_ or __b__ <script>alert(1)</script> save 5 % of `$x$`?",
    "# 1\n- [a](b) #",
    "1. &lt;b&gt;",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_captions_show_a_question_and_names_as_they_are(question: str) -> None:
    record, search = worlds.record(), searched_fixtures.record()
    named = f"={HOSTILE} *all*"
    summary = replace(record.summary, question=question, baseline=named)
    space = replace(record, summary=summary, plan=replace(record.plan, question=question))
    for export in (of_space(space), of_search(replace(search, question=question))):
        tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(export.texts["captions.md"])
        heading, *said = [token.children for token in tokens if token.type == "inline"]
        assert {child.type for one in (heading, *said) for child in one} <= {"text", "text_special", "code_inline"}
        assert "".join(child.content for child in heading) == " ".join(question.split("\n"))
        assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2", "h2"]
        assert [child.content for one in said for child in one if child.type == "code_inline"] == [
            name for name, _ in export.plots
        ]
    said = [one for one in MarkdownIt().parse(of_space(space).texts["captions.md"]) if one.type == "inline"]
    assert f"within 1 % of {visible(named)}'s mean" in "".join(child.content for child in said[2].children)


@pytest.mark.full
def test_letters_that_the_font_lacks_are_written_out(recwarn: pytest.WarningsRecorder) -> None:
    plot = plots_of(hostile())["training-eval_loss"]
    assert dict(files_of(plot, "training"))
    assert not [one for one in recwarn if "Glyph" in str(one.message)]


def test_names_of_files_are_plain_and_each_its_own() -> None:
    plot = plots_of(of_space(worlds.record()))["forest-eval_loss"]
    named = [replace(plot, name=name) for name in ("a/../b", "A b", "a  b", "", "..", "漢", "a" * 300)]
    names = file_names(named)
    assert names[:6] == ["a-b", "A-b-2", "a-b-3", "figure", "figure-2", "figure-3"]
    assert len(names[6]) == 80 and len({name.lower() for name in names}) == len(names)


def test_latex_shows_every_sign_as_it_is() -> None:
    assert for_latex("a_b{c}") == r"a\_b\{c\}"
    assert for_latex("--x → β") == r"{-}{-}x $\rightarrow$ $\beta$"
    assert numbers_for_latex("×0.62 [-1e-05, +2]") == r"$\times$0.62 {[}$-$1e{-}05, +2{]}"


def test_the_table_has_every_comparison_under_its_rules() -> None:
    record = worlds.record()
    lines = latex_table(record.summary).splitlines()
    assert [line for line in lines if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert sum(line.endswith(r"\\") for line in body) == len(record.summary.effects)
    assert all(line.count("&") == 5 for line in body if line.endswith(r"\\"))
    assert any(line.startswith(r"+qk\_norm & eval\_loss & $-$0.0209") for line in body)


def test_a_caption_is_one_sentence() -> None:
    for export in (of_space(worlds.diverged()), of_space(worlds.gains()), of_search(searched_fixtures.confirmed())):
        for _, plot in export.plots:
            said = caption(plot)
            assert said.endswith(".") and ". " not in said and ".;" not in said and "\n" not in said


def test_a_caption_says_of_what_it_is_and_over_how_many_seeds() -> None:
    plots = plots_of(of_space(worlds.record()))
    assert caption(plots["forest-eval_loss"]).startswith(
        "Differences in eval loss over 5 seeds with their intervals (adjusted); whole variants are against pre_ln;"
    )
    assert caption(plots["forest-peak_kurtosis"]).startswith("Ratios of peak kurtosis over 5 seeds")
    assert caption(plots["trade-off-eval_loss-peak_kurtosis"]).startswith("Eval loss against peak kurtosis;")
    assert caption(plots["training-train_loss"]).endswith("; n = 5 each.")


def test_the_methods_are_worded_from_the_verdicts() -> None:
    said = methods_sentence(worlds.record().summary)
    assert said.startswith("Each variant was trained at 5 seeds that share batches and held-out data;")
    assert "tested by Student's t, of peak kurtosis as logarithms" in said
    assert "adjusted by Holm over 5 comparisons per metric, at 95 % confidence (p < 0.04 decides" in said
    assert "within 1 % of pre_ln's mean in eval loss and ±0.02 in token correlation" in said
    assert "peak kurtosis has no margin" in said and ". " not in said
    lost = methods_sentence(worlds.diverged().summary)
    assert "7 diverged" in lost and "2 have no result" in lost
    assert "signed ranks over all seeds, diverged runs ranked worst" in lost
    summary = worlds.record().summary
    alone = methods_sentence(replace(summary, tests=1, family="page", effects=summary.effects[:1]))
    assert "there is one comparison of all metrics together" in alone
    assert methods_sentence(replace(summary, effects=())) == "Nothing was compared."


def test_what_is_left_out_is_said_with_why() -> None:
    assert of_space(worlds.record()).left_out == ()
    lost = of_space(worlds.all_diverged()).left_out
    assert "forest-eval_loss: no seed has a result on both sides" in lost
    assert any("repeats the baseline" in line for line in of_space(worlds.noise()).left_out)
    plain = of_search(searched_fixtures.record())
    assert plain.left_out == ("forests and verdicts.tex: nothing is confirmed at fresh seeds",)
    assert "verdicts.tex" not in plain.texts
    assert of_search(searched_fixtures.nothing()).left_out[0].startswith("every plot: no block has values")


def test_files_of_an_export_are_told_from_others() -> None:
    there = ["a.column.svg", "a.csv", "b.csv", "notes.pdf", "c.page.png", "verdicts.tex", "d.page.txt"]
    assert belongs_to_export(there) == ["a.column.svg", "a.csv", "c.page.png"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space that was run; its results are in `results`."""
    folder = tmp_path_factory.mktemp("figures")
    path = write_world(folder, seeds=2)
    run(api.load_space(path), results=folder / "results", options=ExecutorOptions(executor="inline"), mirror=False)
    return folder


def app() -> typer.Typer:
    made = typer.Typer()
    made.command()(verb)
    return made


@pytest.mark.full
def test_the_verb_writes_them_and_says_which_and_what_lies_there_from_before(world: Path) -> None:
    folder = world / "deep" / "figures"
    folder.mkdir(parents=True)
    (folder / "forest-gone.page.pdf").write_text("before")
    (folder / "mine.csv").write_text("mine")
    asked = ["tiny", "--results", str(world / "results"), "--figures", str(folder)]
    ran = CliRunner().invoke(app(), asked)
    assert ran.exit_code == 0, ran.output
    assert "from an earlier export, left as they are: forest-gone.page.pdf" in ran.output
    assert "mine.csv" not in ran.output
    assert (folder / "forest-gone.page.pdf").read_text() == "before"
    there = {path.name for path in folder.iterdir()} - {"forest-gone.page.pdf", "mine.csv"}
    count = re.search(r"figures: (\d+) plots, (\d+) files in", ran.output)
    assert count is not None and int(count[2]) == len(there) == 7 * int(count[1]) + 2
    assert {"training-eval_loss.page.pdf", "verdicts.tex", "captions.md"} <= there
    assert "training-eval_loss: .column.svg, .column.pdf, .column.png, .page.svg" in ran.output


@pytest.mark.full
def test_a_folder_that_cannot_be_one_is_refused(world: Path) -> None:
    taken = world / "taken"
    taken.write_text("a file")
    ran = CliRunner().invoke(app(), ["tiny", "--results", str(world / "results"), "--figures", str(taken)])
    assert isinstance(ran.exception, RefusedError) and ran.exception.exit_code == 2
    assert "--figures" in str(ran.exception) and str(taken) in str(ran.exception)


@pytest.mark.full
def test_a_search_that_ran_has_figures_and_one_whose_json_is_gone_says_what_to_do(tmp_path: Path) -> None:
    page = tmp_path / "search.html"
    page.with_suffix(".json").write_text(to_json(searched_fixtures.one_goal()), encoding="utf-8")
    reported = reporting.Reported(page, page.with_suffix(".md"), None)
    written = reporting.export_figures(reported, tmp_path / "figures")
    assert set(written.figures) == {"values"} and written.others == ("captions.md",)
    assert all((tmp_path / "figures" / name).stat().st_size for name in written.files)
    document = reporting.document_of(reported)
    assert document is not None and document == page_of_search(searched_fixtures.one_goal())
    for broken in ("{", '{"space": "a"}'):
        page.with_suffix(".json").write_text(broken, encoding="utf-8")
        with pytest.raises(RefusedError, match="run the search again"):
            reporting.export_figures(reported, tmp_path / "figures")
        assert reporting.document_of(reported) is None
    page.with_suffix(".json").unlink()
    with pytest.raises(RefusedError, match="run the search again"):
        reporting.export_figures(reported, tmp_path / "figures")
