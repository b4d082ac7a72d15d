"""What the numbers of the screen mean, and what is peculiar about some of them: sentences from a summary."""

from __future__ import annotations

from collections.abc import Mapping

from ablate.report.summary import Metric, Summary
from ablate.report.wording import factor, plural
from ablate.statistics import POWER, SD_LEVEL


def peculiarities(summary: Summary) -> list[str]:
    """What the reader must know about single effects and arms, each said once."""
    edits = {(effect.before, effect.after) for effect in summary.effects if effect.kind == "edit"}
    said: dict[str, list[str]] = {}
    for effect in summary.effects:
        repeated = effect.kind != "edit" and (effect.before, effect.after) in edits
        if effect.note and not repeated:
            change = effect.change if effect.kind == "edit" else summary.arm(effect.after).name
            said.setdefault(f"{change}: {effect.note}", []).append(effect.metric)
    lines = []
    for text, metrics in said.items():
        every = len(metrics) == len(summary.metrics)
        lines.append(text if every else f"{text} ({', '.join(metrics)})")
    for arm in summary.arms:
        if arm.diverged:
            low, high = arm.success(summary.confidence)
            lines.append(
                f"{arm.name}: {arm.finished} of {plural(arm.ended, 'seed')} finished without diverging, "
                f"a share of {100 * low:.0f} % to {100 * high:.0f} % (Wilson's {_percent(summary.confidence)} interval)"
            )
    return lines


def definitions(summary: Summary, computed: Mapping[str, str]) -> list[str]:
    """A line for each metric, then one for each kind of number shown; `computed` says how a metric is computed."""
    confidence, alpha = _percent(summary.confidence), 1 - summary.confidence
    edits, others = len(summary.comparisons("edit")), len(summary.comparisons("baseline"))
    families = [
        text
        for count, text in (
            (edits, plural(edits, "edit")),
            (others, f"{plural(others, 'comparison')} with {summary.baseline}"),
        )
        if count
    ]
    lines = [_metric(metric, computed.get(metric.name, ""), summary.baseline) for metric in summary.metrics]
    lines.append("mean ± sd: over the n seeds that finished" + (_LOG_LEVEL if _any_log(summary) else ""))
    lines.append(
        "difference: after - before" + (" (× after/before)" if _any_log(summary) else "") + ", paired over the n seeds "
        f"finished on both sides (in brackets where they are fewer); Student's {confidence} interval, "
        "not adjusted for the number of comparisons"
    )
    lines.append(
        f"better, worse: p < {alpha:.2g} after Holm's correction over {' and, apart, over '.join(families)}, "
        "metric by metric"
    )
    if any(metric.margin is not None for metric in summary.metrics):
        lines.append(
            f"equivalent: the {_percent(1 - 2 * alpha)} interval lies inside the margin (two one-sided tests); "
            "'differs' where p is below that as well: a difference too small to matter"
        )
    return lines + _planning(summary)


_LOG_LEVEL = "; where differences are ratios, the geometric mean and the factor it varies by (×÷)"


def _planning(summary: Summary) -> list[str]:
    asked = [effect for effect in summary.effects if effect.seeds_needed is not None]
    ways = []
    if any(effect.margin is not None for effect in asked):
        ways.append(f"bring the {_percent(2 * summary.confidence - 1)} interval to half the margin on each side")
    if any(effect.margin is None or abs(effect.estimate or 0) > effect.margin for effect in asked):
        when = "where it is beyond the margin, or none is declared"
        ways.append(f"find a difference as large as the one seen {_percent(POWER)} of the time ({when})")
    if not ways:
        return []
    return [
        f"+k seeds: about so many more would {', or would '.join(ways)}; "
        f"planned from the {_percent(SD_LEVEL)} upper limit of the sd"
    ]


def _metric(metric: Metric, computed: str, baseline: str) -> str:
    parts = [computed] if computed else []
    parts.append(f"{metric.better} is better" + (", compared as a ratio" if metric.log else ""))
    if metric.margin is None:
        parts.append(f"{metric.why_no_margin}, so never equivalent")
    else:
        absolute = f"a factor {factor(metric.margin):.4g}" if metric.log else f"±{metric.margin:.3g}"
        relative = metric.stated.endswith("%") and not metric.log
        parts.append(f"margin {metric.stated} of {baseline}'s mean ({absolute})" if relative else f"margin {absolute}")
    return f"{metric.name}: {'; '.join(parts)}"


def _any_log(summary: Summary) -> bool:
    return any(metric.log for metric in summary.metrics)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
