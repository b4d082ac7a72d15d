"""What of `fair` its documents cannot tell: names, terms that say the same, settings with nothing to choose from."""

from __future__ import annotations

import math
from collections import Counter

from ablate.source.located import Items, Located, Mapping, Scalar, Source, to_python
from ablate.source.problems import Problems, quote
from ablate.space.fair import EQUAL_STEPS, Fair, Terms, Tune

MOST_TRIALS = 256
"""More trials than this to tune one block would keep the question waiting for what only prepares it."""


def check_fairness(fair: Fair, located: Mapping, by_hand: Source, problems: Problems) -> None:
    """Note the mistakes of a section, as it is `located`; what is from `by_hand` was typed, and must have an effect."""
    under, tune = located.get("under"), located.get("tune")
    typed = [key.value for key, _ in located.entries if key.span.source == by_hand]
    opens = located.key("under").span.text if "under" in located else ""
    if typed == ["under"] and not fair.under and opens.strip("\"'") == "under":  # else it opens where nothing is said
        notes = ("such as under: {equal steps: {}, equal FLOPs: {budget: flops}}; or leave fair out",)
        problems.add("fair.under names no terms: it has no effect", located.key("under").span, notes=notes)
    if isinstance(under, Mapping):
        _check_names(fair, under, problems)
        _check_common(located, under, by_hand, problems)
    if isinstance(fair.tune, Tune) and isinstance(tune, Mapping):
        _check_tune(fair.tune, tune, located.key("tune"), problems)


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


def _check_tune(tune: Tune, located: Mapping, key: Scalar, problems: Problems) -> None:
    for name, values in tune.listed.items():
        again = [value for value, times in Counter(values).items() if times > 1]
        if again:
            place = _last(located[name], again[0]) or located[name]
            problems.add(f"{again[0]:g} stands twice in fair.tune.{name}", place.span, notes=("list each value once",))
    settings = math.prod(len(values) for values in tune.listed.values())
    if settings * tune.seeds > MOST_TRIALS:
        grid = " × ".join(f"{len(values)} of {name}" for name, values in tune.listed.items())
        message = f"fair.tune asks for {settings * tune.seeds:,} trials of each block ({grid} × {tune.seeds:,} seeds)"
        notes = (f"at most {MOST_TRIALS}: list fewer values, or take fewer seeds",)
        problems.add(message, key.span, notes=notes)
    if all(len(values) == 1 for values in tune.listed.values()):
        what = "one setting, so that there is nothing to choose" if tune.listed else "no setting to choose"
        notes = ("list several values of lr, of weight_decay or of both: tune: {lr: [1e-3, 3e-3, 1e-2], seeds: 2}",)
        problems.add(f"fair.tune lists {what}", key.span, notes=notes)


def _last(located: Located, value: float) -> Located | None:
    """Where a list has a value for the last time."""
    items = located.items if isinstance(located, Items) else ()
    return next((item for item in reversed(items) if to_python(item) == value), None)
