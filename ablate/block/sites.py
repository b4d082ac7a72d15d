"""The places of the sites of two aligned blocks, named like addresses: `attention`, `mlp_norm`, `mlp_residual`.

The rules are those of `address.py`, applied to a tree that holds two blocks at once: a part that only one of them has
gets the name that it has in that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence as Items
from typing import Literal, TypeAlias

from ablate.block.align import Aligned, EditSite, SharedItems, SharedNode, choose
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Node, Sequence, walk
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
        for field, child in node.fields:
            yield from self.part(child, f"{place}.{field}" if isinstance(child, SharedNode) else place)

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
        if isinstance(item, SharedNode):
            for field, child in item.fields:
                yield from self.part(child, f"{place}.{field}" if isinstance(child, SharedNode) else place)
        else:
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
                own = self._roles((Node(item.name),))
                return own + [role for _, child in item.fields for role in self._on(child, side)]
            case SharedItems():
                return [role for child in item.items for role in self._on(child, side)]
        return self._roles(walk(item))

    def _principals(self, item: Aligned) -> list[str]:
        return self._on(item, "after") or self._on(item, "before")

    def _roles(self, nodes: Iterator[Node] | tuple[Node, ...]) -> list[str]:
        specs = (self.catalogue[node.name] for node in nodes)
        return [spec.role for spec in specs if "part" in spec.slots and not spec.modifier]

    def _modifier(self, item: Aligned) -> str:
        """Return the role of an item of a sequence that is a modifier on either side; empty if it is none."""
        sides = (item.before, item.after) if isinstance(item, EditSite) else (item,)
        for side in sides:
            nodes = side.parts if isinstance(side, Sequence) else (side,)
            for node in nodes:
                if isinstance(node, Node | SharedNode) and self.catalogue[node.name].modifier:
                    return self.catalogue[node.name].role
        return ""


def _side(item: Aligned) -> Side:
    """Return the block in which an item is named: the new one, except for what only the old one has."""
    return "before" if isinstance(item, EditSite) and item.before and not item.after else "after"
