"""The texts around the answer: a short description, the comparisons it is about, and what did not help."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from ablate.output.words import of_profile, plural
from ablate.report import wording
from ablate.report.comparisons import effects_once, once, subject
from ablate.report.page.record import LOST, PageRecord
from ablate.verdict import seeds
from ablate.verdict.summary import Effect, Summary

FACTORIAL = ("main", "interaction")
"""Kinds of comparison that are not a difference of two variants."""


def headline(record: PageRecord) -> list[str]:
    """Return a short description of the space and its trials."""
    plan, states = record.plan, record.states
    planned = sum(states.values())
    counted = plural(len(plan.variants), "variant"), plural(len(plan.seeds), "seed")
    parts = [plan.space, *of_profile(plan.profile), plan.design, *counted]
    if record.summary.looked is not None:
        parts[-1] += f", analysed at {record.summary.looked}"
    ended = ", ".join(f"{n:,} {state.replace('_', ' ')}" for state, n in sorted(states.items()) if n)
    return [*parts, f"{planned:,} trials" + (f" ({ended})" if ended else "")]


def provenance(record: PageRecord) -> list[str]:
    """Return when and on what it was trained, with which versions, and at which commit of the space's repository."""
    ends = [ending.at for ending in record.endings if ending.at is not None]
    days = list(dict.fromkeys(_day(at) for at in (min(ends), max(ends)))) if ends else []
    parts = [f"trained {' to '.join(days)}"] if days else []
    sets = [record.versions.get(id, {}) for id in dict.fromkeys(o.versions_id for o in record.endings if o.versions_id)]
    if len(sets) == 1:
        parts += [f"{name} {sets[0][name]}" for name in ("ablate", "torch") if name in sets[0]]
        parts += _machine(sets[0], {ending.processor for ending in record.endings if ending.processor})
    elif sets:
        parts.append(f"{len(sets)} sets of versions or machines, see Versions")
    if record.commit is not None:
        commit, comma, changes = record.commit.partition(",")
        parts.append(f"commit {commit[:10]}{comma}{changes}")
    return parts


def _machine(versions: Mapping[str, str], processors: Collection[str]) -> list[str]:
    """Return the device, or the names of the processors if that is the device."""
    device = versions.get("device", "cpu")
    return [device] if device != "cpu" else sorted(processors)


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def unfinished(record: PageRecord) -> str:
    """Return what is missing from a page that is written before the end."""
    left = sum(record.states.get(state, 0) for state in ("planned", "unfinished"))
    what = f"{left:,} of {len(record.plan.trials):,} trials have not ended" if left else "more trials may be added"
    if lost := sum(record.states.get(state, 0) for state in LOST):
        return (
            f"The results of {lost:,} of {len(record.plan.trials):,} trials are lost: `ablate doctor` recovers some, "
            "and the next run trains the rest again. Until then these numbers are of fewer trials."
        )
    if left and record.plan.open:
        what += ", and more may be added"
    return f"Preliminary: {what}. These results may change."


def noise(summary: Summary) -> Iterator[str]:
    """Yield how much arms differ that differ only in their initialisation."""
    for effects in summary.comparisons("noise"):
        parts = "; ".join(wording.noise(effect, summary.metric(effect.metric)) for effect in effects)
        yield f"A/A, {effects[0].change} changed: {parts}."


def leading(summary: Summary) -> list[tuple[Effect, ...]]:
    """Return the comparisons that the question is about: those that the design isolates, then whole variants.

    Whole variants are against the baseline; if there are edits, only the variant with most of them under each set of
    terms. A comparison that is the same under several terms is included once.
    """
    isolated = once(effects for kind in ("trend", "edit", *FACTORIAL) for effects in summary.comparisons(kind))
    stated = {(effects[0].before, effects[0].after) for effects in isolated if effects[0].before}
    whole = once(e for e in summary.comparisons("baseline") if (e[0].before, e[0].after) not in stated)
    if isolated and whole:
        most: dict[str, tuple[Effect, ...]] = {}
        for effects in whole:
            best = most.get(effects[0].terms)
            if best is None or _edits(summary, effects) > _edits(summary, best):
                most[effects[0].terms] = effects
        whole = list(most.values())
    return [*isolated, *whole]


def _edits(summary: Summary, effects: Sequence[Effect]) -> int:
    return len(summary.arm(effects[0].after).edits)


def negatives(record: PageRecord) -> list[str]:
    """Return what did not help, and what has no result: worse, no different, undecided, diverged, failed, missing."""
    summary = record.summary
    judged = _judged_once(summary)
    lines = []
    for verdict, title in _TITLES.items():
        of = [effect for effect in judged if effect.verdict == verdict]
        if of:
            lines.append(f"{title}: {'; '.join(_grouped(of, summary))}")
    for arm in summary.arms:
        if arm.diverged:
            low, high = arm.success(summary.confidence)
            lines.append(
                f"diverged: {arm.name} at {arm.diverged} of {plural(arm.ended, 'seed')} (share of seeds that finish: "
                f"{100 * low:.0f} % to {100 * high:.0f} %, Wilson's {100 * summary.confidence:.3g} % interval)"
            )
    for arm in summary.arms:
        lines += [
            f"missing: {arm.name} at {seeds.named(of)} ({why})" for why, of in seeds.by_reason(arm.missing).items()
        ]
    return lines


def _judged_once(summary: Summary) -> list[Effect]:
    """Return the judged effects, each pair of variants once: as an edit if it is one, under the first of its terms."""
    judged = effects_once(effect for effect in summary.effects if effect.judged)
    edits = {(effect.before, effect.after) for effect in judged if effect.kind == "edit"}
    return [e for e in judged if e.kind != "baseline" or (e.before, e.after) not in edits]


_TITLES = {
    "worse": "made it worse",
    "worse_by_rank": "made it worse by rank (diverged runs rank worst)",
    "higher": "made it higher",
    "lower": "made it lower",
    "higher_by_rank": "made it higher by rank",
    "lower_by_rank": "made it lower by rank",
    "equivalent": "made no difference that matters",
    "undecided": "could not be distinguished from no difference",
    "diverged": "could not be judged, since one side diverged at every seed",
}


def _grouped(effects: Sequence[Effect], summary: Summary) -> Iterator[str]:
    """Yield each comparison once, with the metrics in question."""
    of: dict[str, list[str]] = {}
    for effect in effects:
        of.setdefault(subject(effect, summary), []).append(effect.metric)
    for named, metrics in of.items():
        every = len(metrics) == len(summary.metrics)
        yield named if every and len(metrics) > 1 else f"{named} ({', '.join(metrics)})"
