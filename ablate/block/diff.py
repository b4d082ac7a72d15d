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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ablate.block.align import Aligned, EditSite, align, choose, sites
from ablate.block.catalogue import STABILISING_SLOT, Catalogue, GainField
from ablate.block.expression import Block, Node, Sequence, Value
from ablate.block.normal_form import normalise
from ablate.block.printer import Defaults, print_value
from ablate.block.sites import places


class Rank(IntEnum):
    """The default order of edits on a path: those that stabilise training come before those that destabilise it, and
    all of them before what changes around the block.
    """

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
        """The change in words: from what to what, and where."""
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
        name = edit.name if seen[edit.name] == 1 else f"{edit.name}#{seen[edit.name]}"
        distinct.append(Edit(name, edit.places, edit.before, edit.after, edit.rank, edit.sites))
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
    """Return the name of a component, or any other value as it is written."""
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
    kinds: Mapping[str, object] = catalogue[site.owner].fields if site.owner else {}
    if isinstance(kinds.get(site.field), GainField):
        return Rank.RESCALE
    if old is None:
        return Rank.INSERT
    return Rank.REMOVE if new is None else Rank.CHANGE
