"""The places of the sites of two aligned blocks, named like addresses: `attention`, `mlp_norm`, `mlp_residual`.

The rules are those of `address.py`, applied to a tree that holds two blocks at once: a part that only one of them has
gets the name that it has in that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence as Items
from itertools import chain
from typing import Literal, TypeAlias

from ablate.block.align import Aligned, EditSite, SharedItems, SharedNode, SharedSeries, choose
from ablate.block.catalogue import Catalogue, ComponentSpec
from ablate.block.expression import Node, Sequence, Series, Value, walk
from ablate.block.layers import alternatives
from ablate.block.normal_form import normalise


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
        parts = chosen if isinstance(chosen, Sequence) else Sequence((chosen,))  # type: ignore[arg-type]
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
        """Return the roles of the principals of an item in the block of that side, in order."""
        match item:
            case EditSite():
                return self._on(item.after if side == "after" else item.before, side)
            case SharedNode():
                spec = self.catalogue[item.name]
                inside = [self._on(child, side) for _, child in item.fields]
                return _most(inside) if spec.chooses is not None else [*_own(spec), *chain.from_iterable(inside)]
            case SharedItems():
                return [role for child in item.items for role in self._on(child, side)]
            case SharedSeries():
                return _most([self._on(child, side) for child in item.values])
        return self._roles(item)

    def _principals(self, item: Aligned) -> list[str]:
        return self._on(item, "after") or self._on(item, "before")

    def _roles(self, value: Value) -> list[str]:
        """Return the roles of the principals in a value, in order; of alternatives, as many as any one has."""
        match value:
            case Node(name=name, fields=fields):
                spec = self.catalogue[name]
                if spec.chooses is not None:
                    return _most([self._roles(each) for _, each in alternatives(value, spec)])
                return _own(spec) + [role for _, child in fields for role in self._roles(child)]
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


def _own(spec: ComponentSpec) -> list[str]:
    return [spec.role] if "part" in spec.slots and not spec.modifier else []


def _most(beside: list[list[str]]) -> list[str]:
    """Return the roles of alternatives, each as often as in the one that has it most often."""
    most: list[str] = []
    for roles in beside:
        most += [role for place, role in enumerate(roles) if roles[: place + 1].count(role) > most.count(role)]
    return most


def _side(item: Aligned) -> Side:
    """Return the block in which an item is named: the new one, except for what only the old one has."""
    return "before" if isinstance(item, EditSite) and item.before and not item.after else "after"
