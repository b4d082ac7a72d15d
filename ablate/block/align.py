"""Aligning two block expressions: what they share, and the sites where one must be chosen.

The result is one tree that holds both. Choosing at every site gives a block again, so any subset of the differences
can be applied without paths that shift. A site is as small as the shapes allow: a field; a part that is inserted or
removed (only parts without a principal, such as norms); one modifier in another's place; else the shortest run of parts
that holds what differs. A combinator can align with bare parts when its transparent values say the same (a residual
with its branch alone).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TypeAlias

from ablate.block.arithmetic import Expression, number_text
from ablate.block.catalogue import Catalogue, GainField
from ablate.block.expression import Gain, Node, Sequence, Value, walk


@dataclass(frozen=True, slots=True)
class Site:
    """One place where the two differ. `owner` is the component whose field it is, empty for a part of a sequence."""

    before: Value
    after: Value
    owner: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class SharedNode:
    """The same component on both sides, with its fields aligned."""

    name: str
    fields: tuple[tuple[str, Aligned], ...]


@dataclass(frozen=True, slots=True)
class SharedItems:
    """A sequence or tuple aligned item by item; a site's sides are sequences (or tuples) to splice in."""

    items: tuple[Aligned, ...]
    sequence: bool


Aligned: TypeAlias = "Value | Site | SharedNode | SharedItems"
Costed: TypeAlias = tuple[float, "Aligned"]
INFEASIBLE = float("inf")
WRAPPING = 1.0
"""What it costs to see bare parts as a combinator's transparent form, so that plain alignments are preferred."""


def align(before: Sequence, after: Sequence, catalogue: Catalogue) -> Aligned:
    """The tree of least cost: a changed field, an inserted or a removed part costs 1, a replaced run 1 and nodes."""
    return _value(before, after, "", "", catalogue)[1]


def choose(tree: Aligned, take_after: Callable[[Site], bool]) -> Value:
    """The block that takes `after` at the sites where `take_after` says so and `before` elsewhere."""
    match tree:
        case Site():
            return tree.after if take_after(tree) else tree.before
        case SharedNode(name=name, fields=fields):
            return Node(name, tuple((field, choose(child, take_after)) for field, child in fields))
        case SharedItems(items=items, sequence=sequence):
            chosen: list[Node] = []
            for item in items:
                value = choose(item, take_after)
                spliced = isinstance(item, Site)
                chosen.extend(value if spliced else [value])  # type: ignore[arg-type,list-item]
            return Sequence(tuple(chosen)) if sequence else tuple(chosen)
    return tree


def sites(tree: Aligned) -> tuple[Site, ...]:
    """Every site, in order; equal ones are told apart by their place in this tuple."""
    match tree:
        case Site():
            return (tree,)
        case SharedNode(fields=fields):
            return tuple(site for _, child in fields for site in sites(child))
        case SharedItems(items=items):
            return tuple(site for child in items for site in sites(child))
    return ()


def has_principal(value: Value, catalogue: Catalogue) -> bool:
    """Whether a part that is no modifier (attention, an MLP) stands anywhere inside, as a part of a sequence."""
    return any(not catalogue[n.name].modifier and "part" in catalogue[n.name].slots for n in walk(value))


def _value(before: Value, after: Value, owner: str, field: str, catalogue: Catalogue) -> Costed:
    if before == after:
        return 0, before
    if isinstance(before, Node) and isinstance(after, Node) and before.name == after.name:
        return _node(before, after, catalogue)
    if isinstance(before, Sequence) and isinstance(after, Sequence):
        cost, items = _items(before.parts, after.parts, catalogue, whole=False)
        if cost < INFEASIBLE:
            return cost, SharedItems(items, sequence=True)
        return _replaced(before, after, owner, field)
    if isinstance(before, tuple) and isinstance(after, tuple):
        return _tuple(before, after, owner, field, catalogue)
    return max(1, _size(before), _size(after)), Site(before, after, owner, field)


def _replaced(before: Value, after: Value, owner: str, field: str) -> Costed:
    return 1 + _size(before) + _size(after), Site(before, after, owner, field)


def _node(before: Node, after: Node, catalogue: Catalogue) -> Costed:
    total, fields = 0.0, []
    for (name, old), (_, new) in zip(before.fields, after.fields, strict=True):
        cost, child = _value(old, new, before.name, name, catalogue)
        total += cost
        fields.append((name, child))
    return total, SharedNode(before.name, tuple(fields))


def _tuple(before: tuple, after: tuple, owner: str, field: str, catalogue: Catalogue) -> Costed:  # type: ignore[type-arg]
    if any(isinstance(child, Sequence) for child in (*before, *after)):
        if len(before) != len(after):
            return _replaced(before, after, owner, field)
        pairs = [_value(old, new, owner, field, catalogue) for old, new in zip(before, after, strict=True)]
        # A site that is a whole branch must not be spliced into the tuple: the branches are kept as one site instead.
        if any(isinstance(child, Site) for _, child in pairs):
            return _replaced(before, after, owner, field)
        return sum(cost for cost, _ in pairs), SharedItems(tuple(child for _, child in pairs), sequence=False)
    cost, items = _items(before, after, catalogue, whole=True)
    marked = tuple(Site(i.before, i.after, owner, field) if isinstance(i, Site) else i for i in items)
    # A component that moves would be there twice, or not at all, while only half of the move is applied.
    moving = [item for item in marked if isinstance(item, Site)]
    if _names(site.before for site in moving) & _names(site.after for site in moving):
        return _replaced(before, after, owner, field)
    return cost, SharedItems(marked, sequence=False)


def _items(
    before: tuple[Node, ...], after: tuple[Node, ...], catalogue: Catalogue, *, whole: bool
) -> tuple[float, tuple[Aligned, ...]]:
    """Least-cost alignment of two lists of parts; `whole` lists (entropy regulation) may gain and lose any item."""
    pack = tuple if whole else Sequence

    def site(old: tuple[Node, ...], new: tuple[Node, ...]) -> Site:
        return Site(pack(old), pack(new))

    def loose(node: Node) -> bool:
        return whole or not has_principal(node, catalogue)

    @cache
    def best(i: int, j: int) -> tuple[float, tuple[Aligned, ...]]:
        if i == len(before) and j == len(after):
            return 0, ()
        options: list[tuple[float, tuple[Aligned, ...]]] = []

        def offer(cost: float, item: Aligned, rest: tuple[float, tuple[Aligned, ...]]) -> None:
            options.append((cost + rest[0], (item, *rest[1])))

        if i < len(before) and j < len(after):
            old, new = before[i], after[j]
            if old.name == new.name:
                offer(*_value(old, new, "", "", catalogue), best(i + 1, j + 1))
            elif loose(old) and loose(new) and catalogue[old.name].role == catalogue[new.name].role:
                offer(1, site((old,), (new,)), best(i + 1, j + 1))
        for old_end, new_end in (
            product(range(i + 1, len(before) + 1), range(j + 1, len(after) + 1)) if not whole else ()
        ):
            old_run, new_run = Sequence(before[i:old_end]), Sequence(after[j:new_end])
            if has_principal(old_run, catalogue) and has_principal(new_run, catalogue):
                offer(*_replaced(old_run, new_run, "", ""), best(old_end, new_end))
        if i < len(before):
            if loose(before[i]):
                offer(1, site((before[i],), ()), best(i + 1, j))
            for end in range(j + 1, len(after) + 1) if not whole else ():
                wrapped = _wrap(before[i], after[j:end], catalogue)
                if wrapped is not None:
                    cost, item = _value(before[i], wrapped, "", "", catalogue)
                    offer(cost + WRAPPING, item, best(i + 1, end))
        if j < len(after):
            if loose(after[j]):
                offer(1, site((), (after[j],)), best(i, j + 1))
            for end in range(i + 1, len(before) + 1) if not whole else ():
                wrapped = _wrap(after[j], before[i:end], catalogue)
                if wrapped is not None:
                    cost, item = _value(wrapped, after[j], "", "", catalogue)
                    offer(cost + WRAPPING, item, best(end, j + 1))
        return min(options, key=lambda option: option[0], default=(INFEASIBLE, ()))

    return best(0, 0)


def _wrap(like: Node, parts: tuple[Node, ...], catalogue: Catalogue) -> Node | None:
    """`parts` as the transparent form of the combinator `like`, if it has one and they hold a principal."""
    rule = catalogue[like.name].transparent
    if rule is None or rule.keep is None:
        return None
    if not has_principal(Sequence(parts), catalogue) or [p.name for p in parts] == [like.name]:
        return None
    values: dict[str, Value] = {rule.keep: Sequence(parts)}
    for name, number in rule.when.items():
        text = Expression(number_text(number))
        values[name] = Gain(text) if isinstance(catalogue[like.name].fields[name], GainField) else text
    return like.replace(values)


def _names(sides: Iterable[Value]) -> set[str]:
    return {node.name for side in sides if isinstance(side, tuple) for node in side if isinstance(node, Node)}


def _size(value: Value) -> int:
    return sum(1 for _ in walk(value))
