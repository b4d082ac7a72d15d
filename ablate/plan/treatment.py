"""What a search trains: a block, or a block with values at addresses of the space around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ablate.block.expression import Block
from ablate.plan.setting import PLAIN, Setting
from ablate.space.variants import Changes


@dataclass(frozen=True, slots=True)
class TreatedBlock:
    """A block, and what else differs from the space: at least one value, or it would be a block alone."""

    block: Block
    changes: Changes


Treated: TypeAlias = Block | TreatedBlock
"""A block, or a block with values around it."""


def treated(block: Block, changes: Changes) -> Treated:
    """Return a block with its changes; the block alone if there are none."""
    return TreatedBlock(block, changes) if changes else block


def block_of(treated: Treated) -> Block:
    """Return the block of a treatment."""
    return treated.block if isinstance(treated, TreatedBlock) else treated


def setting_of(treated: Treated) -> Setting:
    """Return how a treatment differs from the sizes, recipe and text of the space."""
    return Setting(changes=treated.changes) if isinstance(treated, TreatedBlock) else PLAIN
