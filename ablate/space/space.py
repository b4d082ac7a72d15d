"""A space: the question asked. Everything it says, resolved, checked and frozen; nothing started."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from pathlib import Path

from ablate.block.architecture import Architecture
from ablate.block.expression import Block, Node
from ablate.block.sizes import Sizes
from ablate.grammar.grammar import Grammar
from ablate.source.located import Located, Scalar
from ablate.space.design import Design
from ablate.space.documents import Data, Judge, Learned, Measure, Model, Recipe

REPETITION = "repetition"
"""The size that is measured on the corpus, and only for models that name it."""


@dataclass(frozen=True, slots=True)
class Around:
    """The components of the model that are not in its blocks."""

    entry_norm: Node | None
    final_norm: Node | None
    init: Node


@dataclass(frozen=True)
class Space:
    """A question about blocks: which, trained how, on what, judged by what.

    `profile` and `settings` (`path=value` texts) were laid over the file `path`. `blocks` are those the design names,
    with the overrides applied. `located` is the space as it was resolved (file, profile, --set and the grammar's
    defaults), `keys` the places to point at when a later room finds a mistake.
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
    data: Data
    recipe: Recipe
    design: Design
    seeds: tuple[int, ...]
    measure: Measure
    judge: Judge
    threads: int
    located: Located
    keys: Map[str, Scalar]

    @property
    def folder(self) -> Path:
        """Where relative paths of its corpus start."""
        return self.path.parent

    def architecture(self, block: Block, vocab_size: int, repetition: float | None = None) -> Architecture:
        """The model of this space around a block; `repetition` enters only where the model names it."""
        model = self.model
        sizes = Sizes(
            n_layers=model.layers,
            d_model=model.width,
            n_heads=model.heads,
            seq_len=model.context,
            vocab_size=vocab_size,
            causal=model.causal,
        )
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
            position_rows=(learned.rows or model.context) if learned else None,
            logit_scale=model.logit_scale,
            tied=model.head == "tied",
            entry_norm=self.around.entry_norm,
            final_norm=self.around.final_norm,
            init=self.around.init,
        )
        return replace(built, sizes=replace(sizes, repetition=repetition)) if REPETITION in built.names() else built

    @property
    def names_repetition(self) -> bool:
        """Whether any of its models depends on how often two tokens of one sequence are the same."""
        return any(REPETITION in self.architecture(block, vocab_size=1).names() for block in self.blocks.values())
