"""Where a value of a resolved space was written: in the grammar, the file, the profile that was chosen, or an option.

Of values that are wrong only in combination, the one from the uppermost layer is the one to fix: the error points at
it, and shows the others beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map
from pathlib import Path

from ablate.source.located import Items, Located, Mapping, Span
from ablate.source.overlay import SET
from ablate.source.problems import Problems

GRAMMAR, FILE, PROFILE, SETTING = range(4)
"""The layers of a space, the lowest first; presets belong to the grammar."""

Keys = tuple[str | int, ...]


class Origins:
    """Where the values of a resolved space were written; `path` is its file.

    `tokenizers` are texts of the files that it names, where these are not to be read from the disk.
    """

    def __init__(self, located: Mapping, path: Path, tokenizers: Map[str, str] | None = None):
        self.located, self.file, self.tokenizers = located, str(path), tokenizers or {}

    def value(self, *keys: str | int) -> Span:
        """Return the place of the value at these keys; of the last key on the way if there is none."""
        value = self.written(*keys)
        return value.span if value is not None and not isinstance(value, Mapping) else self.key(*keys)

    def key(self, *keys: str | int) -> Span:
        """Return the place of the last of these keys, or of the last one that exists; in a list, of the item."""
        value: Located = self.located
        span = self.located.span
        for key in keys:
            if isinstance(value, Mapping) and key in value:
                span, value = value.key(str(key)).span, value[str(key)]
            elif isinstance(value, Items) and isinstance(key, int) and key < len(value):
                value = value.items[key]
                span = value.span
            else:
                break
        return span

    def section(self, *keys: str | int) -> Span:
        """Return where a section opens, or where the profile or an option sets something in it."""
        section = self.written(*keys)
        uppermost = max(_keys(section), key=self.layer, default=None) if section is not None else None
        return uppermost if uppermost is not None and self.layer(uppermost) >= PROFILE else self.key(*keys)

    def layer(self, span: Span) -> int:
        """Return the layer that wrote a place."""
        if span.source.name == SET:
            return SETTING
        if span.source.name != self.file:
            return GRAMMAR
        profiles = self.located.get("profiles")
        if profiles is None or span.start < self.key("profiles").start:
            return FILE
        return PROFILE if span.end <= max(_ends(profiles), default=0) else FILE

    def add(self, problems: Problems, message: str, *paths: Keys, notes: Iterable[str] = (), label: str = "") -> None:
        """Note that values do not fit together, at the one of the uppermost layer; of several, at the first."""
        spans = [self.key(*path) for path in paths]
        last = max(spans, key=self.layer)
        also = [(span, "beside this") for span in dict.fromkeys(spans) if self.layer(span) != self.layer(last)]
        problems.add(message, last, label=label, notes=notes, also=also)

    def add_in_block(self, problems: Problems, message: str, place: Span, notes: Iterable[str] = ()) -> None:
        """Note a mistake of a block named at `place`, or at a profile or option that changes the model or blocks."""
        sections = (section for name in ("model", "block", "blocks") if (section := self.located.get(name)) is not None)
        over = sorted((key for section in sections for key in _keys(section)), key=self.layer, reverse=True)
        if over and self.layer(over[0]) >= PROFILE:
            also = ((place, "in this block"),)
            problems.add(message, over[0], label="laid over the space", notes=notes, also=also)
        else:
            problems.add(message, place, label="in this block", notes=notes)

    def written(self, *keys: str | int) -> Located | None:
        """Return the value at these keys; None if there is none."""
        value: Located | None = self.located
        for key in keys:
            if isinstance(value, Mapping):
                value = value.get(key)
            elif isinstance(value, Items) and isinstance(key, int) and key < len(value):
                value = value.items[key]
            else:
                return None
        return value


def _keys(located: Located) -> Iterator[Span]:
    if isinstance(located, Mapping):
        for key, value in located.entries:
            if not isinstance(value, Mapping):
                yield key.span
            yield from _keys(value)


def _ends(located: Located) -> Iterator[int]:
    """Yield where each value ends, since a mapping of a resolved space knows only where it opens."""
    if not isinstance(located, Mapping):
        yield located.span.end
    else:
        for key, value in located.entries:
            yield key.span.end
            yield from _ends(value)
