"""From a space to its plan: arms folded into variants, sizes checked and counted, trials with their identities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ablate.block.cost import Cost
from ablate.errors import InputError
from ablate.plan.designs import Arm, Layout, fold, lay_out
from ablate.plan.models import Models
from ablate.plan.plan import Comparison, Plan, Variant
from ablate.plan.proposals import search_notes
from ablate.source.problems import Problems
from ablate.space.blocks import place_of_block
from ablate.space.space import Space


def build_plan(space: Space, *, vocab_size: int, corpus: str, repetition: float | None = None) -> Plan:
    """The plan of a space over a corpus, as in `Models`. Raises InputError where there is none.

    A variant's id is its block's fingerprint; arms that are the same model at the sizes of this space are one variant.
    A search has but its reference, and is open: what it proposes joins the plan as it is proposed.
    """
    models, problems = Models(space, vocab_size, corpus, repetition), Problems()
    layout = lay_out(space, problems)
    _check_objective(space, problems)
    _check_reference(space, problems)
    problems.raise_if_any()
    assert layout is not None
    arms = _with_baseline(layout, space)
    costs = _costs(arms, models, problems)
    problems.raise_if_any()  # before identities, which take it that every arithmetic has a value here
    identities = {arm.name: models.identity(arm.block) for arm in arms}
    _check_different(layout, identities, space, problems)
    problems.raise_if_any()
    folded = fold(arms, identities)
    variants = {
        key: models.variant([arm.name for arm in group], group[0].block, group[0].edits, costs[group[0].name])
        for key, group in folded.items()
    }
    by_arm = {name: variants[identity].id for name, identity in identities.items()}
    baseline = by_arm[space.judge.against]
    notes = (*layout.notes, *_folding_notes(folded), *models.notes, *search_notes(space))
    return Plan(
        space=space.name,
        question=space.question,
        design=space.design.kind,
        baseline=baseline,
        variants=tuple(variants.values()),
        comparisons=tuple(_comparisons(layout, by_arm, tuple(variants.values()), baseline)),
        seeds=space.seeds,
        trials=tuple(
            models.trials(variants.values(), space.seeds, "verdict" if space.design.search is None else "tuning")
        ),
        notes=notes,
        open=space.design.search is not None,
    )


def _check_objective(space: Space, problems: Problems) -> None:
    """A model that sees what comes next has nothing to learn from predicting it."""
    if not space.model.causal:
        message = "model.causal is false, but training predicts each next token: the model would see what it predicts"
        notes = ("set it to true; blocks with full attention can be shown and counted: ablate show BLOCK --space FILE",)
        problems.add(message, space.keys["model"].span, notes=notes)


def _check_reference(space: Space, problems: Problems) -> None:
    """What a search finds is named by its edits from its reference, and judged against that."""
    search, against = space.design.search, space.judge.against
    if search is not None and search.from_ != against:
        message = f"the search is from {search.from_}, but judged against {against}"
        place = place_of_block(space.located, against) or space.keys["judge"].span
        problems.add(message, place, notes=(f"say against: {search.from_}, or search from: {against}",))


def _with_baseline(layout: Layout, space: Space) -> tuple[Arm, ...]:
    """The design's arms, and the block they are judged against if it is none of them."""
    named = {arm.name for arm in layout.arms}
    against = space.judge.against
    return layout.arms if against in named else (Arm(against, space.blocks[against]), *layout.arms)


def _costs(arms: Iterable[Arm], models: Models, problems: Problems) -> dict[str, Cost]:
    """The cost of each arm; what cannot be built at the sizes of this space is noted once, with the arms it is in."""
    space = models.space
    costs: dict[str, Cost] = {}
    broken: dict[str, list[str]] = {}
    for arm in arms:
        try:
            costs[arm.name] = models.cost(arm.block)
        except InputError as error:
            broken.setdefault(str(error), []).append(arm.name)
    for text, names in broken.items():
        message, *way_out = (line.strip(" =") for line in text.splitlines())
        place = place_of_block(space.located, names[0]) or space.keys["design"].span
        problems.add(message, place, label="in this block", notes=(f"blocks: {', '.join(names)}", *way_out))
    return costs


def _check_different(layout: Layout, identities: Mapping[str, str], space: Space, problems: Problems) -> None:
    """A design whose models are all the same has no question."""
    if space.design.search is not None:  # what differs is to be proposed yet
        return
    if len({identities[arm.name] for arm in layout.arms}) == 1:
        names = ", ".join(arm.name for arm in layout.arms)
        message = "all blocks of this design are the same model at these sizes: there is nothing to compare"
        problems.add(message, space.keys["design"].span, notes=(f"they are: {names}",))


def _folding_notes(folded: Mapping[str, list[Arm]]) -> Iterator[str]:
    for group in folded.values():
        names = list(dict.fromkeys(arm.name for arm in group))
        if len(names) > 1:
            yield f"the same model, trained once: {', '.join(names)}"


def _comparisons(
    layout: Layout, by_arm: Mapping[str, str], variants: tuple[Variant, ...], baseline: str
) -> Iterator[Comparison]:
    for contrast in layout.contrasts:
        before, after = by_arm[contrast.before], by_arm[contrast.after]
        if before != after:
            yield Comparison(kind="edit", change=contrast.change, detail=contrast.detail, before=before, after=after)
    for variant in variants:
        if variant.id != baseline:
            yield Comparison(
                kind="baseline", change=variant.name, detail="against the baseline", before=baseline, after=variant.id
            )
