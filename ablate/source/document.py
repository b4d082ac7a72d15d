"""From located values to frozen pydantic documents; every mistake is reported at its place, in plain words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from ablate.source.annotations import (
    Place,
    annotated,
    arms,
    bare,
    choices,
    described,
    fields,
    is_model,
    is_union,
    metadata,
)
from ablate.source.compose import ValueProblem, resolve
from ablate.source.located import Items, Located, Mapping, Scalar, Span, to_python
from ablate.source.problems import Problems, nearest, quote, shorten, suggest

T = TypeVar("T", bound=BaseModel)
Loc = tuple[int | str, ...]

READ: Final = 180  # the longest line of names that one still reads
MANY: Final = 20  # at most this many unknown keys of one mapping are shown; further ones are counted


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints at what was meant, beyond types.

    `ways` maps the name of a value to a way out (`recipe.dtype`; `*` stands for anything). `other_names` maps names of
    keys in other programs to the name here, or to a sentence about what to use instead.
    """

    ways: Map[str, str] = field(default_factory=dict)
    other_names: Map[str, str] = field(default_factory=dict)

    def way(self, name: str) -> tuple[str, ...]:
        way = self.ways.get(name) or next((way for key, way in self.ways.items() if fnmatchcase(name, key)), None)
        return (way,) if way else ()

    def meant(self, word: str, inside: str, free: Iterable[str]) -> str | None:
        section, _, key = self.other_names.get(word.lower(), "").rpartition(".")
        elsewhere = section.split(".")[0] != inside.split(".")[0]
        return key if key in free and (section == inside or elsewhere) else None

    def instead(self, word: str) -> str:
        """Return a label for a key known elsewhere: the name, or the sentence, to use here."""
        instead = self.other_names.get(word.lower(), "")
        return f"here it is {instead}" if instead and " " not in instead else instead


NO_HINTS: Final = Hints()


def validate(
    model: type[T], located: Located, problems: Problems, where: str = "", hints: Hints = NO_HINTS
) -> T | None:
    """The document that a value describes; None if it has mistakes, which are then in `problems`.

    `where` names the value in messages (`recipe`).
    """
    place = Place(model, located, None, where, model.model_config.get("strict"))
    try:
        return model.model_validate(to_python(located))
    except ValidationError as error:
        _note(place, error.errors(include_url=False), problems, hints)
        return None


def _note(root: Place, errors: Sequence[ErrorDetails], problems: Problems, hints: Hints) -> None:
    """Note the errors, sorted by what they are about, so that one mistake is shown once."""
    mappings: dict[Loc, tuple[Place, list[str], dict[str, None]]] = {}
    noted: set[Loc] = set()
    for error in errors:
        place, rest = _follow(root, error["loc"])
        at = error["loc"][: len(error["loc"]) - len(rest)]
        if rest == ("[key]",):
            _note_key(place, _follow(root, at[:-1])[0], problems)
        elif is_union(bare(place.wanted)) and rest:
            if at not in noted:  # each arm of the union reports an error; the value is noted once
                noted.add(at)
                _note_union(place, problems, hints)
        elif is_model(bare(place.wanted)) and error["type"] in ("missing", "extra_forbidden", "invalid_key"):
            _, missing, unknown = mappings.setdefault(at, (place, [], {}))
            if error["type"] == "missing":
                missing.append(str(error["loc"][-1]))
            elif error["type"] == "extra_forbidden":
                unknown.setdefault(str(error["loc"][-1]))
            else:  # a number, true, false or null as a key, which pydantic does not locate
                unknown.update(dict.fromkeys(key.text for key in _keys(place) if not isinstance(key.value, str)))
        else:
            _note_value(place, error, problems, hints)
    for place, missing, unknown in mappings.values():
        _note_keys(place, missing, list(unknown), problems, hints)


def note_unknown_key(
    problems: Problems,
    key: Scalar,
    where: str,
    known: Sequence[str],
    free: Iterable[str],
    lead: str,
    hints: Hints,
) -> str | None:
    """Note a key that is not among those `known`; return the one it means, of those not used yet (`free`), if any."""
    meant, label = _key_meant(key.text, where, known, list(free), hints)
    notes = _on_lines(f"{lead}: {', '.join(known)}")
    problems.add(f"unknown key {quote(key.text)} in {where or 'a space'}", key.span, label=label, notes=notes)
    return meant


def _key_meant(
    word: str, where: str, known: Iterable[str], free: Sequence[str], hints: Hints
) -> tuple[str | None, str]:
    """The key that an unknown one means, if any, and the label for it, which may suggest one that is not `free`."""
    meant = hints.meant(word, where, free)
    instead = "" if meant else hints.instead(word)
    meant = meant or (None if instead else nearest(word, free))
    return meant, f"did you mean {quote(meant)}?" if meant else instead or suggest(word, known) or ""


def _note_key(place: Place, parent: Place, problems: Problems) -> None:
    words = [str(word) for kind in get_args(bare(parent.wanted))[:1] for word in choices(kind)]
    if place.key is None or not words:
        problems.add("this key must be text", _opening(place), label="put it in quotes")
        return
    label, notes = suggest(place.key.text, words) or "", (f"{parent.name} accepts: {', '.join(words)}",)
    problems.add(f"unknown key {quote(place.key.text)} in {parent.name}", place.key.span, label=label, notes=notes)


def _keys(place: Place) -> list[Scalar]:
    return [key for key, _ in place.value.entries] if isinstance(place.value, Mapping) else []


def _follow(place: Place, loc: Loc) -> tuple[Place, Loc]:
    """Follow a location down as far as the document goes; stop at a union, below which the location names its arms."""
    for taken, step in enumerate(loc):
        if is_union(bare(place.wanted)) or (child := place.child(step)) is None:
            return place, loc[taken:]
        place = child
    return place, ()


def _accepted(name: str, known: Iterable[str]) -> tuple[str, ...]:
    if not (known := tuple(known)):
        return (f"{name} has no settings",)
    return _on_lines(f"{name or 'this document'} accepts: {', '.join(known)}")


def _on_lines(text: str) -> tuple[str, ...]:
    first, *others = textwrap.wrap(text, READ)
    return (first, *(f"and {line}" for line in others))


def _note_keys(place: Place, missing: list[str], unknown: list[str], problems: Problems, hints: Hints) -> None:
    """Note the unknown and missing keys of one mapping; a misspelt key is not reported as missing as well."""
    known = fields(bare(place.wanted))
    inside = f" in {place.name}" if place.name else ""
    accepted = _accepted(place.name, known)
    spelt = {key.text: key for key in _keys(place)}
    free = [key for key in known if key not in spelt]
    for word in unknown[:MANY]:
        meant, label = _key_meant(word, place.name, known, free, hints)
        missing = [key for key in missing if key != meant]
        free = [key for key in free if key != meant]
        problems.add(f"unknown key {quote(word)}{inside}", spelt[word].span, label=label, notes=accepted)
    if len(unknown) > MANY:
        more = f"{len(unknown) - MANY} more unknown keys{inside}"
        problems.add(more, spelt[unknown[MANY]].span, label="from here on", notes=accepted)
    if missing and not (unknown and len(known) == 1):  # the unknown key takes the place of the only one
        several = "missing keys" if len(missing) > 1 else "missing key"
        notes = tuple(f"{key}: {described(annotated(known[key]))}" for key in missing)
        problems.add(f"{several} {', '.join(map(quote, missing))}{inside}", _opening(place), notes=notes)


def _opening(place: Place) -> Span:
    return place.value.span if place.key is None else place.key.span


WHOLE: Final = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE]\+?[0-9]{1,2})?)\s*([kKmM]?)")
"""A whole number as other programs write it: 1_000, 1,000, 1e3, 80k."""
PLAIN: Final = re.compile(r"[A-Za-z0-9.+-][A-Za-z0-9_./+-]*")  # a word that needs no quotes in a YAML list
THOUSANDS: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_UNEXPECTED: Final = ("literal_error", "enum", "string_pattern_mismatch")
_BOUNDS: Final[Map[str, str]] = {
    "greater_than": "be greater than {gt}",
    "greater_than_equal": "be at least {ge}",
    "less_than": "be less than {lt}",
    "less_than_equal": "be at most {le}",
    "multiple_of": "be a multiple of {multiple_of}",
    "finite_number": "be finite",
    "string_too_short": "be at least {min_length} characters long",
    "string_too_long": "be at most {max_length} characters long",
    "too_short": "hold {min_length} or more values",
    "too_long": "hold {max_length} or fewer values",
}


def _note_value(place: Place, error: ErrorDetails, problems: Problems, hints: Hints) -> None:
    kind, context = error["type"], error.get("ctx", {})
    subject = place.name or "this"
    span, way = place.value.span, hints.way(place.name)
    fixed_list = get_origin(bare(place.wanted)) is tuple and Ellipsis not in get_args(bare(place.wanted))
    if kind in _UNEXPECTED or kind.endswith("_type") or (fixed_list and kind in ("missing", "too_long")):
        _note_unexpected(place, problems, hints)
    elif kind in _BOUNDS:
        bounds = _BOUNDS[kind].format(**{name: _number(limit) for name, limit in context.items()})
        problems.add(f"{subject} must {bounds}, got {shown(place.value)}", span, notes=way)
    elif kind in ("value_error", "assertion_error"):
        problems.add(f"{subject}: {context['error']}", span, notes=way)
    else:
        problems.add(f"{subject}: expected {described(place.wanted)}, got {shown(place.value)}", span, notes=way)


def _note_unexpected(place: Place, problems: Problems, hints: Hints) -> None:
    value = place.value
    prefix = f"{place.name}: " if place.name else ""
    label = ""
    if isinstance(value, Scalar) and isinstance(value.value, str):
        words = [word for word in choices(place.wanted) if isinstance(word, str)]
        label = suggest(value.value, words) or _unquote(place.wanted, value) or _rewritten(place.wanted, value.value)
    elif isinstance(value, Scalar) and isinstance(value.value, float):
        label = _rewritten(place.wanted, value.text)
    message, notes = f"{prefix}expected {described(place.wanted)}, got {shown(value)}", hints.way(place.name)
    problems.add(message, value.span, label=label, notes=notes)


def _rewritten(wanted: Any, text: str) -> str:
    """Return how to write a value that is meant to be a list, or a whole number; empty if neither fits."""
    kinds = [get_origin(bare(arm)) or bare(arm) for arm in arms(wanted)]
    if {tuple, list} & set(kinds):
        words = ", ".join(_written(word.strip()) for word in text.strip("()[] ").split(",") if word.strip())
        return f"write a list: [{words}]" if words else ""
    match = WHOLE.fullmatch(text) if int in kinds else None
    if match is None:
        return ""
    number = float(re.sub("[_,]", "", match[1])) * THOUSANDS[match[2].lower()]
    return f"write {number:.0f}" if number.is_integer() and number < 1e15 else ""


def _written(word: str) -> str:
    quoted = word.replace("'", "''")
    return word if PLAIN.fullmatch(word) else f"'{quoted}'"


def _unquote(wanted: Any, scalar: Scalar) -> str:
    try:
        plain = resolve(scalar.text)
    except ValueProblem:
        return ""
    if isinstance(plain, str) or scalar.span.text[:1] not in ("'", '"'):
        return ""
    fits = any(_fits(arm, Scalar(plain, scalar.text, scalar.span)) for arm in arms(wanted)) or plain in choices(wanted)
    return "remove the quotes" if fits else ""


def _note_union(place: Place, problems: Problems, hints: Hints) -> None:
    """Note a value that no arm of a union accepts: the errors of the arm that was meant, or what is accepted."""
    arm = _meant(place)
    if arm is not None:
        wanted: Any = Annotated[arm, *metadata(place.wanted)] if metadata(place.wanted) else arm
        # A document has its own strictness; any other type has that of the document around it.
        strict = None if is_model(bare(arm)) else place.strict
        try:
            TypeAdapter(wanted).validate_python(to_python(place.value), strict=strict)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            if all(fault["type"] != "string_pattern_mismatch" for fault in errors):
                return _note(replace(place, wanted=wanted), errors, problems, hints)
    return _note_unexpected(place, problems, hints)


def _meant(place: Place) -> Any | None:
    """The arm a value was written for: of mappings the one sharing most keys, else the only one of its kind.

    None also where the keys are of several arms, each known to one of them.
    """
    fitting = [arm for arm in arms(place.wanted) if _fits(arm, place.value)]
    if isinstance(place.value, Mapping):
        keys = [str(key) for key in place.value]
        models = [set(fields(bare(arm))) for arm in fitting if is_model(bare(arm))]
        if set(keys) <= set().union(*models) and not any(set(keys) <= known for known in models):
            return None  # two kinds at once
        scored = [(_shared(fields(bare(arm)), keys) if is_model(bare(arm)) else 0.5, arm) for arm in fitting]
        best, arm = max(scored, key=lambda pair: pair[0], default=(0, None))
        return arm if best > 0 else None
    return fitting[0] if len(fitting) == 1 else None


def _shared(accepted: Iterable[str], keys: list[str]) -> float:
    known = list(accepted)
    return sum(1.0 if key in known else 0.5 if nearest(key, known) else 0.0 for key in keys[:MANY])


def _fits(arm: Any, located: Located) -> bool:
    """Return whether a value has the shape of a type, whatever its content; a Literal has no shape."""
    arm = bare(arm)
    origin = get_origin(arm) or arm
    match located:
        case Mapping():
            return is_model(arm) or origin is dict
        case Items():
            return origin in (tuple, list)
        case Scalar(value=bool() as value) | Scalar(value=str() as value) | Scalar(value=float() as value):
            return bool(origin is type(value))
        case Scalar(value=int()):
            return origin in (int, float)
    return False


def shown(located: Located) -> str:
    match located:
        case Items(items=items):
            return f"a list of {len(items)}" if items else "an empty list"
        case Mapping(entries=entries):
            names = ", ".join(shorten(str(key.value)) for key, _ in entries[:3]) + (", …" if len(entries) > 3 else "")
            return f"a mapping with {names}" if entries else "an empty mapping"
        case Scalar(value=str() as value):
            return f"text {quote(value)}"
        case Scalar(value=None):
            return "null" if located.text else "nothing"
    return shorten(located.text)


def _number(limit: object) -> object:
    return f"{limit:g}" if isinstance(limit, float) else limit
