"""A profile stands in the head of everything that shows results; one that only tries whether a space runs says so."""

from __future__ import annotations

import json

import pytest
from rich.console import Console
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate.cli.app import app
from ablate.output.words import of_profile
from ablate.report.json_form import document, plan_to_json
from ablate.report.screens.result import result_screen
from ablate.store.mlflow_pages import read_pages
from ablate.store.mlflow_texts import page_note

SAID = "smoke: its verdicts mean nothing"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> ablate.Run:
    folder = tmp_path_factory.mktemp("profile")
    path = write_world(folder, seeds=1)
    path.write_text(path.read_text() + "profiles: {smoke: {recipe: {steps: 4}}}\n")
    space = ablate.load_space(path, profile="smoke")
    return ablate.run(space, results=folder / "results", executor="inline", console=Console(quiet=True), mirror=False)


def test_the_page_the_screen_and_json_say_that_it_is_a_smoke(done: ablate.Run) -> None:
    assert done.summary is not None
    pages = [text for name, text in done.report().items() if name.endswith((".html", ".md"))]
    assert pages and all(SAID in text for text in pages)
    assert result_screen(done.summary).about == (f"tiny · path · {SAID}",)
    assert json.loads(plan_to_json(done.plan, known=()))["profile"] == document(done.summary)["profile"] == "smoke"


def test_the_verb_report_says_it(done: ablate.Run) -> None:
    told = CliRunner().invoke(app, ["report", "tiny", "--results", str(done.results)])
    assert told.exit_code == 0 and f"\n{SAID}\n" in told.output


def test_mlflow_and_sql_say_it(done: ablate.Run) -> None:
    assert ablate.query("SELECT profile FROM spaces", results=done.results)["profile"].tolist() == ["smoke"]
    (page,) = read_pages(done.results)
    assert page.profile == "smoke" and f"**{SAID}**" in page_note(page, "", "")


@pytest.mark.parametrize(("profile", "said"), [(None, ()), ("paper", ("profile paper",)), ("smoke", (SAID,))])
def test_its_words(profile: str | None, said: tuple[str, ...]) -> None:
    assert of_profile(profile) == said
