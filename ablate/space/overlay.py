"""Layers of a space: grammar, preset, file, profile and each --set, laid over one another; values know their layer."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from collections.abc import Mapping as Map
from pathlib import Path

from ablate.grammar.grammar import Grammar
from ablate.source.located import Items, Located, Mapping, Scalar, Source, Span
from ablate.source.problems import Problems, nearest, quote
from ablate.source.yaml import SET, overlay, read_setting

CHOICES = (
    ("design",),
    ("design", "search", "budget"),
    ("design", "search", "sampler"),
    ("design", "search", "pruner"),
    ("model", "position"),
    ("model", "init"),
    ("model", "head_init"),
    ("model", "entry_norm"),
    ("model", "final_norm"),
    ("data", "tokenizer"),
    ("recipe", "schedule", "decay"),
    ("recipe", "objective"),
)
"""Where the one key of a mapping says which alternative is meant: another key replaces it, instead of being added."""
CORPUS = ("data", "corpus")
"""Where one of several keys names a corpus and the others are its settings: another name replaces them all."""
OPTIMIZER = ("recipe", "optimizer")
"""Where a grammar may have settings for several optimisers: those that the space does not name are dropped."""
TOGETHER = ("model", "embedding"), ("std", "scale")
"""Their product is the standard deviation at the first block's input, so whoever sets one must set both: neither then
comes from the grammar."""


def without(located: Mapping, *keys: str) -> Mapping:
    return Mapping(tuple(entry for entry in located.entries if entry[0].value not in keys), located.span)


def replaced(located: Mapping, key: str, value: Located) -> Mapping:
    return Mapping(tuple((k, value if k.value == key else v) for k, v in located.entries), located.span)


def lay(base: Mapping, over: Mapping, corpora: Container[object]) -> Mapping:
    """Lay `over` on `base`: mappings merge key by key, and a choice of `base` is dropped where `over` makes another.

    `corpora` holds the names of all corpora.
    """
    over = _with_settings(over, OPTIMIZER)
    base = _without_other_corpus(base, over, corpora)
    for path in CHOICES:
        base = _without_choice(base, over, path)
    return overlay(_only_named(base, over, OPTIMIZER), over)


def lay_on_grammar(grammar: Mapping | None, written: Mapping, corpora: Container[object]) -> Mapping:
    """Lay a space on the defaults of its grammar; a missing key is then reported at the section in the space."""
    if grammar is None or not written.entries:
        return written
    if "design" not in written:  # a grammar's defaults for designs apply only to a design that is given
        grammar = without(grammar, "design")
    several = _at(grammar, OPTIMIZER)
    if _at(written, OPTIMIZER) is None and isinstance(several, Mapping) and len(several) > 1:
        grammar = _dropped(grammar, OPTIMIZER)  # the choice is then reported as a missing key
    return _placed(lay(grammar, written, corpora), written, written.entries[0][0].span)


def lay_on_space(base: Mapping, over: Mapping, grammar: Mapping | None, corpora: Container[object]) -> Mapping:
    """Lay `over` on a space; another optimiser that `over` chooses gets the grammar's defaults for it."""
    laid = lay(base, over, corpora)
    settings = None if grammar is None else _at(_only_named(grammar, laid, OPTIMIZER), OPTIMIZER)

    def change(value: Located) -> Located:
        if not isinstance(value, Mapping) or not isinstance(settings, Mapping):
            return value
        return _placed(overlay(settings, value), value, value.span)

    return _changed(laid, OPTIMIZER, change)


def lay_preset(grammar: Grammar, written: Mapping, corpora: Container[object], problems: Problems) -> Mapping | None:
    """Lay the preset of a space on its grammar's defaults; an unknown name is noted, and the nearest is read."""
    named, presets = written.get("preset"), grammar.presets
    defaults = _without_half(grammar.space, written)
    if named is None:
        return defaults
    listing = grammar.listing("presets")
    name = named.value if isinstance(named, Scalar) else None
    if not isinstance(name, str):
        message = "preset must be the name of a preset of the grammar"
        problems.add(message, named.span, notes=(f"`{listing}` lists them",))
        return defaults
    if name not in presets:
        message = f"the grammar has no preset {quote(name)}"
        problems.add_unknown(message, named.span, name, presets, "presets", command=listing)
    meant = name if name in presets else nearest(name, presets)
    if meant is None:
        return defaults
    sections = _only_named(presets[meant].sections, _with_settings(written, OPTIMIZER), OPTIMIZER)
    base = _without_half(defaults, sections)
    return sections if base is None else lay(base, sections, corpora)


def lay_profile(written: Mapping, profile: str | None, corpora: Container[object], problems: Problems) -> Mapping:
    if profile is None:
        return written
    profiles = written.get("profiles")
    names = tuple(str(name) for name in profiles) if isinstance(profiles, Mapping) else ()
    chosen = profiles.get(profile) if isinstance(profiles, Mapping) else None
    if isinstance(chosen, Mapping):
        return lay(written, chosen, corpora)
    if chosen is None:
        source = Source("--profile", profile)
        message, span = f"this space has no profile {quote(profile)}", source.span(0, len(profile))
        problems.add_unknown(message, span, profile, names, "its profiles are")
    else:
        problems.add(f"profile {profile} must be a mapping of what it changes in the space", chosen.span)
    return written


def lay_settings(written: Mapping, settings: Sequence[str], corpora: Container[object]) -> Mapping:
    """Lay texts such as `recipe.steps=20` on a space, in order: the last one is uppermost."""
    for setting in settings:
        written = lay(written, read_setting(setting, written), corpora)
    return written


def _placed(merged: Mapping, over: Mapping | None, span: Span) -> Mapping:
    """Return the same values, with each mapping located where `over` has it, or at `span` if `over` does not."""
    entries: list[tuple[Scalar, Located]] = []
    for key, value in merged.entries:
        if over is not None and key.value in over:
            key = over.key(key.value)
        elif isinstance(value, Mapping):
            key = Scalar(key.value, key.text, span)
        if isinstance(value, Mapping):
            inner = over.get(key.value) if over is not None else None
            value = _placed(value, inner if isinstance(inner, Mapping) else None, key.span)
        entries.append((key, value))
    return Mapping(tuple(entries), span)


def _without_half(grammar: Mapping | None, over: Mapping) -> Mapping | None:
    """Drop from a grammar's defaults the keys that are set together, if `over` sets one of them."""
    path, keys = TOGETHER
    written = _at(over, path)
    if grammar is None or not isinstance(written, Mapping) or not set(keys) & set(written):
        return grammar
    return _changed(grammar, path, lambda value: without(value, *keys) if isinstance(value, Mapping) else value)


def _without_choice(base: Mapping, over: Mapping, path: tuple[str, ...]) -> Mapping:
    old, new = _at(base, path), _at(over, path)
    if isinstance(old, Mapping) and isinstance(new, Mapping) and not set(old) & set(new):
        return _dropped(base, path)
    return base


def _without_other_corpus(base: Mapping, over: Mapping, corpora: Container[object]) -> Mapping:
    old, new = _at(base, CORPUS), _at(over, CORPUS)
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return base
    named = {key for key in new if key in corpora}
    return base if not named or named & set(old) else _dropped(base, CORPUS)


def _with_settings(located: Mapping, path: tuple[str, ...]) -> Mapping:
    """Write the word `adamw` as `{adamw: {}}`, so that it merges with the settings below it."""

    def change(value: Located) -> Located:
        if isinstance(value, Scalar) and isinstance(value.value, str):
            return Mapping(((value, Mapping((), value.span)),), value.span)
        return value

    return _changed(located, path, change)


def _only_named(base: Mapping, over: Mapping, path: tuple[str, ...]) -> Mapping:
    """Return `base` with the settings of only those things that `over` names; of all if it names none."""
    named = _at(over, path)

    def change(value: Located) -> Located | None:
        if named is None or not isinstance(value, Mapping):
            return value
        kept = tuple(entry for entry in value.entries if isinstance(named, Mapping) and entry[0].value in named)
        return Mapping(kept, value.span) if kept else None

    return _changed(base, path, change)


def _at(located: Located | None, path: tuple[str, ...]) -> Located | None:
    for key in path:
        located = located.get(key) if isinstance(located, Mapping) else None
    return located


def _dropped(located: Mapping, path: tuple[str, ...]) -> Mapping:
    return _changed(located, path, lambda value: None)


def _changed(located: Mapping, path: tuple[str, ...], change: Callable[[Located], Located | None]) -> Mapping:
    """Change the value at a path, or drop its key if the change gives None."""
    first, *rest = path
    entries: list[tuple[Scalar, Located]] = []
    for key, value in located.entries:
        new: Located | None = value
        if key.value == first and rest:
            new = _changed(value, tuple(rest), change) if isinstance(value, Mapping) else value
        elif key.value == first:
            new = change(value)
        if new is not None:
            entries.append((key, new))
    return Mapping(tuple(entries), located.span)


# Where a value was written: in the grammar, the file, the profile that was chosen, or an option
#
# Of values that are wrong only in combination, the one from the uppermost layer is the one to fix: the error points
# at it, and shows the others beside it.

GRAMMAR, FILE, PROFILE, SETTING = range(4)  # the layers of a space, the lowest first; presets belong to the grammar

Keys = tuple[str | int, ...]


class Origins:
    """The places at which the values of a resolved space were written; `path` is its file.

    `tokenizers` are the texts of the tokenizer files that it names, where these are not to be read from the disk.
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
        """Return the place where a section opens, or where the profile or an option sets something in it."""
        section = self.written(*keys)
        uppermost = max(_keys_below(section), key=self.layer, default=None) if section is not None else None
        return uppermost if uppermost is not None and self.layer(uppermost) >= PROFILE else self.key(*keys)

    def layer(self, span: Span) -> int:
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
        over = sorted((key for section in sections for key in _keys_below(section)), key=self.layer, reverse=True)
        if over and self.layer(over[0]) >= PROFILE:
            also = ((place, "in this block"),)
            problems.add(message, over[0], label="laid over the space", notes=notes, also=also)
        else:
            problems.add(message, place, label="in this block", notes=notes)

    def written(self, *keys: str | int) -> Located | None:
        value: Located | None = self.located
        for key in keys:
            if isinstance(value, Mapping):
                value = value.get(key)
            elif isinstance(value, Items) and isinstance(key, int) and key < len(value):
                value = value.items[key]
            else:
                return None
        return value


def _keys_below(located: Located) -> Iterator[Span]:
    if isinstance(located, Mapping):
        for key, value in located.entries:
            if not isinstance(value, Mapping):
                yield key.span
            yield from _keys_below(value)


def _ends(located: Located) -> Iterator[int]:
    """Yield where each value ends, since a mapping of a resolved space knows only where it opens."""
    if not isinstance(located, Mapping):
        yield located.span.end
    else:
        for key, value in located.entries:
            yield key.span.end
            yield from _ends(value)
