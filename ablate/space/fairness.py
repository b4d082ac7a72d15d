"""What of `fair` its documents cannot tell: names, and terms that say the same."""

from __future__ import annotations

from ablate.source.located import Mapping, Source, to_python
from ablate.source.problems import Problems, quote
from ablate.space.fair import EQUAL_STEPS, Fair, Terms


def check_fairness(fair: Fair, located: Mapping, by_hand: Source, problems: Problems) -> None:
    """Note the mistakes of a section, as it is `located`; what is from `by_hand` was typed, and must have an effect."""
    under = located.get("under")
    typed = [key.value for key, _ in located.entries if key.span.source == by_hand]
    opens = located.key("under").span.text if "under" in located else ""
    if typed == ["under"] and not fair.under and opens.strip("\"'") == "under":  # else it opens where nothing is said
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
            problems.add("terms need a name: the page shows it", key.span, notes=notes)
        elif terms in first:
            also = ((under.key(first[terms]).span, "first said here"),)
            problems.add(f"{quote(name)} and {quote(first[terms])} are the same terms", key.span, also=also)
        first.setdefault(terms, name)


def _check_common(located: Mapping, under: Mapping, by_hand: Source, problems: Problems) -> None:
    """What every one of the terms says otherwise is said in vain beside them, unless it says that nothing is asked."""
    for word in Terms.model_fields:
        asks = word in located and to_python(located[word]) != getattr(EQUAL_STEPS, word)
        said = asks and located.key(word).span.source == by_hand
        if said and len(under) and all(isinstance(one, Mapping) and word in one for _, one in under.entries):
            message = f"fair.{word} has no effect here: each of the terms in fair.under says its own"
            problems.add(message, located.key(word).span, notes=("remove it, or leave it out of the terms it is for",))
