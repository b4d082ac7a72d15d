"""Aligning two block expressions: what they share, and the sites where they differ.

One tree holds both; choosing a side at every site gives a block, so any subset of the differences can be applied
without shifting paths. A site is as small as the shapes allow: a field; an inserted or removed part without a principal
(such as a norm); one modifier in another's place; otherwise the shortest run of parts that contains the difference. A
combinator aligns with bare parts if it is equivalent to them at its transparent values (a residual and its branch
alone).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, product
from operator import itemgetter
from typing import TypeAlias

from ablate.block.arithmetic import Expression, number_text
from ablate.block.catalogue import Catalogue, GainField
from ablate.block.expression import Gain, Node, Sequence, Series, Value, walk


@dataclass(frozen=True, slots=True)
class EditSite:
    """A place where the two blocks differ. `owner` is the component whose field it is, empty for a part of a list."""

    before: Value
    after: Value
    owner: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class SharedNode:
    name: str
    fields: tuple[tuple[str, Aligned], ...]


@dataclass(frozen=True, slots=True)
class SharedItems:
    """A sequence or tuple aligned item by item; the sides of a site are sequences (or tuples) to splice in."""

    items: tuple[Aligned, ...]
    sequence: bool


@dataclass(frozen=True, slots=True)
class SharedSeries:
    """The alternatives of a pattern over layers, as many on both sides, aligned one by one; none of them is a site."""

    values: tuple[Aligned, ...]


Aligned: TypeAlias = "Value | EditSite | SharedNode | SharedItems | SharedSeries"
Costed: TypeAlias = tuple[float, "Aligned"]
Parts: TypeAlias = tuple[Node | Sequence, ...]
INFEASIBLE = float("inf")
WRAPPING = 1.0
"""The cost of reading bare parts as the transparent form of a combinator, so that plain alignments are preferred."""


def align(before: Sequence, after: Sequence, catalogue: Catalogue) -> Aligned:
    """Return the tree of least cost: a changed field, an added or removed part costs 1, a replaced run 1 + nodes."""
    return _value(before, after, "", "", catalogue)[1]


def choose(tree: Aligned, take_after: Callable[[EditSite], bool]) -> Value:
    """Return the block that takes `after` at the sites where `take_after` is true, and `before` elsewhere."""
    match tree:
        case EditSite():
            return tree.after if take_after(tree) else tree.before
        case SharedNode(name=name, fields=fields):
            return Node(name, tuple((field, choose(child, take_after)) for field, child in fields))
        case SharedSeries(values=values):
            return Series(tuple(choose(child, take_after) for child in values))
        case SharedItems(items=items, sequence=sequence):
            chosen: list[Node | Sequence] = []
            for item in items:
                value = choose(item, take_after)
                if isinstance(item, EditSite):
                    assert isinstance(value, Sequence | tuple)
                    chosen.extend(value)
                else:
                    assert isinstance(value, Node | Sequence)
                    chosen.append(value)
            return Sequence(_nodes(chosen)) if sequence else tuple(chosen)
    return tree


def sites(tree: Aligned) -> tuple[EditSite, ...]:
    """Return every site, in order; equal sites are distinguished by their place in this tuple."""
    match tree:
        case EditSite():
            return (tree,)
        case SharedNode(fields=fields):
            return tuple(site for _, child in fields for site in sites(child))
        case SharedItems(items=items) | SharedSeries(values=items):
            return tuple(site for child in items for site in sites(child))
    return ()


def has_principal(value: Value, catalogue: Catalogue) -> bool:
    """Return whether there is a principal (attention, an MLP) anywhere inside, as a part of a sequence."""
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
    if isinstance(before, Series) and isinstance(after, Series):
        return _series(before, after, owner, field, catalogue)
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


def _series(before: Series, after: Series, owner: str, field: str, catalogue: Catalogue) -> Costed:
    """Align what changes inside alternatives; one that is replaced as a whole makes the whole series one site."""
    if len(before) != len(after):
        return _replaced(before, after, owner, field)
    pairs = [_value(old, new, owner, field, catalogue) for old, new in zip(before, after, strict=True)]
    if any(isinstance(child, EditSite) for _, child in pairs):
        return _replaced(before, after, owner, field)
    return sum(cost for cost, _ in pairs), SharedSeries(tuple(child for _, child in pairs))


def _tuple(before: Parts, after: Parts, owner: str, field: str, catalogue: Catalogue) -> Costed:
    if any(isinstance(child, Sequence) for child in (*before, *after)):
        if len(before) != len(after):
            return _replaced(before, after, owner, field)
        pairs = [_value(old, new, owner, field, catalogue) for old, new in zip(before, after, strict=True)]
        # A site must not be a whole branch, which would be spliced into the tuple: all branches become one site.
        if any(isinstance(child, EditSite) for _, child in pairs):
            return _replaced(before, after, owner, field)
        return sum(cost for cost, _ in pairs), SharedItems(tuple(child for _, child in pairs), sequence=False)
    cost, items = _items(_nodes(before), _nodes(after), catalogue, whole=True)
    marked = tuple(EditSite(i.before, i.after, owner, field) if isinstance(i, EditSite) else i for i in items)
    # If a component moved, applying only one half of the move would leave it there twice, or not at all.
    moving = [item for item in marked if isinstance(item, EditSite)]
    if _names(site.before for site in moving) & _names(site.after for site in moving):
        return _replaced(before, after, owner, field)
    return cost, SharedItems(marked, sequence=False)


def _items(
    before: tuple[Node, ...], after: tuple[Node, ...], catalogue: Catalogue, *, whole: bool
) -> tuple[float, tuple[Aligned, ...]]:
    """Align two lists of parts at least cost; in `whole` lists (entropy regulation) any item may come or go."""
    lists = _Lists(before, after, catalogue, whole)
    runs = _Runs(lists)
    best: dict[Ends, tuple[float, tuple[Aligned, ...]]] = {}
    # From the ends backwards, so that long lists need no recursion; steps that cannot be best are not evaluated.
    for i, j in product(reversed(range(len(before) + 1)), reversed(range(len(after) + 1))):
        here: tuple[float, tuple[Aligned, ...]] = (0 if i == len(before) and j == len(after) else INFEASIBLE, ())
        for step in lists.steps(i, j, runs):
            rest, items = best[step.i, step.j]
            if step.least + rest < here[0]:
                cost, item = step.made()
                here = (cost + rest, (item, *items)) if cost + rest < here[0] else here
        best[i, j] = here
        runs.add(i, j, here[0])
    return best[0, 0]


Ends: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Step:
    """One item of an alignment, after which `before[i]` and `after[j]` are next; it costs at least `least`."""

    least: float
    made: Callable[[], Costed]
    i: int
    j: int


@dataclass(frozen=True)
class _Lists:
    """Two lists of parts, and the steps that an alignment of them may take; of equal steps the first is taken."""

    before: tuple[Node, ...]
    after: tuple[Node, ...]
    catalogue: Catalogue
    whole: bool

    def steps(self, i: int, j: int, runs: _Runs) -> Iterator[_Step]:
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
        """Pair the next two parts: the same component, or a modifier in the place of another with the same role."""
        if i == len(self.before) or j == len(self.after):
            return
        old, new = self.before[i], self.after[j]
        if old.name == new.name:
            yield _Step(0, partial(_value, old, new, "", "", self.catalogue), i + 1, j + 1)
        elif self.catalogue[old.name].role == self.catalogue[new.name].role:
            yield from self._site(i, j, i + 1, j + 1)

    def _site(self, i: int, j: int, old_end: int, new_end: int) -> Iterator[_Step]:
        """Make a site of the next part of one or both lists, if it exists and may be added or removed."""
        old, new = self.before[i:old_end], self.after[j:new_end]
        there = old_end <= len(self.before) and new_end <= len(self.after)
        if there and all(self.whole or not has_principal(part, self.catalogue) for part in (*old, *new)):
            site = EditSite(old, new) if self.whole else EditSite(Sequence(old), Sequence(new))
            yield _Step(1, lambda: (1, site), old_end, new_end)

    def _replaced_run(self, i: int, j: int, runs: _Runs) -> Iterator[_Step]:
        """Replace the run of parts that it is best to replace by another, where both contain a principal."""
        if (ends := runs.best(i, j)) is not None:
            old, new = Sequence(self.before[i : ends[0]]), Sequence(self.after[j : ends[1]])
            yield _Step(0, partial(_replaced, old, new, "", ""), *ends)

    def _unwrapped(self, i: int, j: int) -> Iterator[_Step]:
        """Align a combinator that only the old list has with bare parts of the new one."""
        for old, end in product(self.before[i : i + 1], range(j + 1, len(self.after) + 1)):
            yield _Step(WRAPPING, partial(self._with_bare, old, self.after[j:end], is_old=True), i + 1, end)

    def _wrapped(self, i: int, j: int) -> Iterator[_Step]:
        """Align a combinator that only the new list has with bare parts of the old one."""
        for new, end in product(self.after[j : j + 1], range(i + 1, len(self.before) + 1)):
            yield _Step(WRAPPING, partial(self._with_bare, new, self.before[i:end], is_old=False), end, j + 1)

    def _with_bare(self, combinator: Node, parts: tuple[Node, ...], *, is_old: bool) -> Costed:
        if (wrapped := _wrap(combinator, parts, self.catalogue)) is None:
            return INFEASIBLE, ()
        before, after = (combinator, wrapped) if is_old else (wrapped, combinator)
        cost, aligned = _value(before, after, "", "", self.catalogue)
        return cost + WRAPPING, aligned


class _Runs:
    """For each place where a run of parts may be replaced by another: where both best end.

    A replaced run costs 1 plus its nodes, so the best end does not depend on the start. Of equally good ends the
    nearest in the old list is taken, then the nearest in the new one.
    """

    def __init__(self, lists: _Lists):
        self.sizes = tuple(tuple(accumulate(map(_size, parts), initial=0)) for parts in (lists.before, lists.after))
        self.first = tuple(_behind_principal(parts, lists.catalogue) for parts in (lists.before, lists.after))
        self.last = (len(lists.before), len(lists.after))
        self.in_row: dict[Ends, tuple[float, Ends]] = {}
        self.beyond: dict[Ends, tuple[float, Ends]] = {}

    def add(self, i: int, j: int, rest: float) -> None:
        """Add that what follows a run that ends before `i` and `j` costs `rest`; later places were added before."""
        nowhere = (INFEASIBLE, self.last)
        here = (self.sizes[0][i] + self.sizes[1][j] + rest, (i, j))
        self.in_row[i, j] = min(here, self.in_row.get((i, j + 1), nowhere), key=itemgetter(0))
        self.beyond[i, j] = min(self.in_row[i, j], self.beyond.get((i + 1, j), nowhere), key=itemgetter(0))

    def best(self, i: int, j: int) -> Ends | None:
        """Return where a run from `i` and `j` best ends; None if no run contains a principal on both sides."""
        ends = (self.first[0][i], self.first[1][j])
        return self.beyond[ends][1] if all(end > 0 for end in ends) else None


def _behind_principal(parts: tuple[Node, ...], catalogue: Catalogue) -> tuple[int, ...]:
    """Return, for each place in a list and for its end, where the next part with a principal ends; 0 if none does."""
    ends = [0]
    for place in reversed(range(len(parts))):
        ends.append(place + 1 if has_principal(parts[place], catalogue) else ends[-1])
    return tuple(reversed(ends))


def _wrap(like: Node, parts: tuple[Node, ...], catalogue: Catalogue) -> Node | None:
    """Wrap `parts` in the transparent form of the combinator `like`, if it has one and they contain a principal."""
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


def _nodes(parts: Collection[Node | Sequence]) -> tuple[Node, ...]:
    nodes = tuple(part for part in parts if isinstance(part, Node))
    assert len(nodes) == len(parts)
    return nodes


def _names(sides: Iterable[Value]) -> set[str]:
    return {node.name for side in sides if isinstance(side, tuple) for node in side if isinstance(node, Node)}


def _size(value: Value) -> int:
    return sum(1 for _ in walk(value))
