"""Trials with state beyond parameters go on where they stopped: a look at the first batch, power iterations, AdamW in
the order of operations of other code.
"""

import pytest
import torch
from listed import Listed
from tiny_spaces import write_world

import ablate
from ablate.execute.controller import Controller, Work
from ablate.execute.executor import ExecutorOptions
from ablate.execute.work import compute
from ablate.store.results import Results
from ablate.train.events import Checkpoint, Row

pytestmark = pytest.mark.fast

AS_RELEASED = (
    "recipe.optimizer.adamw.eps_when=before_correction",
    "recipe.optimizer.adamw.decay_when=after_update",
    "recipe.optimizer.adamw.decays=[weights, embedding, positions, head]",
    "recipe.schedule.from_zero=true",
    "recipe.schedule.floor={rate: 1e-7}",
)


@pytest.fixture(scope="module", autouse=True)
def as_before():
    """A trial sets how this whole process computes: threads, deterministic algorithms, what new memory holds."""
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode(mode)
    torch.utils.deterministic.fill_uninitialized_memory = filled


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """By block: Admin's and Pre-LN's, both with weights divided by their spectral norms."""
    folder = tmp_path_factory.mktemp("world")
    path = write_world(folder, steps=12, seeds=1)
    text = path.read_text().replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, admin]}")
    path.write_text(text.replace("{attention.position: rope}", "{attention.entropy: sigma_reparam, mlp.up: spectral}"))
    plan = ablate.plan_space(ablate.load_space(path, settings=AS_RELEASED), results=folder / "results").plan
    return {
        "admin" if "admin" in str(trial.work.architecture.block) else "pre_ln": trial for trial in plan.trials
    }, folder


def run(trial, folder, *, resume=None, stop_after=None):
    """The rows and the last state of a trial, stopped after some steps where that is said."""
    asked = iter(range(1_000))
    rows, state = [], None

    def should_stop():
        return stop_after is not None and next(asked) >= stop_after

    for event in compute(trial, cache=folder / "cache", plugins=(), resume=resume, should_stop=should_stop):
        if isinstance(event, Row):
            rows.append(event)
        elif isinstance(event, Checkpoint):
            state = event.state
    return rows, state


@pytest.mark.parametrize("name", ["admin", "pre_ln"])
def test_a_trial_goes_on_to_the_same_bits(trials, name):
    made, folder = trials
    whole, _ = run(made[name], folder)
    first, state = run(made[name], folder, stop_after=5)
    rest, _ = run(made[name], folder, resume=state)
    assert len(first) and len(rest)
    assert [*first, *rest] == whole
    rates = [row.value for row in whole if row.metric == "learning_rate"]
    assert rates[0] == 0.0 and max(rates) <= 1e-3


def test_only_a_trial_that_looks_at_data_is_profiled(trials, monkeypatch):
    """Without the look, Admin's rows are others; Pre-LN's are the same."""
    made, folder = trials
    with_look = {name: run(made[name], folder)[0] for name in made}
    monkeypatch.setattr("ablate.execute.work.profile", lambda model, tokens: None)
    without = {name: run(made[name], folder)[0] for name in made}
    assert with_look["pre_ln"] == without["pre_ln"]
    assert with_look["admin"] != without["admin"]


def test_where_the_pass_over_the_first_batch_lacks_memory_parts_are_not_tried(trials, tmp_path, monkeypatch):
    """It takes the whole batch at once; what is told says so. The twin: a trial on a share is tried alone before."""
    from ablate.execute import work
    from ablate.execute.executor import SHARE, UNCUT, Attempt, after_lack
    from ablate.execute.local import Inline

    def lacking(model, tokens):
        raise torch.OutOfMemoryError(f"CUDA out of memory for {len(tokens)} sequences")

    by_block, _ = trials
    monkeypatch.setattr(work, "profile", lacking)
    notices, asked = [], []

    class Counting(Inline):
        def run(self, next_task, handle, should_stop):
            super().run(lambda: asked.append(next_task()) or asked[-1], handle, should_stop)

    with Results(tmp_path / "results") as results:
        source = Listed([Work(trial=by_block["admin"], label="admin")])
        controller = Controller(
            source, results, ExecutorOptions(), watcher=Silent(), should_stop=lambda: False, say=notices.append
        )
        assert controller.run(Counting()).kinds == {"out_of_memory": 1}
        outcome = results.outcomes()[by_block["admin"].id]
    assert len([task for task in asked if task]) == 1
    assert notices == ["layers.*.attention uses sdpa: first choice on cpu"]  # and nothing else
    assert outcome.detail["cause"] == f"CUDA out of memory for 4 sequences ({work.IN_PROFILE})"
    assert outcome.detail["out_of_memory"] == [1] and UNCUT in outcome.detail and SHARE not in outcome.detail
    assert after_lack(Attempt(), most=1, share=0.5) == Attempt(1, True, (1,))


class Silent:
    def started(self, trial_id, label, steps): ...
    def step(self, trial_id, step, loss): ...
    def ended(self, trial_id, outcome_kind, step): ...
