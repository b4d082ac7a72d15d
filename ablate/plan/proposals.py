"""Proposals: the plan of a search as it grows. Proposed treatments join it, each once, beside the reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ablate.block.diff import Edit, diff, path_order
from ablate.block.expression import Block
from ablate.output.words import listed
from ablate.plan.comparisons import unpaired_by
from ablate.plan.designs.layout import edits_around
from ablate.plan.models import Models
from ablate.plan.plan import DANGERS, PLAIN, Comparison, KeptProposal, Plan, Setting, Trial, Variant
from ablate.space.design import AVOID, Confirm, Pruner, Search
from ablate.space.space import Space
from ablate.space.variants import Changes, is_inside

# Treatments that a search proposes: a block, or a block with values at addresses of the space around it.


@dataclass(frozen=True, slots=True)
class TreatedBlock:
    """A block with at least one value that differs from the space around it."""

    block: Block
    changes: Changes


Treated: TypeAlias = Block | TreatedBlock


def treated(block: Block, changes: Changes) -> Treated:
    return TreatedBlock(block, changes) if changes else block


def block_of(treated: Treated) -> Block:
    return treated.block if isinstance(treated, TreatedBlock) else treated


def setting_of(treated: Treated) -> Setting:
    return Setting(changes=treated.changes) if isinstance(treated, TreatedBlock) else PLAIN


# The plan of a search: its notes, its most trials, and the variants that join it.

TOKENS = ("recipe.steps", "recipe.batch", "recipe.batch_ramp", "model.context")
"""The addresses that decide how many tokens a model is trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A block that joins a plan: the variant, named after its first proposal, and its edits from the reference."""

    variant: Variant
    edits: tuple[Edit, ...]
    comparison: Comparison


def search_notes(space: Space) -> tuple[str, ...]:
    search, grammar = space.design.search, space.grammar
    if search is None:
        return ()
    start = "" if search.start in (None, *tuple(grammar.starts)[:1]) else f", start {search.start}"
    return tuple(_notes(search, space, f"{grammar.count:.3g} derivations of {grammar.name}{start}"))


def _notes(search: Search, space: Space, derivations: str) -> Iterator[str]:
    goals = " and ".join(f"{goal} {metric}" for metric, goal in search.objective.items())
    yield (
        f"a search for {goals} among {derivations}: proposals by {search.sampler} from seed {search.seed}, "
        f"{search.parallel} at a time, each trained as soon as it is proposed; none is known in advance"
    )
    if search.vary.factors:
        yield f"varied beside them: {'; '.join(factor.described for factor in search.vary.factors)}"
        if tokens := [
            factor.address for factor in search.vary.factors if any(is_inside(factor.address, each) for each in TOKENS)
        ]:
            verb = "is" if len(tokens) == 1 else "are"
            yield f"not all that is proposed is trained on equally many tokens: {listed(tokens)} {verb} varied"
    yield f"budget: {search.budget.described()}, {search.from_} included, for all workers together"
    for measure, bound in search.beforehand.veto.items():
        limit = f"{bound} of {search.from_}'s" if isinstance(bound, str) else f"{bound:g}"
        yield f"vetoed before training: {measure} above {limit}"
    if search.beforehand.forecast == AVOID:
        yield (
            f"skipped before training: what a forecast finds in danger ({', '.join(DANGERS)}); what cannot be forecast "
            "for another reason is trained"
        )
    if (order := search.beforehand.order) is not None:
        yield f"of every {order.of} proposals, the one with the lowest {order.by} is trained"
    yield (
        f"early stopping: {search.pruner.described()}"
        if isinstance(search.pruner, Pruner)
        else "no trial is stopped early"
    )
    if isinstance(search.confirm, Confirm):
        most = search.confirm.seeds * (search.confirm.blocks + 1)
        yield (
            f"then the best {search.confirm.blocks} and {search.from_} are trained at {search.confirm.seeds} fresh "
            f"seeds, in addition to the budget: at most {most} trials"
        )
    else:
        yield "the best are not confirmed at fresh seeds (design.search.confirm): they will look better than they are"


def most_trials(space: Space) -> int | None:
    """Return the most trials a search can have; None if its budget does not limit them, or trials are stopped early."""
    search, seeds = space.design.search, len(space.seeds)
    if search is None or search.budget.trials is None or isinstance(search.pruner, Pruner):
        return None
    confirm = search.confirm.seeds * (search.confirm.blocks + 1) if isinstance(search.confirm, Confirm) else 0
    return search.budget.trials // seeds * seeds + confirm


def join(models: Models, name: str, proposed: Treated, reference: Variant) -> Joined:
    """Return a proposal as a variant, with its edits from the reference in the order in which a path applies them."""
    grammar, block, setting = models.space.grammar, block_of(proposed), setting_of(proposed)
    inside = diff(reference.block, block, grammar.catalogue, defaults=grammar.defaults).edits
    edits = path_order((*inside, *edits_around(models.space, reference.setting.changes, setting.changes)))
    variant = models.variant([name], block, tuple(edit.name for edit in edits), models.cost(block, setting), setting)
    detail = "; ".join(edit.detail for edit in edits)
    comparison = Comparison(
        kind="baseline",
        change=name,
        detail=detail,
        before=reference.id,
        after=variant.id,
        unpaired=unpaired_by(reference.setting, setting, models),
    )
    return Joined(variant=variant, edits=tuple(edits), comparison=comparison)


def grown(
    plan: Plan, joined: Sequence[Joined], trials: Sequence[Trial], proposals: Sequence[KeptProposal], *, open: bool
) -> Plan:
    """Return the plan of a search with the blocks that joined so far; `trials` are all of its trials."""
    return dataclasses.replace(
        plan,
        variants=(plan.variants[0], *(block.variant for block in joined)),
        comparisons=tuple(block.comparison for block in joined),
        trials=tuple({trial.id: trial for trial in (*plan.trials, *trials)}.values()),
        seeds=tuple(sorted({trial.seed for trial in (*plan.trials, *trials)})),
        proposals=tuple(proposals),
        open=open,
    )
