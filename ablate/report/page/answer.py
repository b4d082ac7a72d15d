"""The answer in a sentence or two, the grid of verdicts, and the texts around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ablate.output.words import listed, of_profile, percent, plural, spoken
from ablate.report import wording
from ablate.report.claims import claims_table
from ablate.report.comparisons import effects_once, once, subject
from ablate.report.document import Cell, Lead, Part, Prose, TableOf, VerdictGrid
from ablate.report.effect_tables import described, title_of
from ablate.report.footnotes import UNPAIRED, any_unpaired, without_partners
from ablate.report.page.record import LOST, PageRecord
from ablate.verdict import experiment
from ablate.verdict.summary import Effect, Metric, Summary

MOST_ANSWERS = 3

ISOLATED = ("edit", "main")  # kinds of comparison that concern one edit


def opening(summary: Summary) -> Iterator[Part]:
    yield Lead(tuple(conclusion(summary)))
    if (verdicts := grid(summary)) is not None:
        yield verdicts
        yield Prose(" ".join(meaning(summary)), "note")
    if (claims := claims_table(summary)) is not None:
        yield TableOf(claims)


def conclusion(summary: Summary) -> list[str]:
    """The sentences on whole variants against the baseline, then on the edits responsible; or else on each edit."""
    compared = leading(summary)
    if not compared:
        return ["The design compares nothing."]
    whole = [effects for effects in compared if effects[0].kind == "baseline"]
    leaders = whole or compared
    if summary.ladders:  # after the trend, the largest size first
        trends = [effects for effects in compared if effects[0].kind == "trend"]
        leaders = [*trends, *(effects for effects in reversed(compared) if effects not in trends)]
    sentences = [_sentence(effects, summary) for effects in leaders[:MOST_ANSWERS]]
    if (others := len(leaders) - MOST_ANSWERS) > 0:
        rest = "other comparison is" if others == 1 else f"other {others} comparisons are"
        sentences.append(f"The {rest} in the grid below.")
    if whole:
        sentences += _of_edits([effects for effects in compared if effects[0].kind in ISOLATED], summary)
    if pending := list(dict.fromkeys(judgement.pending for judgement in summary.judgements if judgement.pending)):
        sentences += [f"No verdicts yet: {why}." for why in pending]
    return sentences


def _of_edits(edits: Sequence[Sequence[Effect]], summary: Summary) -> Iterator[str]:
    if not edits or any(judgement.pending for judgement in summary.judgements):
        return
    findings, nothing, lost = [], [], []
    for effects in edits:
        decided = [effect for effect in effects if effect.verdict not in ("undecided", "diverged")]
        parts = [_result(effect, summary.metric(effect.metric)) for effect in decided]
        named = subject(effects[0], summary)
        if parts:
            findings.append(f"{named}: {', '.join(parts)}")
        elif all(effect.verdict == "diverged" for effect in effects):
            lost.append(named)
        else:
            nothing.append(named)
    more = [f"{left} more in the grid"] if (left := len(findings) - MOST_ANSWERS) > 0 else []
    rest = [f"nothing was found for {listed(nothing)}"] if nothing else []
    rest += [f"{listed(lost)} cannot be judged, since a side diverged at every seed"] if lost else []
    yield f"Of its edits, {'; '.join([*findings[:MOST_ANSWERS], *more, *rest])}."


def _sentence(effects: Sequence[Effect], summary: Summary) -> str:
    """Return `op against pre_ln, 5 seeds: eval loss equivalent within 1 % (-0.0012 [-0.0058, +0.0034]); …`."""
    parts = [_result(effect, summary.metric(effect.metric)) for effect in effects]
    counts = sorted({effect.ranked or effect.n for effect in effects})
    seeds = plural(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    return f"{subject(effects[0], summary)}, {seeds}: {'; '.join(parts)}."


def _result(effect: Effect, metric: Metric) -> str:
    name, size = spoken(metric.name), wording.difference(effect)
    if effect.kind == "trend":
        return f"{name}: {wording.trend(effect)}"
    if effect.estimate is None or effect.verdict == "diverged":
        return f"{name} {spoken(effect.verdict)}"
    if effect.verdict == "equivalent":
        return f"{name} equivalent within {wording.margin(metric)} ({size})"
    if effect.verdict == "undecided":
        return f"{name} {'identical at every seed' if effect.identical else 'undecided'} ({size})"
    by = "at" if metric.log else "by"
    of = ", survivors only" if effect.ranked else ""
    if metric.better == "none":
        return f"{name} {spoken(effect.verdict)} ({size}{of})"
    return f"{name} {spoken(effect.verdict)} {by} {size}{of}"


def grid(summary: Summary) -> VerdictGrid | None:
    """The rows: the design's own comparisons, then whole variants; None if nothing is compared."""
    compared = leading(summary)
    if not compared:
        return None
    rows = tuple(
        (subject(effects[0], summary), tuple(_cell(effects, metric) for metric in summary.metrics))
        for effects in compared
    )
    names = tuple(f"{spoken(metric.name)} ({wording.better(metric)})" for metric in summary.metrics)
    return VerdictGrid(title="Verdicts at a glance", heading=("change", *names), rows=rows)


def _cell(effects: Sequence[Effect], metric: Metric) -> Cell:
    effect = next((candidate for candidate in effects if candidate.metric == metric.name), None)
    if effect is None:
        return Cell("none")
    number = wording.difference(effect) if effect.estimate is not None else ""
    return Cell(effect.verdict, wording.verdict(effect), number)


def meaning(summary: Summary) -> Iterator[str]:
    log = any(metric.log for metric in summary.metrics)
    kinds = dict.fromkeys(effect.kind for effect in summary.effects if effect.kind in ISOLATED)
    for kind in kinds:
        title = title_of(kind, summary) if summary.ladders or kind == "edit" else "Edits"
        yield f"{title}: {described(kind, summary)}."
    seeds = f"paired by seed; {UNPAIRED}" if any_unpaired(summary) else "paired by seed"
    paired = without_partners(summary) or seeds
    yield f"Differences are after minus before{', or after divided by before (×)' if log else ''}, {paired}."
    if any(effect.adjusted_low is not None for effect in summary.effects):
        over = f", by Holm over {summary.tests} comparisons" if summary.tests > 1 else ""
        together = percent(1 - summary.false_at_most)
        yield f"Each interval is adjusted like its verdict{over}; all verdicts hold together at {together} confidence."
    else:
        yield f"Each interval is the unadjusted {percent(summary.confidence)} interval of that comparison."
    yield from _margins(summary)
    if any(effect.seeds_needed is not None for effect in summary.effects):
        yield "+k seeds: about k more seeds would decide that cell, one way or the other."
    base = next(arm for arm in summary.arms if arm.name == summary.baseline)
    if levels := [
        f"{spoken(m.name)} {wording.level(base.levels[m.name], m)}" for m in summary.metrics if m.name in base.levels
    ]:
        yield f"{base.name} has {listed(levels)}."


def _margins(summary: Summary) -> Iterator[str]:
    margins = [f"{spoken(m.name)} {_margin(m)}" for m in summary.metrics if m.margin is not None]
    without = [spoken(m.name) for m in summary.metrics if m.margin is None]
    if margins:
        never = (
            f"; {listed(without)} {'has' if len(without) == 1 else 'have'} none, so never equivalent" if without else ""
        )
        yield f"Margins of equivalence: {listed(margins)}{never}."


def _margin(metric: Metric) -> str:
    stated = wording.margin(metric)
    relative = stated.endswith("%") and not metric.log
    return f"{stated} (±{metric.margin:.3g})" if relative else stated


FACTORIAL = ("main", "interaction")  # kinds of comparison that are not a difference of two variants


def headline(record: PageRecord) -> list[str]:
    plan, states = record.plan, record.states
    planned = sum(states.values())
    counted = plural(len(plan.variants), "variant"), plural(len(plan.seeds), "seed")
    parts = [plan.space, *of_profile(plan.profile), plan.design, *counted]
    if record.summary.looked is not None:
        parts[-1] += f", analysed at {record.summary.looked}"
    ended = ", ".join(f"{n:,} {state.replace('_', ' ')}" for state, n in sorted(states.items()) if n)
    return [*parts, f"{planned:,} trials" + (f" ({ended})" if ended else "")]


def provenance(record: PageRecord) -> list[str]:
    ends = [ending.at for ending in record.endings if ending.at is not None]
    moments = (datetime.fromtimestamp(at, UTC) for at in ((min(ends), max(ends)) if ends else ()))
    days = list(dict.fromkeys(f"{moment:%Y-%m-%d}" for moment in moments))
    parts = [f"trained {' to '.join(days)}"] if days else []
    sets = [record.versions.get(id, {}) for id in dict.fromkeys(o.versions_id for o in record.endings if o.versions_id)]
    if len(sets) == 1:
        parts += [f"{name} {sets[0][name]}" for name in ("ablate", "torch") if name in sets[0]]
        device = sets[0].get("device", "cpu")
        processors = {ending.processor for ending in record.endings if ending.processor}
        parts += [device] if device != "cpu" else sorted(processors)
    elif sets:
        parts.append(f"{len(sets)} sets of versions or machines, see Versions")
    if record.commit is not None:
        commit, comma, changes = record.commit.partition(",")
        parts.append(f"commit {commit[:10]}{comma}{changes}")
    return parts


def unfinished(record: PageRecord) -> str:
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
    for effects in summary.comparisons("noise"):
        parts = "; ".join(wording.noise(effect, summary.metric(effect.metric)) for effect in effects)
        yield f"A/A, {effects[0].change} changed: {parts}."


def leading(summary: Summary) -> list[tuple[Effect, ...]]:
    """The comparisons that the question is about: those that the design isolates, then whole variants.

    If there are edits, only the variant with most of them is compared with the baseline under each set of terms. A
    comparison that is the same under several terms is included once.
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
            f"missing: {arm.name} at {experiment.seed_list(of)} ({why})"
            for why, of in experiment.by_reason(arm.missing).items()
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
    of: dict[str, list[str]] = {}
    for effect in effects:
        of.setdefault(subject(effect, summary), []).append(effect.metric)
    for named, metrics in of.items():
        every = len(metrics) == len(summary.metrics)
        yield named if every and len(metrics) > 1 else f"{named} ({', '.join(metrics)})"
