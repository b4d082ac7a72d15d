"""A page of a real run: planned, judged and gathered from its results, and written by the verb."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from tiny_spaces import write_world
from typer.testing import CliRunner

from ablate import api
from ablate.cli.reporting import report as verb
from ablate.errors import InputError, RefusedError
from ablate.execute.executor import ExecutorOptions
from ablate.session import reporting
from ablate.session.planning import plan_space
from ablate.session.running import run
from ablate.store.query import query
from ablate.store.snapshot import Snapshot


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space of three seeds, trained; its results are in `results`."""
    folder = tmp_path_factory.mktemp("page")
    path = write_world(folder, seeds=3)
    run(api.load_space(path), results=folder / "results", options=ExecutorOptions(executor="inline"), mirror=False)
    return folder


def app() -> typer.Typer:
    made = typer.Typer()
    made.command()(verb)
    return made


def test_the_page_is_written_with_everything_that_was_measured(world: Path) -> None:
    space, results = api.load_space(world / "tiny.yaml"), world / "results"
    written = reporting.report(space, results=results)
    assert written.html == results / "pages" / "tiny.html" and written.markdown == results / "pages" / "tiny.md"
    page, text = written.html.read_text(encoding="utf-8"), written.markdown.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and text.startswith("# Does the smallest model")
    for trial in plan_space(space, results=results).plan.trials:
        assert trial.id in page and trial.id in text
    assert written.record is not None and not written.record.partial
    measured = {name for (name,) in query(results, "SELECT DISTINCT metric FROM metrics").rows} - {"learning_rate"}
    assert {course.metric for course in written.record.curves} == measured
    (corpus,) = query(results, "SELECT DISTINCT corpus FROM trials").rows
    assert corpus[0] in page
    assert "ablate run " in page and "ablate report " in page


@pytest.mark.full
def test_it_reads_and_changes_nothing_but_its_two_files(world: Path) -> None:
    results = world / "results"

    def state() -> dict[
        str, bytes
    ]:  # the cache of the corpus notes, once files are seconds old, that they are the same
        files = (p for p in results.rglob("*") if p.is_file() and p.parent.name not in ("pages", "corpus"))
        return {str(path.relative_to(results)): path.read_bytes() for path in files}

    before = state()
    first = reporting.report(api.load_space(world / "tiny.yaml"), results=results)
    text = first.html.read_bytes(), first.markdown.read_bytes()
    again = reporting.report(api.load_space(world / "tiny.yaml"), results=results)
    assert state() == before
    assert (again.html.read_bytes(), again.markdown.read_bytes()) == text


def test_the_blocks_have_their_edits_from_the_baseline(world: Path) -> None:
    found = reporting.gather(plan_space(api.load_space(world / "tiny.yaml"), results=world / "results"),
                             world / "results")  # fmt: skip
    edits = {shown.variant: tuple(name for name, _ in shown.edits) for shown in found.blocks}
    for variant in found.plan.variants:
        assert edits[variant.id] == variant.edits  # in the order of the path


@pytest.mark.full
def test_curves_are_of_the_seeds_of_the_verdict_alone(world: Path) -> None:
    planned = plan_space(api.load_space(world / "tiny.yaml"), results=world / "results")
    base = planned.plan.variants[0].id
    loss = {c.variant: c for c in reporting.gather(planned, world / "results").curves if c.metric == "eval_loss"}
    assert set(loss[base].n) == {3}
    fewer = replace(planned, plan=replace(planned.plan, seeds=(0, 1)))
    loss = {c.variant: c for c in reporting.gather(fewer, world / "results").curves if c.metric == "eval_loss"}
    assert set(loss[base].n) == {2}


@pytest.mark.full
def test_a_name_of_a_space_that_was_run_will_do(world: Path) -> None:
    ran = CliRunner().invoke(app(), ["tiny", "--results", str(world / "results")])
    assert ran.exit_code == 0, ran.output
    assert "Does the smallest model there is learn?" in ran.output
    assert re.search(r"page: \S+tiny\.html\n\s+\S+tiny\.md", ran.output)


@pytest.mark.full
def test_json_has_the_paths_and_the_verdicts(world: Path) -> None:
    ran = CliRunner().invoke(app(), [str(world / "tiny.yaml"), "--results", str(world / "results"), "--json"])
    said = json.loads(ran.output)
    assert said["html"].endswith("tiny.html") and said["markdown"].endswith("tiny.md")
    assert said["summary"]["space"] == "tiny" and said["summary"]["effects"]


@pytest.mark.full
def test_json_has_what_stands_on_the_page(world: Path) -> None:
    ran = CliRunner().invoke(app(), ["tiny", "--results", str(world / "results"), "--json"])
    page = json.loads(ran.output)["page"]
    text = (world / "results" / "pages" / "tiny.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    shown = [part["title"] for part in page["parts"] if part["part"] == "section"]
    assert page["title"] == "Does the smallest model there is learn?" and "Verdicts" in shown
    plots_alone = {"Comparisons", "Over training", "Trade-offs"}
    assert {title for title in shown if title not in titles} <= plots_alone
    (grid,) = (part for part in page["parts"] if part["part"] == "verdicts")
    assert all(cell["verdict"] and cell["words"] for row in grid["rows"] for cell in row["cells"])
    assert "<svg" not in ran.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tinny"], "no run of the space 'tinny'.*did you mean 'tiny'.*there are: tiny"),
        (["nothing_like_it"], "no run of the space 'nothing_like_it'.*there are: tiny"),
        (["tiny", "--profile", "smoke"], "--profile has no effect with the name of a space"),
        (["absent.yaml"], "absent.yaml"),
    ],
)
def test_what_cannot_be_shown_is_told(world: Path, arguments: list[str], message: str) -> None:
    ran = CliRunner().invoke(app(), [*arguments, "--results", str(world / "results")])
    assert isinstance(ran.exception, InputError) and ran.exception.exit_code == 2
    assert re.search(message, str(ran.exception), re.DOTALL), str(ran.exception)


def test_a_folder_without_results_and_a_question_that_was_not_run(world: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing was run in"):
        reporting.last_request("tiny", results=tmp_path)
    with pytest.raises(RefusedError, match=r"no trial of tiny(.|\n)*ablate run "):
        reporting.report(api.load_space(world / "tiny.yaml"), results=tmp_path / "none")
    other = api.load_space(world / "tiny.yaml", settings=("recipe.steps=13",))
    with pytest.raises(RefusedError, match="ablate report tiny has that page"):
        reporting.report(other, results=world / "results")


@pytest.mark.full
def test_a_page_of_what_was_run_with_settings_repeats_them(tmp_path: Path) -> None:
    path = write_world(tmp_path, seeds=2)
    space = api.load_space(path, settings=("recipe.steps=9",))
    run(space, results=tmp_path / "results", options=ExecutorOptions(executor="inline"), mirror=False)
    request = Snapshot(tmp_path / "results").requests["tiny"]
    written = reporting.report(space, results=tmp_path / "results", request=request)
    assert "--set recipe.steps=9" in written.markdown.read_text(encoding="utf-8")
    ran = CliRunner().invoke(app(), ["tiny", "--results", str(tmp_path / "results")])
    assert ran.exit_code == 0, ran.output


def test_a_search_has_its_page_from_its_run(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    text = path.read_text(encoding="utf-8").replace(
        "design: {path: {from: pre_ln, to: op}}",
        "design: {search: {from: pre_ln, objective: {eval_loss: min}, sampler: random, budget: {trials: 8}, seed: 0,"
        " parallel: 1, pruner: none, confirm: none}}",
    )
    path.write_text(text, encoding="utf-8")
    space = api.load_space(path)
    with pytest.raises(RefusedError, match="is a search, whose page is written when it is run"):
        reporting.report(space, results=tmp_path / "results")
    page = tmp_path / "results" / "pages" / "tiny.html"
    page.parent.mkdir(parents=True)
    page.write_text("the page", encoding="utf-8")
    assert reporting.report(space, results=tmp_path / "results").html == page
    assert page.read_text(encoding="utf-8") == "the page"
