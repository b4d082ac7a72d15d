"""Repetition measured on the corpus: where a model names it, and nowhere else."""

import math

import pytest
from builders import CATALOGUE
from tiny_spaces import write_world

from ablate import session
from ablate.data.corpus_statistics import measure_repetition
from ablate.execute.executor import ExecutorOptions, cache_of
from ablate.plan.build import build_plan
from ablate.session.running import run
from ablate.space.load import load_space

NAMED = ("block.attention.value={dense: {init: {normal: sqrt(repetition/width)}}}",)
MODEL = ("model.embedding.std=sqrt(repetition)",)
INIT = ("model.init={normal: repetition}",)


@pytest.fixture
def world(tmp_path):
    return write_world(tmp_path, steps=2, seeds=1)


def load(path, *settings):
    return load_space(path, CATALOGUE, settings=settings)


def values(plan):
    return {trial.work.architecture.sizes.repetition for trial in plan.trials}


@pytest.mark.parametrize("settings", [NAMED, MODEL, INIT])
def test_it_is_measured_and_decides_what_a_trial_is(world, tmp_path, settings):
    space = load(world, *settings)
    planned = session.plan_space(space, results=tmp_path / "results")
    measured = measure_repetition(space.data, space.folder, cache_of(tmp_path / "results"), 16).value
    assert 0 < measured < 0.2
    assert values(planned.plan) == {measured}
    assert f"tokens of the training split: {measured:.4f}" in " ".join(planned.plan.notes)
    again = build_plan(space, vocab_size=planned.corpus.vocab_size, corpus=planned.corpus.fingerprint, repetition=0.5)
    assert not {t.id for t in again.trials} & {t.id for t in planned.plan.trials}


def test_who_does_not_name_it_has_none_and_nothing_is_counted(world, tmp_path, monkeypatch):
    def never(*args):
        raise AssertionError("counted")

    monkeypatch.setattr("ablate.session.planning.measure_repetition", never)
    planned = session.plan_space(load(world), results=tmp_path / "results")
    assert values(planned.plan) == {None}
    assert not any("repetition" in note for note in planned.plan.notes)
    with pytest.raises(AssertionError, match="counted"):  # the twin
        session.plan_space(load(world, *NAMED), results=tmp_path / "results")


def test_only_the_variants_that_name_it_depend_on_it(world, tmp_path):
    text = world.read_text().replace("design: {path: {from: pre_ln, to: op}}", "design: {compare: [pre_ln, mine]}")
    text += "blocks: {mine: [attention: {value: {dense: {init: {normal: repetition}}}}]}\n"
    world.write_text(text)
    planned = session.plan_space(load(world), results=tmp_path / "results")
    named = {planned.plan.variant(t.variant).name: t.work.architecture.sizes.repetition for t in planned.plan.trials}
    assert named["pre_ln"] is None
    assert named["mine"] is not None
    alone = session.plan_space(load(world, "design={compare: [pre_ln, op]}"), results=tmp_path / "results")
    assert {t.id for t in planned.plan.trials} & {t.id for t in alone.plan.trials}  # pre_ln is trained once


def test_check_reads_no_corpus_and_says_what_it_does_not_know(world):
    for file in world.parent.glob("texts/*/*"):  # which are there, and cannot be read as text
        file.write_bytes(b"\xff")
    plan = session.check(load(world, *NAMED))
    zipf = math.pi**2 / (6 * math.log(256) ** 2)
    assert values(plan) == {zipf}
    assert f"repetition is not known before the corpus is read: checked with {zipf:.4f}" in " ".join(plan.notes)
    assert values(session.check(load(world))) == {None}


@pytest.mark.full
def test_a_space_that_names_it_trains_at_what_was_measured(world, tmp_path):
    space = load(world, *NAMED)
    results = tmp_path / "results"
    done = run(space, results=results, options=ExecutorOptions(executor="inline"), mirror=False)
    assert done.ended.kinds == {"finished": len(done.plan.trials)}
    measured = measure_repetition(space.data, space.folder, cache_of(results), 16).value
    assert values(done.plan) == {measured}
    assert session.plan_space(space, results=results).to_run == ()
    other = session.plan_space(load(world, "block.attention.value={dense: {init: {normal: 0.1}}}"), results=results)
    assert len(other.to_run) == len(done.plan.trials)
