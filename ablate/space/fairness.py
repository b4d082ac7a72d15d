"""Checks of `fair` that its documents cannot make: names, and terms that are the same."""

from __future__ import annotations

from ablate.source.located import Mapping, Source, to_python
from ablate.source.problems import Problems, quote
from ablate.space.fair import EQUAL_STEPS, Fair, Terms


def check_fairness(fair: Fair, located: Mapping, by_hand: Source, problems: Problems) -> None:
    """Note the mistakes of a located section; what comes from `by_hand` was typed, and must have an effect."""
    under = located.get("under")
    typed = [key.value for key, _ in located.entries if key.span.source == by_hand]
    opens = located.key("under").span.text if "under" in located else ""
    if (
        typed == ["under"] and not fair.under and opens.strip("\"'") == "under"
    ):  # otherwise the file does not mention it
        notes = ("such as under: {equal steps: {}, equal FLOPs: {budget: flops}}; or leave fair out",)
        problems.add("fair.under names no terms: it has no effect", located.key("under").span, notes=notes)
    if isinstance(under, Mapping):
        _check_names(fair, under, problems)
        _check_common(located, under, by_hand, problems)


def _check_names(fair: Fair, under: Mapping, problems: Problems) -> None:
    first: dict[Terms, str] = {}
    for name, terms in fair.under.items():
        key = under.key(name)
        if not name.strip():
            notes = ("such as equal steps: {budget: steps}",)
            problems.add("terms need a name: the report shows it", key.span, notes=notes)
        elif terms in first:
            also = ((under.key(first[terms]).span, "first given here"),)
            problems.add(f"{quote(name)} and {quote(first[terms])} are the same terms", key.span, also=also)
        first.setdefault(terms, name)


def _check_common(located: Mapping, under: Mapping, by_hand: Source, problems: Problems) -> None:
    """Note a common setting that each of the terms overrides, unless it is the default."""
    for word in Terms.model_fields:
        changed = word in located and to_python(located[word]) != getattr(EQUAL_STEPS, word)
        typed = changed and located.key(word).span.source == by_hand
        if typed and len(under) and all(isinstance(terms, Mapping) and word in terms for _, terms in under.entries):
            message = f"fair.{word} has no effect here: each of the terms in fair.under sets its own"
            notes = ("remove it here, or from the terms that it is meant for",)
            problems.add(message, located.key(word).span, notes=notes)
