"""The difference between two blocks as named edits, any subset of which can be applied.

An edit is one change, or the same change in several places (the norms before attention and before the MLP), unless it
is split. Its name is stable, since plans, rows and pages use it as the name of the factor:

    residual.gain=1/sqrt(2*depth)     a field has a new value
    +qk_norm   -layer_norm            a component is added or removed
    layer_norm->rms_norm              one component in another's place
    @attention_norm                   the suffix of an edit that is split (or not unique): the place it acts on
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import chain
from typing import Literal, TypeAlias

from ablate.block.align import Aligned, EditSite, SharedItems, SharedNode, SharedSeries, align, choose, sites
from ablate.block.catalogue import STABILISING_SLOT, Catalogue, ComponentSpec, FieldType, GainField
from ablate.block.expression import Block, Defaults, Node, Sequence, Series, Value, print_value, walk
from ablate.block.layers import alternatives
from ablate.block.normal_form import normalise


class Rank(IntEnum):
    """The default order of edits on a path: stabilising before destabilising, and last those around the block."""

    REGULATE = 0
    RESCALE = 1
    INSERT = 2
    CHANGE = 3
    REMOVE = 4
    UNREGULATE = 5
    AROUND = 6


@dataclass(frozen=True, slots=True)
class Edit:
    """A named difference. `places` are where it acts; `before` and `after` are the values there, as text."""

    name: str
    places: tuple[str, ...]
    before: str
    after: str
    rank: Rank
    sites: tuple[int, ...]

    @property
    def detail(self) -> str:
        return f"{self.before or 'nothing'} → {self.after or 'nothing'} at {', '.join(self.places)}"


@dataclass(frozen=True, slots=True)
class BlockDifference:
    """The edits that lead from one block to another; `apply` builds the blocks in between."""

    edits: tuple[Edit, ...]
    tree: Aligned
    catalogue: Catalogue

    def apply(self, names: Iterable[str]) -> Block:
        """Return the starting block with the named edits applied, in normal form; KeyError for an unknown edit."""
        by_name = {edit.name: edit for edit in self.edits}
        chosen = {site for name in names for site in by_name[name].sites}
        order = iter(range(len(sites(self.tree))))
        block = choose(self.tree, lambda _: next(order) in chosen)
        assert isinstance(block, Sequence)
        return normalise(block, self.catalogue)


def diff(
    before: Block,
    after: Block,
    catalogue: Catalogue,
    *,
    split: frozenset[str] | bool = frozenset(),
    defaults: Defaults | None = None,
) -> BlockDifference:
    """Compute the smallest aligned difference. `split` names edits (True: all) to keep separate for each place."""
    tree = align(normalise(before, catalogue), normalise(after, catalogue), catalogue)
    where = places(tree, catalogue)
    named = [_name(site, catalogue, defaults) for site in sites(tree)]
    keys: dict[tuple[str, ...], list[int]] = {}
    for index, (name, old, new, _) in enumerate(named):
        apart = split is True or (not isinstance(split, bool) and name in split)
        keys.setdefault((name, old, new, *([where[index]] if apart else ())), []).append(index)
    clashes = Counter(key[0] for key in keys)
    edits = []
    for (name, old, new, *_), members in keys.items():
        acts_on = tuple(dict.fromkeys(where[i] for i in members))
        label = name if clashes[name] == 1 else f"{name}@{'+'.join(acts_on)}"
        edits.append(Edit(label, acts_on, old, new, named[members[0]][3], tuple(members)))
    return BlockDifference(tuple(_distinct(edits)), tree, catalogue)


def path_order(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Sort edits: entropy regulation first, then gains, insertions, changes and removals; else keep their order."""
    return tuple(sorted(edits, key=lambda edit: edit.rank))


def _distinct(edits: list[Edit]) -> list[Edit]:
    seen: Counter[str] = Counter()
    distinct = []
    for edit in edits:
        seen[edit.name] += 1
        distinct.append(edit if seen[edit.name] == 1 else replace(edit, name=f"{edit.name}#{seen[edit.name]}"))
    return distinct


def _name(site: EditSite, catalogue: Catalogue, defaults: Defaults | None) -> tuple[str, str, str, Rank]:
    """Return the name, the texts before and after, and the rank of the change at one site."""
    old, new = _inside(site.before), _inside(site.after)
    before = "" if old is None else print_value(old, catalogue, defaults)
    after = "" if new is None else print_value(new, catalogue, defaults)
    if isinstance(site.before, Sequence | tuple) and not _branches(site):
        name = _part_name(old, new, before, after)
        return name, before, after, _part_rank(old, new, catalogue)
    name = f"{site.owner}.{site.field}={_short(new, after)}"
    return name, before or "none", after or "none", _field_rank(site, old, new, catalogue)


def _inside(side: Value) -> Value:
    """Return a single spliced part as itself, no part as None, anything else as it is."""
    if isinstance(side, Sequence) and len(side) < 2:
        return side.parts[0] if len(side) else None
    if isinstance(side, tuple) and len(side) < 2:
        return side[0] if side else None
    return side


def _branches(site: EditSite) -> bool:
    return any(
        isinstance(child, Sequence)
        for side in (site.before, site.after)
        for child in (side if isinstance(side, tuple) else ())
    )


def _part_name(old: Value, new: Value, before: str, after: str) -> str:
    if old is None:
        return f"+{_short(new, after)}"
    if new is None:
        return f"-{_short(old, before)}"
    return f"{_short(old, before)}->{_short(new, after)}"


def _short(value: Value, text: str) -> str:
    if isinstance(value, Node):
        return value.name
    if isinstance(value, Sequence):
        return "[" + ",".join(part.name for part in value) + "]"
    return text.strip('"') or "none"


def _part_rank(old: Value, new: Value, catalogue: Catalogue) -> Rank:
    node = new if old is None else old
    regulates = isinstance(node, Node) and STABILISING_SLOT in catalogue[node.name].slots
    if old is None:
        return Rank.REGULATE if regulates else Rank.INSERT
    if new is None:
        return Rank.UNREGULATE if regulates else Rank.REMOVE
    return Rank.CHANGE


def _field_rank(site: EditSite, old: Value, new: Value, catalogue: Catalogue) -> Rank:
    kinds: Mapping[str, FieldType] = catalogue[site.owner].fields if site.owner else {}
    if isinstance(kinds.get(site.field), GainField):
        return Rank.RESCALE
    if old is None:
        return Rank.INSERT
    return Rank.REMOVE if new is None else Rank.CHANGE


# The places of the sites of two aligned blocks, named like addresses: `attention`, `mlp_norm`, `mlp_residual`.
#
# The rules are those of `address.py`, applied to a tree that holds two blocks at once: a part that only one of them
# has gets the name that it has in that one.


def places(tree: Aligned, catalogue: Catalogue) -> tuple[str, ...]:
    """Return one name for each site of the tree, in the order of `sites(tree)`."""
    return tuple(_Namer(catalogue).part(tree, "block"))


Side: TypeAlias = Literal["before", "after"]
SIDES: tuple[Side, Side] = ("before", "after")


class _Namer:
    """Names sites in order, and counts the principals it passes in each block: the second MLP of a block is `mlp_2`."""

    def __init__(self, catalogue: Catalogue):
        self.catalogue = catalogue
        self.passed: dict[Side, Counter[str]] = {"before": Counter(), "after": Counter()}

    def part(self, tree: Aligned, place: str) -> Iterator[str]:
        match tree:
            case EditSite():
                yield place
                self._pass(tree)
            case SharedItems(items=items, sequence=True):
                yield from self.items(items)
            case SharedItems(items=items):
                for item in items:
                    yield from self.part(item, place)
            case SharedSeries(values=values):
                yield from self.beside(values, place)
            case SharedNode():
                yield from self.node(tree, place)
            case _:
                self._pass(tree)

    def node(self, node: SharedNode, place: str) -> Iterator[str]:
        spec = self.catalogue[node.name]
        if "part" in spec.slots and not spec.modifier:
            place = self._name(spec.role, "after")
            for counter in self.passed.values():
                counter[spec.role] += 1
        elif place == "" or "part" in spec.slots:
            inside = self._principals(node)
            place = f"{self._name(inside[0], 'after')}_{spec.role}" if inside else place or spec.role
        if spec.chooses is not None:
            yield from self.beside([child for _, child in node.fields], place)
            return
        for field, child in node.fields:
            yield from self.part(child, f"{place}.{field}" if isinstance(child, SharedNode) else place)

    def beside(self, children: Items[Aligned], place: str) -> Iterator[str]:
        """Name the sites of alternatives, each as if it stood there alone, and pass as many parts as the longest."""
        start = {side: counter.copy() for side, counter in self.passed.items()}
        most = start
        for child in children:
            self.passed = {side: counter.copy() for side, counter in start.items()}
            yield from self.part(child, place)
            most = {side: most[side] | self.passed[side] for side in SIDES}
        self.passed = most

    def items(self, items: Items[Aligned]) -> Iterator[str]:
        previous: dict[Side, str] = {"before": "", "after": ""}
        for index, item in enumerate(items):
            role, side = self._modifier(item), _side(item)
            if role and not self._principals(item):
                served = next((rest for rest in items[index + 1 :] if self._on(rest, side)), None)
                if served is not None and (not previous[side] or self._is_principal(served, side)):
                    place = f"{self._name(self._on(served, side)[0], side)}_{role}"
                else:
                    place = f"{previous[side]}_post_{role}" if previous[side] else role
                yield from self.loose(item, place)
            else:
                inside = self._principals(item)
                yield from self.part(item, self._name(inside[0], side) if isinstance(item, EditSite) and inside else "")
                for each in SIDES:
                    if roles := self._on(item, each):
                        previous[each] = self._name(roles[-1], each, passed=True)

    def _is_principal(self, served: Aligned, side: Side) -> bool:
        """Return whether `served` starts with a principal in the block of that side.

        A combinator that only the other block has is replaced by its contents.
        """
        chosen = choose(served, lambda _: side == "after")
        assert isinstance(chosen, Node | Sequence)
        parts = chosen if isinstance(chosen, Sequence) else Sequence((chosen,))
        first = next(iter(normalise(parts, self.catalogue)), None)
        return first is not None and not self.catalogue[first.name].modifier

    def loose(self, item: Aligned, place: str) -> Iterator[str]:
        """Name the sites of a part without a principal: all are at its own place."""
        match item:
            case SharedItems(items=inner) | SharedSeries(values=inner):
                for child in inner:
                    yield from self.loose(child, place)
            case SharedNode(name=name, fields=fields) if self.catalogue[name].chooses is not None:
                for _, child in fields:
                    yield from self.loose(child, place)
            case SharedNode(fields=fields):
                for field, child in fields:
                    yield from self.part(child, f"{place}.{field}" if isinstance(child, SharedNode) else place)
            case _:
                yield from self.part(item, place)

    def _name(self, role: str, side: Side, *, passed: bool = False) -> str:
        ordinal = self.passed[side][role] + (not passed)
        return role if ordinal <= 1 else f"{role}_{ordinal}"

    def _pass(self, item: Aligned) -> None:
        for side in SIDES:
            self.passed[side].update(self._on(item, side))

    def _on(self, item: Aligned, side: Side) -> list[str]:
        match item:
            case EditSite():
                return self._on(item.after if side == "after" else item.before, side)
            case SharedNode():
                spec = self.catalogue[item.name]
                inside = [self._on(child, side) for _, child in item.fields]
                return (
                    _most_roles(inside)
                    if spec.chooses is not None
                    else [*_own_roles(spec), *chain.from_iterable(inside)]
                )
            case SharedItems():
                return [role for child in item.items for role in self._on(child, side)]
            case SharedSeries():
                return _most_roles([self._on(child, side) for child in item.values])
        return self._roles(item)

    def _principals(self, item: Aligned) -> list[str]:
        return self._on(item, "after") or self._on(item, "before")

    def _roles(self, value: Value) -> list[str]:
        """Return the roles of the principals in a value, in order; of alternatives, as many as any one has."""
        match value:
            case Node(name=name, fields=fields):
                spec = self.catalogue[name]
                if spec.chooses is not None:
                    return _most_roles([self._roles(each) for _, each in alternatives(value, spec)])
                return _own_roles(spec) + [role for _, child in fields for role in self._roles(child)]
            case Sequence() | Series() | tuple():
                return [role for child in value for role in self._roles(child)]
        return []

    def _modifier(self, item: Aligned) -> str:
        """Return the role of an item of a sequence that is a modifier on either side; empty if it is none.

        A pattern over layers is what it holds, the first modifier of it if there are several.
        """
        match item:
            case EditSite():
                return self._modifier(item.before) or self._modifier(item.after)
            case Sequence() | Series():
                return next((role for part in item if (role := self._modifier(part))), "")
            case SharedItems(items=values) | SharedSeries(values=values):
                return next((role for value in values if (role := self._modifier(value))), "")
            case SharedNode(name=name, fields=fields) if self.catalogue[name].chooses is not None:
                return next((role for _, child in fields if (role := self._modifier(child))), "")
            case Node(name=name) if self.catalogue[name].chooses is not None:
                specs = (self.catalogue[each.name] for each in walk(item))
                return next((spec.role for spec in specs if spec.modifier), "")
            case Node(name=name) | SharedNode(name=name):
                return self.catalogue[name].role if self.catalogue[name].modifier else ""
        return ""


def _own_roles(spec: ComponentSpec) -> list[str]:
    return [spec.role] if "part" in spec.slots and not spec.modifier else []


def _most_roles(beside: list[list[str]]) -> list[str]:
    """Return the roles of alternatives, each as often as in the one that has it most often."""
    most: list[str] = []
    for roles in beside:
        most += [role for place, role in enumerate(roles) if roles[: place + 1].count(role) > most.count(role)]
    return most


def _side(item: Aligned) -> Side:
    """Return the block in which an item is named: the new one, except for what only the old one has."""
    return "before" if isinstance(item, EditSite) and item.before and not item.after else "after"
