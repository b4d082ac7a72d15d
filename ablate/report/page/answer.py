"""What stands around the answer: what asks the question, which comparisons it is about, and what did not help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from ablate.output.words import plural
from ablate.report import wording
from ablate.report.comparisons import effects_once, once, subject
from ablate.report.page.record import PageRecord
from ablate.verdict import seeds
from ablate.verdict.summary import Effect, Summary

FACTORIAL = ("main", "interaction")
"""Kinds of comparison that are no difference of two variants."""


def headline(record: PageRecord) -> list[str]:
    """What asks the question, in short."""
    plan, states = record.plan, record.states
    asked = sum(states.values())
    parts = [plan.space, plan.design, plural(len(plan.variants), "variant"), plural(len(plan.seeds), "seed")]
    if record.summary.looked is not None:
        parts[-1] += f", looked at after {record.summary.looked}"
    ended = ", ".join(f"{n:,} {state.replace('_', ' ')}" for state, n in sorted(states.items()) if n)
    return [*parts, f"{asked:,} trials" + (f" ({ended})" if ended else "")]


def provenance(record: PageRecord) -> list[str]:
    """When it was trained, on what, by which versions, and at which commit of the space's repository."""
    ends = [one.at for one in record.endings if one.at is not None]
    days = list(dict.fromkeys(_day(at) for at in (min(ends), max(ends)))) if ends else []
    parts = [f"trained {' to '.join(days)}"] if days else []
    sets = [record.versions.get(id, {}) for id in dict.fromkeys(o.versions_id for o in record.endings if o.versions_id)]
    if len(sets) == 1:
        parts += [f"{name} {sets[0][name]}" for name in ("ablate", "torch") if name in sets[0]]
        parts += _machine(sets[0])
    elif sets:
        parts.append(f"{len(sets)} sets of versions or machines, see Ran with")
    if record.commit is not None:
        commit, comma, changes = record.commit.partition(",")
        parts.append(f"commit {commit[:10]}{comma}{changes}")
    return parts


def _machine(versions: Mapping[str, str]) -> list[str]:
    """The device, or where that is the processor, which one."""
    device = versions.get("device", "cpu")
    return [device] if device != "cpu" else [versions["cpu"]] if "cpu" in versions else []


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def unfinished(record: PageRecord) -> str:
    """What is missing of a page that is written before its end."""
    left = sum(record.states.get(state, 0) for state in ("planned", "unfinished"))
    what = f"{plural(left, 'trial')} of {len(record.plan.trials):,} not ended" if left else "more trials may be added"
    if left and record.plan.open:
        what += ", and more may be added"
    return f"As far as it has come: {what}. What is said here may change."


def noise(summary: Summary) -> Iterator[str]:
    """What arms that differ in nothing but the initialisation differ by."""
    for effects in summary.comparisons("noise"):
        parts = "; ".join(wording.noise(effect, summary.metric(effect.metric)) for effect in effects)
        yield f"A/A, {effects[0].change} changed: {parts}."


def leading(summary: Summary) -> list[tuple[Effect, ...]]:
    """The comparisons that the question is about: what the design isolates, then whole variants against the baseline.

    Of the latter where there are edits, that with the most of them under each of the terms. What is the same under
    several terms is there once.
    """
    isolated = once(one for kind in ("edit", *FACTORIAL) for one in summary.comparisons(kind))
    said = {(one[0].before, one[0].after) for one in isolated if one[0].before}
    whole = once(one for one in summary.comparisons("baseline") if (one[0].before, one[0].after) not in said)
    if isolated and whole:
        most: dict[str, tuple[Effect, ...]] = {}
        for one in whole:
            best = most.get(one[0].terms)
            if best is None or _edits(summary, one) > _edits(summary, best):
                most[one[0].terms] = one
        whole = list(most.values())
    return [*isolated, *whole]


def _edits(summary: Summary, effects: Sequence[Effect]) -> int:
    return len(summary.arm(effects[0].after).edits)


def negatives(record: PageRecord) -> list[str]:
    """What did not help, and what has no result: worse, no different, undecided, diverged, failed, missing."""
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
                f"diverged: {arm.name} in {arm.diverged} of {plural(arm.ended, 'seed')} (a share of "
                f"{100 * low:.0f} % to {100 * high:.0f} % of seeds finishes: Wilson's "
                f"{100 * summary.confidence:.3g} % interval)"
            )
    for arm in summary.arms:
        lines += [
            f"missing: {arm.name} at {seeds.named(of)} ({why})" for why, of in seeds.by_reason(arm.missing).items()
        ]
    return lines


def _judged_once(summary: Summary) -> list[Effect]:
    """What is judged, the same two variants but once: as an edit where they are one, under the first of the terms."""
    judged = effects_once(effect for effect in summary.effects if effect.judged)
    edits = {(effect.before, effect.after) for effect in judged if effect.kind == "edit"}
    return [e for e in judged if e.kind != "baseline" or (e.before, e.after) not in edits]


_TITLES = {
    "worse": "made it worse",
    "worse_by_rank": "made it worse by rank, a diverged run the worst",
    "equivalent": "made no difference that matters",
    "undecided": "could not be told from no difference",
    "diverged": "could not be judged, since one side diverged at every seed",
}


def _grouped(effects: Sequence[Effect], summary: Summary) -> Iterator[str]:
    """Each comparison once, with the metrics in question."""
    of: dict[str, list[str]] = {}
    for effect in effects:
        of.setdefault(subject(effect, summary), []).append(effect.metric)
    for named, metrics in of.items():
        every = len(metrics) == len(summary.metrics)
        yield named if every and len(metrics) > 1 else f"{named} ({', '.join(metrics)})"
