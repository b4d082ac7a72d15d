"""The blocks that a space names, its own and its grammar's, with its overrides applied and the constraints checked."""

from __future__ import annotations

import random
from functools import cache
from typing import NamedTuple

from ablate.block.expression import Block
from ablate.grammar.choices import decide
from ablate.grammar.grammar import Grammar
from ablate.grammar.named_blocks import read_described
from ablate.source.located import Items, Located, Mapping, Scalar, Span
from ablate.source.problems import Problems, quote
from ablate.space.design import Design
from ablate.space.documents import Judge
from ablate.space.override import FurtherBlocks, Override, apply_overrides, own_values_replaced, read_overrides
from ablate.space.variants import NamedVariant, read_variants

DRAWN = 1_000
"""How many blocks of a search are drawn to see whether an override has an effect, and which fields."""


class Blocks(NamedTuple):
    """The blocks that a space names, with its overrides applied, by name; those overrides, for derived blocks; the
    variants, whose blocks are among the named; and notes on what overrides replace.
    """

    named: dict[str, Block]
    overrides: tuple[Override, ...]
    variants: dict[str, NamedVariant]
    replaced: tuple[str, ...] = ()


def read_blocks(
    located: Mapping,
    design: Design | None,
    judge: Judge | None,
    grammar: Grammar,
    warned: frozenset[str],
    problems: Problems,
) -> Blocks | None:
    """Read the blocks that design and judge name, and the variants; None if one is unknown.

    A variant has the block that it names, with the fields it sets there. `warned` holds the names of the constraints
    that may be broken.
    """
    overrides = read_overrides(located.get("block"), problems)
    written, broken = located.get("blocks"), len(problems)
    own = {} if written is None else _own_blocks(written, grammar, problems)
    if design is None:
        return None
    known = {**{name: named.block for name, named in grammar.blocks.items()}, **own}
    declared = located.get("variants")
    variants = read_variants(declared, known, problems)
    wanted = dict.fromkeys((*design.blocks, *((judge.against,) if judge is not None else ())))
    sections = [section for section in (written, declared) if isinstance(section, Mapping)]
    own_names = {str(name) for section in sections for name in section}  # broken ones too
    missing = {name: place_of_block(located, name) for name in wanted if name not in known and name not in own_names}
    missing |= {
        str(v.block.value): v.block.span for v in variants.values() if v.block.value not in {*known, *own_names}
    }
    for name, place in missing.items():
        message, command = f"unknown block {quote(name)}", grammar.listing("blocks")
        problems.add_unknown(message, place, name, (*known, *variants), "blocks", command=command)
    for variant in variants.values():
        if variant.block.value in variants:
            notes = ("name a block, and set all that differs from it",)
            problems.add(f"variant {variant.name} names another variant as its block", variant.block.span, notes=notes)
    if len(problems) > broken:
        return None
    of = {name: str(variants[name].block.value) if name in variants else name for name in wanted}
    chosen = {name: known[block] for name, block in of.items()}
    presets = [preset.sections.span.source for preset in grammar.presets.values()]
    drawn = (
        None
        if design.search is None
        else FurtherBlocks(cache(lambda: drawn_blocks(grammar)), grammar.reader_for(Problems()))
    )
    reader = grammar.reader_for(problems)
    overriding = len(problems)
    changed = apply_overrides(chosen, overrides, reader, presets, drawn)
    replaced = (
        tuple(own_values_replaced(chosen, overrides, reader, grammar.defaults)) if len(problems) == overriding else ()
    )
    for name in set(changed) & set(variants):
        changed |= apply_overrides({name: changed[name]}, variants[name].overrides, reader, alone=True)
    for name, block in changed.items():
        for constraint in grammar.broken(block):
            if constraint.name not in warned:
                search = design.search is not None
                problems.add(
                    f"block {quote(name)} is refused by {constraint.full_name}",
                    place_of_block(located, name),
                    notes=(f"because {constraint.because}", *([] if search else [constraint.let_through])),
                )
    return Blocks(changed, overrides, variants, replaced)


def drawn_blocks(grammar: Grammar) -> tuple[Block, ...]:
    """Draw blocks with all alternatives of a choice equally likely, so that none is rare."""
    rng = random.Random(0)
    derived = (decide(grammar.derivations, lambda choice: rng.randrange(len(choice.words))) for _ in range(DRAWN))
    return tuple(grammar.derive(derivation.index) for derivation in derived)


def place_of_block(located: Located, name: str) -> Span | None:
    """Find where the design or the judge of a space names a block or an edit."""
    for section in ("design", "judge"):
        body = located.get(section) if isinstance(located, Mapping) else None
        if body is not None and (span := _find(body, name)) is not None:
            return span
    return None


def _own_blocks(located: Located, grammar: Grammar, problems: Problems) -> dict[str, Block]:
    if not isinstance(located, Mapping):
        problems.add("blocks must be a mapping from names to blocks", located.span)
        return {}
    reader = grammar.reader_for(problems)
    blocks: dict[str, Block] = {}
    for key, body in located.entries:
        if key.value in grammar.blocks:
            notes = ("give it another name",)
            problems.add(f"block {quote(key.text)} is already in the grammar", key.span, notes=notes)
        _, _, parts = read_described(key, body, problems)
        block = None if parts is None else reader.block(parts)
        if block is not None:
            blocks[str(key.value)] = block
    return blocks


def _find(located: Located, value: str) -> Span | None:
    children: tuple[Located, ...] = ()
    match located:
        case Scalar(value=written):
            return located.span if written == value else None
        case Mapping(entries=entries):
            children = tuple(child for _, child in entries)
        case Items(items=items):
            children = items
    return next((span for child in children if (span := _find(child, value)) is not None), None)
