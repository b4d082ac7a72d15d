"""Checks of a ladder of sizes against its space: that each is one, and that a law can be fitted to them."""

from __future__ import annotations

from ablate.source.problems import Problems
from ablate.space.changed import decided, with_changes
from ablate.space.design import SizeLadderDesign
from ablate.space.fair import Match
from ablate.space.ladder import FEWEST_SIZES, LadderSize
from ablate.space.metrics import LOSSES
from ablate.space.space import Space
from ablate.space.variants import is_inside

TOKENS = ("recipe.batch", "recipe.batch_ramp", "model.context")
"""What decides how many tokens a step has."""


def check_ladder(space: Space, problems: Problems) -> None:
    """Report sizes that the space refuses or has twice, and what keeps a ladder from having a law."""
    ladder = space.design.ladder
    if ladder is None:
        return
    _check_judged(ladder, space, problems)
    _check_number(ladder, space, problems)
    _check_next(ladder, space, problems)
    _check_beside_variants(ladder, space, problems)
    _check_each(ladder, space, problems)


def _check_judged(ladder: SizeLadderDesign, space: Space, problems: Problems) -> None:
    """Report a baseline that is not compared, losses that are not judged, and seeds that tell no noise."""
    if space.judge.against not in ladder.compare:
        message = (
            f"a ladder is of its baseline too, and {space.judge.against} is not one of {', '.join(ladder.compare)}"
        )
        notes = (f"add {space.judge.against} to compare, or judge against {ladder.compare[0]}",)
        problems.add(message, space.origins.value("judge", "against"), notes=notes)
    if not set(space.judge.metrics) & set(LOSSES):
        notes = (f"judge one of: {', '.join(LOSSES)}",)
        message = "a ladder fits laws of a loss, and none is judged"
        problems.add(message, space.origins.key("judge", "metrics"), notes=notes)
    if space.auto is not None:
        message = "a ladder fits its laws once, to fixed seeds: it adds none"
        problems.add(message, space.origins.section("seeds"), notes=("give a number: seeds: 5",))
    elif len(space.seeds) < 2:
        message = "a ladder needs two seeds or more at each size: its intervals are of their noise"
        problems.add(message, space.origins.section("seeds"), notes=("such as seeds: 3",))


def _check_number(ladder: SizeLadderDesign, space: Space, problems: Problems) -> None:
    fewest, sizes = FEWEST_SIZES[ladder.law], len(ladder.sizes.sizes)
    if sizes < fewest:
        message = f"the {ladder.law} law takes {fewest} sizes or more, got {sizes}"
        notes = ["list more sizes"] + ["or set law: power, which takes 3"] * (ladder.law != "power" and sizes == 3)
        problems.add(message, space.origins.key("design", "ladder", "sizes"), notes=(", ".join(notes),))


def _check_next(ladder: SizeLadderDesign, space: Space, problems: Problems) -> None:
    """Report a next size whose compute would follow from a match or a budget: it is counted, and not fitted to them."""
    terms = space.fair.terms.values()
    changes = [change for name in ladder.compare if name in space.variants for change in space.variants[name].changes]
    other_tokens = any(is_inside(change.address, address) for change in changes for address in TOKENS)
    refit = ("flops", "wallclock", *(["tokens"] if other_tokens else []))
    if ladder.sizes.next is not None and any(isinstance(each.match, Match) or each.budget in refit for each in terms):
        message = "next is counted as it is written, and fair would change its size or its steps"
        notes = ("leave next out: the next size is then as far above the last as that is above the one before",)
        problems.add(message, space.origins.key("design", "ladder", "next"), notes=notes)


def _check_beside_variants(ladder: SizeLadderDesign, space: Space, problems: Problems) -> None:
    """Report an address that a size and a variant set."""
    for name in ladder.compare:
        for change in space.variants[name].changes if name in space.variants else ():
            for other in ladder.sizes.changes:
                if is_inside(change.address, other.address) or is_inside(other.address, change.address):
                    message = (
                        f"{other.address} is set by a size, and {name} sets {change.address}: it would be set twice"
                    )
                    notes = (f"remove it from variant {name}, or from the sizes",)
                    problems.add(message, other.key.span, notes=notes, also=((change.key.span, "beside this"),))
                    break


def _add(mistakes: Problems, size: LadderSize, problems: Problems) -> None:
    """Report mistakes in the values of a size where these are, and what does not fit it at the whole size."""
    own = [span for change in size.changed for span in (change.written.span, *(word.span for word in change.path))]
    for mistake in mistakes:
        if mistake.is_at(own):
            problems.append(mistake)
        else:
            message = f"the size {size.name} does not fit: {mistake.message}"
            problems.add(message, size.written.span, notes=mistake.notes)


def _check_each(ladder: SizeLadderDesign, space: Space, problems: Problems) -> None:
    """Report a size that a section refuses, and one that is the same as another."""
    seen: list[tuple[LadderSize, object]] = []
    for size in ladder.sizes.every:
        mistakes = Problems()
        changed = with_changes(space, size.changed, mistakes)
        if changed is None:
            _add(mistakes, size, problems)
            continue
        came_to = decided(changed)
        first = next((other for other, another in seen if another == came_to), None)
        if first is not None:
            also = ((first.written.span, "the same as this"),)
            message, notes = f"the size {size.name} is there twice", ("list each size once",)
            problems.add(message, size.written.span, notes=notes, also=also)
        seen.append((size, came_to))
