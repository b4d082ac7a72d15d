"""Pages made up for their tests: a path of three edits, trained or not, with courses, layers, gains and endings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from report_fixtures import BLOCK, LOSS, PEAK, TOKENS, finals, path, rules, trial

from ablate.plan.plan import Alias, Comparison, Factors, Plan, Variant
from ablate.report.page import PageRecord, ShownVariant
from ablate.statistics import Floor
from ablate.store.pages import LayerCurve, MetricCurve, TrialEnd
from ablate.verdict.fairness_audit import Unequal, UnequalQuantity
from ablate.verdict.judge import judge

EDITS = ("+qk_norm", "residual.gain=1/sqrt(2*depth)", "-layer_norm")
JUDGED = rules(eval_loss=LOSS, peak_kurtosis=PEAK, token_correlation=TOKENS)
QUESTION = "Which edit keeps Pre-LN's loss?"
STEPS = (0, 100, 200, 300)


def values(variant: int, seed: int) -> dict[str, float]:
    """What a seed of a variant comes to: each edit lowers the loss a little, and the seeds vary together."""
    wave = math.sin(7.0 * seed + variant)
    loss = 2.30 - 0.02 * variant + 0.01 * seed + 0.002 * wave
    return {
        "eval_loss": loss,
        "eval_bits_per_byte": loss / math.log(2),
        "peak_kurtosis": math.exp(1.1 - 0.2 * variant + 0.03 * wave),
        "token_correlation": 0.50 + 0.01 * variant + 0.03 * wave,
    }


def ends(plan: Plan, seeds: int) -> dict[str, list[dict[str, float] | str | None]]:
    return {v.id: [values(k, seed) for seed in range(1, seeds + 1)] for k, v in enumerate(plan.variants)}


def course(variant: str, metric: str, of: str, start: float, end: float, n: int = 5, **changed: object) -> MetricCurve:
    """A straight course over `STEPS`."""
    line = tuple(start + (end - start) * step / STEPS[-1] for step in STEPS)
    positive = min(line) > 0
    made = MetricCurve(
        variant=variant,
        metric=metric,
        of=of,
        steps=STEPS,
        n=(n,) * 4,
        lost=(0,) * 4,
        mean=line,
        sd=(0.05,) * 4 if n > 1 else (None,) * 4,
        log_mean=tuple(math.log(one) for one in line) if positive else (None,) * 4,
        log_sd=(0.05,) * 4 if positive and n > 1 else (None,) * 4,
        measured=4,
    )
    return replace(made, **changed)


def courses(ids: Sequence[str]) -> tuple[MetricCurve, ...]:
    return tuple(
        one
        for k, id in enumerate(ids)
        for one in (
            course(id, "eval_loss", "whole", 5.5, 2.3 - 0.02 * k),
            course(id, "eval_bits_per_byte", "whole", 8.0, 3.3 - 0.03 * k),
            course(id, "train_loss", "whole", 5.6, 2.2 - 0.02 * k),
            course(id, "kurtosis", "largest", 1.0, 3.0 - 0.4 * k),
            course(id, "kurtosis", "mean", 1.0, 2.0),
            course(id, "attention_entropy", "mean", 3.0, 2.0 + 0.1 * k),
        )
    )


def layer_courses(ids: Sequence[str], layers: int = 6) -> tuple[LayerCurve, ...]:
    parts = [*(str(layer) for layer in range(1, layers + 1)), "head"]
    return tuple(
        LayerCurve(
            variant=id,
            metric="kurtosis",
            part=part,
            steps=STEPS,
            n=(5,) * 4,
            mean=tuple(1.0 + 0.1 * k + 0.2 * place * step / 300 for step in STEPS),
            measured=4,
        )
        for k, id in enumerate(ids)
        for place, part in enumerate(parts)
    )


def endings(plan: Plan, status: Callable[[str], str] = lambda _: "finished") -> tuple[TrialEnd, ...]:
    return tuple(
        TrialEnd(one.id, kind, 120 if kind == "diverged" else 300, "layers.2.mlp" if kind == "diverged" else None,
              "v0" if kind in ("finished", "diverged") else None, 60.0, 300 * 16 * 64, 1)
        for one in plan.trials
        if (kind := status(one.id)) != "unknown"
    )  # fmt: skip


def record(plan: Plan | None = None, outcomes: dict | None = None, **changed: object) -> PageRecord:
    """A page of a path at its end, but for what is changed."""
    plan = plan or path(*EDITS, question=QUESTION)
    outcomes = ends(plan, len(plan.seeds)) if outcomes is None else outcomes
    told = finals(outcomes)
    ids = [variant.id for variant in plan.variants]
    made = PageRecord(
        plan=plan,
        summary=judge(plan, JUDGED, told),
        rules=JUDGED,
        definitions={
            "eval_loss": "mean cross-entropy in nats",
            "eval_bits_per_byte": "the same by bytes of text",
            "kurtosis": "mean s⁴ / (mean s²)²",
        },
        blocks=tuple(
            ShownVariant(
                variant=variant.id,
                block="[residual: [layer_norm, attention], residual: [layer_norm, mlp]]",
                edits=tuple((edit, f"nothing → {edit} at attention") for edit in variant.edits),
            )
            for variant in plan.variants
        ),
        curves=courses(ids),
        layers=layer_courses(ids),
        gains=(),
        endings=endings(plan, lambda id: told[id]["status"] if id in told else "unknown"),
        versions={"v0": {"python": "3.11.7", "torch": "2.13.0"}},
        corpus=("files texts/*.txt; bytes, vocabulary 256", "fingerprint of the text: c0ffee"),
        floors=(),
        unequal=(
            Unequal(
                terms="",
                declared="equal steps",
                rows=(
                    UnequalQuantity(
                        variant="v3", name="op", quantity="parameters", baseline="1,249,024", here="1,246,336",
                        share=-0.0022, declared=False,
                    ),
                ),
                equal="the same for all: steps, tokens",
            ),
        ),
        again=("ablate run spaces/op_vs_preln.yaml", "ablate report spaces/op_vs_preln.yaml"),
        source="space: op_vs_preln\n",
        resolved="space: op_vs_preln\nseeds: 5\n",
    )  # fmt: skip
    return replace(made, **changed)


def diverged() -> PageRecord:
    """Two of five seeds of the second variant diverge, all of the last; a trial failed, one is missing."""
    plan = path(*EDITS, question=QUESTION)
    outcomes = ends(plan, 5)
    outcomes["v1"][:2] = ["diverged", "diverged"]
    outcomes["v3"] = ["diverged"] * 5
    outcomes["v2"][3:] = ["bug", None]
    found = record(plan, outcomes)
    fewer = {"v1": (5, 5, 3, 3), "v3": (5, 5, 0, 0)}
    curves = tuple(
        replace(
            one,
            n=fewer.get(one.variant, one.n),
            mean=tuple(v if n else None for v, n in zip(one.mean, fewer.get(one.variant, one.n), strict=True)),
            log_mean=tuple(v if n else None for v, n in zip(one.log_mean, fewer.get(one.variant, one.n), strict=True)),
        )
        for one in found.curves
    )
    return replace(found, curves=curves)


def all_diverged() -> PageRecord:
    plan = path(*EDITS, question=QUESTION)
    return record(plan, {variant.id: ["diverged"] * 5 for variant in plan.variants})


def nothing_run() -> PageRecord:
    return record(outcomes={}, curves=(), layers=(), versions={})


def one_seed() -> PageRecord:
    plan = path(*EDITS, question=QUESTION, seeds=1)
    ids = [variant.id for variant in plan.variants]
    single = tuple(replace(one, n=(1,) * 4, sd=(None,) * 4, log_sd=(None,) * 4) for one in courses(ids))
    return record(plan, curves=single)


def partial() -> PageRecord:
    plan = path(*EDITS, question=QUESTION)
    outcomes = ends(plan, 5)
    for values_of in outcomes.values():
        values_of[3:] = [None, None]
    return record(plan, outcomes)


def many() -> PageRecord:
    """Fourteen variants: what does not fit is folded."""
    edits = [f"edit_{k}" for k in range(13)]
    plan = path(*edits, question=QUESTION)
    return record(plan)


def gains() -> PageRecord:
    """Trained gains of one variant, thinned, in four layers of two kinds, and of heads."""
    of = tuple(
        course("v3", metric, f"layers.{layer}.{kind}.gain", 0.0, 0.1 * layer, measured=800)
        for metric in ("gain", "gain_mean", "gain_rms", "gain_sd", "gain_ratio")
        for layer in range(1, 5)
        for kind in ("attention_residual", "mlp_residual")
    )
    return record(gains=of)


def noise() -> PageRecord:
    """With A/A arms, and a floor of two of the metrics."""
    plan = path(*EDITS, question=QUESTION)
    base = plan.variants[0]
    arm = replace(base, id="aa", names=("pre_ln, A/A",), setting=replace(base.setting, salt=1))
    compared = Comparison(kind="noise", change="nothing but the initialisation", detail="", before="v0", after="aa")
    plan = replace(
        plan,
        variants=(*plan.variants, arm),
        comparisons=(*plan.comparisons, compared),
        trials=(*plan.trials, *(replace(trial("aa", seed), salt=1) for seed in range(1, 6))),
    )
    outcomes = {**ends(plan, 5), "aa": [values(0, 3 * seed) for seed in range(1, 6)]}
    floors = (
        Floor(metric="eval_loss", scale="linear", n=5, sd=0.004, whose="pre_ln in op_vs_preln"),
        Floor(metric="peak_kurtosis", scale="log", n=5, sd=0.03, whose="pre_ln in op_vs_preln"),
    )
    found = record(plan, outcomes, floors=floors)
    return replace(found, curves=courses(["v0", "v1", "v2", "v3"]), layers=layer_courses(["v0", "v1", "v2", "v3"]))


def factorial() -> PageRecord:
    """Two edits at two levels, with their interaction, and an alias."""
    runs = (("f0", (-1, -1)), ("f1", (1, -1)), ("f2", (-1, 1)), ("f3", (1, 1)))
    names = {"f0": "pre_ln", "f1": "pre_ln+A", "f2": "pre_ln+B", "f3": "op"}
    edits = EDITS[:2]
    variants = tuple(
        Variant(
            id=id,
            names=(names[id],),
            block=BLOCK,
            edits=tuple(edit for edit, level in zip(edits, levels, strict=True) if level > 0),
            parameters=1_249_024,
            flops=149_946_368,
        )
        for id, levels in runs
    )
    effects = ((edits[0],), (edits[1],), edits)
    comparisons = [
        Comparison(
            kind="main" if len(effect) == 1 else "interaction",
            change=" × ".join(effect),
            detail="",
            before="",
            after="",
        )
        for effect in effects
    ]
    factors = Factors(
        edits=edits,
        runs=runs,
        effects=effects,
        aliases=(Alias(term=(edits[0],), other=(edits[1], "-layer_norm"), times=0.5),),
        how="every combination of 2 edits, 4 runs",
    )
    plan = replace(
        path(*EDITS, question=QUESTION),
        design="factorial",
        baseline="f0",
        variants=variants,
        comparisons=(
            *comparisons,
            Comparison(kind="baseline", change="op", detail="", before="f0", after="f3"),
        ),
        trials=tuple(trial(id, seed) for id, _ in runs for seed in range(1, 6)),
        factors=(("", factors),),
    )
    return record(plan)


WORLDS: dict[str, Callable[[], PageRecord]] = {
    "whole": record,
    "diverged": diverged,
    "all_diverged": all_diverged,
    "nothing_run": nothing_run,
    "one_seed": one_seed,
    "partial": partial,
    "many": many,
    "gains": gains,
    "noise": noise,
    "factorial": factorial,
}
