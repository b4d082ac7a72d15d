"""The answer to a space's question in sentences: one for each edit, each interaction, and the whole path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.report import claims, wording
from ablate.report.comparisons import once, size_statements, subject
from ablate.report.document import Lead, Statement, Statements, StyledText, Words, plain
from ablate.verdict.summary import Effect, Summary


def answers(summary: Summary) -> Lead | Statements:
    lines = tuple(sentences(summary))
    return Statements(lines) if lines else Lead(("The design compares nothing.",))


def sentences(summary: Summary) -> Iterator[Statement]:
    edits = once([*summary.comparisons("edit"), *summary.comparisons("main")])
    for effects in once(summary.comparisons("trend")):
        yield Statement(_answer(subject(effects[0], summary), effects, summary))
    yield from size_statements(summary)
    for effects in edits:
        yield Statement(_answer(subject(effects[0], summary), effects, summary))
    yield from _interactions(summary)
    yield from _diverged_runs(summary)
    stated = {(effects[0].before, effects[0].after) for effects in edits}
    whole = once(e for e in summary.comparisons("baseline") if (e[0].before, e[0].after) not in stated)
    if edits and whole and not summary.factors:
        most = max(len(summary.arm(effects[0].after).edits) for effects in whole)
        whole = [effects for effects in whole if len(summary.arm(effects[0].after).edits) == most]
    for effects in whole:
        yield Statement(_answer(subject(effects[0], summary), effects, summary), "→" if edits else "•")
    yield from claims.statements(summary)
    for effects in summary.comparisons("noise"):
        parts = [StyledText(wording.noise(effect, summary.metric(effect.metric))) for effect in effects]
        yield Statement(_sentence(f"A/A: {effects[0].change} changed", parts), "~")


def conclusion(summary: Summary) -> Statement | None:
    """Return the sentence on all edits together, or else the only sentence; None if there are several of one rank."""
    lines = list(sentences(summary))
    whole = [line for line in lines if line.mark == "→"] or [line for line in lines if line.mark == "•"]
    return whole[0] if len(whole) == 1 else None


def against_baseline(summary: Summary) -> dict[str, str]:
    """The effects of each variant against the baseline, by its id: a sentence without its subject."""
    whole = once(summary.comparisons("baseline"))
    return {effects[0].after: plain(_answer("", effects, summary)).removeprefix(": ") for effects in whole}


def _interactions(summary: Summary) -> Iterator[Statement]:
    nothing: dict[str, list[str]] = {}
    for effects in summary.comparisons("interaction"):
        named = subject(effects[0], summary)
        if all(effect.verdict == "undecided" for effect in effects):
            nothing.setdefault(effects[0].terms, []).append(named)
        else:
            yield Statement(_answer(named, effects, summary))
    for subjects in nothing.values():
        verdict = "whether they interact is undecided"
        yield Statement(_sentence("; ".join(subjects), [StyledText(verdict, "undecided")]))


def _diverged_runs(summary: Summary) -> Iterator[Statement]:
    """Yield how many runs of a factorial diverged, once for all effects; sums over variants have theirs in a note."""
    runs = dict.fromkeys(variant for _, factors in summary.factors for variant, _ in factors.runs)
    arms = [summary.arm(variant) for variant in runs]
    if diverged := sum(arm.diverged for arm in arms):
        counts = f"{diverged} of {sum(arm.ended for arm in arms)} diverged; differences are over survivors only"
        yield Statement(_sentence("runs of the factorial", [StyledText(counts)]))


def _answer(named: str, effects: Sequence[Effect], summary: Summary) -> Words:
    first = effects[0]
    # Decided metrics come before undecided ones.
    ordered = sorted(effects, key=lambda effect: effect.verdict == "undecided")
    parts = [StyledText(wording.phrase(e, summary.metric(e.metric)), e.verdict) for e in ordered]
    if all(effect.verdict == "diverged" for effect in effects):
        parts = [StyledText("cannot be judged (diverged)", "diverged")]
    if first.before and first.after:
        before, after = summary.arm(first.before), summary.arm(first.after)
        parts += [StyledText(part) for part in (wording.fate(before, after), wording.cost(before, after)) if part]
    return _sentence(named, parts)


def _sentence(named: str, parts: Sequence[StyledText]) -> Words:
    joined = [piece for part in parts for piece in (StyledText("; "), part)][1:]
    return (StyledText(named, "strong"), StyledText(": "), *joined, StyledText("."))
