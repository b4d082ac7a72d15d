"""Where a value of a resolved space was written: in the grammar, the file, the profile that was chosen, or an option.

Of values that are wrong only together, the one that was laid on last is to be mended: it is pointed at, and the others
are shown beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ablate.source.located import Items, Located, Mapping, Span
from ablate.source.overlay import SET
from ablate.source.problems import Problems

GRAMMAR, FILE, PROFILE, SETTING = range(4)
"""The layers of a space, the lowest first; presets are of the grammar."""

Keys = tuple[str | int, ...]


class Origins:
    """The places of what a space says, once its layers lie upon each other; `path` is its file."""

    def __init__(self, located: Mapping, path: Path):
        self.located, self.file = located, str(path)

    def value(self, *keys: str | int) -> Span:
        """Where the value at these keys stands; the last key on the way where there is none."""
        found = self.written(*keys)
        return found.span if found is not None and not isinstance(found, Mapping) else self.key(*keys)

    def key(self, *keys: str | int) -> Span:
        """Where the last of these keys stands, or the last on the way that there is; of a list the item."""
        found: Located = self.located
        span = self.located.span
        for key in keys:
            if isinstance(found, Mapping) and key in found:
                span, found = found.key(str(key)).span, found[str(key)]
            elif isinstance(found, Items) and isinstance(key, int) and key < len(found):
                found = found.items[key]
                span = found.span
            else:
                break
        return span

    def section(self, *keys: str | int) -> Span:
        """Where a section opens; where the profile or an option says something in it, there."""
        section = self.written(*keys)
        uppermost = max(_keys(section), key=self.layer, default=None) if section is not None else None
        return uppermost if uppermost is not None and self.layer(uppermost) >= PROFILE else self.key(*keys)

    def layer(self, span: Span) -> int:
        """Which layer wrote what stands there."""
        if span.source.name == SET:
            return SETTING
        if span.source.name != self.file:
            return GRAMMAR
        profiles = self.located.get("profiles")
        if profiles is None or span.start < self.key("profiles").start:
            return FILE
        return PROFILE if span.end <= max(_ends(profiles), default=0) else FILE

    def add(self, problems: Problems, message: str, *paths: Keys, notes: Iterable[str] = (), label: str = "") -> None:
        """Note a mistake of values together: at the last of them that was laid on, or at the first of equals."""
        spans = [self.key(*path) for path in paths]
        last = max(spans, key=self.layer)
        also = [(span, "beside this") for span in dict.fromkeys(spans) if self.layer(span) != self.layer(last)]
        problems.add(message, last, label=label, notes=notes, also=also)

    def add_in_block(self, problems: Problems, message: str, place: Span, notes: Iterable[str] = ()) -> None:
        """Note what a block named at `place` cannot be: at what is laid over the model or the blocks, where any is."""
        sections = (section for name in ("model", "block", "blocks") if (section := self.located.get(name)) is not None)
        over = sorted((key for section in sections for key in _keys(section)), key=self.layer, reverse=True)
        if over and self.layer(over[0]) >= PROFILE:
            also = ((place, "in this block"),)
            problems.add(message, over[0], label="laid over the space", notes=notes, also=also)
        else:
            problems.add(message, place, label="in this block", notes=notes)

    def written(self, *keys: str | int) -> Located | None:
        """The value at these keys; None where there is none."""
        found: Located | None = self.located
        for key in keys:
            if isinstance(found, Mapping):
                found = found.get(key)
            elif isinstance(found, Items) and isinstance(key, int) and key < len(found):
                found = found.items[key]
            else:
                return None
        return found


def _keys(located: Located) -> Iterator[Span]:
    if isinstance(located, Mapping):
        for key, value in located.entries:
            if not isinstance(value, Mapping):
                yield key.span
            yield from _keys(value)


def _ends(located: Located) -> Iterator[int]:
    """Where what is written ends: a mapping of a resolved space knows only where it opens."""
    if not isinstance(located, Mapping):
        yield located.span.end
    else:
        for key, value in located.entries:
            yield key.span.end
            yield from _ends(value)
