"""Where the sites of an aligned pair of blocks are, in the words of addresses: `attention`, `mlp_norm`, `mlp_residual`.

The rules are those of `address.py`, applied to a tree that holds two blocks at once: a part that only one of them has
gets the name it would have in that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence as Items

from ablate.block.align import Aligned, SharedItems, SharedNode, Site
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Node, Sequence, walk


def places(tree: Aligned, catalogue: Catalogue) -> tuple[str, ...]:
    """One name for each site of the tree, in the order of `sites(tree)`."""
    return tuple(_Namer(catalogue).part(tree, "block"))


class _Namer:
    """Counts principals as it passes them, so that the second MLP of a block is `mlp_2`."""

    def __init__(self, catalogue: Catalogue):
        self.catalogue = catalogue
        self.passed: Counter[str] = Counter()

    def part(self, tree: Aligned, place: str) -> Iterator[str]:
        match tree:
            case Site():
                yield place
                self.passed.update(self._principals(tree))
            case SharedItems(items=items, sequence=True):
                yield from self.items(items)
            case SharedItems(items=items):
                for item in items:
                    yield from self.part(item, place)
            case SharedNode():
                yield from self.node(tree, place)
            case _:
                self.passed.update(self._principals(tree))

    def node(self, node: SharedNode, place: str) -> Iterator[str]:
        spec = self.catalogue[node.name]
        if "part" in spec.slots and not spec.modifier:
            place = self._name(spec.role)
            self.passed[spec.role] += 1
        elif place == "" or "part" in spec.slots:
            inside = self._principals(node)
            place = f"{self._name(inside[0])}_{spec.role}" if inside else place or spec.role
        for field, child in node.fields:
            yield from self.part(child, f"{place}.{field}" if isinstance(child, SharedNode) else place)

    def items(self, items: Items[Aligned]) -> Iterator[str]:
        previous = ""
        for index, item in enumerate(items):
            role = self._modifier(item)
            if role and not self._principals(item):
                served = next((rest for rest in items[index + 1 :] if self._principals(rest)), None)
                if served is not None and (not previous or not self._modifier(served)):
                    place = f"{self._name(self._principals(served)[0])}_{role}"
                else:
                    place = f"{previous}_post_{role}" if previous else role
                yield from self.loose(item, place)
            else:
                inside = self._principals(item)
                yield from self.part(item, self._name(inside[0]) if isinstance(item, Site) and inside else "")
                if inside:
                    previous = self._name(inside[-1], passed=True)

    def loose(self, item: Aligned, place: str) -> Iterator[str]:
        """A part without a principal: all its sites are at its own place."""
        if isinstance(item, SharedNode):
            for field, child in item.fields:
                yield from self.part(child, f"{place}.{field}" if isinstance(child, SharedNode) else place)
        else:
            yield from self.part(item, place)

    def _name(self, role: str, *, passed: bool = False) -> str:
        ordinal = self.passed[role] + (not passed)
        return role if ordinal <= 1 else f"{role}_{ordinal}"

    def _principals(self, item: Aligned) -> list[str]:
        match item:
            case Site():
                return self._principals(item.before) or self._principals(item.after)
            case SharedNode():
                own = self._roles((Node(item.name),))
                return own + [role for _, child in item.fields for role in self._principals(child)]
            case SharedItems():
                return [role for child in item.items for role in self._principals(child)]
        return self._roles(walk(item))

    def _roles(self, nodes: Iterator[Node] | tuple[Node, ...]) -> list[str]:
        specs = (self.catalogue[node.name] for node in nodes)
        return [spec.role for spec in specs if "part" in spec.slots and not spec.modifier]

    def _modifier(self, item: Aligned) -> str:
        """The role of the modifier that an item of a sequence is, on either side; empty if it is none."""
        sides = (item.before, item.after) if isinstance(item, Site) else (item,)
        for side in sides:
            nodes = side.parts if isinstance(side, Sequence) else (side,)
            for node in nodes:
                if isinstance(node, Node | SharedNode) and self.catalogue[node.name].modifier:
                    return self.catalogue[node.name].role
        return ""
