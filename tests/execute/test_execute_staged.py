"""Plans that learn from their trials: looks, tuning and paces, unfolded from what has ended and from nothing else."""

from __future__ import annotations

import io
import json
from collections import Counter

import pytest
from rich.console import Console
from staged_fixtures import all_of, run, write_looks
from tiny_spaces import write_world

import ablate
from ablate.execute.controller import Controller, EndCounts
from ablate.plan.build import plan_of
from ablate.plan.plan import NOTHING_KNOWN, Known
from ablate.report.screens.status import stopped
from ablate.session import stages
from ablate.session.planning import plan_space
from ablate.session.running import StagedRun, work_of
from ablate.session.stages import Stage, adapts, unfold
from ablate.store.query import query
from ablate.store.snapshot import Snapshot, growing, not_over


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """A run through three looks that nobody disturbed: its space, results, what it said, and what it came to."""
    folder = tmp_path_factory.mktemp("looks")
    path = write_looks(folder)
    printed = io.StringIO()
    console = Console(file=printed, width=200)
    done = run(path, folder / "calm", executor="inline", console=console)
    return path, folder / "calm", printed.getvalue(), done


@pytest.mark.full
def test_seeds_are_added_until_the_last_look(calm):
    _, _, said, done = calm
    assert done.plan.seeds == (0, 1, 2, 3) and not done.plan.open and len(done.plan.trials) == 16
    assert [line for line in said.splitlines() if line.startswith("after ")] == list(done.plan.notes[-3:])
    assert [note.rpartition(": ")[2] for note in done.plan.notes[-3:]] == [
        "1 more seed",
        "1 more seed",
        "that was the last look",
    ]
    assert done.summary is not None and done.summary.looked == 4 and not done.summary.decided


@pytest.mark.full
def test_what_is_decided_needs_no_more_seeds(tmp_path):
    done = run(write_looks(tmp_path, margin="50%"), tmp_path / "r", executor="inline")
    assert done.plan.seeds == (0, 1) and not done.plan.open and len(done.plan.trials) == 8
    assert done.plan.notes[-1].endswith("no more seeds are needed")
    assert done.summary.decided
    assert query(tmp_path / "r", "SELECT DISTINCT seeds FROM judged").rows == ((2,),)


@pytest.mark.full
def test_a_plan_shows_the_stage_it_is_at(calm, tmp_path):
    path, results, _, done = calm
    space = ablate.load_space(path)
    before = plan_space(space, results=tmp_path)
    assert before.plan.open and before.plan.seeds == (0, 1) and len(before.to_run) == 8
    after = plan_space(space, results=results)
    assert after.plan == done.plan and not after.to_run


@pytest.mark.full
def test_again_trains_nothing_and_says_the_same(calm):
    path, results, _, done = calm
    before = all_of(results)
    again = run(path, results, executor="inline")
    assert again.plan == done.plan and again.summary == done.summary and not again.ended.kinds
    assert all_of(results) == before


@pytest.mark.full
def test_workers_come_to_the_same_as_one_process(calm, tmp_path):
    path, results, _, done = calm
    other = run(path, tmp_path / "local", executor="local", workers=2)
    assert other.plan == done.plan and all_of(tmp_path / "local") == all_of(results)


@pytest.mark.full
def test_a_failed_trial_has_ended_without_a_number(calm):
    """From the outcomes alone: a bug in the first look is a missing pair, and the looks go on."""
    path, results, _, _ = calm
    space = ablate.load_space(path)
    planned = plan_space(space, results=results)
    bad = next(t.id for t in planned.plan.trials if t.seed == 1 and t.variant != planned.plan.baseline)
    finals = staged_finals(results)
    finals[bad] = {**finals[bad], "status": "bug", "metrics": {}}
    every = {trial.id for trial in planned.plan.trials}
    stage = unfolded(space, planned, every, finals)
    assert stage.plan.seeds == (0, 1, 2, 3) and not stage.plan.open
    effects = [e for e in stage.summary.effects if "1 not paired: bug" in e.note]
    assert effects and all(effect.n == 3 for effect in effects)
    waiting = unfolded(space, planned, every - {bad}, finals)
    assert waiting.plan.seeds == (0, 1) and waiting.plan.open, "the twin: one that has not ended is waited for"


def staged_finals(results):
    from ablate.store.measurements import finals

    return finals(results, Snapshot(results).outcomes().keys())


def unfolded(space, planned, ended, finals):
    def asked(ids):
        return {id: finals[id] for id in ids if id in finals}

    return unfold(
        space,
        planned.plans.of,
        ended=ended,
        finals=asked,
        paces={},
        account=lambda plan, finals: {},
    )


@pytest.mark.full
@pytest.mark.full
def test_what_is_seen_decides_and_not_when(calm):
    """Whatever else has ended already (another space asked for it), a look sees its own seeds alone."""
    path, results, _, _ = calm
    space = ablate.load_space(path)
    planned = plan_space(space, results=results)
    finals = staged_finals(results)
    first = {t.id for t in planned.plan.trials if t.seed < 2}
    late = next(t.id for t in planned.plan.trials if t.seed == 3)
    assert unfolded(space, planned, first, finals).plan == unfolded(space, planned, first | {late}, finals).plan


@pytest.mark.full
def test_stopped_inside_a_look_and_gone_on_with(calm, tmp_path, monkeypatch):
    path, results, _, done = calm
    handed = []
    go = StagedRun.next

    def stopping(self):
        if len(handed) == 10:
            raise KeyboardInterrupt
        work = go(self)
        handed.extend([work] if work else [])
        return work

    monkeypatch.setattr(StagedRun, "next", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(path, tmp_path / "r", executor="inline")
    monkeypatch.undo()
    assert growing(Snapshot(tmp_path / "r"))["tiny"].open
    assert not_over(Snapshot(tmp_path / "r")) == {"tiny": "not all of it is decided"}
    (left,), refused = ablate.resumable(tmp_path / "r")
    assert not refused and left.left == 2, "10 of 12 have ended"
    again = run(path, tmp_path / "r", executor="inline")
    assert again.plan == done.plan and all_of(tmp_path / "r") == all_of(results)
    assert ablate.resumable(tmp_path / "r") == ((), ()) and not not_over(Snapshot(tmp_path / "r"))


@pytest.mark.slow
def test_anew_trains_every_look_again(tmp_path):
    path = write_looks(tmp_path, looks="[2, 3]")
    run(path, tmp_path / "r", executor="inline")
    first = dict(query(tmp_path / "r", "SELECT trial_id, attempt FROM trials").rows)
    again = run(path, tmp_path / "r", executor="inline", fresh=True)
    assert set(first.values()) == {1} and again.ended.kinds == {"finished": 12}
    assert dict(query(tmp_path / "r", "SELECT trial_id, attempt FROM trials").rows) == dict.fromkeys(first, 2)


@pytest.mark.full
def test_a_space_that_says_something_else_by_now_goes_on_as_it_was_run(tmp_path, monkeypatch):
    path = write_looks(tmp_path, looks="[2, 3]")
    monkeypatch.setattr(StagedRun, "_go_on", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(path, tmp_path / "r", executor="inline")
    path.write_text(path.read_text().replace("steps: 12", "steps: 13"))
    (found,), refused = ablate.resumable(tmp_path / "r")
    assert not refused and found.space.recipe.steps == 12
    assert found.changed.endswith("tiny.yaml (recipe.steps) has changed since tiny was run")


def interrupted(self):
    raise KeyboardInterrupt


def test_tuning_comes_first_and_chooses(tmp_path):
    path = write_world(tmp_path, seeds=2)
    text = path.read_text().replace("design: {path:", "fair: {tune: {seeds: 1, lr: [1e-4, 1e-2]}}\ndesign: {path:")
    path.write_text(text)
    space = ablate.load_space(path)
    before = plan_space(space, results=tmp_path / "r")
    assert before.plan.open and {t.split for t in before.to_run} == {"tuning"} and len(before.to_run) == 8
    done = run(path, tmp_path / "r", executor="inline")
    assert not done.plan.open
    verdict = [trial for trial in done.plan.trials if trial.split == "verdict"]
    assert len(verdict) == 8 and len(done.plan.trials) == 16
    losses = dict(query(tmp_path / "r", "SELECT trial_id, value FROM summaries WHERE name = 'eval_loss'").rows)
    for variant in done.plan.variants:
        tuned = {t.work.recipe.optimizer.settings["lr"]: losses[t.id] for t in before.to_run if t.variant == variant.id}
        best = min(tuned, key=lambda lr: tuned[lr])
        chosen = {t.work.recipe.optimizer.settings["lr"] for t in verdict if t.variant == variant.id}
        assert chosen == {best} and len(tuned) == 2
    assert plan_space(space, results=tmp_path / "r").plan == done.plan
    rows = query(tmp_path / "r", "SELECT variant, seed FROM pairs ORDER BY ALL").rows
    assert len(rows) == 6 and {seed for _, seed in rows} == {0, 1}, "trials that choose are in no pair"
    assert query(tmp_path / "r", "SELECT count(*) FROM edit_pairs").rows == ((6,),)
    assert query(tmp_path / "r", "SELECT DISTINCT n FROM leaderboard").rows == ((2,),)


@pytest.mark.full
def test_a_field_of_the_recipe_and_one_of_the_block_are_tuned_together(tmp_path):
    path = write_world(tmp_path, seeds=2)
    tune = "{seeds: 1, recipe.schedule.warmup: [0, 50%], attention_norm.eps: [1e-5, 1.0]}"
    text = path.read_text().replace("design: {path:", f"fair: {{tune: {tune}}}\ndesign: {{path:")
    path.write_text(text)
    space = ablate.load_space(path)
    before = plan_space(space, results=tmp_path / "r").plan
    has = [
        v for v in before.variants if not any(f"{v.name} has no attention_norm.eps" in note for note in before.notes)
    ]
    assert 0 < len(has) < len(before.variants), "some blocks of the path have no norm before attention"
    done = run(path, tmp_path / "r", executor="inline")
    assert not done.plan.open and plan_space(space, results=tmp_path / "r").plan == done.plan
    losses = dict(query(tmp_path / "r", "SELECT trial_id, value FROM summaries WHERE name = 'eval_loss'").rows)
    for variant in done.plan.variants:
        tried = {losses[id]: setting for id, setting in done.plan.tried if done_by(done.plan, id) == variant.id}
        assert len(tried) == (4 if variant.id in {v.id for v in has} else 2), "each setting trains something else"
        assert variant.setting.tuned == tried[min(tried)]
        chosen = [t for t in done.plan.trials if t.variant == variant.id and t.split == "verdict"]
        warmup = dict(variant.setting.tuned)["recipe.schedule.warmup"]
        assert {t.work.recipe.schedule.warmup for t in chosen} == {warmup} and len(chosen) == 2
    rows = query(tmp_path / "r", "SELECT variant_id, setting ->> '$.tuned' FROM variants").rows
    stored = {id: tuple(map(tuple, json.loads(told))) for id, told in rows}
    assert stored == {variant.id: variant.setting.tuned for variant in done.plan.variants}
    assert query(tmp_path / "r", "SELECT DISTINCT n FROM leaderboard").rows == ((2,),)


def done_by(plan, id):
    return next(trial.variant for trial in plan.trials if trial.id == id)


@pytest.mark.full
def test_paces_are_measured_before_anything_is_trained(tmp_path):
    path = write_world(tmp_path, seeds=2)
    text = path.read_text().replace("design: {path:", "fair: {budget: wallclock}\ndesign: {path:")
    path.write_text(text)
    space = ablate.load_space(path)
    before = plan_space(space, results=tmp_path / "r")
    assert before.awaits_step_times and before.plan.open and before.plan.trials
    done = run(path, tmp_path / "r", executor="inline")
    assert not done.plan.open and len(done.plan.trials) == 8
    after = plan_space(space, results=tmp_path / "r")
    assert after.plan == done.plan and not after.awaits_step_times and after.stage.known.paces
    steps = {t.variant: t.work.recipe.steps for t in done.plan.trials}
    assert steps[done.plan.baseline] == 12


def test_a_space_that_learns_nothing_has_one_stage(tmp_path):
    space = ablate.load_space(write_world(tmp_path))
    planned = plan_space(space, results=tmp_path / "r")
    assert not adapts(space) and not planned.plan.open
    assert planned.plan == planned.plans.of(NOTHING_KNOWN)
    assert planned.stage == Stage(plan=planned.plan, known=NOTHING_KNOWN)


@pytest.mark.full
def test_what_waits_is_counted_apart_from_what_may_follow(calm, tmp_path, monkeypatch):
    """Stopped when the last trial of a look was handed out: nothing waits, and more may follow."""
    path, _, _, _ = calm
    ended = []
    handle = Controller._end

    def ending(self, work, outcome):
        handle(self, work, outcome)
        if len(self._ended.kinds) and sum(self._ended.kinds.values()) == 8:
            ended.append((self._source.waiting, self._source.open))
            raise KeyboardInterrupt

    monkeypatch.setattr(Controller, "_end", ending)
    with pytest.raises(KeyboardInterrupt):
        run(path, tmp_path / "r", executor="inline")
    assert ended == [(0, True)]
    assert EndCounts(open=True).interrupted and not EndCounts().interrupted
    assert stopped(EndCounts(Counter(finished=8), 0, open=True), again="x", grows=True).startswith(
        "stopped: 8 trials ended, 0 left in progress, 0 not started, more may follow"
    )


def count_plans(monkeypatch):
    """What each plan that is built over a corpus is built from."""
    built = []

    def build(models, known):
        built.append(known)
        return plan_of(models, known)

    monkeypatch.setattr("ablate.session.stages.plan_of", build)
    return built


@pytest.mark.full
def test_each_plan_of_a_run_is_built_once(tmp_path, monkeypatch):
    built = count_plans(monkeypatch)
    run(write_looks(tmp_path, looks="[2, 3]"), tmp_path / "r", executor="inline")
    assert built == [NOTHING_KNOWN, Known(seeds=(0, 1)), Known(seeds=(0, 1, 2))]


@pytest.mark.full
def test_a_run_is_planned_again_where_steps_follow_from_measured_time(tmp_path, monkeypatch):
    path = write_world(tmp_path, seeds=1)
    path.write_text(path.read_text().replace("design: {path:", "fair: {budget: wallclock}\ndesign: {path:"))
    built = count_plans(monkeypatch)
    done = run(path, tmp_path / "r", executor="inline")
    assert built[0] == NOTHING_KNOWN and len(built) == 2 and built[1].paces
    assert not done.plan.open and len(done.plan.trials) == 4


@pytest.mark.full
def test_a_look_counts_what_is_asked_twice_once(calm):
    """Three edits and their ends against the baseline, of which the first edit is one: five, on one metric."""
    _, _, printed, done = calm
    pairs = {frozenset((one.before, one.after)) for one in done.plan.comparisons}
    assert len(pairs) == 5 < len(done.plan.comparisons)
    assert "after 2 seeds, 0 of 5 verdicts decided" in printed


@pytest.mark.slow
def test_stopped_while_steps_are_measured_it_is_known_of(tmp_path, monkeypatch):
    path = write_world(tmp_path, seeds=2)
    path.write_text(path.read_text().replace("design: {path:", "fair: {budget: wallclock}\ndesign: {path:"))
    results = tmp_path / "r"
    with monkeypatch.context() as patched:
        patched.setattr(stages, "measure_step_times", lambda *told, **how: interrupted(None))
        with pytest.raises(KeyboardInterrupt):
            run(path, results, executor="inline")
    assert not_over(Snapshot(results)) == {"tiny": "not all of it is decided"}
    (left,), refused = ablate.resumable(results)
    assert not refused and left.space.name == "tiny" and left.left >= 1
    done = run(path, results, executor="inline")
    assert not done.plan.open and ablate.resumable(results) == ((), ())


def test_trials_of_tuning_are_called_by_every_setting_that_is_chosen(tmp_path):
    def labels(tune):
        path = write_world(tmp_path, seeds=2)
        path.write_text(path.read_text().replace("design: {path:", f"fair: {{tune: {tune}}}\ndesign: {{path:"))
        plan = plan_space(ablate.load_space(path), results=tmp_path / "r").plan
        return [work.label for work in work_of(plan, plan.trials)]

    both = labels("{lr: [1e-3, 1e-2], weight_decay: [0, 0.1], seeds: 1}")
    assert len(set(both)) == len(both) and both[0] == "pre_ln · seed 1000000, lr 0.001, weight decay 0, tuning"
    one = labels("{weight_decay: [0, 0.1], seeds: 1}")
    assert len(set(one)) == len(one) and one[0] == "pre_ln · seed 1000000, weight decay 0, tuning"
