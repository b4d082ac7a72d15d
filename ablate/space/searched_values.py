"""Checks of what a search varies: that each value is one its address takes, and that a search can compare the models.

Of a range three numbers are read: its ends and the first between them, which is a fraction unless a step is given. A
combination of values that do not fit together is no mistake: the search refuses it, as it refuses a block.
"""

from __future__ import annotations

from dataclasses import replace

from ablate.block.expression import Block
from ablate.block.select import is_there
from ablate.source.problems import Problem, Problems
from ablate.space.blocks import drawn_blocks
from ablate.space.design import Pruner, Search
from ablate.space.search_kind import check_kind_of_search
from ablate.space.space import Space
from ablate.space.variants import is_inside
from ablate.space.vary import VariedAddress
from ablate.space.vary_checks import Read, around, check_different, check_parts, in_block

TEXT = "data."
"""What the addresses of the text begin with."""
BATCH = ("recipe.batch", "recipe.batch_ramp", "model.context")
"""What decides which tokens the first batch has."""
STARTS = ("start_loss", "start_gradient_norm")
"""What is measured on that batch before a block is trained."""


def check_searched_values(space: Space, problems: Problems) -> None:
    """Report each value that the space refuses, each address that a search cannot vary, and rules that fit no model."""
    check_kind_of_search(space, problems)
    search = space.design.search
    if search is None or not search.vary.factors:
        return
    blocks = _blocks(search, space)
    for factor in search.vary.factors:
        before = len(problems)
        _check_comparable(factor, search, problems)
        if len(problems) == before:
            read = _read(factor, blocks, space, problems)
            if len(problems) == before:
                check_different(replace(factor, levels=tuple(level for level, _ in read)), read, problems)
    check_parts(search.vary.factors, blocks, space, problems)


def _blocks(search: Search, space: Space) -> tuple[Block, ...]:
    """Return the reference, and for each field that it does not have a block of the grammar that has it."""
    reference, catalogue = space.blocks[search.from_], space.grammar.catalogue
    absent = [f for f in search.vary.factors if f.in_block and not is_there(reference, f.selector, catalogue)]
    drawn = drawn_blocks(space.grammar) if absent else ()
    found = (next((b for b in drawn if is_there(b, f.selector, catalogue)), None) for f in absent)
    return (reference, *dict.fromkeys(block for block in found if block is not None))


def _check_comparable(factor: VariedAddress, search: Search, problems: Problems) -> None:
    """Report an address whose values would make the proposals of this search incomparable."""
    span = factor.key.span
    if factor.address.startswith(TEXT):
        message = f"a search trains all that it proposes on the same text: {factor.address} cannot be varied"
        notes = ("compare texts by a factorial: factorial: {from: …, vary: {data.tokenizer: […]}}",)
        problems.add(message, span, notes=notes)
    if factor.address == "recipe.steps" and isinstance(search.pruner, Pruner):
        message = "recipe.steps is varied, but the rungs of the pruner are the same steps for all that is proposed"
        problems.add(message, span, notes=("set pruner: none, or remove recipe.steps from vary",))
    measured = [by for by in search.beforehand.veto if by in STARTS]
    measured += [order.by] if (order := search.beforehand.order) is not None and order.by in STARTS else []
    if measured and any(is_inside(factor.address, address) for address in BATCH):
        message = f"{factor.address} is varied, but {measured[0]} is measured on one batch for all that is proposed"
        problems.add(message, span, notes=("remove it from vary, or veto and order by parameters or flops",))


def _read(factor: VariedAddress, blocks: tuple[Block, ...], space: Space, problems: Problems) -> Read:
    """Return what the levels make of the space or the blocks; of a range, what its ends and one between them do."""
    if factor.range is None:
        return _levels(factor, blocks, space, problems)
    before = len(problems)
    ends = _levels(replace(factor, levels=(factor.levels[0], factor.levels[-1])), blocks, space, problems)
    if len(problems) > before:
        return ends
    mistakes = Problems()
    within = _levels(replace(factor, levels=factor.levels[1:2]), blocks, space, mistakes)
    for mistake in mistakes:
        problems.append(_in_range(mistake, factor))
    return [*ends[:1], *within, *ends[1:]]


def _levels(factor: VariedAddress, blocks: tuple[Block, ...], space: Space, problems: Problems) -> Read:
    return in_block(factor, blocks, space, problems) if factor.in_block else around(factor, space, problems)


def _in_range(mistake: Problem, factor: VariedAddress) -> Problem:
    """Return a mistake about a number between the ends, with the way out: a step between numbers that are accepted."""
    assert factor.range is not None
    step = factor.range.step
    ends = [end.value for end in (factor.range.low, factor.range.high)]
    if step is not None:
        return replace(mistake, span=step.span, notes=(*mistake.notes, "give another step, or list the values"))
    if all(isinstance(end, int) for end in ends):
        return replace(mistake, notes=(*mistake.notes, "for whole numbers give a step: step: 1"))
    return replace(mistake, notes=(*mistake.notes, "list the values that are possible"))
