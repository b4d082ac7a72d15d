"""Names of comparisons. The same two variants under several terms are one comparison, which is reported once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ablate.output.words import listed
from ablate.verdict.summary import Effect, Summary

Ends: TypeAlias = tuple[str, ...]
"""The identity of a comparison, whatever its terms: its two variants, else what changes and the terms."""


def ends(effect: Effect) -> Ends:
    """Return what identifies a comparison of two variants, or of a factorial, among those of its kind."""
    if effect.before and effect.after:
        return effect.kind, effect.before, effect.after
    return effect.kind, effect.terms, effect.change


def once(comparisons: Iterable[tuple[Effect, ...]]) -> list[tuple[Effect, ...]]:
    """Return the comparisons, keeping only the first of those that are the same under several terms."""
    first: dict[Ends, tuple[Effect, ...]] = {}
    for effects in comparisons:
        first.setdefault(ends(effects[0]), effects)
    return list(first.values())


def effects_once(effects: Iterable[Effect]) -> list[Effect]:
    """Return the effects, keeping only the first for each comparison and metric."""
    first: dict[tuple[Ends, str], Effect] = {}
    for effect in effects:
        first.setdefault((ends(effect), effect.metric), effect)
    return list(first.values())


def terms_of(effect: Effect, summary: Summary) -> tuple[str, ...]:
    """Return all terms under which its comparison is made, in order; none if the question has only one set of terms."""
    if len(summary.terms) < 2:
        return ()
    wanted = ends(effect)
    return tuple(dict.fromkeys(other.terms for other in summary.effects if other.terms and ends(other) == wanted))


def subject(effect: Effect, summary: Summary) -> str:
    """Return the name of a comparison, for a sentence or a row."""
    named, terms = effect.change, terms_of(effect, summary)
    if effect.kind == "baseline":
        after = summary.arm(effect.after).name
        named = f"{after} against {summary.arm(effect.before).name}"
        terms = () if len(terms) == 1 and after.endswith(f", {terms[0]}") else terms
    elif effect.kind == "noise":
        named = f"A/A: {effect.change}"
    return f"{named} under {listed(terms)}" if terms else named
