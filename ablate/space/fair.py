"""Fair: what a space holds equal between the blocks that it compares, and the seeds at which it trains them."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Field

from ablate.block.address import Selector, parse_address
from ablate.source.document import validate
from ablate.source.located import Items, Located, Mapping, Scalar, Source, to_python
from ablate.source.problems import Problems, quote
from ablate.source.yaml import overlay
from ablate.space.documents import HINTS, AsRead, Document, SectionReader, Share, as_tuple
from ablate.space.overlay import replaced

Plain: TypeAlias = "bool | int | float | str | tuple[Plain, ...] | None"  # a value to try; a mapping is kept as text

BudgetKind = Literal["steps", "tokens", "flops", "wallclock"]


By = Literal["width", "depth", "mlp"]
"""The sizes that a match may change: the model's width, its depth, or the hidden width of its MLPs."""
WIDTH, DEPTH, HIDDEN = BYS = get_args(By)


class Match(Document):
    """One size of each block's model is changed until its parameters match the baseline's, within the share given.

    A model that is already within the share stays as it is.
    """

    parameters: Annotated[Share, Field(gt=0, lt=1)]
    by: By


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedField:
    """A field of the recipe or of the block to tune, and the values to try.

    `name` is its address as the user wrote it; `path` leads to a field of the recipe (empty: of the block). `values`
    are plain, `written` the same as they stand in the space.
    """

    name: str
    path: tuple[str, ...]
    key: Scalar
    written: tuple[Located, ...]
    values: tuple[Plain, ...]

    @property
    def address(self) -> Selector:
        return parse_address(self.name)

    @property
    def spoken(self) -> str:
        return spoken(self.name)

    @property
    def ordered(self) -> bool:
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)

    def at(self, value: Plain) -> Located:
        return self.written[self.values.index(value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tune(AsRead):
    """A grid search for each block: every combination of these values is trained at `seeds` separate seeds.

    The block is then compared with its best combination on the tuning split.
    """

    seeds: int
    fields: tuple[TunedField, ...]

    def field(self, name: str) -> TunedField:
        return next(field for field in self.fields if field.name == name)


class Terms(Document):
    """The terms of one comparison: the budget of each block, and whether its size is matched to the baseline's.

    With `steps` and `tokens` every block spends what the recipe says; with `flops` and `wallclock`, what the baseline
    spends on that recipe.
    """

    budget: BudgetKind
    match: Literal["none"] | Match

    @property
    def plain(self) -> bool:
        """True if no block is changed: batches have one size, so equal steps are equal tokens."""
        return self.budget in ("steps", "tokens") and self.match == "none"


class Fair(Document):
    """The quantities held equal. `under` names several terms, each by what it changes; one page reports them all."""

    budget: BudgetKind
    match: Literal["none"] | Match
    tune: Literal["none"] | Tune
    under: dict[str, Terms]

    @property
    def terms(self) -> Map[str, Terms]:
        """Every set of terms by its name on the page; a single set has the empty name."""
        return self.under or {"": Terms(budget=self.budget, match=self.match)}


EQUAL_STEPS = Fair(budget="steps", match="none", tune="none", under={})
"""The default: every block is trained for the same number of steps, at its own sizes."""


def spoken(name: str) -> str:
    """Return the name of a tuned field for a sentence: a word without underscores, an address as it is.

    >>> spoken("weight_decay"), spoken("attention.pre_qk")
    ('weight decay', 'attention.pre_qk')
    """
    return name if "." in name else name.replace("_", " ")


def plain(value: object) -> Plain:
    """Convert a value to plain frozen data.

    >>> plain([0.9, 0.95]), plain({"rate": 1e-05})
    ((0.9, 0.95), '{rate: 1e-05}')
    """
    if isinstance(value, dict):
        return text_of(value)
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    assert value is None or isinstance(value, bool | int | float | str)
    return value


def text_of(value: object) -> str:
    """Return a value as YAML text.

    >>> [text_of(value) for value in (0.0010, 12, True, None, "2x", (0.9, 0.95))]
    ['0.001', '12', 'true', 'null', '2x', '[0.9, 0.95]']
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case dict():
            return "{" + ", ".join(f"{key}: {text_of(inner)}" for key, inner in value.items()) + "}"
        case list() | tuple():
            return f"[{', '.join(map(text_of, value))}]"
    return str(value)


# Checks of `fair` that its documents cannot make: names, and terms that are the same


def check_fairness(fair: Fair, located: Mapping, by_hand: Source, problems: Problems) -> None:
    """Note the mistakes of a section; a key from `by_hand` was typed, and must have an effect."""
    under = located.get("under")
    typed = [key.value for key, _ in located.entries if key.span.source == by_hand]
    opens = located.key("under").span.text if "under" in located else ""
    if (
        typed == ["under"] and not fair.under and opens.strip("\"'") == "under"
    ):  # otherwise the file does not mention it
        notes = ("such as under: {equal steps: {}, equal FLOPs: {budget: flops}}; or leave fair out",)
        problems.add("fair.under names no terms: it has no effect", located.key("under").span, notes=notes)
    if isinstance(under, Mapping):
        _check_terms(fair, under, problems)
        _check_common_settings(located, under, by_hand, problems)


def _check_terms(fair: Fair, under: Mapping, problems: Problems) -> None:
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


def _check_common_settings(located: Mapping, under: Mapping, by_hand: Source, problems: Problems) -> None:
    """Note a common setting that each of the terms overrides, unless it is the default."""
    for word in Terms.model_fields:
        changed = word in located and to_python(located[word]) != getattr(EQUAL_STEPS, word)
        typed = changed and located.key(word).span.source == by_hand
        if typed and len(under) and all(isinstance(terms, Mapping) and word in terms for _, terms in under.entries):
            message = f"fair.{word} has no effect here: each of the terms in fair.under sets its own"
            notes = ("remove it here, or from the terms that it is meant for",)
            problems.add(message, located.key(word).span, notes=notes)


# Seeds, and the looks of `seeds: auto`


class Noise(Document):
    """A/A arms: the baseline trained again at `seeds` seeds with another initialisation and the same batches.

    The differences are noise: the floor below which no difference between blocks can be detected.
    """

    seeds: Annotated[int, Field(ge=2, le=1_000)]


class Auto(Document):
    """Seeds are added until every comparison is decided, with an interim analysis at each of these numbers of seeds."""

    looks: Annotated[tuple[Annotated[int, Field(ge=2, le=1_000)], ...], BeforeValidator(as_tuple), Field(min_length=1)]


LOOKS = (4, 6, 9, 13, 20)


class Looks(Document):
    auto: Auto


def check_looks(declared: Auto, located: Mapping, problems: Problems) -> bool:
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


MAX_SEED = 2**31 - 1
MAX_SEEDS = 10_000


class SeedsReader(SectionReader):
    def read(self) -> tuple[tuple[int, ...] | None, Auto | None]:
        """Read the seeds; with `auto`, or a mapping with its looks, the seeds of the first look, and the looks."""
        located = self.located.get("seeds")
        if isinstance(located, Scalar) and located.value == "auto":
            return tuple(range(LOOKS[0])), Auto(looks=LOOKS)
        if not isinstance(located, Mapping):
            return self._fixed(), None
        declared = self.section("seeds", Looks)
        if declared is None:
            return None, None
        if not check_looks(declared.auto, located, self.problems):
            return None, None
        return tuple(range(declared.auto.looks[0])), declared.auto

    def _fixed(self) -> tuple[int, ...] | None:
        located = self.located.get("seeds")
        if isinstance(located, Items):
            values = [item.value for item in located.items if isinstance(item, Scalar) and type(item.value) is int]
            different = len(values) == len(located) and 0 < len(set(values)) == len(values) <= MAX_SEEDS
            if different and all(0 <= seed <= MAX_SEED for seed in values):
                return tuple(values)
            bounds = f"from 0 to {MAX_SEED:,}, at most {MAX_SEEDS:,} of them"
            self.problems.add(f"seeds must be different whole numbers {bounds}", located.span)
            return None
        number = self.whole("seeds")
        if number is not None and number > MAX_SEEDS:
            assert located is not None
            self.problems.add(f"at most {MAX_SEEDS:,} seeds, got {number:,}", located.span)
            return None
        return None if number is None else tuple(range(number))

    def noise(self) -> Noise | None:
        located = self.located.get("noise")
        if located is None or (isinstance(located, Scalar) and located.value in (None, "none")):
            return None
        return self.section("noise", Noise)


class FairReader(SectionReader):
    def read(self) -> Fair | None:
        """Read all but `tune`; each of the terms in `under` gives only what it changes."""
        located = self.located.get("fair")
        if located is None:
            return EQUAL_STEPS
        if not isinstance(located, Mapping):
            return self.section("fair", Fair)
        common = tuple((key, value) for key, value in located.entries if key.value in Terms.model_fields)
        under, plain = located.get("under"), located
        if isinstance(under, Mapping):
            named = tuple(
                (key, overlay(Mapping(common, key.span), value) if isinstance(value, Mapping) else value)
                for key, value in under.entries
            )
            plain = replaced(plain, "under", Mapping(named, under.span))
        plain = replaced(plain, "tune", Scalar("none", "none", located.span))
        fair = validate(Fair, self.opened("fair", plain.entries), self.problems, "fair", HINTS)
        if fair is not None:
            check_fairness(fair, located, self.located.key("fair").span.source, self.problems)
        return fair
