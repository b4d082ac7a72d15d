"""The tables behind the results: cost, unequal quantities, noise and power, trials, versions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from ablate.output import words
from ablate.output.words import plural, took
from ablate.plan.plan import Variant
from ablate.report.comparisons import nearness, share
from ablate.report.document import Grid
from ablate.report.page.record import PageRecord
from ablate.space.fair import text_of
from ablate.statistics import MOST_SEEDS, POWER, SD_LEVEL, Floor
from ablate.verdict.fairness_audit import UnequalQuantity
from ablate.verdict.summary import Metric

LISTED = 500  # maximum number of trials listed on the page; it says how to list the rest


def cost(record: PageRecord) -> Grid:
    """Diverged and failed trials count."""
    ends = {ending.trial_id: ending for ending in record.endings}
    rows = []
    for variant in record.plan.variants:
        trials = [trial for trial in record.plan.trials if trial.variant == variant.id]
        of = [ends[trial.id] for trial in trials if trial.id in ends]
        timed = [end.seconds for end in of if end.seconds is not None]
        tokens = sum(end.tokens or 0 for end in of)
        context = trials[0].work.architecture.sizes.seq_len if trials else 1
        rows.append(
            (
                variant.name,
                f"{variant.parameters:,}",
                f"{variant.flops:,}",
                str(len(trials)),
                str(sum(end.spaces > 1 for end in of)),
                f"{tokens:,}",
                f"{variant.cost.training_flops * tokens / context:.3g}" if tokens else "0",
                took(sum(timed)) if timed else "–",
            )
        )
    return Grid(
        title="Cost",
        note="over all trials of a variant, including failed and diverged ones and those for tuning and noise",
        heading=(
            "variant", "parameters", "FLOPs per example", "trials", "shared", "tokens", "training FLOPs", "time",
        ),
        rows=tuple(rows),
        numbers=(1, 2, 3, 4, 5, 6, 7),
        remarks=(
            "FLOPs are those of matrix products: of one forward pass over one example; training takes three times as "
            "many, minus the gradients of what is fixed; evaluations are not counted. Time is the sum over trials, "
            "including pauses. Shared: trials that another space requests as well, trained once.",
        ),
    )  # fmt: skip


def own(variant: Variant) -> Iterator[str]:
    setting = variant.setting
    parts = [
        f"{name} {value:,}"
        for name, value in (("layers", setting.layers), ("width", setting.width), ("steps", setting.steps))
        if value is not None
    ]
    if setting.open:
        parts.append("steps or settings not known yet")
    parts += [f"{name} {text_of(value)}, by tuning" for name, value in setting.tuned]
    parts += ["another initialisation"] if setting.salt else []
    if parts:
        yield f"Its own: {', '.join(parts)}."
    for name, because in variant.breaks:
        yield f"Breaks {name}, which this space allows: {because}."


def unequal(record: PageRecord) -> list[Grid]:
    return [
        Grid(
            title="What was unequal" + (f", under {audit.terms}" if audit.terms else ""),
            note=f"declared: {audit.declared}" if audit.declared else "each variant against the baseline",
            heading=("variant", "quantity", "baseline", "here", "difference", "declared equal"),
            rows=tuple(_unequal_row(row) for row in audit.rows),
            numbers=(2, 3, 4),
            remarks=(audit.equal,) if audit.equal else (),
        )
        for audit in record.unequal
    ]


def _unequal_row(row: UnequalQuantity) -> tuple[str, ...]:
    apart = "–" if row.share is None else share(row.share)
    equal = f"yes, {nearness(row)}" if row.declared else "no"
    return row.name, row.quantity, row.baseline, row.here, apart, equal


def noise(record: PageRecord) -> Grid:
    summary, plan = record.summary, record.plan
    seeds = plan.looks[-1] if plan.looks else len(plan.seeds)
    levels = {
        metric: judgement.level / judgement.tests for judgement in summary.judgements for metric in judgement.metrics
    }
    level = ", ".join(f"{value:.2g}" for value in dict.fromkeys(levels.values()))
    rows = tuple(
        cells
        for floor in record.floors
        for metric in summary.metrics
        if metric.name == floor.metric and levels[metric.name] > 0
        for cells in [_floor_row(floor, metric, seeds, levels[metric.name])]
    )
    missing = [m.name for m in summary.metrics if m.name not in {floor.metric for floor in record.floors}]
    caveats = []
    if missing:
        way = "`noise: {seeds: 6}` in the space trains the baseline against itself"
        salted = {variant.id for variant in plan.variants if variant.setting.salt}
        if pairs := len({trial.seed for trial in plan.trials if trial.variant in salted}):
            way = f"its A/A arm ({plural(pairs, 'pair')}) will give the floor once it has ended"
        caveats.append(
            f"no A/A arms under these conditions for {', '.join(missing)}: how much of a difference is noise is known "
            f"only from the seeds of each comparison; {way}"
        )
    many = plural(seeds, "seed")
    return Grid(
        title="Noise and power",
        note="how much differences vary over seeds: those of the named variants from the baseline, or of A/A pairs, "
        "which differ only in their initialisation; on the log scale as factors",
        heading=(
            "metric", "sd of a difference [95 %]", "pairs", f"detectable with {many}, 80 % power [95 %]",
            "seeds for half the margin", "measured on",
        ),
        rows=rows,
        numbers=(2, 4),
        caveats=tuple(caveats),
        remarks=(
            f"Detectable: the smallest true difference that so many pairs find with {100 * POWER:.0f} % power at level "
            f"{level}, the first of Holm's over {plural(summary.tests, 'comparison')}"
            + (", if only the last analysis were made" if plan.looks else "")
            + "; its interval is that of the sd. Seeds for half the margin: for an equivalence interval at the same "
            f"level that reaches half the margin on each side, from the upper {100 * SD_LEVEL:.0f} % confidence limit "
            "of the sd. Neither is the power of the results found (no post-hoc power).",
        )
        if rows
        else (),
    )  # fmt: skip


def _floor_row(floor: Floor, metric: Metric, n: int, alpha: float) -> tuple[str, ...]:
    low, high = floor.sd_interval()
    seen, least, most = floor.visible(n, alpha) if n > 1 else (math.inf,) * 3
    if n > 1 and floor.sd == 0:
        visible = f"{'nothing' if math.isinf(seen) else 'any'}, by the sign test"
    elif n > 1:
        visible = f"{_size(seen, metric)} [{_size(least, metric)}, {_size(most, metric)}]"
    else:
        visible = "nothing: one seed"
    seeds = "no margin"
    if metric.margin is not None:
        needed = floor.seeds_for_margin(metric.margin, alpha)
        seeds = f"over {MOST_SEEDS}" if needed is None else str(needed)
    sd = f"{_size(floor.sd, metric)} [{_size(low, metric)}, {_size(high, metric)}]"
    measured = floor.whose if floor.edits else f"A/A, {floor.whose}"
    return floor.metric, sd, str(floor.pairs or floor.n), visible, seeds, measured


def _size(value: float, metric: Metric) -> str:
    return f"×{words.ratio(value)}" if metric.log else f"{value:.2g}"


def ran_with(record: PageRecord) -> list[str]:
    counted = Counter(end.versions_id for end in record.endings if end.versions_id is not None)
    lines = []
    for id, n in counted.most_common():
        versions = ", ".join(f"{name} {version}" for name, version in record.versions.get(id, {}).items())
        lines.append(f"{plural(n, 'trial')}: {versions or 'not recorded'}")
    if len(counted) > 1:
        lines.append("trials that ran with different versions are not paired")
    return lines


def fingerprints(record: PageRecord) -> Grid:
    rows = tuple((v.name, v.id, ", ".join(v.names[1:]) or "–") for v in record.plan.variants)
    return Grid(
        title="Fingerprints",
        note="of the blocks, and of sizes, steps and initialisation where they are not the space's",
        heading=("variant", "fingerprint", "also"),
        rows=rows,
    )


def trials(record: PageRecord) -> Grid:
    ends = {ending.trial_id: ending for ending in record.endings}
    rows = []
    for trial in record.plan.trials[:LISTED]:
        end = ends.get(trial.id)
        status = "planned" if end is None else end.status.replace("_", " ")
        if end is not None and end.status == "diverged":
            status += f" at step {end.step}" + (f", {end.address}" if end.address else "")
        named = record.plan.variant(trial.variant).name
        rows.append((trial.id, named, str(trial.seed), trial.split, status))
    left = len(record.plan.trials) - len(rows)
    more = f"`ablate sql \"FROM final WHERE space = '{record.plan.space}' AND current\"` lists the other {left:,}"
    return Grid(
        title="Trials",
        note="by the hash of everything that determines their numbers",
        heading=("trial", "variant", "seed", "split", "ended"),
        rows=tuple(rows),
        numbers=(2,),
        remarks=(more,) if left else (),
    )
