"""Declarations of a space: equal terms between its blocks, and the learning rates that are tuned for none of them.

That every block has the same number of steps is the grammar's default, which a space declares only where it says so.
A learning rate that suits one block rarely suits all others, so a comparison at rates that nothing was tuned for is one
of blocks at these rates, and is told as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ablate.output.words import listed
from ablate.plan.models import Models
from ablate.plan.plan import TERMS, Variant
from ablate.plan.tuned import fields_of
from ablate.space.fair import Match, Tune
from ablate.space.origin import GRAMMAR
from ablate.space.space import Space

WORDS: Mapping[str, str] = {
    "steps": "steps",
    "tokens": "tokens",
    "flops": "training FLOPs",
    "wallclock": "wall-clock time of all steps",
}
"""The quantity that is equal under each budget."""
AROUND = 3
"""The factor from the present rate to the least and the largest that a note proposes to try."""


def budget_declared(space: Space, terms: str) -> bool:
    """Return whether the space says what its blocks may spend under these terms, and not the grammar for it."""
    keys = ("fair", "under", terms) if terms else ("fair", "budget")
    return space.origins.layer(space.origins.key(*keys)) != GRAMMAR


def declared(space: Space, terms: str) -> list[str]:
    """Return the quantities that the space declares equal under these terms, but for tuning, in words."""
    of = space.fair.terms[terms]
    phrases = [f"equal {WORDS[of.budget]}"] if budget_declared(space, terms) else []
    if isinstance(of.match, Match):
        phrases.append(f"parameters within {100 * of.match.parameters:.4g} % by {of.match.by}")
    return phrases


def term_notes(variants: Sequence[Variant], models: Models) -> Iterator[str]:
    """Tell what is equal between the variants where some are compared at a learning rate that is tuned for none.

    A variant that sets the rate itself is about it, and is left out, as all are where the design varies it.
    """
    space = models.space
    if any(_is_rate(factor.address) for factor in space.design.vary.factors):
        return
    compared = [variant for variant in variants if not any(_is_rate(address) for address, _ in variant.setting.changes)]
    untuned = [variant for variant in compared if not _is_tuned(variant, models)]
    if not untuned or (len(compared) < 2 and space.design.search is None):
        return
    rates: dict[str, list[float]] = {}
    for variant in untuned:
        optimizer = models.recipe(variant.setting).optimizer
        rates.setdefault(optimizer.name, []).append(float(optimizer.settings["lr"]))
    different = sorted({rate for of in rates.values() for rate in of})
    at = f"learning rate{'s' if len(different) > 1 else ''} {listed([f'{rate:g}' for rate in different])}"
    yield f"{TERMS}: {_equal(space)}; {at}, {_tuned_for_none(untuned, compared, space)}; {_way_out(rates, space)}"


def _is_rate(address: str) -> bool:
    """Return whether an address is that of the learning rate of an optimiser."""
    words = address.split(".")
    return words[:2] == ["recipe", "optimizer"] and words[3:] == ["lr"]


def _is_tuned(variant: Variant, models: Models) -> bool:
    """Return whether several learning rates are tried for a variant."""
    space = models.at(variant.setting.changes)
    tune, recipe = space.fair.tune, space.recipe
    if not isinstance(tune, Tune):
        return False
    rate = ("recipe", "optimizer", recipe.optimizer.name, "lr")
    fields = fields_of(tune, variant.block, recipe, space.grammar.catalogue)
    return any(len(field.values) > 1 and field.path and rate[: len(field.path)] == field.path for field in fields)


def _equal(space: Space) -> str:
    """Return the quantities that are equal for all, and whether the space declares them."""
    if space.fair.under:
        return f"{listed(list(space.fair.under))} (declared)"
    phrases = declared(space, "")
    if not budget_declared(space, ""):
        phrases = [f"equal {WORDS[space.fair.budget]} by default", *(f"{phrase} (declared)" for phrase in phrases)]
        return ", ".join(phrases)
    return f"{', '.join(phrases)} (declared)"


def _tuned_for_none(untuned: Sequence[Variant], compared: Sequence[Variant], space: Space) -> str:
    if space.design.search is not None:
        return "tuned for no block"
    if len(untuned) < len(compared):
        return f"not tuned for {listed(list(dict.fromkeys(variant.name for variant in untuned)))}"
    return "tuned for neither" if len(compared) == 2 else "tuned for none of them"


def _way_out(rates: Mapping[str, Sequence[float]], space: Space) -> str:
    """Return how each block comes to have a rate of its own; `rates` are the present ones, by optimiser."""
    ends = {name: (min(of) / AROUND, max(of) * AROUND) for name, of in rates.items()}
    if space.design.search is not None:
        ranges = (
            f"recipe.optimizer.{name}.lr: {{from: {low:.1g}, to: {high:.1g}, scale: log}}"
            for name, (low, high) in ends.items()
        )
        return f"vary: {{{', '.join(ranges)}}} searches it beside the blocks"
    grids = (
        f"{'lr' if len(rates) == 1 else f'recipe.optimizer.{name}.lr'}: "
        f"[{', '.join([f'{low:.1g}', *(f'{rate:g}' for rate in sorted(set(rates[name]))), f'{high:.1g}'])}]"
        for name, (low, high) in ends.items()
    )
    return f"fair: {{tune: {{{', '.join(grids)}, seeds: 2}}}} tunes it for each"
