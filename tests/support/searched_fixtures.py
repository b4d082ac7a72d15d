"""Searches made up for the tests of their page: 48 blocks that differ from the reference by some of seven edits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from report_fixtures import LOSS, PEAK, TOKENS, finals, path, rules

from ablate.execute.search.ranking import RungCorrelation
from ablate.plan.plan import Comparison, Plan, Variant
from ablate.report.searched.record import Entry, SearchObjective, SearchRecord
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

ELOSS = SearchObjective(
    metric="eval_loss", goal="min", definition="mean cross-entropy in nats over held-out windows", log=False
)
KURTOSIS = SearchObjective(
    metric="peak_kurtosis", goal="min", definition="largest kurtosis of neuron RMS over layers and steps", log=True
)
TOKEN = SearchObjective(metric="token_correlation", goal="min", definition="", log=False)

EDITS: dict[str, tuple[str, float, float]] = {
    "+qk_norm": ("nothing → {qk_norm: {rms_norm: {eps: 1e-08}}} at attention", -0.030, -0.15),
    "residual.gain=1/sqrt(2*depth)": ("1 → 1/sqrt(2*depth) at attention_residual, mlp_residual", 0.010, -0.35),
    "-layer_norm": ("{layer_norm: {eps: 1e-05}} → nothing at attention_norm, mlp_norm", 0.025, -0.30),
    "mlp.activation=relu": ("gelu → relu at mlp", 0.020, 0.10),
    "attention.matrix=shaped": ("softmax → {shaped: {skip: 1, gain: 1, centre: 1}} at attention", 0.015, -0.05),
    "attention.projection=identity": ("dense → identity at attention", 0.045, -0.02),
    "layer_norm->rms_norm@mlp_norm": (
        "{layer_norm: {eps: 1e-05}} → {rms_norm: {eps: 1e-08}} at mlp_norm",
        -0.004,
        0.02,
    ),
}
FAVOURED = ("+qk_norm", "residual.gain=1/sqrt(2*depth)")
BLOCK = "[residual: {gain: 1/sqrt(2*depth), branch: [attention: {entropy: {qk_norm: rms_norm}}]}, residual: [mlp]]"
QUESTION = "Which block keeps Pre-LN's loss with lower kurtosis?"


def entry(number: int, edits: Sequence[str] = (), **changed: object) -> Entry:
    """A block that finished; the values are of eval loss and peak kurtosis."""
    details = tuple(EDITS[edit][0] if edit in EDITS else "" for edit in edits)
    made = Entry(
        number=number,
        name=f"p{number}" if number else "pre_ln",
        variant=f"v{number}",
        edits=tuple(edits),
        details=details,
        block=BLOCK,
        outcome="finished",
        values=(2.31, 3.0),
        until=None,
        parameters=1_249_024 - 896 * len(edits),
        flops=149_946_368 - 4_194_304 * ("attention.projection=identity" in edits),
        seconds=61.0 + number % 7,
        repeats=int(number % 11 == 3),
    )
    return replace(made, **changed)


def entries(count: int = 48, noise: float = 1.0) -> tuple[Entry, ...]:
    """The reference and `count` blocks, the same every time; one in ten diverged."""
    random = Random(5)
    made = [entry(0)]
    seen: list[list[str]] = []
    for number in range(1, count + 1):
        while True:
            edits = [edit for edit in EDITS if random.random() < 0.3 + 0.3 * (number / count) * (edit in FAVOURED)]
            if edits and edits not in seen:
                break
        seen.append(edits)
        loss = 2.31 + sum(EDITS[edit][1] for edit in edits) + noise * random.gauss(0, 0.012)
        peak = 3.0 * math.exp(sum(EDITS[edit][2] for edit in edits) + noise * random.gauss(0, 0.1))
        if random.random() < 0.1:
            made.append(entry(number, edits, outcome="diverged", values=()))
        else:
            made.append(entry(number, edits, values=(loss, peak)))
    return tuple(made)


def record(**changed: object) -> SearchRecord:
    """A search that is over, without confirmation."""
    made = SearchRecord(
        space="outliers",
        question=QUESTION,
        grammar="transformer",
        derivations=214_990_848_000_000_000_000,
        reference="pre_ln",
        objectives=(ELOSS, KURTOSIS),
        sampler="tpe",
        seed=7,
        parallel=4,
        seeds=(1,),
        pruner="none",
        budget="49 trials",
        spent="49 trials",
        why_over="budget",
        entries=entries(),
        proposed=55,
        folded=7,
        known=12,
        refused={
            "a gain of 0 on both branches gives a constant": 31,
            "the matrix is exact only at zero query-key product (Eq. 10)": 114,
        },
        vetoed={"parameters, at most 110% of pre_ln's": 9},
        passed_over=0,
        random_share=0.31,
        wholly_random=0.22,
        repaired=1,
        correlations=(),
        confirmed=None,
        chosen=(),
        confirm_seeds=(),
        partial=False,
        again="ablate run spaces/outliers.yaml",
    )
    return replace(made, **changed)


def confirm(
    found: SearchRecord, names: Sequence[str], end: Callable[[Entry, int], dict[str, float] | str]
) -> SearchRecord:
    """The record with these blocks and the reference judged at seeds 101 to 105; `end` says how each came out."""
    base = path()
    blocks = [found.entry(name) for name in (found.reference, *names)]
    plain = {name: getattr(base, name) for name in base.__slots__}
    variants = tuple(
        Variant(
            id=f"v{i}", names=(one.name,), block=base.variants[0].block, edits=one.edits,
            parameters=one.parameters, flops=one.flops,
        )
        for i, one in enumerate(blocks)
    )  # fmt: skip
    trials = tuple(trial for trial in path(*"abcdefgh"[: len(names)]).trials)
    plan = Plan(
        **{
            **plain,
            "space": found.space,
            "question": found.question,
            "design": "confirmation",
            "variants": variants,
            "comparisons": tuple(
                Comparison(kind="baseline", change=v.name, detail="", before="v0", after=v.id) for v in variants[1:]
            ),
            "trials": trials,
        }
    )
    ends = {f"v{i}": [end(one, seed) for seed in range(5)] for i, one in enumerate(blocks)}
    judged = {"eval_loss": LOSS, "peak_kurtosis": PEAK, "token_correlation": TOKENS}
    metrics = {one.metric: judged[one.metric] for one in found.objectives}
    summary: Summary = judge(plan, rules(**metrics), finals(ends))
    return replace(found, confirmed=summary, chosen=tuple(names), confirm_seeds=(101, 102, 103, 104, 105))


def regressed(one: Entry, seed: int) -> dict[str, float]:
    """What the edits do, and fresh noise: without the luck that a block was chosen for."""
    random = Random(f"{one.name} {seed}")
    loss = 2.315 + 0.004 * seed + sum(EDITS[edit][1] for edit in one.edits) + random.gauss(0, 0.004)
    peak = 3.1 * math.exp(sum(EDITS[edit][2] for edit in one.edits) + random.gauss(0, 0.04))
    return {"eval_loss": loss, "peak_kurtosis": peak}


def three_goals() -> SearchRecord:
    """Three objectives: a wide table and two planes."""
    random = Random(3)
    made = tuple(
        replace(one, values=(*one.values, 0.4 + random.gauss(0, 0.05))) if one.values else one for one in entries()
    )
    return record(objectives=(ELOSS, KURTOSIS, TOKEN), entries=made)


def one_goal() -> SearchRecord:
    """One objective: no front."""
    made = tuple(replace(one, values=one.values[:1]) for one in entries())
    return record(objectives=(ELOSS,), entries=made)


def with_rungs() -> SearchRecord:
    """A pruned search."""
    made = tuple(
        replace(one, outcome="pruned", until=75 if one.number % 2 else 150)
        if one.values and one.number and one.number % 5
        else one
        for one in entries()
    )
    said = tuple(
        RungCorrelation(lower=low, upper=high, n=n, objective=objective, spearman=value)
        for low, high, n, values in ((75, 150, 21, (0.61, 0.72)), (150, 300, 9, (0.88, None)))
        for objective, value in enumerate(values)
    )
    return record(entries=made, pruner="asha from 25% by 2", correlations=said)


def all_diverged() -> SearchRecord:
    """Nothing finished but the reference."""
    made = tuple(replace(one, outcome="diverged", values=()) if one.number else one for one in entries(6))
    return record(
        entries=made, budget="7 trials", spent="7 trials", proposed=6, folded=0, known=0, refused={}, vetoed={}
    )


def no_finisher() -> SearchRecord:
    """Not even the reference."""
    first, *others = all_diverged().entries
    mixed = [replace(one, outcome=kind) for one, kind in zip(others, ("bug", "out_of_memory", "timeout") * 2)]
    return replace(all_diverged(), entries=(replace(first, outcome="diverged", values=()), *mixed))


def none_better() -> SearchRecord:
    """All worse than the reference in something."""
    first, *others = entries()
    worse = [replace(one, values=(max(one.values[0], 2.32), one.values[1])) if one.values else one for one in others]
    return record(entries=(first, *worse))


def ties() -> SearchRecord:
    """Every block as good as the reference."""
    return record(entries=tuple(replace(one, outcome="finished", values=(2.31, 3.0)) for one in entries(5)))


def partial() -> SearchRecord:
    """Stopped with two blocks under way and two at a rung."""
    made = list(entries()[:20])
    made[17] = replace(made[17], outcome="interrupted", values=())
    made[18] = replace(made[18], outcome="interrupted", values=())
    made[19] = replace(made[19], outcome="paused", until=75, values=(2.5, 3.4))
    return record(
        entries=tuple(made), partial=True, spent="20 trials", why_over="", proposed=22, folded=3, known=0,
        again="ablate resume", chosen=(),
    )  # fmt: skip


def long_names() -> SearchRecord:
    """Names, numbers and edits as long as they come."""
    long = SearchObjective(metric="peak_max_median_ratio_as_released", goal="max", definition="x" * 90, log=False)
    other = SearchObjective(metric="token_correlation_as_released", goal="min", definition="", log=True)
    edit = "attention.entropy=[{qk_norm:rms_norm},{softcap:30}]@attention_residual+mlp_residual"
    reference = "value_skipinit_as_released"
    random = Random(2)
    made = [
        entry(0, name=reference, values=(123_456.7, 0.00012345), parameters=1_234_567_890, flops=98_765_432_100_000)
    ]
    for number in range(1, 8):
        values = (123_456.7 + random.gauss(0, 9e4), 0.00012345 * math.exp(random.gauss(0, 1)))
        made.append(entry(number, (edit, "+qk_norm"), name=f"p{number}", details=("y" * 200, "z"), values=values,
                          parameters=1_234_567_890 + number, flops=98_765_432_100_000))  # fmt: skip
    return record(objectives=(long, other), reference=reference, entries=tuple(made),
                  refused={"because " * 30: 12_345_678})  # fmt: skip


def nothing() -> SearchRecord:
    """Stopped before anything was trained."""
    return record(entries=(), partial=True, spent="0 trials", why_over="", proposed=0, folded=0, known=0, refused={},
                  vetoed={}, random_share=0.0, wholly_random=0.0, repaired=0, again="ablate resume")  # fmt: skip


def confirmed() -> SearchRecord:
    """With three chosen blocks at fresh seeds."""
    return confirm(record(), CHOSEN, regressed)


def confirmed_nothing() -> SearchRecord:
    """None held: at fresh seeds all are as the reference, and one diverged."""

    def alike(one: Entry, seed: int) -> dict[str, float] | str:
        if one.name == CHOSEN[0] and seed == 2:
            return "diverged"
        return regressed(replace(one, edits=()), seed)

    return confirm(record(), CHOSEN, alike)


def confirming() -> SearchRecord:
    """Interrupted while the best were being confirmed."""
    return record(chosen=CHOSEN, confirm_seeds=(101, 102, 103), partial=True, again="ablate resume outliers")


def sixty() -> SearchRecord:
    """As large as a search is asked for: 60 blocks, three of them confirmed, refusals of every kind, two failed."""
    made = list(entries(60))
    for place, kind in ((20, "out_of_memory"), (40, "bug")):
        made[place] = replace(made[place], outcome=kind, values=())
    made = [replace(one, versions="7d0c1e" if one.number < 45 else "a93b52") for one in made]
    refused = {
        "a gain of 0 on both branches gives a constant": 31,
        "cannot be built at these sizes: 6 heads do not divide a width of 128": 4,
        "an override of the space does not fit: there is no mlp": 3,
        "cannot be computed at its start: the loss is not finite": 2,
    }
    found = record(
        entries=tuple(made), budget="61 trials", spent="61 trials", proposed=68, folded=8, known=2, refused=refused
    )
    return confirm(found, CHOSEN, regressed)


CHOSEN = ("p13", "p32", "p38")
WORLDS: dict[str, Callable[[], SearchRecord]] = {
    "plain": record,
    "confirmed": confirmed,
    "confirmed_nothing": confirmed_nothing,
    "three_goals": three_goals,
    "one_goal": one_goal,
    "with_rungs": with_rungs,
    "all_diverged": all_diverged,
    "no_finisher": no_finisher,
    "none_better": none_better,
    "ties": ties,
    "partial": partial,
    "confirming": confirming,
    "sixty": sixty,
    "long_names": long_names,
    "nothing": nothing,
}
