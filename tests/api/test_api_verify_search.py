"""A search is verified by carrying it out again on its own results: what it proposed, confirmed and says follows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from search_runs import carry_out, design
from test_api_verify import reseal
from tiny_spaces import write_world

import ablate
from ablate.execute import controller
from ablate.session import verifying
from ablate.session.verifying import verify
from ablate.store import files
from ablate.store.snapshot import Snapshot

CONFIRMED = [design("tpe", trials=6, more=", confirm: {blocks: 1, seeds: 2}"), "seeds=[0]"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("searched")
    carry_out(ablate.load_space(write_world(folder), settings=CONFIRMED), folder / "results")
    return folder / "results"


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "results")
    return tmp_path / "results"


def wrong(folder: Path) -> list[str]:
    return [check.check for check in verify(folder).wrong]


def page(folder: Path) -> Path:
    return folder / "pages" / "tiny.json"


def changed(folder: Path, kind: str, before: str, after: str) -> None:
    """Write a document of a folder anew with another text in it, and list it: a lie of whoever has the program."""
    path = next(path for path in sorted((folder / kind).glob("*.json")) if before in path.read_text())
    content = json.loads(path.read_text().replace(before, after, 1))
    bare = {name: value for name, value in content.items() if name not in ("format", "number")}
    files.withdraw(folder, f"{kind}/{path.name}")
    files.keep(folder, kind, bare, content["number"], stem=bare["plan"] if kind == "plans" else "")


def test_a_whole_search_follows_from_its_results_and_is_trained_again(copy):
    done = verify(copy, retrain=1)
    assert {check.answer for check in done.checks} == {"right"}
    assert {check.check for check in done.checks} == {"seals", "plan", "verdicts", "page", "retrained"}


def test_a_number_sealed_anew_contradicts_what_was_confirmed_and_said(copy):
    now = Snapshot(copy)
    confirming = next(trial for trial in now.endings if now.specification(trial)["seed"] > 0)
    reseal(copy, confirming, now.endings[confirming], add=0.5, metric="eval_loss")
    assert wrong(copy) == ["verdicts", "page"]


def test_a_number_that_proposals_rest_on_contradicts_what_was_proposed_or_said(copy):
    now = Snapshot(copy)
    proposed = next(trial for trial in now.endings if now.specification(trial)["seed"] == 0)
    reseal(copy, proposed, now.endings[proposed], add=-0.5, metric="eval_loss")
    assert wrong(copy) in (["plan"], ["page"], ["verdicts", "page"])


def test_a_proposal_added_to_a_whole_search_is_found(copy):
    """What was proposed before it still follows from the results."""
    plan = Snapshot(copy).plans.current("tiny")
    assert plan is not None
    last = json.dumps(plan.document["proposals"][-1], separators=(",", ":"), ensure_ascii=False)
    changed(copy, "plans", last, f"{last},{last.replace(f'k{chr(34)}:', f'k{chr(34)}:9', 1)}")
    assert wrong(copy) == ["plan"]


def test_without_a_list_of_packages_a_search_that_goes_otherwise_is_told(copy, monkeypatch):
    plan = Snapshot(copy).plans.current("tiny")
    assert plan is not None
    derivation = plan.document["proposals"][-1]["derivation"]
    changed(copy, "plans", f'"derivation":"{derivation}"', f'"derivation":"{derivation}1"')
    packages = Snapshot(copy).requests["tiny"].packages
    changed(copy, "runs", f'"packages":"{packages}"', '"packages":""')
    (told,) = (check for check in verify(copy).checks if check.check == "plan")
    assert told.answer == "told" and "it is not known with which packages it was run" in told.what


def test_a_judgement_sealed_anew_is_found(copy):
    changed(copy, "verdicts", '"verdict":"undecided"', '"verdict":"better"')
    assert wrong(copy) == ["verdicts"]


def test_a_proposal_sealed_anew_is_found(copy):
    plan = Snapshot(copy).plans.current("tiny")
    assert plan is not None
    derivation = plan.document["proposals"][-1]["derivation"]
    changed(copy, "plans", f'"derivation":"{derivation}"', f'"derivation":"{derivation}1"')
    assert wrong(copy) == ["plan"]


def test_a_page_that_says_something_else_is_found(copy):
    text = page(copy).read_text(encoding="utf-8")
    document = json.loads(text)
    document["entries"][1]["values"][0] *= 0.99
    page(copy).write_text(json.dumps(document), encoding="utf-8")
    (found,) = verify(copy).wrong
    assert found.check == "page" and "tiny.json says otherwise: entries[1].values[0]: kept" in found.what
    page(copy).write_text(text[:-20], encoding="utf-8")
    assert wrong(copy) == ["page"]


def test_other_libraries_are_told_since_they_may_propose_otherwise(copy, monkeypatch):
    plan = Snapshot(copy).plans.current("tiny")
    assert plan is not None
    derivation = plan.document["proposals"][-1]["derivation"]
    changed(copy, "plans", f'"derivation":"{derivation}"', f'"derivation":"{derivation}1"')
    monkeypatch.setattr(verifying, "packages", lambda: "optuna==0.1\n")
    (told,) = (check for check in verify(copy).checks if check.check == "plan")
    assert told.answer == "told" and "other versions of" in told.what and "optuna" in told.what


@pytest.mark.full
@pytest.mark.parametrize("more", ["", ", pruner: {asha: {first: 67%, factor: 2}}"])
def test_a_search_that_was_stopped_follows_as_far_as_it_has_come(tmp_path, monkeypatch, more):
    calls = 0

    def stop_soon(self: controller.Interrupt) -> bool:
        nonlocal calls
        calls += 1
        return calls > 60

    space = ablate.load_space(write_world(tmp_path), settings=[design("random", trials=8, more=more), "seeds=[0]"])
    with monkeypatch.context() as patched:
        patched.setattr(controller.Interrupt, "__call__", stop_soon)
        assert carry_out(space, tmp_path / "results").ended.interrupted
    stopped = next(check for check in verify(tmp_path / "results").checks if check.check == "plan")
    assert stopped.answer == "right" and "from its results as far as it has come" in stopped.what
    carry_out(space, tmp_path / "results")
    ended = verify(tmp_path / "results", retrain=1)
    assert {check.answer for check in ended.checks} == {"right"}


@pytest.mark.full
def test_where_the_text_that_it_measures_on_is_not_here_it_is_told(tmp_path):
    """Proposals are ordered by what is measured at initialisation, on the first batch of the text."""
    ordered = ", beforehand: {veto: {}, order: {by: start_gradient_norm, of: 2}}"
    space = ablate.load_space(write_world(tmp_path), settings=[design("random", trials=3, more=ordered), "seeds=[0]"])
    carry_out(space, tmp_path / "results")
    assert not wrong(tmp_path / "results")
    ablate.write_bundle("tiny", tmp_path / "tiny.zip", results=tmp_path / "results")
    shutil.rmtree(tmp_path / "texts")
    shutil.rmtree(tmp_path / "results")
    done = ablate.verify(tmp_path / "tiny.zip", retrain=1)
    (told,) = (check for check in done.checks if check.check == "plan")
    assert not done.wrong and told.answer == "told" and "cannot be carried out again" in told.what
