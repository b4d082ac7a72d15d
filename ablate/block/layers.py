"""Patterns over layers: components that stand in a slot for its alternatives, one of them in each layer.

Such a component has a spec that `chooses`; it may stand in any slot, and as a part of a sequence. `at_layer` puts the
alternative of a layer in its place, so whatever is built, counted or compared of a layer knows no patterns: the module
has the address of the slot, and the parts of a layer have the names that they would have if no others existed.

    position: {cycle: [rope, none]}             layer 1: position: rope        layer 2: position: none
    [{cycle: [[layer_norm, attention], mlp]}]   layer 1: [layer_norm, attention]        layer 2: [mlp]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ablate.block.arithmetic import ArithmeticProblem
from ablate.block.catalogue import Catalogue, ComponentSpec, InSlot, Several
from ablate.block.expression import Block, Node, Path, Sequence, Series, Value, walk
from ablate.errors import InputError

Choice: TypeAlias = Callable[[Node, ComponentSpec, Path, int], tuple[Path, int]]
"""Chooses an alternative of the pattern at a path: from its turn to the way to it, and the turn inside it."""


HOLDERS = (Node, Sequence, tuple)  # the values of a field in which a component may stand


def has_patterns(block: Block, catalogue: Catalogue) -> bool:
    patterns = catalogue.patterns
    pending: list[Node | Sequence | tuple[Node | Sequence, ...]] = [block]
    while pending:  # a loop over what can hold a component, since every block that is looked at passes here
        value = pending.pop()
        if isinstance(value, Node):
            if value.name in patterns:
                return True
            pending += [child for _, child in value.fields if isinstance(child, HOLDERS)]
        else:
            pending += value.parts if isinstance(value, Sequence) else value
    return False


def at_layer(block: Block, catalogue: Catalogue, scope: Mapping[str, float]) -> Block:
    """Return the block as it is in the layer of a scope, with each pattern replaced by its alternative there.

    Raises InputError if which layers has no value there, or if a list then has a component twice.
    """
    if not has_patterns(block, catalogue):
        return block

    def choice(node: Node, spec: ComponentSpec, path: Path, turn: int) -> tuple[Path, int]:
        return chosen(node, spec, scope), turn

    resolved = _Expansion(catalogue, choice).block(block)
    for node in walk(resolved):
        for name, value in node.fields:
            _check_once(f"{node.name}.{name}", value, scope)
    return resolved


def paths_chosen(block: Block, catalogue: Catalogue, scope: Mapping[str, float]) -> Iterator[tuple[Path, Node, Path]]:
    """Yield the patterns that stand in a layer: the path of each, its node, and the way to its alternative there."""
    met: list[tuple[Path, Node, Path]] = []

    def choice(node: Node, spec: ComponentSpec, path: Path, turn: int) -> tuple[Path, int]:
        way = chosen(node, spec, scope)
        met.append((path, node, way))
        return way, turn

    _Expansion(catalogue, choice).block(block)
    yield from met


def _check_once(where: str, value: Value, scope: Mapping[str, float]) -> None:
    names = [item.name for item in value if isinstance(item, Node)] if isinstance(value, tuple) else []
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"{where} lists {', '.join(twice)} twice in layer {scope['layer']:g}\n"
            "  = let the patterns in one list give different components in each layer"
        )


def chosen(node: Node, spec: ComponentSpec, scope: Mapping[str, float]) -> Path:
    """Return the way from a pattern to its alternative in the layer of a scope."""
    assert spec.chooses is not None
    try:
        return spec.chooses(node, scope)
    except ArithmeticProblem as problem:
        raise InputError(
            f"{node} has no value in layer {scope['layer']:g} of {scope['depth']:g}: {problem}\n"
            "  = change the comparison or the number of layers"
        ) from None


def alternatives(node: Node, spec: ComponentSpec) -> Iterator[tuple[Path, Value]]:
    for name, kind in spec.fields.items():
        value = node[name]
        if isinstance(kind, InSlot):
            yield (name,), value
        elif isinstance(kind, Several) and isinstance(value, Series):
            yield from (((name, index), each) for index, each in enumerate(value))


@dataclass(frozen=True, slots=True)
class PatternFree:
    """A block without patterns, and for each of its parts the path in the block that it comes from."""

    block: Block
    origins: Mapping[Path, Path]


def pattern_free(block: Block, catalogue: Catalogue) -> tuple[PatternFree, ...]:
    """Return blocks without patterns in which each alternative of every pattern stands at least once.

    Patterns advance together, so these are not all combinations.
    """

    def choice(node: Node, spec: ComponentSpec, path: Path, turn: int) -> tuple[Path, int]:
        ways = [way for way, _ in alternatives(node, spec)]
        inside, index = divmod(turn, len(ways))
        return ways[index], inside

    if not has_patterns(block, catalogue):
        return (PatternFree(block, {}),)
    made = []
    for turn in range(_turns(block, catalogue)):
        expansion = _Expansion(catalogue, choice, turn)
        made.append(PatternFree(expansion.block(block), expansion.origins))
    return tuple(made)


def _turns(value: Value, catalogue: Catalogue) -> int:
    """Return the number of turns in which every alternative, and every one inside each of them, is chosen."""
    match value:
        case Node(name=name, fields=fields):
            spec = catalogue[name]
            if spec.chooses is None:
                return max((_turns(child, catalogue) for _, child in fields if child.__class__ in HOLDERS), default=1)
            inside = [_turns(child, catalogue) for _, child in alternatives(value, spec)]
            return len(inside) * max(inside)
        case Sequence() | tuple():
            return max((_turns(child, catalogue) for child in value), default=1)
    return 1


@dataclass
class _Expansion:
    """Replaces each pattern by the alternative of a choice; `origins` are the paths that parts had before."""

    catalogue: Catalogue
    choice: Choice
    turn: int = 0
    origins: dict[Path, Path] = field(default_factory=dict)

    def block(self, block: Block) -> Block:
        expanded = self._value(block, (), (), self.turn)
        assert isinstance(expanded, Sequence)
        return expanded

    def _value(self, value: Value, path: Path, origin: Path, turn: int) -> Value:
        match value:
            case Node(name=name, fields=fields):
                if (spec := self.catalogue[name]).chooses is not None:
                    way, inside = self.choice(value, spec, origin, turn)
                    return self._value(_at(value, way), path, (*origin, *way), inside)
                return Node(
                    name,
                    tuple(
                        (f, self._value(v, (*path, f), (*origin, f), turn) if v.__class__ in HOLDERS else v)
                        for f, v in fields
                    ),
                )
            case Sequence(parts=parts):
                return Sequence(self._items(parts, path, origin, turn))
            case tuple():
                items: Value = self._items(value, path, origin, turn)
                return items
        return value

    def _items(self, items: Iterable[Value], path: Path, origin: Path, turn: int) -> Any:
        made: list[Value] = []
        for item, where, inside in self._spliced(items, origin, turn):
            here = (*path, len(made))
            self.origins[here] = where
            made.append(self._value(item, here, where, inside))
        return tuple(made)

    def _spliced(self, items: Iterable[Value], origin: Path, turn: int) -> Iterator[tuple[Value, Path, int]]:
        for index, item in enumerate(items):
            where = (*origin, index)
            if isinstance(item, Node) and (spec := self.catalogue[item.name]).chooses is not None:
                way, inside = self.choice(item, spec, where, turn)
                alternative = _at(item, way)
                assert isinstance(alternative, Sequence | tuple)
                yield from self._spliced(alternative, (*where, *way), inside)
            else:
                yield item, where, turn


def _at(node: Node, way: Path) -> Value:
    field, *rest = way
    value: Value = node[str(field)]
    if rest:
        assert isinstance(value, Series)
        return value.values[int(rest[0])]
    return value
