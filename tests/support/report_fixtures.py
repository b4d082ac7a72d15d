"""Small plans and final metrics, made up for the tests of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recipes import recipe

from ablate.block.architecture import plain_decoder
from ablate.block.expression import Node
from ablate.block.expression import Sequence as Parts
from ablate.block.sizes import Sizes
from ablate.plan.identity import ModelTraining
from ablate.plan.plan import Comparison, Plan, Trial, Variant
from ablate.space.data import Data
from ablate.space.judge import Evaluation, Judge, Judged, Measure
from ablate.verdict.experiment import Final

RECIPE = recipe(steps=300, batch=16, decay="cosine")
DATA = Data(corpus="python_stdlib", tokenizer="bytes", tuning=0.1, verdict=0.1)
MEASURE = Measure(every=25, probes=(), evaluation=Evaluation(every=100, windows=8), checkpoint_every=100)
BLOCK = Parts(())
SIZES = Sizes(n_layers=6, d_model=128, n_heads=4, seq_len=64, vocab_size=256)
ARCHITECTURE = plain_decoder(BLOCK, SIZES, init=Node("normal"))

LOSS = Judged(margin="1%", scale="linear", better="lower")
PEAK = Judged(margin="none", scale="log", better="lower")
TOKENS = Judged(margin=0.02, scale="linear", better="lower")


def rules(confidence: float = 0.95, **metrics: Judged) -> Judge:
    return Judge(metrics=metrics or {"eval_loss": LOSS}, against="pre_ln", confidence=confidence)


def trial(variant: str, seed: int) -> Trial:
    return Trial(
        id=f"{variant}-{seed}",
        variant=variant,
        work=ModelTraining(
            architecture=ARCHITECTURE,
            data=DATA,
            corpus="c0ffee",
            folder=".",
            recipe=RECIPE,
            measure=MEASURE,
            threads=1,
        ),
        seed=seed,
        salt=0,
    )


def path(*edits: str, seeds: int = 5, question: str = "Which edit matters?", notes: Sequence[str] = ()) -> Plan:
    """A path from `pre_ln` over `edits`: variants v0 (the baseline), v1, …; the last is called `op`."""
    names = ["pre_ln", *(f"pre_ln + {edit}" for edit in edits[:-1]), "op"]
    variants = tuple(
        Variant(
            id=f"v{i}", names=(name,), block=BLOCK, edits=edits[:i], parameters=1_249_024 - 896 * i, flops=149_946_368
        )
        for i, name in enumerate(names)
    )
    steps = [
        Comparison(kind="edit", change=edit, detail="", before=f"v{i}", after=f"v{i + 1}")
        for i, edit in enumerate(edits)
    ]
    against = [Comparison(kind="baseline", change=v.name, detail="", before="v0", after=v.id) for v in variants[1:]]
    return Plan(
        space="op_vs_preln",
        question=question,
        design="path from pre_ln to op",
        baseline="v0",
        variants=variants,
        comparisons=(*steps, *against),
        seeds=tuple(range(1, seeds + 1)),
        trials=tuple(trial(v.id, seed) for v in variants for seed in range(1, seeds + 1)),
        notes=tuple(notes),
    )


def finals(ends: Mapping[str, Sequence[Mapping[str, float] | str | None]]) -> dict[str, Final]:
    """Variant id → what became of seeds 1, 2, …: metrics (finished), a status, or None (not run)."""
    made: dict[str, Final] = {}
    for variant, outcomes in ends.items():
        for seed, outcome in enumerate(outcomes, start=1):
            if isinstance(outcome, str):
                made[f"{variant}-{seed}"] = Final(status=outcome, step=120, metrics={})
            elif outcome is not None:
                made[f"{variant}-{seed}"] = Final(status="finished", step=300, metrics=dict(outcome))
    return made


def losses(*values: float) -> list[dict[str, float]]:
    return [{"eval_loss": value} for value in values]
