"""The declarations of components: names, slots, fields and equivalences. Passed to this room, never imported by it."""

from __future__ import annotations

import dataclasses
import operator
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast

from ablate.block.arithmetic import Expression, number_text
from ablate.block.expression import Gain, Node, Sequence, Value, map_nodes
from ablate.errors import AblateError, InputError
from ablate.extension.declaration import ADDED, COMPONENT, PACKAGE, Declaration, Kind, is_added

D = TypeVar("D", bound=Declaration)


@dataclass(frozen=True, slots=True)
class Bounded:
    """Numbers within bounds; `above` and `below` are exclusive."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    whole: bool = False

    def expected(self, value: float) -> str | None:
        """Return in words what is expected instead of a value; None if it is within the bounds.

        >>> Number(at_least=0).expected(-1.0)
        'a number of at least 0'
        """
        if self.whole and not float(value).is_integer():
            return "a whole number"
        bounds = (
            (self.at_least, operator.ge, "of at least"),
            (self.at_most, operator.le, "of at most"),
            (self.above, operator.gt, "above"),
            (self.below, operator.lt, "below"),
        )
        for limit, holds, words in bounds:
            if limit is not None and not holds(value, limit):
                return f"a number {words} {number_text(limit)}"
        return None


@dataclass(frozen=True, slots=True)
class Number(Bounded):
    """A real number within bounds."""


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""


BLOCK: Final = "block"  # the word for the network of a model's own blocks
STACK: Final = "stack"  # the word for a network of equal residuals whose number and skips are written beside it


@dataclass(frozen=True, slots=True)
class Word:
    """One of a few words.

    Where it says whose network an activation is solved for, `stack` are the fields that describe the network unless the
    word is `BLOCK`, which stands for that of the model's own blocks, and the arithmetic that they hold beside it.
    """

    choices: tuple[str, ...]
    stack: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Arithmetic(Bounded):
    """A fixed number or an expression in the sizes of the model, of a value within bounds; or none if `optional`.

    `sets` names the size that its value replaces, for the component and what is inside it: `n_heads`.
    """

    optional: bool = False
    sets: str = ""


@dataclass(frozen=True, slots=True)
class GainField:
    """A gain; `per` lists the shapes it may have."""

    per: tuple[str, ...] = ("scalar",)


@dataclass(frozen=True, slots=True)
class Width:
    """A width: a whole number or a multiple of the model's (`4x`, `8/3x`)."""


@dataclass(frozen=True, slots=True)
class ValueField:
    """The address of a value that stands earlier in the model, or of as many as `layers.*` names where `several`.

    `none` is allowed where `optional`.
    """

    several: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One component of a slot; `none` is allowed where `optional`, and a list of two or more where `several`."""

    slot: str
    optional: bool = False
    several: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """Any number of components of one slot, each name at most once."""

    slot: str


@dataclass(frozen=True, slots=True)
class Sequenced:
    """A sequence of parts, as a block is."""


@dataclass(frozen=True, slots=True)
class Branches:
    """Several sequences of parts, side by side."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A choice of layers: `first`, `last`, `{every: 4}`, or a comparison in `layer` and `depth`."""


@dataclass(frozen=True, slots=True)
class InSlot:
    """A value of the slot in which the component itself stands."""


@dataclass(frozen=True, slots=True)
class Several:
    """Two or more values of one kind, in order: of the slot in which the component stands, unless `of` is known."""

    of: FieldType = field(default_factory=lambda: InSlot())


FieldType: TypeAlias = (
    Number
    | Flag
    | Word
    | Arithmetic
    | GainField
    | Width
    | ValueField
    | Part
    | Parts
    | Sequenced
    | Branches
    | Layers
    | InSlot
    | Several
)


def in_slot(kind: FieldType, slot: FieldType) -> FieldType:
    """Return the kind of a field of a component that stands in a slot: a pattern holds values of that slot."""
    match kind:
        case InSlot():
            return slot
        case Several(of=InSlot()):
            return Several(slot)
    return kind


@dataclass(frozen=True, slots=True)
class Transparent:
    """With these values (of fixed gains) the component is equivalent, also under training, to its field `keep`.

    That field is a sequence; if `keep` is None, the component is equivalent to the identity.
    """

    when: Mapping[str, float]
    keep: str | None


@dataclass(frozen=True, slots=True)
class Same:
    """With these values the component is equivalent, also under training, to the component `name`.

    `fields` maps the fields of that component to the fields here that hold their values.
    """

    when: Mapping[str, float | bool]
    name: str
    fields: Mapping[str, str] = field(default_factory=dict)


AddedValue: TypeAlias = bool | int | float | str | None
"""The value of an added field at which it has no effect, as its component declares it: None for an empty slot."""
Chooses: TypeAlias = Callable[[Node, Mapping[str, float]], tuple[int | str, ...]]

EVERY_SLOT = "every"  # the slot of a pattern: it fits them all


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSpec(Declaration):
    """One component as every torch-free room sees it.

    `slots`     the places it may fill; `part` is a place in a sequence.
    `role`      its word in addresses; a `modifier` (norm, combinator) is named after the part it serves.
    `shorthand` the field that a bare value sets: `softcap: 30` is `softcap: {cap: 30}`.
    `stage`     the order of components that share a list but act at different places.
    `sums`      of a combinator skip x + gain Σ branch(x): the fields of both gains (`network.py`).
    `added`     the fields that came after its first version, with the values at which they have no effect.
    `chooses`   makes it a pattern over layers, which fits every slot (`layers.py`): from its node and the scope of a
                layer to the way to the alternative that stands there in that layer: `("items", 1)`, `("use",)`.
    """

    kind: ClassVar[Kind] = COMPONENT
    slots: tuple[str, ...]
    role: str
    modifier: bool
    fields: Mapping[str, FieldType]
    config: Callable[..., Any]
    shorthand: str | None = None
    transparent: Transparent | None = None
    same: Same | None = None
    stage: int = 0
    sums: tuple[str, str] | None = None
    added: Mapping[str, AddedValue] = field(default_factory=dict)
    chooses: Chooses | None = None
    holds_sequences: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Its fields that hold parts: of a combinator at least one, of any other component none."""
    sizes_set: tuple[tuple[str, Arithmetic], ...] = field(init=False, repr=False, compare=False)
    """Its fields that set a size of the model for what is inside it."""
    own_inits: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Its fields that hold an init, where none stands for the model's own."""

    def __post_init__(self) -> None:
        holds = tuple(name for name, kind in self.fields.items() if isinstance(kind, Sequenced | Branches))
        object.__setattr__(self, "holds_sequences", holds)
        sets = tuple((name, kind) for name, kind in self.fields.items() if isinstance(kind, Arithmetic) and kind.sets)
        object.__setattr__(self, "sizes_set", sets)
        slots = {name: kind.slot for name, kind in self.fields.items() if isinstance(kind, Part) and kind.optional}
        inits = tuple(name for name in ("init", "start") if slots.get(name) == "init")
        object.__setattr__(self, "own_inits", inits)

    @property
    def needs_below(self) -> bool:
        """True if it has a module; a pattern has none."""
        return self.chooses is None

    def __repr__(self) -> str:
        return f"<Component {self.name}: for {', '.join(self.slots)}; fields {', '.join(self.fields) or 'none'}>"


STABILISING_SLOT = "entropy"  # components of this slot stabilise training: edits that add one come first on a path


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """All components, by name, and the things of every other kind (`of_kind`); `patterns` are those over layers.

    There is one of each set of plugins in a process: another is not equal.
    """

    components: Mapping[str, ComponentSpec] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, Declaration]] = field(default_factory=dict)
    patterns: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = frozenset(spec.name for spec in self if spec.chooses is not None)
        object.__setattr__(self, "patterns", named)

    def __repr__(self) -> str:
        slots = {slot for spec in self for slot in spec.slots}
        return f"<Catalogue: {len(self.components)} components for {len(slots)} slots>"

    def __getitem__(self, name: str) -> ComponentSpec:
        return self.components[name]

    def __contains__(self, name: object) -> bool:
        return name in self.components

    def __iter__(self) -> Iterator[ComponentSpec]:
        return iter(self.components.values())

    def of_slot(self, slot: str) -> tuple[str, ...]:
        """Return the names of the components that fit `slot`, sorted."""
        return tuple(sorted(spec.name for spec in self if slot in spec.slots))

    def of_kind(self, kind: type[D]) -> Mapping[str, D]:
        """Return the things of another kind, by name: `catalogue.of_kind(OptimizerSpec)`."""
        return cast("Mapping[str, D]", self.others.get(kind.kind.plural, {}))

    @staticmethod
    def of(specs: Iterable[ComponentSpec], others: Iterable[Declaration] = ()) -> Catalogue:
        """Build a catalogue of components and other things; ValueError, with both files, for two of a kind and name."""
        components: dict[str, ComponentSpec] = {}
        for spec in specs:
            if spec.name in components:
                earlier = components[spec.name].path
                raise ValueError(f"component {spec.name!r} is declared twice: {earlier} and {spec.path}")
            components[spec.name] = spec
        kinds: dict[str, dict[str, Declaration]] = {}
        for other in sorted(others, key=lambda other: other.name):
            first = kinds.setdefault(other.kind.plural, {}).setdefault(other.name, other)
            if first is not other:
                raise ValueError(f"{other.kind.noun} {other.name!r} is declared twice: {first.path} and {other.path}")
        return Catalogue(dict(sorted(components.items())), kinds)


# Fields that a component got after it was published, and the values at which it is what it was before.
#
# A declaration lists them: `@component("attention", …, added={"gate": None})`. A grammar written before such a field
# need not name it: where a grammar gives no default, the field has that value. An identity leaves it out at that
# value, so a block means the same, and trains as the same trial, whether it was read before or after the field came.


def added(default: Any) -> Any:
    """Declare a field of a dataclass that came later: `share: str | None = added(None)`."""
    return dataclasses.field(default=default, metadata={ADDED: True})


def identity_fields(value: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass that its identity has: all but added ones at their default."""
    fields = dataclasses.fields(value)
    return tuple(f.name for f in fields if ADDED not in f.metadata or getattr(value, f.name) != f.default)


def additions_at_default(document: Any) -> set[str]:
    """Return the added fields of a pydantic model at their default."""
    added = (name for name, info in type(document).model_fields.items() if is_added(info))
    return {name for name in added if getattr(document, name) == type(document).model_fields[name].get_default()}


def value_before(spec: ComponentSpec, field: str) -> Value:
    """Return the value of an added field at which the component is what it was before; KeyError for another field."""
    plain = spec.added[field]
    match spec.fields[field], plain:
        case Parts(), _:
            return ()
        case GainField(), int() | float():
            return Gain(Expression(number_text(plain)))
        case Arithmetic(), int() | float():
            return Expression(number_text(plain))
        case Number(), int() | float():
            return float(plain)
    return plain


def without_added(block: Sequence, catalogue: Catalogue) -> Sequence:
    """Return a block in normal form without the added fields that have no effect: for identities, not for building."""

    def stripped(node: Node) -> Node:
        spec = catalogue[node.name]
        fields = ((name, v) for name, v in node.fields if name not in spec.added or v != value_before(spec, name))
        return Node(node.name, tuple((name, map_nodes(value, stripped)) for name, value in fields))

    return block.map(stripped)


# Errors in a user's own component are the user's to fix: they are reported with its file, never as a traceback.


@contextmanager
def reporting_errors(spec: ComponentSpec, method: str) -> Iterator[None]:
    """Turn exceptions of a user's component into InputError while a `method` of its Config is called.

    An AblateError is a message of its own, and is kept, as are exceptions of shipped components: bugs in this package.
    """
    try:
        yield
    except AblateError:
        raise
    except Exception as error:
        if spec.path.is_relative_to(PACKAGE):
            raise
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(
            f"component {spec.name}, from {_line_of(spec.path, error)}, fails in {method}: {message}\n"
            "  = fix it there; to refuse sizes or values, raise ablate's InputError with the reason and a way out"
        ) from error


def _line_of(path: Path, error: Exception) -> str:
    """Return the file, with its line that ran last, if any did."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if Path(frame.f_code.co_filename) == path]
    return f"{path}:{lines[-1]}" if lines else str(path)
