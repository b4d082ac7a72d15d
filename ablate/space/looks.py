"""The looks of `seeds: {auto: {looks: […]}}`: what their document cannot tell."""

from __future__ import annotations

from ablate.source.located import Items, Mapping
from ablate.source.problems import Problems
from ablate.space.documents import Auto, Document


class Looks(Document):
    """`seeds: {auto: {looks: […]}}`."""

    auto: Auto


def check_looks(said: Auto, located: Mapping, problems: Problems) -> bool:
    """Whether the looks rise and are several; if not, that is noted at the list."""
    auto = located["auto"]
    listed = auto["looks"] if isinstance(auto, Mapping) else auto
    looks, notes = said.looks, ("such as auto: {looks: [4, 6, 9, 13]}",)
    again = next((k for k, look in enumerate(looks) if look in looks[:k]), None)
    if again is not None and isinstance(listed, Items):
        problems.add(f"{looks[again]} stands twice in seeds.auto.looks", listed.items[again].span, notes=notes)
    elif list(looks) != sorted(looks):
        message = "the looks of seeds.auto must rise: each is a number of seeds after which it is looked"
        problems.add(message, listed.span, notes=notes)
    elif len(looks) == 1:
        notes = (f"say seeds: {looks[0]}, or list a later look too: auto: {{looks: [{looks[0]}, {looks[0] + 2}]}}",)
        problems.add(f"a single look, at {looks[0]} seeds, adds none", listed.span, notes=notes)
    else:
        return True
    return False
