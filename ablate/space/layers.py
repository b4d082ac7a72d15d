"""What a space says, layer upon layer: the grammar's `space:`, a preset, the file, a profile, each --set."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.grammar.grammar import Grammar
from ablate.source.located import Located, Mapping, Scalar, Source, Span
from ablate.source.overlay import overlay, read_setting
from ablate.source.problems import Problems, nearest, quote

CHOICES = (
    ("design",),
    ("design", "search", "budget"),
    ("design", "search", "pruner"),
    ("model", "position"),
    ("model", "init"),
    ("model", "entry_norm"),
    ("model", "final_norm"),
    ("data", "corpus"),
    ("data", "tokenizer"),
    ("recipe", "optimizer"),
)
"""Where a mapping holds one key that says which of several is meant: another key replaces it, instead of joining it."""
TOGETHER = ("model", "embedding"), ("std", "scale")
"""Their product is the spread of what the first block reads, so who says one says both: neither then comes from the
grammar."""


def lay(base: Mapping, over: Mapping) -> Mapping:
    """`base` with `over` on top: mappings merge key by key, and where another choice is made the first one goes."""
    for path in CHOICES:
        base = _without_choice(base, over, path)
    return overlay(base, over)


def lay_on_grammar(grammar: Mapping | None, written: Mapping) -> Mapping:
    """A space on top of what its grammar says: what is missing in a section is then missed where the space says it."""
    if grammar is None or not written.entries:
        return written
    if "design" not in written:  # what a grammar says of designs is for one that is asked for
        grammar = Mapping(tuple(entry for entry in grammar.entries if entry[0].value != "design"), grammar.span)
    return _placed(lay(grammar, written), written, written.entries[0][0].span)


def lay_preset(grammar: Grammar, written: Mapping, problems: Problems) -> Mapping | None:
    """What a grammar says of every space, with the preset that the space names on top; the space itself lies on that.

    A name that is no preset goes to `problems`, and is read as the one it most likely means.
    """
    named, presets = written.get("preset"), grammar.presets
    if named is None:
        return _without_half(grammar.space, written)
    listing = grammar.listing("presets")
    name = named.value if isinstance(named, Scalar) else None
    if not isinstance(name, str):
        problems.add("preset names a preset of the grammar", named.span, notes=(f"`{listing}` lists them",))
        return _without_half(grammar.space, written)
    if name not in presets:
        message = f"the grammar has no preset {quote(name)}"
        problems.add_unknown(message, named.span, name, presets, "presets", command=listing)
    meant = name if name in presets else nearest(name, presets)
    if meant is None:
        return _without_half(grammar.space, written)
    sections = presets[meant].sections
    base = _without_half(_without_half(grammar.space, written), sections)
    return sections if base is None else lay(base, sections)


def lay_profile(written: Mapping, profile: str | None, problems: Problems) -> Mapping:
    """A space with one of its profiles on top; a name that is none of them goes to `problems`."""
    if profile is None:
        return written
    profiles = written.get("profiles")
    names = tuple(str(name) for name in profiles) if isinstance(profiles, Mapping) else ()
    chosen = profiles.get(profile) if isinstance(profiles, Mapping) else None
    if isinstance(chosen, Mapping):
        return lay(written, chosen)
    if chosen is None:
        source = Source("--profile", profile)
        message, span = f"this space has no profile {quote(profile)}", source.span(0, len(profile))
        problems.add_unknown(message, span, profile, names, "its profiles are")
    else:
        problems.add(f"profile {profile} must be a mapping: what it says otherwise than the space", chosen.span)
    return written


def lay_settings(written: Mapping, settings: Sequence[str]) -> Mapping:
    """A space with texts such as `recipe.steps=20` on top, the last one uppermost."""
    for setting in settings:
        written = lay(written, read_setting(setting, written))
    return written


def _placed(merged: Mapping, over: Mapping | None, span: Span) -> Mapping:
    """The same values, but each mapping opens where `over` opens it, or at `span` where `over` does not."""
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
    """What a grammar says, without the keys that are said together where `over` says one of them."""
    (section, part), keys = TOGETHER
    model = over.get(section)
    said = model.get(part) if isinstance(model, Mapping) else None
    if grammar is None or not isinstance(said, Mapping) or not set(keys) & set(said):
        return grammar

    def without(located: Located, inside: tuple[str, ...]) -> Located:
        if not isinstance(located, Mapping):
            return located
        entries = located.entries if inside else [entry for entry in located.entries if entry[0].value not in keys]
        changed = ((k, without(v, inside[1:]) if inside and k.value == inside[0] else v) for k, v in entries)
        return Mapping(tuple(changed), located.span)

    kept = without(grammar, (section, part))
    assert isinstance(kept, Mapping)
    return kept


def _without_choice(base: Mapping, over: Mapping, path: tuple[str, ...]) -> Mapping:
    first, *rest = path
    old, new = base.get(first), over.get(first)
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return base
    kept: Located | None = old
    if rest:
        kept = _without_choice(old, new, tuple(rest))
    elif not set(old) & set(new):
        kept = None
    entries = ((key, kept if key.value == first else value) for key, value in base.entries)
    return Mapping(tuple((key, value) for key, value in entries if value is not None), base.span)
