"""Space: a question about blocks, with every section resolved, checked and frozen; nothing is run.

Its blocks are those that its design and judge name, its own and its grammar's, with its overrides applied and the
constraints checked.
"""

from __future__ import annotations

import random
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ablate.block.architecture import Architecture, Sharing
from ablate.block.expression import Block
from ablate.block.sizes import Sizes
from ablate.grammar.choices import decide
from ablate.grammar.constraint import Constraint
from ablate.grammar.derivation import sizes_derived
from ablate.grammar.grammar import Grammar
from ablate.grammar.named_blocks import read_described
from ablate.grammar.named_files import shipped_files
from ablate.source.located import Items, Located, Mapping, Scalar, Span, to_python
from ablate.source.problems import Problems, quote, shorten, suggest
from ablate.space.data import Data, Layout, TokenizerFile
from ablate.space.design import Design
from ablate.space.documents import from_elsewhere
from ablate.space.fair import Auto, Fair, Noise, Plain
from ablate.space.fits import corpus_settings, layout_of
from ablate.space.judge import Judge, Measure
from ablate.space.metrics import BITS
from ablate.space.model import Around, Learned, Model
from ablate.space.overlay import Origins
from ablate.space.recipe import ObjectiveSpec, Reads, Recipe
from ablate.space.variants import (
    Change,
    Changes,
    FurtherBlocks,
    NamedVariant,
    Override,
    apply_overrides,
    changes_in,
    own_values_replaced,
    read_overrides,
    read_variants,
)

REPETITION = "repetition"  # a size that is measured on the corpus, and only for models that name it


@dataclass(frozen=True, slots=True)
class KeptTexts:
    """Texts that are read instead of the files of a space: its own, those of the `grammar` that messages name, by their
    names in `Grammar.texts`, and those of saved tokenizers, by the names that the space has for them.
    """

    space: str
    grammar: Path
    grammars: Map[str, str]
    tokenizers: Map[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Space:
    """A question about blocks: which blocks, how and on what they are trained, and how they are judged.

    `profile` and `settings` (`path=value` texts) were laid over the file `path`. `blocks` are those the design names,
    with the `overrides` applied; the overrides also apply to blocks that a search derives. `located` is the resolved
    space (file, profile, --set and the grammar's defaults), and `origins` says where each value was written. With
    `auto` the `seeds` are those of its first look, and more may follow. `warned` holds the names of constraints that
    it lets through with a warning; a search has none. `variants` are the treatments that the space declares by name;
    `blocks` has the block of each. `text` is that of the file; `kept` are the texts it was read from if not from files.
    `replaced` are notes on values of blocks that `block:` replaces.
    """

    name: str
    question: str
    path: Path
    profile: str | None
    settings: tuple[str, ...]
    grammar: Grammar
    model: Model
    around: Around
    blocks: Map[str, Block]
    overrides: tuple[Override, ...]
    data: Data
    recipe: Recipe
    design: Design
    seeds: tuple[int, ...]
    auto: Auto | None
    fair: Fair
    noise: Noise | None
    measure: Measure
    judge: Judge
    threads: int
    located: Located
    warned: frozenset[str] = frozenset()
    variants: Map[str, NamedVariant] = field(default_factory=dict)
    text: str = field(default="", repr=False, compare=False)
    kept: KeptTexts | None = field(default=None, repr=False, compare=False)
    replaced: tuple[str, ...] = ()

    @cached_property
    def origins(self) -> Origins:
        """The place of each value, for mistakes that a later room reports."""
        assert isinstance(self.located, Mapping)
        return Origins(self.located, self.path, None if self.kept is None else self.kept.tokenizers)

    def __repr__(self) -> str:
        seeds = f"{len(self.seeds)} seeds{' at first' if self.auto else ''}"
        laid = [f"profile {self.profile}"] * bool(self.profile) + list(map(shorten, self.settings))
        texts = [f"{self.design.kind} of {', '.join(self.design.blocks)}", seeds, f"grammar {self.grammar.name}"]
        return f"<Space {self.name}: {'; '.join([*texts, *laid])}; {self.path}>"

    @property
    def folder(self) -> Path:
        """The folder that relative paths of its corpus start from."""
        return self.path.parent

    @property
    def grammar_from_elsewhere(self) -> tuple[str, ...]:
        """A note if its grammar is not beside it: one outside its folder, or the one that ships with `ablate`."""
        assert isinstance(self.located, Mapping)
        named = str(to_python(self.located["grammar"]))
        if self.grammar.path in shipped_files("grammar").values() and not Path(named).is_absolute():
            ships = self.path not in shipped_files("space").values()
            return (f"the grammar {named} is the one that ships with ablate",) if ships else ()
        return from_elsewhere((named,), self.folder, "the grammar")

    @property
    def texts_from_elsewhere(self) -> tuple[str, ...]:
        """A note for each pattern of its corpus, and the file of its tokenizer, that is outside its folder."""
        tokenizer, patterns = self.data.tokenizer, corpus_settings(self.data, self.grammar.catalogue).patterns
        saved = (tokenizer.file,) if isinstance(tokenizer, TokenizerFile) else ()
        texts = from_elsewhere(patterns, self.folder, "text")
        return (*texts, *from_elsewhere(saved, self.folder, "the tokenizer"))

    @cached_property
    def layout(self) -> Layout | None:
        """The layout of the examples of its corpus; None if they are text."""
        return layout_of(self.data, self.grammar.catalogue)

    def changes_of(self, name: str) -> Changes:
        """Return the changes outside the block of a block or variant of that name."""
        return changes_in(self.variants[name].changes) if name in self.variants else ()

    def written_changes(self, changes: Changes) -> tuple[Change, ...]:
        """Return changes as they are written in the space."""
        return tuple(self._written[change] for change in changes)

    @cached_property
    def _written(self) -> Map[tuple[str, Plain], Change]:
        """Every change that a treatment of the space may have; of a range these are a thousand."""
        declared = (change for variant in self.variants.values() for change in variant.changes)
        around = (*self.design.vary.changes, *self.design.sizes.changes)
        return {(change.address, change.value): change for change in (*declared, *around)}

    def refused(self, block: Block) -> tuple[Constraint, ...]:
        """Return the constraints that refuse a block in this space."""
        return tuple(constraint for constraint in self.grammar.broken(block) if constraint.name not in self.warned)

    def tolerated(self, block: Block) -> tuple[Constraint, ...]:
        """Return the constraints that a block breaks and that this space lets through with a warning."""
        return tuple(constraint for constraint in self.grammar.broken(block) if constraint.name in self.warned)

    def architecture(self, block: Block, vocab_size: int, repetition: float | None = None) -> Architecture:
        """Return the model of this space around a block; `repetition` is used only if the model names it."""
        model, sizes = self.model, self.sizes(vocab_size)
        learned = model.position.learned if isinstance(model.position, Learned) else None
        built = Architecture(
            kind=model.kind,
            sizes=sizes,
            block=block,
            positions="learned" if learned else str(model.position),
            embedding_std=model.embedding.std,
            embedding_scale=model.embedding.scale,
            embedding_dropout=model.embedding.dropout,
            position_std=learned.std if learned else None,
            position_rows=(learned.rows or max(model.context, model.source or 0)) if learned else None,
            logit_scale=model.logit_scale,
            logit_softcap=model.logit_softcap,
            tied=model.head == "tied",
            entry_norm=self.around.entry_norm,
            final_norm=self.around.final_norm,
            init=self.around.init,
            share=None if model.share == "none" else Sharing(**model.share.model_dump()),
            ahead=model.ahead,
            encoder_layers=model.encoder_layers,
            segments=model.segments,
            transform=model.transform,
            classes=self.objective.classes,
            input_shape=() if self.layout is None else self.layout.shape,
            patch=model.patch,
            pooling=model.pooling,
            head_init=self.around.head_init,
            head_layer=model.head == "mlp",
        )
        return replace(built, sizes=replace(sizes, repetition=repetition)) if REPETITION in built.names() else built

    def sizes(self, vocab_size: int) -> Sizes:
        """Return the sizes of its model for a tokenizer of so many tokens; the objective may add some of its own."""
        model = self.model
        special, vocab_size = self.special_tokens(vocab_size)
        return Sizes(
            n_layers=model.layers,
            d_model=model.width,
            n_heads=model.heads,
            seq_len=model.context,
            vocab_size=vocab_size,
            causal=model.causal,
            separator=self.data.separator,
            source_len=model.source,
            **special,
        )

    @cached_property
    def objective(self) -> Any:
        """The settings of the objective, as its file reads them."""
        return self.objective_spec.read(self.recipe.objective.settings)

    @property
    def reads(self) -> Reads:
        """The material of its batches."""
        return self.objective_spec.reads

    @property
    def has_bits(self) -> bool:
        """True if its evaluations may give bits per byte."""
        return BITS in self.objective_spec.measures

    @property
    def objective_spec(self) -> ObjectiveSpec:
        return self.grammar.catalogue.of_kind(ObjectiveSpec)[self.recipe.objective.name]

    def special_tokens(self, vocab_size: int) -> tuple[dict[str, int], int]:
        """Return the tokens that stand for no text and that the objective needs, and the vocabulary with them.

        One that the tokenizer lacks is one more id behind its own.
        """
        needed = self.objective.special
        lacking = [name for name in needed if name not in self.data.special]
        every = {**self.data.special, **{name: id for id, name in enumerate(lacking, start=vocab_size)}}
        special = {name: every[name] for name in needed}
        vocab_size += len(lacking)
        if self.objective.sentinels:
            special["sentinels"] = vocab_size
        return special, vocab_size + self.objective.sentinels

    @cached_property
    def names_repetition(self) -> bool:
        """Return whether any of its models, including a search's proposals, may depend on `repetition`.

        That is how often two tokens of one sequence are the same.
        """
        if any(REPETITION in self.architecture(block, vocab_size=1).names() for block in self.blocks.values()):
            return True
        levels = (level.written for factor in self.design.vary.factors for level in factor.levels)
        if any(REPETITION in str(to_python(level)) for level in levels):
            return True
        if self.design.search is None:
            return False
        overridden = any(REPETITION in str(to_python(override.value)) for override in self.overrides)
        return overridden or REPETITION in sizes_derived(self.grammar.derivations)


# The blocks that a space names

DRAWN = 1_000
"""The number of blocks of a search that are drawn to see whether an override has an effect, and which fields."""


class Blocks(NamedTuple):
    """The blocks that a space names, by name, with its overrides applied; those overrides, for derived blocks; the
    variants, whose blocks are among the named; and notes on the values that overrides replace.
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

    `warned` holds the names of the constraints that may be broken.
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
    named = [variant.block for variant in variants.values()]
    missing |= {str(block.value): block.span for block in named if block.value not in {*known, *own_names}}
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
    drawn, reader = None, grammar.reader_for(problems)
    if design.search is not None:
        drawn = FurtherBlocks(cache(lambda: drawn_blocks(grammar)), grammar.reader_for(Problems()))
    overriding = len(problems)
    changed = apply_overrides(chosen, overrides, reader, presets, drawn)
    replaced: tuple[str, ...] = ()
    if len(problems) == overriding:
        replaced = tuple(own_values_replaced(chosen, overrides, reader, grammar.defaults))
    for name in [name for name in changed if name in variants]:
        changed |= apply_overrides({name: changed[name]}, variants[name].overrides, reader, alone=True)
    for name, block in changed.items():
        for constraint in grammar.broken(block):
            if constraint.name not in warned:
                message = f"block {quote(name)} is refused by {constraint.full_name}"
                reasons = [f"because {constraint.because}", *[constraint.let_through] * (design.search is None)]
                problems.add(message, place_of_block(located, name), notes=reasons)
    return Blocks(changed, overrides, variants, replaced)


def drawn_blocks(grammar: Grammar) -> tuple[Block, ...]:
    """Draw blocks with all alternatives of a choice equally likely, so that none is rare."""
    rng = random.Random(0)
    derived = (decide(grammar.derivations, lambda choice: rng.randrange(len(choice.words))) for _ in range(DRAWN))
    return tuple(grammar.derive(derivation.index) for derivation in derived)


def place_of_block(located: Located, name: str) -> Span | None:
    for section in ("design", "judge"):
        body = located.get(section) if isinstance(located, Mapping) else None
        if body is not None and (span := _find_scalar(body, name)) is not None:
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


def _find_scalar(located: Located, value: str) -> Span | None:
    children: tuple[Located, ...] = ()
    match located:
        case Scalar(value=written):
            return located.span if written == value else None
        case Mapping(entries=entries):
            children = tuple(child for _, child in entries)
        case Items(items=items):
            children = items
    return next((span for child in children if (span := _find_scalar(child, value)) is not None), None)


# Constraints that a space lets through: `constraints: {exact_start: warn}`.
#
# A block that breaks one of these is trained, and every report on it says so, with the constraint's name and reason.
# A search always refuses what a constraint forbids, since nobody looks at each of its proposals.

LEVELS = ("refuse", "warn")  # a constraint that a space does not mention refuses


def read_warned(located: Located | None, design: Design | None, grammar: Grammar, problems: Problems) -> frozenset[str]:
    if located is None:
        return frozenset()
    known = tuple(dict.fromkeys(constraint.name for constraint in grammar.constraints if constraint.name))
    such = f"such as constraints: {{{known[0] if known else 'NAME'}: warn}}"
    if not isinstance(located, Mapping):
        message = "constraints must map names of the grammar's constraints to warn or refuse"
        problems.add(message, located.span, notes=(such,))
        return frozenset()
    warned = set()
    for key, value in located.entries:
        if key.value not in known:
            message = f"the grammar {grammar.name} has no constraint named {quote(key.text)}"
            problems.add_unknown(message, key.span, key.text, known, "named constraints")
        if not isinstance(value, Scalar) or value.value not in LEVELS:
            got = "a list" if isinstance(value, Items) else "a mapping"
            got = quote(value.text) if isinstance(value, Scalar) else got
            label = (suggest(value.text, LEVELS) or "") if isinstance(value, Scalar) else ""
            message = f"constraints.{key.text}: expected warn or refuse, got {got}"
            problems.add(message, value.span, label=label, notes=(such,))
        elif value.value == "warn" and design is not None and design.search is not None:
            message = f"a search always refuses what a constraint forbids: it cannot let {quote(key.text)} through"
            notes = (
                "it derives thousands of blocks, and nobody would read the warnings",
                "leave it out; to train blocks that break it, name them in a space with design: {compare: […]}",
            )
            problems.add(message, value.span, notes=notes)
        elif value.value == "warn":
            warned.add(str(key.value))
    return frozenset(warned)
