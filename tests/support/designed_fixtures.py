"""Plans of every design, from real spaces of the shipped grammar, and made-up numbers for their trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from space_fixtures import space

from ablate.plan.build import build_plan
from ablate.plan.plan import Plan
from ablate.space.judge import Judge, Judged
from ablate.verdict.experiment import Final

DESIGNS = {
    "compare": "{compare: [pre_ln, op, sas, sas_p]}",
    "path": "{path: {from: pre_ln, to: op, split: true}}",
    "leave_one_out": "{leave_one_out: {from: pre_ln, to: op, split: true}}",
    "add_one_in": "{add_one_in: {from: pre_ln, to: op, split: true}}",
    "factorial": "{factorial: {from: pre_ln, to: op}}",
    "fractional": "{fractional: {from: pre_ln, to: op, split: true, resolution: IV}}",
    "plackett_burman": "{plackett_burman: {from: pre_ln, to: op, split: true}}",
    "d_optimal": "{d_optimal: {from: pre_ln, to: op, split: true, runs: 9, interactions: none}}",
}
LOOKS = (4, 6, 9, 13, 20)
FREE = Judged(margin="none", scale="linear", better="lower")


def designed(design: str, *, seeds: int = 4, looks: Sequence[int] = (), extra: str = "") -> Plan:
    """The plan of a design; with looks, as it is at the last of them."""
    with TemporaryDirectory() as folder:
        asked = space(
            Path(folder),
            design=DESIGNS.get(design, design),
            seeds=str(max(looks, default=seeds)),
            judge="{against: pre_ln, metrics: {eval_loss: {}}}",
            **({"noise": extra} if extra else {}),
        )
        return replace(build_plan(asked, vocab_size=256, corpus="corpus"), looks=tuple(looks))


def rules(*names: str, judged: Judged = FREE, family: str = "metric", confidence: float = 0.95) -> Judge:
    """One way of judging for all of these metrics."""
    metrics = dict.fromkeys(names or ("eval_loss",), judged)
    return Judge(metrics=metrics, against="pre_ln", confidence=confidence, family=family)  # type: ignore[arg-type]


def ends(plan: Plan, values: Mapping[str, NDArray[np.float64]]) -> dict[str, Final]:
    """Finals of a plan's trials from values [variant, seed] of each metric, in the plan's order."""
    row = {variant.id: i for i, variant in enumerate(plan.variants)}
    column = {seed: i for i, seed in enumerate(plan.seeds)}
    return {
        trial.id: Final(
            status="finished",
            step=20,
            metrics={name: float(table[row[trial.variant], column[trial.seed]]) for name, table in values.items()},
        )
        for trial in plan.trials
    }


def tables(
    plan: Plan,
    times: int,
    *,
    random: np.random.Generator,
    shifts: Sequence[float] | None = None,
    sd: float | Sequence[float] = 0.01,
    varies: float = 1.0,
) -> NDArray[np.float64]:
    """So many tables [tables, variants, seeds]: seeds share noise, each trial has its own, variants differ by `shifts`.

    What an edit does varies over seeds, alike in all variants that have it, as it does in real trainings: with an sd
    `varies` times that of a trial's own noise, which is `sd`, of all variants or of each.
    """
    variants, seeds = len(plan.variants), len(plan.seeds)
    level = 2.3 + (np.zeros(variants) if shifts is None else np.asarray(shifts))
    own = np.broadcast_to(np.asarray(sd, dtype=np.float64), (variants,))[:, None]
    edits = sorted({edit for variant in plan.variants for edit in variant.edits})
    has = np.array([[edit in variant.edits for edit in edits] for variant in plan.variants], dtype=np.float64)
    edited = has @ random.standard_normal((times, len(edits), seeds))
    made: NDArray[np.float64] = (
        level[:, None]
        + random.normal(0, 0.05, (times, 1, seeds))
        + own * random.standard_normal((times, variants, seeds))
        + varies * float(own.mean()) * edited
    )
    return made


def sweeps(
    plan: Plan,
    times: int,
    *names: str,
    rng: int = 0,
    shifts: Sequence[float] | None = None,
    sd: float | Sequence[float] = 0.01,
    varies: float = 1.0,
    lost: NDArray[np.bool_] | None = None,
) -> Iterator[dict[str, Final]]:
    """The results of a plan so many times over, as `tables` has them of each metric.

    The trials that `lost` [variant, seed] marks diverged, whatever they would be.
    """
    random = np.random.default_rng(rng)
    made = {
        name: tables(plan, times, random=random, shifts=shifts, sd=sd, varies=varies)
        for name in names or ("eval_loss",)
    }
    gone = [] if lost is None else [(plan.variants[i].id, plan.seeds[j]) for i, j in np.argwhere(lost)]
    where = {(trial.variant, trial.seed): trial.id for trial in plan.trials}
    for one in range(times):
        values = {name: table[one] for name, table in made.items()}
        yield ends(plan, values) | {where[cell]: Final(status="diverged", step=3, metrics={}) for cell in gone}
