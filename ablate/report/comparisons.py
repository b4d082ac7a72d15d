"""What a comparison is called. The same two variants under several terms are one, of which all is said once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ablate.output.words import listed
from ablate.verdict.summary import Effect, Summary

Ends: TypeAlias = tuple[str, ...]
"""What tells a comparison from others, whatever its terms: its two variants, else what changes and the terms."""


def ends(effect: Effect) -> Ends:
    """What tells a comparison of two variants, or of a factorial, from the others of its kind."""
    if effect.before and effect.after:
        return effect.kind, effect.before, effect.after
    return effect.kind, effect.terms, effect.change


def once(comparisons: Iterable[tuple[Effect, ...]]) -> list[tuple[Effect, ...]]:
    """Of the same comparison under several terms the first."""
    first: dict[Ends, tuple[Effect, ...]] = {}
    for effects in comparisons:
        first.setdefault(ends(effects[0]), effects)
    return list(first.values())


def effects_once(effects: Iterable[Effect]) -> list[Effect]:
    """Of the same comparison on the same metric the first."""
    first: dict[tuple[Ends, str], Effect] = {}
    for effect in effects:
        first.setdefault((ends(effect), effect.metric), effect)
    return list(first.values())


def terms_of(effect: Effect, summary: Summary) -> tuple[str, ...]:
    """All the terms under which its comparison is made, in order; none where but one set answers the question."""
    if len(summary.terms) < 2:
        return ()
    wanted = ends(effect)
    return tuple(dict.fromkeys(one.terms for one in summary.effects if one.terms and ends(one) == wanted))


def subject(effect: Effect, summary: Summary) -> str:
    """What a comparison is of, in a sentence or a row."""
    named, terms = effect.change, terms_of(effect, summary)
    if effect.kind == "baseline":
        after = summary.arm(effect.after).name
        named = f"{after} against {summary.arm(effect.before).name}"
        terms = () if len(terms) == 1 and after.endswith(f", {terms[0]}") else terms
    elif effect.kind == "noise":
        named = f"A/A: {effect.change}"
    return f"{named} under {listed(terms)}" if terms else named
