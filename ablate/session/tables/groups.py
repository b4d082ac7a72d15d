"""Groups of variants of a table: which are not told apart, and which may be the best.

All pairs are judged, by Holm's procedure over all of them. Variants are not told apart where no pair of them is found
different; that a is not told apart from b nor b from c says nothing of a and c. A variant may be the best as long as no
other is found better: the true best is among these unless a difference is found that is none, or is the other way.
"""

from __future__ import annotations

from collections.abc import Iterator

import networkx

from ablate.output.numbers import percent
from ablate.output.words import listed, spoken
from ablate.verdict.summary import Metric, Summary

DIFFERENT = ("better", "worse", "higher", "lower")


def group_notes(summary: Summary) -> Iterator[str]:
    """Tell of each metric which variants are not told apart, and which may be the best."""
    for metric in summary.metrics:
        yield from _groups(summary, metric)


def _groups(summary: Summary, metric: Metric) -> Iterator[str]:
    means = {arm.variant: arm.levels[metric.name].mean for arm in summary.arms if metric.name in arm.levels}
    names = {arm.variant: arm.name for arm in summary.arms}
    order = sorted(means, key=lambda variant: -means[variant] if metric.better == "higher" else means[variant])
    alike: networkx.Graph[str] = networkx.Graph()
    alike.add_nodes_from(order)
    beaten: set[str] = set()
    for effect in summary.effects:
        if effect.metric != metric.name or effect.before not in means or effect.after not in means:
            continue
        if effect.verdict not in DIFFERENT:
            alike.add_edge(effect.before, effect.after)
        elif effect.verdict in ("better", "worse"):
            beaten.add(effect.before if effect.verdict == "better" else effect.after)
    lost = [arm.name for arm in summary.arms if arm.variant not in means]
    if lost:
        yield f"without a {spoken(metric.name)}, and in no group: {listed(lost)}"
    if not order:
        return
    groups = [sorted(group, key=order.index) for group in networkx.find_cliques(alike) if len(group) > 1]
    groups.sort(key=lambda group: [order.index(variant) for variant in group])
    joined = [", ".join(names[variant] for variant in group) for group in groups]
    if joined:
        transitive = "; two groups that share one are no single group" if len(joined) > 1 else ""
        yield f"not told apart in {spoken(metric.name)}: {'; '.join(joined)}{transitive}"
    else:
        yield f"all{' others' if lost else ''} are told apart in {spoken(metric.name)}"
    if metric.better != "none":
        best = listed([names[variant] for variant in order if variant not in beaten])
        chance = percent(1 - summary.false_at_most)
        yield f"may be the best in {spoken(metric.name)}: {best} ({chance}: no other is found better)"
