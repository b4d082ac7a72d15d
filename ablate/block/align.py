"""Aligning two block expressions: what they share, and the sites where one must be chosen.

The result is one tree that holds both. Choosing at every site gives a block again, so any subset of the differences
can be applied without paths that shift. A site is as small as the shapes allow: a field; a part that is inserted or
removed (only parts without a principal, such as norms); one modifier in another's place; else the shortest run of parts
that holds what differs. A combinator can align with bare parts when its transparent values say the same (a residual
with its branch alone).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, product
from typing import TypeAlias

from ablate.block.arithmetic import Expression, number_text
from ablate.block.catalogue import Catalogue, GainField
from ablate.block.expression import Gain, Node, Sequence, Value, walk


@dataclass(frozen=True, slots=True)
class EditSite:
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


Aligned: TypeAlias = "Value | EditSite | SharedNode | SharedItems"
Costed: TypeAlias = tuple[float, "Aligned"]
INFEASIBLE = float("inf")
WRAPPING = 1.0
"""What it costs to see bare parts as a combinator's transparent form, so that plain alignments are preferred."""


def align(before: Sequence, after: Sequence, catalogue: Catalogue) -> Aligned:
    """The tree of least cost: a changed field, an inserted or a removed part costs 1, a replaced run 1 and nodes."""
    return _value(before, after, "", "", catalogue)[1]


def choose(tree: Aligned, take_after: Callable[[EditSite], bool]) -> Value:
    """The block that takes `after` at the sites where `take_after` says so and `before` elsewhere."""
    match tree:
        case EditSite():
            return tree.after if take_after(tree) else tree.before
        case SharedNode(name=name, fields=fields):
            return Node(name, tuple((field, choose(child, take_after)) for field, child in fields))
        case SharedItems(items=items, sequence=sequence):
            chosen: list[Node] = []
            for item in items:
                value = choose(item, take_after)
                spliced = isinstance(item, EditSite)
                chosen.extend(value if spliced else [value])  # type: ignore[arg-type,list-item]
            return Sequence(tuple(chosen)) if sequence else tuple(chosen)
    return tree


def sites(tree: Aligned) -> tuple[EditSite, ...]:
    """Every site, in order; equal ones are told apart by their place in this tuple."""
    match tree:
        case EditSite():
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
    return max(1, _size(before), _size(after)), EditSite(before, after, owner, field)


def _replaced(before: Value, after: Value, owner: str, field: str) -> Costed:
    return 1 + _size(before) + _size(after), EditSite(before, after, owner, field)


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
        if any(isinstance(child, EditSite) for _, child in pairs):
            return _replaced(before, after, owner, field)
        return sum(cost for cost, _ in pairs), SharedItems(tuple(child for _, child in pairs), sequence=False)
    cost, items = _items(before, after, catalogue, whole=True)
    marked = tuple(EditSite(i.before, i.after, owner, field) if isinstance(i, EditSite) else i for i in items)
    # A component that moves would be there twice, or not at all, while only half of the move is applied.
    moving = [item for item in marked if isinstance(item, EditSite)]
    if _names(site.before for site in moving) & _names(site.after for site in moving):
        return _replaced(before, after, owner, field)
    return cost, SharedItems(marked, sequence=False)


def _items(
    before: tuple[Node, ...], after: tuple[Node, ...], catalogue: Catalogue, *, whole: bool
) -> tuple[float, tuple[Aligned, ...]]:
    """Least-cost alignment of two lists of parts; `whole` lists (entropy regulation) may gain and lose any item."""
    lists = _Lists(before, after, catalogue, whole)
    runs = _Runs(lists)
    best: dict[Ends, tuple[float, tuple[Aligned, ...]]] = {}
    # From the ends on: nothing recurses, however long the lists are, and what cannot be best is not looked into.
    for i, j in product(reversed(range(len(before) + 1)), reversed(range(len(after) + 1))):
        found: tuple[float, tuple[Aligned, ...]] = (0 if i == len(before) and j == len(after) else INFEASIBLE, ())
        for step in lists.steps(i, j, runs):
            rest, items = best[step.i, step.j]
            if step.least + rest < found[0]:
                cost, item = step.made()
                found = (cost + rest, (item, *items)) if cost + rest < found[0] else found
        best[i, j] = found
        runs.add(i, j, found[0])
    return best[0, 0]


Ends: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Step:
    """One item of an alignment, after which `before[i]` and `after[j]` come next; it costs `least` or more."""

    least: float
    made: Callable[[], Costed]
    i: int
    j: int


@dataclass(frozen=True)
class _Lists:
    """Two lists of parts, and the steps that an alignment of them may take; of equal ones the first is taken."""

    before: tuple[Node, ...]
    after: tuple[Node, ...]
    catalogue: Catalogue
    whole: bool

    def steps(self, i: int, j: int, runs: _Runs) -> Iterator[_Step]:
        """What may come next where `before[i]` and `after[j]` do."""
        yield from self._paired(i, j)
        if not self.whole:
            yield from self._replaced_run(i, j, runs)
        yield from self._site(i, j, i + 1, j)
        if not self.whole:
            yield from self._unwrapped(i, j)
        yield from self._site(i, j, i, j + 1)
        if not self.whole:
            yield from self._wrapped(i, j)

    def _paired(self, i: int, j: int) -> Iterator[_Step]:
        """The next two parts as one: the same component, or a modifier in the place of another of its role."""
        if i == len(self.before) or j == len(self.after):
            return
        old, new = self.before[i], self.after[j]
        if old.name == new.name:
            yield _Step(0, partial(_value, old, new, "", "", self.catalogue), i + 1, j + 1)
        elif self.catalogue[old.name].role == self.catalogue[new.name].role:
            yield from self._site(i, j, i + 1, j + 1)

    def _site(self, i: int, j: int, old_end: int, new_end: int) -> Iterator[_Step]:
        """The next part of one or of both as a site, where they have one and it may come and go."""
        old, new = self.before[i:old_end], self.after[j:new_end]
        there = old_end <= len(self.before) and new_end <= len(self.after)
        if there and all(self.whole or not has_principal(part, self.catalogue) for part in (*old, *new)):
            site = EditSite(old, new) if self.whole else EditSite(Sequence(old), Sequence(new))
            yield _Step(1, lambda: (1, site), old_end, new_end)

    def _replaced_run(self, i: int, j: int, runs: _Runs) -> Iterator[_Step]:
        """The run of parts that is best replaced by another, where both hold a principal."""
        if (ends := runs.best(i, j)) is not None:
            old, new = Sequence(self.before[i : ends[0]]), Sequence(self.after[j : ends[1]])
            yield _Step(0, partial(_replaced, old, new, "", ""), *ends)

    def _unwrapped(self, i: int, j: int) -> Iterator[_Step]:
        """A combinator that only the old list has, aligned with the bare parts of the new one."""
        for old, end in product(self.before[i : i + 1], _ends(j, self.after)):
            yield _Step(WRAPPING, partial(self._in_old, old, self.after[j:end]), i + 1, end)

    def _wrapped(self, i: int, j: int) -> Iterator[_Step]:
        """A combinator that only the new list has, aligned with the bare parts of the old one."""
        for new, end in product(self.after[j : j + 1], _ends(i, self.before)):
            yield _Step(WRAPPING, partial(self._in_new, new, self.before[i:end]), end, j + 1)

    def _in_old(self, old: Node, parts: tuple[Node, ...]) -> Costed:
        wrapped = _wrap(old, parts, self.catalogue)
        return _dearer(_value(old, wrapped, "", "", self.catalogue)) if wrapped is not None else (INFEASIBLE, ())

    def _in_new(self, new: Node, parts: tuple[Node, ...]) -> Costed:
        wrapped = _wrap(new, parts, self.catalogue)
        return _dearer(_value(wrapped, new, "", "", self.catalogue)) if wrapped is not None else (INFEASIBLE, ())


class _Runs:
    """For each place where a run of parts may be replaced by another: where both best end.

    A replaced run costs 1 and its nodes, so that where it began makes no difference to where it best ends. Of equal
    ends the nearest in the old list is best, then the nearest in the new one.
    """

    def __init__(self, lists: _Lists):
        self.sizes = tuple(tuple(accumulate(map(_size, parts), initial=0)) for parts in (lists.before, lists.after))
        self.first = tuple(_behind_principal(parts, lists.catalogue) for parts in (lists.before, lists.after))
        self.last = (len(lists.before), len(lists.after))
        self.in_row: dict[Ends, tuple[float, Ends]] = {}
        self.beyond: dict[Ends, tuple[float, Ends]] = {}

    def add(self, i: int, j: int, rest: float) -> None:
        """What follows a run that ends before `i` and `j` costs `rest`; those behind it were added before."""
        nowhere = (INFEASIBLE, self.last)
        here = (self.sizes[0][i] + self.sizes[1][j] + rest, (i, j))
        self.in_row[i, j] = min(here, self.in_row.get((i, j + 1), nowhere), key=_cost)
        self.beyond[i, j] = min(self.in_row[i, j], self.beyond.get((i + 1, j), nowhere), key=_cost)

    def best(self, i: int, j: int) -> Ends | None:
        """Where a run from `i` and `j` best ends; None where none holds a principal on both sides."""
        ends = (self.first[0][i], self.first[1][j])
        return self.beyond[ends][1] if all(end > 0 for end in ends) else None


def _cost(found: tuple[float, Ends]) -> float:
    return found[0]


def _behind_principal(parts: tuple[Node, ...], catalogue: Catalogue) -> tuple[int, ...]:
    """For each place in a list, and its end, where the next part that has a principal ends; 0 where there is none."""
    found = [0]
    for place in reversed(range(len(parts))):
        found.append(place + 1 if has_principal(parts[place], catalogue) else found[-1])
    return tuple(reversed(found))


def _dearer(costed: Costed) -> Costed:
    return costed[0] + WRAPPING, costed[1]


def _ends(start: int, parts: tuple[Node, ...]) -> range:
    """Where a run of at least one part that begins at `start` may end."""
    return range(start + 1, len(parts) + 1)


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
