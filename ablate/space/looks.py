"""Checks of the looks of `seeds: {auto: {looks: […]}}` that their document cannot make."""

from __future__ import annotations

from ablate.source.located import Items, Mapping
from ablate.source.problems import Problems
from ablate.space.documents import Auto, Document


class Looks(Document):
    """`seeds: {auto: {looks: […]}}`."""

    auto: Auto


def check_looks(declared: Auto, located: Mapping, problems: Problems) -> bool:
    """Return whether there are several looks, in increasing order; if not, note that at the list."""
    auto = located["auto"]
    listed = auto["looks"] if isinstance(auto, Mapping) else auto
    looks, notes = declared.looks, ("such as auto: {looks: [4, 6, 9, 13]}",)
    again = next((k for k, look in enumerate(looks) if look in looks[:k]), None)
    if again is not None and isinstance(listed, Items):
        problems.add(f"{looks[again]} is listed twice in seeds.auto.looks", listed.items[again].span, notes=notes)
    elif list(looks) != sorted(looks):
        message = "the looks of seeds.auto must increase: each is the number of seeds at an interim analysis"
        problems.add(message, listed.span, notes=notes)
    elif len(looks) == 1:
        notes = (f"write seeds: {looks[0]}, or add a later look: auto: {{looks: [{looks[0]}, {looks[0] + 2}]}}",)
        problems.add(f"a single look, at {looks[0]} seeds, adds no seeds", listed.span, notes=notes)
    else:
        return True
    return False
