"""Derivations as arithmetic: everything a rule can derive is numbered, so that counting, listing and drawing are easy.

A template stands for a finite list of values: `count` is its exact length, of any size, and `at(k)` its k-th value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal, TypeAlias

from ablate.block.arithmetic import Expression
from ablate.block.expression import Gain, Node, Sequence, Series, Value, walk

Bound: TypeAlias = Mapping[str, int]  # for each name of an enclosing `let`, the number of the derivation drawn for it
Scale = Literal["linear", "log"]  # the spacing of ordered numbers: even, or even in their logarithms


class Template(ABC):
    count: int

    @abstractmethod
    def at(self, k: int, bound: Bound) -> Value:
        """Return the k-th value, 0 <= k < count."""


@dataclass(frozen=True, slots=True)
class FixedValue(Template):
    value: Value
    count: int = 1

    def at(self, k: int, bound: Bound) -> Value:
        return self.value


@dataclass(frozen=True, slots=True)
class Alternatives(Template):
    """The values of each alternative, one alternative after another; `words` are the alternatives as written.

    If the alternatives are ordered numbers, `scale` is how they are spaced; otherwise it is None.
    """

    alternatives: tuple[Template, ...]
    words: tuple[str, ...] = ()
    scale: Scale | None = None
    count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", sum(option.count for option in self.alternatives))

    def at(self, k: int, bound: Bound) -> Value:
        for option in self.alternatives:
            if k < option.count:
                return option.at(k, bound)
            k -= option.count
        raise IndexError("beyond the last derivation")


@dataclass(frozen=True, slots=True)
class Product(Template):
    """A value with holes, and every combination of what may fill them; the last hole varies fastest."""

    shape: Value
    holes: tuple[Template, ...]
    count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", prod(hole.count for hole in self.holes))

    def at(self, k: int, bound: Bound) -> Value:
        values: list[Value] = []
        for hole in reversed(self.holes):
            k, index = divmod(k, hole.count)
            values.append(hole.at(index, bound))
        return fill(self.shape, values[::-1])


@dataclass(frozen=True, slots=True)
class Named(Template):
    """The derivations of a rule, named as it is used: `norm`, `sublayer($mlp)`; `one_of` for an inline choice.

    Uses of a rule with the same arguments, for the same kind of place and at the same depth, share one object.
    """

    name: str
    body: Template
    count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", self.body.count)

    def at(self, k: int, bound: Bound) -> Value:
        return self.body.at(k, bound)


@dataclass(frozen=True, slots=True)
class Varied(Named):
    """The values that a search tries at an address, beside what its grammar derives; `name` is the address.

    A mutation of an ordered number moves it to a number nearby, where a rule is derived anew.
    """


@dataclass(frozen=True, slots=True)
class Let(Template):
    """A value drawn once and used in many places: `drawn` is numbered first, then `body`, with `name` bound to it."""

    name: str
    drawn: Template
    body: Template
    count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", self.drawn.count * self.body.count)

    def at(self, k: int, bound: Bound) -> Value:
        drawn, index = divmod(k, self.body.count)
        return self.body.at(index, {**bound, self.name: drawn})


@dataclass(frozen=True, slots=True)
class SharedDraw(Template):
    """A use of a name bound by `let`: the derivation drawn there, read as this place needs it."""

    name: str
    reading: Template
    count: int = 1

    def at(self, k: int, bound: Bound) -> Value:
        return self.reading.at(bound[self.name], bound)


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of the `index`-th hole in the shape of a product."""

    index: int


def fill(shape: Value, values: list[Value]) -> Value:
    """Fill the holes of a shape; what fills a place in a sequence or a list of components is spliced in."""
    match shape:
        case Hole(index=index):
            return values[index]
        case Node(name=name, fields=fields):
            return Node(name, tuple((key, fill(child, values)) for key, child in fields))
        case Gain(value=Hole(index=index)):
            return replace(shape, value=values[index])
        case Sequence(parts=parts):
            return Sequence(_spliced(parts, values))
        case Series():
            return Series(tuple(fill(child, values) for child in shape))
        case tuple():
            return _spliced(shape, values)
    return shape


def _spliced(items: tuple[Value, ...], values: list[Value]) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for item in items:
        filled = fill(item, values)
        if isinstance(item, Hole) and isinstance(filled, Sequence | tuple):
            nodes.extend(filled)
        else:
            nodes.append(filled)  # type: ignore[arg-type]
    return tuple(nodes)


def ordered(template: Template) -> tuple[Alternatives, ...]:
    """Return the choices between ordered numbers that a template may lead to, each set of numbers once."""
    choices: dict[tuple[str, ...], Alternatives] = {}
    for inner in _all_inside(template, set()):
        if isinstance(inner, Alternatives) and inner.scale is not None:
            choices.setdefault(inner.words, inner)
    return tuple(choices.values())


def _all_inside(template: Template, seen: set[int]) -> Iterator[Template]:
    """Yield a template and those inside it, in the order of their derivations, each once."""
    if id(template) in seen:
        return
    seen.add(id(template))
    yield template
    inside: tuple[Template, ...] = ()
    match template:
        case Alternatives(alternatives=alternatives):
            inside = alternatives
        case Product(holes=holes):
            inside = holes
        case Named(body=inner) | SharedDraw(reading=inner):
            inside = (inner,)
        case Let(drawn=drawn, body=body):
            inside = (drawn, body)
    for each in inside:
        yield from _all_inside(each, seen)


def contained(template: Template, wanted: Callable[[Value], bool]) -> tuple[bool, bool]:
    """Return whether all derivations contain a value that is wanted, and whether any may.

    The first is never true, and the second never false, by mistake; a shared draw may be examined less exactly.
    """
    known: dict[int, tuple[bool, bool]] = {}

    def of(inner: Template) -> tuple[bool, bool]:
        if id(inner) not in known:
            known[id(inner)] = examined(inner)
        return known[id(inner)]

    def examined(inner: Template) -> tuple[bool, bool]:
        match inner:
            case FixedValue(value=value):
                return (_contains(value, wanted),) * 2
            case Alternatives(alternatives=alternatives):
                each = [of(option) for option in alternatives]
                return all(every for every, _ in each), any(some for _, some in each)
            case Product(shape=shape, holes=holes):
                each = [of(hole) for hole in holes]
                there = _contains(shape, wanted)
                return there or any(every for every, _ in each), there or any(some for _, some in each)
            case Named(body=body) | Let(body=body) | SharedDraw(reading=body):
                return of(body)
        return False, True

    return of(template)


def _contains(value: Value, wanted: Callable[[Value], bool]) -> bool:
    if wanted(value):
        return True
    match value:
        case Node(fields=fields):
            return any(_contains(child, wanted) for _, child in fields)
        case Sequence() | Series() | tuple():
            return any(_contains(child, wanted) for child in value)
    return False


def twice(shape: Value, holes: tuple[Template, ...]) -> str | None:
    """Find a component that a derivation of a product would list twice, where each is allowed once; None if none."""
    match shape:
        case Node(fields=fields):
            return next((name for _, child in fields if (name := twice(child, holes))), None)
        case Sequence() | Series():
            return next((name for child in shape if (name := twice(child, holes))), None)
        case tuple() if any(isinstance(child, Hole) for child in shape):
            sets = [_listed(holes[child.index]) if isinstance(child, Hole) else _top(child) for child in shape]
            before: set[str] = set()
            for names in sets:
                if again := sorted(names & before):
                    return again[0]
                before |= names
            return None
        case tuple():
            return next((name for child in shape if (name := twice(child, holes))), None)
    return None


def _listed(template: Template) -> set[str]:
    match template:
        case FixedValue(value=value):
            return _top(value)
        case Alternatives(alternatives=alternatives):
            return {name for option in alternatives for name in _listed(option)}
        case Product(shape=shape, holes=holes):
            items = shape if isinstance(shape, tuple) else (shape,)
            inside = (_listed(holes[item.index]) if isinstance(item, Hole) else _top(item) for item in items)
            return {name for names in inside for name in names}
        case Let(body=body) | Named(body=body):
            return _listed(body)
        case SharedDraw(reading=reading):
            return _listed(reading)
    return set()


def _top(value: Value) -> set[str]:
    nodes = value if isinstance(value, tuple) else (value,)
    return {node.name for node in nodes if isinstance(node, Node)}


# The sizes that any derivation names.


def sizes_derived(template: Template) -> frozenset[str]:
    """Return the sizes, such as `width` and `repetition`, that the arithmetic of any derivation names."""
    inside = list(_all_inside(template, set()))
    whole = [
        each.value if isinstance(each, FixedValue) else each.shape
        for each in inside
        if isinstance(each, FixedValue | Product)
    ]
    values = [*whole, *(child for value in whole for node in walk(value) for _, child in node.fields)]
    written = [value.value if isinstance(value, Gain) else value for value in values]
    return frozenset().union(*(value.names() for value in written if isinstance(value, Expression)))
