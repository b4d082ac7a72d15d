"""`ablate docs` lists the pages of the manual and prints one: laid out on a terminal, as Markdown in a pipe."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext

import pytest
from builders import CATALOGUE
from documents import MANUAL
from rich.console import Console
from tiny_spaces import write_world
from typer.testing import CliRunner

from ablate import api
from ablate.cli import app, main
from ablate.cli.app import MANUAL as FOLDER
from ablate.cli.app import complete_topic, manual_pages
from ablate.errors import InputError
from ablate.output import terminal
from ablate.space.recipe import ObjectiveSpec

manual = sys.modules[main.__module__]  # `ablate.cli.app` is the Typer of that name


def docs(*words):
    return CliRunner().invoke(app, ["docs", *words], env={"COLUMNS": "100"})


@pytest.mark.fast
def test_it_lists_every_topic_with_the_question_it_answers():
    done = docs()
    assert done.exit_code == 0 and len(MANUAL) >= 15
    for page in manual_pages().values():
        assert f"{page.topic} {page.title}" in " ".join(done.stdout.split())
    listed = json.loads(docs("--json").stdout)
    assert [entry["topic"] for entry in listed] == list(MANUAL)


@pytest.mark.fast
@pytest.mark.parametrize("topic", MANUAL)
def test_a_page_opens_with_its_question_and_a_sentence(topic):
    page = manual_pages()[topic]
    assert page.text.startswith(f"# {page.title}\n\n") and page.title.endswith("?")
    assert page.about.endswith(".") and len(page.about) < 160
    assert "\n# " not in page.text.replace("\n# spaces/", "") and all(
        line == line.rstrip() for line in page.text.split("\n")
    )


@pytest.mark.fast
def test_the_page_on_measurements_has_what_each_objective_measures():
    known = CATALOGUE.of_kind(ObjectiveSpec).values()
    measured = {"train_loss", "eval_loss", *(metric for spec in known for metric in spec.measures)}
    assert [metric for metric in sorted(measured) if f"`{metric}`" not in MANUAL["measurements"]] == []
    assert "`head.next_sentence`" in MANUAL["measurements"]


@pytest.mark.parametrize("causal", [True, False])
def test_a_mask_that_shows_later_tokens_is_refused_where_the_page_on_grammars_says_so(tmp_path, causal):
    said = "trained in a model that is not causal, such as an encoder. In one that is, a plan refuses to train it"
    assert said in " ".join(MANUAL["grammar"].split())
    encoder = () if causal else ("model.kind=encoder", "model.causal=false", "recipe.objective=masked_words")
    blocks = "blocks={sees: [residual: [layer_norm, attention: {mask: full}]], other: [residual: [layer_norm, mlp]]}"
    asked = (blocks, "design={compare: [sees, other]}", "judge.against=sees", *encoder)
    space = api.load_space(write_world(tmp_path), settings=asked)
    with pytest.raises(InputError, match="shows later tokens") if causal else nullcontext():
        api.plan_space(space, results=tmp_path / "results")


@pytest.mark.sampled(6, gate="all")
@pytest.mark.parametrize("topic", MANUAL)
def test_in_a_pipe_it_is_the_file_itself(topic):
    assert docs(topic).stdout == (FOLDER / f"{topic}.md").read_text(encoding="utf-8")
    assert json.loads(docs(topic, "--json").stdout)["text"] == MANUAL[topic]


@pytest.mark.fast
@pytest.mark.parametrize("topic", MANUAL)
def test_on_a_terminal_it_is_laid_out_and_loses_no_word_of_its_headings(topic, monkeypatch):
    screen = terminal.Console(force_terminal=True, width=90, record=True)
    monkeypatch.setattr(manual, "console", lambda: screen)
    with screen.capture() as captured:
        manual.docs(topic)
    shown = Console(width=200).render_str("").from_ansi(captured.get()).plain
    assert "```" not in shown and "\n## " not in shown
    for line in MANUAL[topic].splitlines():
        if line.startswith("## "):
            assert line.removeprefix("## ").replace("`", "") in shown
    assert max(map(len, shown.splitlines())) <= 90


@pytest.mark.fast
def test_an_unknown_topic_is_told_with_the_nearest(monkeypatch, capsys):
    with pytest.raises(InputError, match="did you mean 'verdicts'") as told:
        manual.docs("verdict")
    assert told.value.exit_code == 2
    monkeypatch.setattr("sys.argv", ["ablate", "docs", "verdict", "--json"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "did you mean 'verdicts'?" in json.loads(capsys.readouterr().out)["mistakes"][0]["way_out"]


@pytest.mark.fast
def test_a_word_that_is_no_topic_is_looked_for_in_the_pages():
    with pytest.raises(InputError, match=r"pages that mention it: .*measurements"):
        manual.docs("kurtosis")
    with pytest.raises(InputError) as told:
        manual.docs("xyzzy")
    assert "mention" not in str(told.value) and "`ablate docs`" in str(told.value)


@pytest.mark.fast
def test_topics_are_completed():
    assert complete_topic("s") == sorted(topic for topic in MANUAL if topic.startswith("s"))
    assert complete_topic("nothing") == []
