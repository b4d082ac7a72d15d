"""Addresses: the name each part of a block has, in the expression, in the module and in the result rows.

Parts are named by role, in a flat namespace per block, never by list index, so that removing a norm does not rename
(and reseed) the attention behind it:

    a principal (attention, mlp)        its role, with an ordinal among its like: `attention`, `attention_2`
    a modifier just before a principal  `attention_norm`
    any other modifier                  after the principal before it: `attention_post_norm`; if there is none before
                                        it in its sequence, after the next principal inside what follows
    a combinator                        after the first principal inside it: `attention_residual`
    a modifier or a combinator alone    as if it stood in the place of the combinator around it; a combinator around
                                        nothing but modifiers is itself named like one: `mlp_first_layer`, `mlp_norm`

Principals are named first, so that no modifier takes the name of one. A modifier that serves no principal is named by
its role alone. Names that are still ambiguous get an ordinal in reading order (`attention_norm_2`).

A *path* leads to a part through the expression: an index into a sequence, then the name of a field, and so on.
`(0, "branch", 1)` is the second part of the branch of the block's first part.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from ablate.block.catalogue import Catalogue, ComponentSpec
from ablate.block.expression import Block, Node, Path, Sequence
from ablate.block.layers import alternatives, has_patterns, pattern_free


def address(layer: int, name: str) -> str:
    """Return the address, in the model, of the part `name` of block `layer` (from 1).

    >>> address(3, "attention")
    'layers.3.attention'
    """
    return f"layers.{layer}.{name}"


def name_parts(block: Block, catalogue: Catalogue) -> tuple[tuple[Path, str], ...]:
    """Return the path and name of each part of `block`, in reading order, parents before the parts inside them.

    Only places in sequences are named here; what fills a slot of a part is addressed by its field (`attention.query`).
    An alternative of a pattern over layers is named as in a layer where it stands, so two may have one name; a part
    with several names, such as an MLP behind one that only some layers have, is there once for each.
    """
    if not has_patterns(block, catalogue):
        return names_of(block, catalogue)
    named = {
        (free.origins[path], name): None
        for free in pattern_free(block, catalogue)
        for path, name in names_of(free.block, catalogue)
    }
    return tuple(named)


def address_at(path: Path, names: Mapping[Path, str]) -> str | None:
    """Return the address, within a block, of what stands at a path: a part, or its fields; None outside all parts."""
    part = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in names), None)
    return None if part is None else ".".join((names[part], *(s for s in path[len(part) :] if isinstance(s, str))))


def names_of(block: Block, catalogue: Catalogue) -> tuple[tuple[Path, str], ...]:
    """Return the path and name of each part of a block without patterns."""
    return _named(tuple((path, _Kind.of(catalogue[node.name])) for path, node in parts_of(block, catalogue)))


class _Kind(NamedTuple):
    """What the name of a part depends on, beside its place."""

    role: str
    modifier: bool
    combinator: bool

    @staticmethod
    def of(spec: ComponentSpec) -> _Kind:
        return _Kind(spec.role, spec.modifier, bool(spec.holds_sequences))


@lru_cache(maxsize=10_000)  # the blocks of a grammar are many, and their outlines few
def _named(outline: tuple[tuple[Path, _Kind], ...]) -> tuple[tuple[Path, str], ...]:
    parts = dict(outline)
    principals: dict[Path, str] = {}
    for path, kind in outline:
        if not kind.modifier:
            principals[path] = _unused(kind.role, principals.values())
    names = dict(principals)
    for path, kind in outline:
        if kind.modifier:
            inside = _principals_in(path, principals)
            name = f"{inside[0]}_{kind.role}" if inside else _named_at(path, kind.role, parts, principals)
            names[path] = _unused(name, names.values())
    return tuple((path, names[path]) for path in parts)


def sublayers(block: Block, catalogue: Catalogue) -> tuple[tuple[str, str], ...]:
    """Return the name of each principal of a layer's block, with that of the part that its sub-layer starts with.

    The input of that part is the residual stream before the sub-layer. It is the part around the principal (a residual,
    a parallel, …) if only modifiers stand before the principal in it; otherwise the first of the modifiers directly
    before the principal, or the principal itself. So a Pre-LN norm belongs to the sub-layer, and the norm behind a
    residual (Post-LN) to none.
    """
    names = dict(name_parts(block, catalogue))
    parts = {path: catalogue[node.name] for path, node in parts_of(block, catalogue)}
    principals = {path: names[path] for path, spec in parts.items() if not spec.modifier}

    def beginning(path: Path) -> Path:
        sequence, place = path[:-1], path[-1]
        assert isinstance(place, int)
        while place > 0 and not _principals_in((*sequence, place - 1), principals):
            place -= 1
        around = [path[:end] for end in range(len(sequence), 0, -1) if path[:end] in parts]
        return around[0] if place == 0 and around else (*sequence, place)

    return tuple((name, names[beginning(path)]) for path, name in principals.items())


def parts_of(sequence: Sequence, catalogue: Catalogue, start: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield every part of `sequence` and of the sequences inside it, with its path; parents before children."""
    for index, node in enumerate(sequence):
        path = (*start, index)
        yield path, node
        for inner, inside in sequences_of(node, catalogue[node.name], path):
            yield from parts_of(inside, catalogue, inner)


def sequences_of(node: Node, spec: ComponentSpec, path: Path = ()) -> Iterator[tuple[Path, Sequence]]:
    """Yield the sequences that `node` holds in its own fields, with their paths; those of a pattern too."""
    if spec.chooses is not None:
        yield from (((*path, *way), each) for way, each in alternatives(node, spec) if isinstance(each, Sequence))
    for field in spec.holds_sequences:
        value = node[field]
        if isinstance(value, Sequence):
            yield (*path, field), value
        elif isinstance(value, tuple):
            yield from (((*path, field, i), branch) for i, branch in enumerate(value) if isinstance(branch, Sequence))


def _named_at(path: Path, role: str, parts: Mapping[Path, _Kind], principals: Mapping[Path, str]) -> str:
    """Return the name of a modifier with that role at `path`."""
    siblings = [other for other in parts if len(other) == len(path) and other[:-1] == path[:-1]]
    here = siblings.index(path)
    before = [name for sibling in siblings[:here] for name in _principals_in(sibling, principals)]
    after = [name for sibling in siblings[here:] for name in _principals_in(sibling, principals)]
    served = next((s for s in siblings[here:] if s in principals or parts[s].combinator), None)
    if served in principals or (after and not before):
        return f"{after[0]}_{role}"
    if before:
        return f"{before[-1]}_post_{role}"
    around = next((path[:end] for end in range(len(path) - 1, 0, -1) if path[:end] in parts), None)
    return role if around is None else _named_at(around, role, parts, principals)


def _principals_in(path: Path, principals: Mapping[Path, str]) -> list[str]:
    """Return the names of the principals at or inside the part at `path`, in reading order."""
    return [name for other, name in principals.items() if other[: len(path)] == path]


def _unused(name: str, taken: Collection[str]) -> str:
    """Return `name`, or, if it is taken, `name` with the first free ordinal: name_2, name_3, …"""
    ordinals = (name if ordinal == 1 else f"{name}_{ordinal}" for ordinal in itertools.count(1))
    return next(candidate for candidate in ordinals if candidate not in taken)
