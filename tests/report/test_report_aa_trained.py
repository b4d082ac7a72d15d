"""Real trainings in which nothing is to be found: how often is something found all the same?

Forty sweeps in which nothing was changed but the initialisation; and a factorial of eight blocks, each run less its
mean over seeds, with the signs of whole seeds turned about: so no effect is left, and every effect keeps the amount by
which it varies over seeds. (Labels changed about within a seed would make those amounts the same.)
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from listed import Listed
from rich.console import Console
from tiny_spaces import write_world
from vectorised_judge import answers, pooled_p

import ablate
from ablate.plan.models import Models
from ablate.plan.plan import Comparison, Plan, Variant
from ablate.session.planning import plan_space
from ablate.space.space import Space
from ablate.store.measurements import finals as read_finals
from ablate.store.results import Results
from ablate.verdict.judge import judge

ARMS, SEEDS, SWEEPS, ALLOWED = 3, 4, 40, 6


def plan_of_sweep(space: Space, models: Models, baseline: Variant, first: int) -> Plan:
    """Arms that are the baseline under another salt each, compared with it as edits are.

    The judge is not told of the salts, since what they tell apart it never judges.
    """
    variants = [replace(baseline, id=f"salt{salt}", names=(f"salt {salt}",)) for salt in range(ARMS + 1)]
    salted = [replace(arm, setting=replace(arm.setting, salt=salt)) for salt, arm in enumerate(variants)]
    seeds = tuple(range(first, first + SEEDS))
    return Plan(
        space=space.name,
        question="Is it noise?",
        design="compare",
        baseline=variants[0].id,
        variants=tuple(variants),
        comparisons=tuple(
            Comparison(kind="edit", change=arm.name, detail="nothing", before=variants[0].id, after=arm.id)
            for arm in variants[1:]
        ),
        seeds=seeds,
        trials=tuple(models.trials(salted, seeds)),
        notes=(),
    )


def train(trials, space: Space, results: Path) -> None:
    """Carry trials out in this process."""
    from ablate.data.streams import prepare
    from ablate.execute.controller import Controller, Work
    from ablate.execute.executor import ExecutorOptions, cache_of
    from ablate.execute.local import Inline
    from ablate.report.progress import Progress

    prepare(space.data, space.folder, cache_of(results))
    console = Console(quiet=True)
    with Results(results, say=lambda text: None) as store, Progress(len(trials), 1, console) as progress:
        source = Listed(Work(trial=trial, label=trial.id) for trial in trials)
        Controller(source, store, ExecutorOptions(), watcher=progress, should_stop=lambda: False, say=print).run(
            Inline()
        )
        store.refresh()


def false_findings(folder: Path, sweeps: int, *, corrected: bool = True) -> tuple[int, int]:
    """Of so many real sweeps those with any better or worse, and those in which all seeds of all arms finished."""
    space = ablate.load_space(write_world(folder, steps=12))
    models = plan_space(space, results=folder / "r").models
    known = plan_space(space, results=folder / "r").plan
    baseline = known.variant(known.baseline)
    plans = [plan_of_sweep(space, models, baseline, 1000 + sweep * SEEDS) for sweep in range(sweeps)]
    trials = [trial for plan in plans for trial in plan.trials]
    train(trials, space, folder / "r")
    finals = read_finals(folder / "r", [trial.id for trial in trials])
    found = whole = 0
    for plan in plans:
        summary = judge(plan, space.judge, {trial.id: finals[trial.id] for trial in plan.trials})
        whole += all(arm.finished == SEEDS for arm in summary.arms)
        found += any(
            effect.verdict in ("better", "worse") if corrected else effect.p is not None and effect.p < 0.3
            for effect in summary.effects
        )
    return found, whole


@pytest.mark.full
def test_real_sweeps_of_nothing(tmp_path):
    """The smaller form: at 5 % for each of two metrics, two of three sweeps find something once in forty times."""
    found, whole = false_findings(tmp_path, 3)
    assert whole == 3 and found <= 1


@pytest.mark.slow
def test_forty_real_sweeps_of_nothing(tmp_path, capsys):
    """Nothing is changed but the initialisation: any better or worse, on either of two metrics, is false."""
    found, whole = false_findings(tmp_path, SWEEPS)
    with capsys.disabled():
        print(f"\n{found} of {SWEEPS} real A/A sweeps ({ARMS} arms, {SEEDS} seeds, 2 metrics) find something")
    assert whole == SWEEPS and found <= ALLOWED


@pytest.mark.slow
def test_without_care_they_would(tmp_path):
    """The twin: the same sweeps held against a careless threshold find what is not there in most of them."""
    found, _ = false_findings(tmp_path, SWEEPS // 2, corrected=False)
    assert found > ALLOWED


EIGHT = """\
space: eight_blocks
question: Do the three edits of the Outlier Protected block act alone?
grammar: transformer
model: {layers: 2, width: 32, heads: 4, context: 32, embedding: {std: 0.02, scale: 50}, head: untied,
        init: {normal: 0.02}}
block: {attention.position: rope, mlp.activation: relu}
data: {corpus: python_stdlib, tokenizer: bytes}
recipe: {steps: 80, batch: 8, optimizer: {adamw: {lr: 2e-3}}}
design: {factorial: {from: pre_ln, to: op}}
seeds: 14
measure: {every: 30, probes: [kurtosis, activation_rms], evaluation: {every: 40, windows: 128}}
judge: {against: pre_ln, metrics: {eval_loss: {margin: 1%}, peak_kurtosis: {scale: log}}}
"""


@pytest.mark.slow
def test_a_real_factorial_with_the_signs_of_seeds_turned_about(tmp_path, capsys):
    """One error for all, the twin, finds something in 15 % of these tables or more.

    At this learning rate the norm that is taken away matters more at some seeds than at others: its effect varies by
    about twice as much as the others do. At 1e-2 it does not, and the twin errs in 4 to 8 %.
    """
    (tmp_path / "eight.yaml").write_text(EIGHT)
    space = ablate.load_space(tmp_path / "eight.yaml")
    plan = plan_space(space, results=tmp_path / "r").plan
    train(plan.trials, space, tmp_path / "r")
    finals = read_finals(tmp_path / "r", [trial.id for trial in plan.trials])
    summary = judge(plan, space.judge, finals)
    where = {(trial.variant, trial.seed): finals[trial.id] for trial in plan.trials}
    spherical = {line.metric: line.p for line in summary.anova if line.term == "sphericity"}
    signs = np.array([(1.0, *rest) for rest in product([1.0, -1.0], repeat=len(plan.seeds) - 1)])
    pooled = {}
    for name in space.judge.metrics:
        values = np.array([[where[v.id, seed]["metrics"][name] for seed in plan.seeds] for v in plan.variants])
        values = np.log(values) if space.judge.metrics[name].scale == "log" else values
        tables = (values - values.mean(axis=1, keepdims=True)) * signs[:, None, :]
        by_flips, by_t = (
            answers(plan, tables, level=0.05).false.mean(),
            answers(plan, tables, level=0.05, only_t=True).false.mean(),
        )
        p = pooled_p(plan, tables)
        pooled[name] = (p.min(axis=1) < 0.05 / p.shape[1]).mean()
        with capsys.disabled():
            print(
                f"\n{name}, {len(signs)} tables of 8 real blocks and 14 seeds (sphericity: p = {spherical[name]}): "
                f"{by_flips:.2%} false by flips, {by_t:.2%} by t; one error for all: {pooled[name]:.1%}"
            )
        assert by_flips <= 0.057 and by_t <= 0.057
    assert min(pooled.values()) >= 0.15
