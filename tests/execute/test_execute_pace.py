"""Seconds a step: the trainer's own steps, clocked in pairs, measured once and kept."""

import itertools
import random
import re
import subprocess
import sys

import pytest
import torch
from builders import CATALOGUE
from tiny_spaces import write_world

from ablate.data.streams import fingerprint
from ablate.errors import RefusedError
from ablate.execute import machine as pacing
from ablate.execute.executor import cache_of
from ablate.execute.machine import NoStep, Pace, pace
from ablate.plan.build import build_plan
from ablate.plan.models import Models
from ablate.plan.plan import Known
from ablate.session.stages import Plans, measure_step_times, read_step_times, step_times_of, timed_models
from ablate.space.load import load_space
from ablate.store.machines import paces_in
from ablate.train.events import Row, Step

FAIR = "fair={under: {equal steps: {budget: steps}, equal wall-clock: {budget: wallclock}}}"


TOLD = (
    r"a step of sas_p, equal wall-clock takes \S+ times the time \(\S+ to \S+ in the middle half of the pairs\) "
    r"of one of pre_ln"
)


@pytest.fixture
def quick(monkeypatch):
    """Fewer steps than one would trust."""
    monkeypatch.setattr(pacing, "TIMED_SECONDS", 0.0)
    monkeypatch.setattr(pacing, "FEWEST_STEPS", 2)


def world(tmp_path, *settings, blocks="pre_ln, sas_p", fair=FAIR):
    path = write_world(tmp_path)
    space = load_space(path, CATALOGUE, settings=(fair, f"design={{compare: [{blocks}]}}", *settings))
    results = tmp_path / "results"
    corpus = fingerprint(space.data, space.folder, cache_of(results))
    return results, Models(space, corpus.vocab_size, corpus.fingerprint)


def planned(models, paces):
    return build_plan(models.space, vocab_size=models.vocab_size, corpus=models.corpus, known=Known(paces=paces))


def test_steps_are_taken_in_turn_and_clocked_without_the_first(tmp_path, monkeypatch):
    """A made-up clock: a step takes a second a layer, the first ones fifty more."""
    results, models = world(tmp_path)
    deep = load_space(models.space.path, CATALOGUE, settings=("model.layers=8", FAIR, "design={compare: [pre_ln, op]}"))
    large, small = (timed_models(Plans(of))[0].trial for of in (Models(deep, models.vocab_size, models.corpus), models))
    clock, order = [0.0], []

    def steps(trial, **how):
        assert trial.work.measure.probes == ()
        for step in itertools.count(1):
            yield Row(step, "train_loss", "", 1.0)
            order.append(trial.work.architecture.sizes.n_layers)
            clock[0] += trial.work.architecture.sizes.n_layers + (50 if step <= pacing.WARM_UP else 0)
            yield Step(step)

    monkeypatch.setattr("ablate.execute.work.compute", steps)
    monkeypatch.setattr(pacing.time, "perf_counter", lambda: clock[0])
    found = pace(large, small, cache=cache_of(results), plugins=())
    assert (found.seconds, found.beside, found.ratio, found.middle) == (8.0, 2.0, 4.0, (4.0, 4.0))
    assert order == [8, 2] * (pacing.WARM_UP + pacing.FEWEST_STEPS)


def test_it_is_measured_once_and_decides_steps(tmp_path, quick):
    results, models = world(tmp_path)
    assert read_step_times(results, Plans(models)) == {}
    notices = []
    paces = measure_step_times(results, Plans(models), say=notices.append)
    assert notices[0] == "measuring seconds per step, once: sas_p, equal wall-clock beside pre_ln"
    assert re.fullmatch(TOLD, notices[1])
    assert (
        read_step_times(results, Plans(models))
        == paces
        == measure_step_times(results, Plans(models), say=notices.append)
    )
    assert len(paces_in(results)) == 1
    assert len([text for text in notices if not text.startswith("! ")]) == 2
    plan = planned(models, paces)
    assert not plan.open
    by_name = {models.space.judge.against: models.as_written(models.space.blocks["pre_ln"])}
    before, after = paces[by_name["pre_ln"]], paces[models.as_written(models.space.blocks["sas_p"])]
    steps = {t.work.recipe.steps for t in plan.trials} - {12}
    assert steps == {max(1, round(12 * before / after))} - {12}
    assert set(step_times_of(plan, models, paces).values()) == {before, after}


def test_it_is_measured_again_where_all_is_to_be_fresh(tmp_path, quick, monkeypatch):
    results, models = world(tmp_path)
    first = measure_step_times(results, Plans(models))
    monkeypatch.setattr(pacing, "pace", lambda *trials, **how: Pace(3.0, 1.0))
    assert measure_step_times(results, Plans(models)) == first
    again = measure_step_times(results, Plans(models), fresh=True)
    assert sorted(again.values()) == [1.0, 3.0]
    assert read_step_times(results, Plans(models)) == again


@pytest.mark.full
def test_a_model_that_comes_later_is_put_beside_what_is_known(tmp_path, quick, monkeypatch):
    results, models = world(tmp_path)
    monkeypatch.setattr(pacing, "pace", lambda *trials, **how: Pace(0.3, 0.1))
    before = measure_step_times(results, Plans(models))
    _, more = world(tmp_path, blocks="pre_ln, sas_p, op")
    calls = []

    def slower(trial, beside, **how):  # the whole machine is slower now, and op takes twice what pre_ln does
        calls.append(trial.variant)
        return Pace(4.0, 2.0)

    monkeypatch.setattr(pacing, "pace", slower)
    after = measure_step_times(results, Plans(more))
    assert len(calls) == 1
    assert {id: after[id] for id in before} == before
    assert after[more.as_written(more.space.blocks["op"])] == pytest.approx(0.2)
    assert read_step_times(results, Plans(models)) == before
    notices = []
    _, both = world(tmp_path, blocks="pre_ln, op, post_ln")
    measure_step_times(results, Plans(both))
    _, all_known = world(tmp_path, blocks="pre_ln, sas_p, post_ln")  # each measured, though never in one run
    assert read_step_times(results, Plans(all_known)) == {}
    found = measure_step_times(results, Plans(all_known), say=notices.append)
    assert (len(calls), notices) == (2, [])
    assert read_step_times(results, Plans(all_known)) == found
    monkeypatch.setattr(pacing, "timing_versions", lambda: {"device": "another"})
    _, most = world(tmp_path, blocks="pre_ln, sas_p, op, post_ln")
    measure_step_times(results, Plans(most))
    assert len(calls) == 5  # on another machine what was measured on this one says nothing


@pytest.mark.parametrize(
    "setting",
    [
        "recipe.batch=5",
        *(pytest.param(one, marks=pytest.mark.full) for one in ("threads=2", "recipe.dtype=float64", "model.width=32")),
    ],
)
def test_what_was_measured_otherwise_does_not_hold(tmp_path, quick, setting):
    results, models = world(tmp_path)
    measure_step_times(results, Plans(models))
    _, other = world(tmp_path, setting)
    assert read_step_times(results, Plans(other)) == {}
    _, same = world(tmp_path, "recipe.steps=50", "seeds=7", "recipe.optimizer.adamw.lr=1e-4")
    assert read_step_times(results, Plans(same))


def test_what_takes_no_step_has_the_steps_of_the_baseline_and_is_told(tmp_path, quick):
    results, models = world(
        tmp_path,
        "model.embedding.scale=1",
        "blocks={broken: [residual: {gain: 1e38, branch: [layer_norm, mlp]}, residual: {gain: 1e38, branch: [mlp]}]}",
        blocks="pre_ln, broken",
    )
    said = []
    paces = measure_step_times(results, Plans(models), say=said.append)
    assert said[1:] == [
        "broken, equal wall-clock completes no step (eval_loss is nan): it gets as many steps as pre_ln"
    ]
    assert len(set(paces.values())) == 1
    assert list(paces_in(results)[0].unmeasured.values()) == ["eval_loss is nan"]
    plan = planned(models, paces)
    assert {t.work.recipe.steps for t in plan.trials} == {12}


def test_a_baseline_that_takes_no_step_is_refused(tmp_path, monkeypatch):
    results, models = world(tmp_path)

    def none(*trials, **how):
        raise NoStep("diverged", "diverged")

    monkeypatch.setattr(pacing, "pace", none)
    with pytest.raises(RefusedError, match="the time of pre_ln, which completes no step: diverged"):
        measure_step_times(results, Plans(models))
    assert paces_in(results) == ()


def test_a_lack_of_memory_for_two_is_none_for_one_after_the_other(tmp_path, quick, monkeypatch):
    results, models = world(tmp_path)
    first, other = (model.trial for model in timed_models(Plans(models)))
    real, calls = pacing._measured, []

    def measured(stepping):
        calls.append(len(stepping))
        if len(stepping) > 1:
            raise NoStep("out_of_memory", "no room")
        return real(stepping)

    monkeypatch.setattr(pacing, "_measured", measured)
    found = pace(first, other, cache=cache_of(results), plugins=())
    assert calls == [2, 1, 1]
    assert found.seconds > 0 < found.beside


def test_this_process_is_left_as_it_was(tmp_path, quick):
    results, models = world(tmp_path, "threads=2")
    torch.manual_seed(7)
    before = torch.get_num_threads(), torch.get_deterministic_debug_mode(), torch.random.get_rng_state()
    measure_step_times(results, Plans(models))
    after = torch.get_num_threads(), torch.get_deterministic_debug_mode(), torch.random.get_rng_state()
    assert after[:2] == before[:2]
    assert torch.equal(after[2], before[2])


def test_a_ratio_of_pairs_bears_a_machine_that_is_slow_for_a_while(monkeypatch):
    """Steps of 2 and 1 seconds, of which a third is slowed threefold in whole pairs: the ratio is 2 all the same."""
    slow = [3 if random.Random(n).random() < 0.4 else 1 for n in range(60)]
    monkeypatch.setattr(pacing, "_measured", lambda stepping: [[2.0 * s for s in slow], [1.0 * s for s in slow]])
    monkeypatch.setattr(pacing, "_bare", lambda trial: trial)
    found = pace(None, None, cache=None, plugins=())
    assert found.seconds / found.beside == 2.0


def test_no_terms_no_paces(tmp_path):
    results, models = world(tmp_path, fair="fair={under: {equal steps: {}, equal FLOPs: {budget: flops}}}")
    assert timed_models(Plans(models)) == ()
    assert measure_step_times(results, Plans(models)) == read_step_times(results, Plans(models)) == {}
    assert paces_in(results) == ()


def test_reading_loads_no_torch(tmp_path):
    path = write_world(tmp_path)
    script = f"""
import sys
from pathlib import Path
from ablate.components.registry import declarations
from ablate.plan.models import Models
from ablate.session.stages import Plans
from ablate.session.stages import read_step_times
from ablate.space.load import load_space
found = load_space(Path({str(path)!r}), declarations(), settings=({FAIR!r},))
assert read_step_times(Path({str(tmp_path)!r}), Plans(Models(found, 256, "corpus"))) == {{}}
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(("middle", "warned"), [((0.9, 1.4), True), ((1.18, 1.24), False), (None, False)])
def test_a_pace_that_scatters_is_told_and_its_middle_half_kept(tmp_path, quick, monkeypatch, middle, warned):
    results, models = world(tmp_path)
    monkeypatch.setattr(pacing, "pace", lambda *trials, **how: Pace(1.2, 1.0, middle))
    said = []
    measure_step_times(results, Plans(models), say=said.append)
    told = [text for text in said if text.startswith("! these pairs scatter by 42 %")]
    assert bool(told) == warned == any("--fresh" in text for text in said)
    (held,) = paces_in(results)
    assert list(held.middles.values()) == ([middle] if middle else [])
