"""From a space to its plan: arms folded into variants, sizes checked and counted, trials with their identities."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ablate.block.architecture import Architecture
from ablate.block.cost import Cost
from ablate.block.expression import Block
from ablate.block.fingerprint import digest, fingerprint
from ablate.block.normal import normalise
from ablate.errors import InputError
from ablate.plan.designs import Arm, Layout, fold, lay_out
from ablate.plan.identity import computed, model_identity, trial_id_of
from ablate.plan.plan import Comparison, Plan, Variant
from ablate.plan.size import cost
from ablate.plan.trial import Trial
from ablate.source.problems import Problems
from ablate.space.blocks import place_of_block
from ablate.space.space import Space


def build_plan(space: Space, *, vocab_size: int, corpus: str, repetition: float | None = None) -> Plan:
    """The plan of a space over a corpus of that vocabulary and fingerprint. Raises InputError where there is none.

    A variant's id is its block's fingerprint; arms that are the same model at the sizes of this space are one variant.
    `repetition` is as it was measured on the corpus, None where none was read: models that name it are then checked
    at what theory expects of the vocabulary, and the plan says so.
    """
    measured = _measured(space, vocab_size, repetition)
    problems = Problems()
    layout = lay_out(space, problems)
    _check_objective(space, problems)
    problems.raise_if_any()
    assert layout is not None
    arms = _with_baseline(layout, space)
    costs = _costs(arms, space, measured, problems)
    problems.raise_if_any()  # before identities, which take it that every arithmetic has a value here
    identities = {arm.name: _identity(arm, space, measured) for arm in arms}
    _check_different(layout, identities, space, problems)
    problems.raise_if_any()
    folded = fold(arms, identities)
    variants = {key: _variant(group, costs[group[0].name], space) for key, group in folded.items()}
    by_arm = {name: variants[identity].id for name, identity in identities.items()}
    baseline = by_arm[space.judge.against]
    notes = (*layout.notes, *_folding_notes(folded), *measured.notes)
    return Plan(
        space=space.name,
        question=space.question,
        design=space.design.kind,
        baseline=baseline,
        variants=tuple(variants.values()),
        comparisons=tuple(_comparisons(layout, by_arm, tuple(variants.values()), baseline)),
        seeds=space.seeds,
        trials=tuple(_trials(space, tuple(variants.values()), measured, corpus)),
        notes=notes,
    )


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a corpus gives to a model, and what is to be said of it."""

    vocab_size: int
    repetition: float | None
    notes: tuple[str, ...] = ()

    def model(self, space: Space, block: Block) -> Architecture:
        return space.architecture(block, self.vocab_size, self.repetition)


def _measured(space: Space, vocab_size: int, repetition: float | None) -> _Measured:
    """Repetition as it was measured, or what tokens by Zipf's law would have (arXiv:2403.09635, App. A.1)."""
    if not space.names_repetition:
        return _Measured(vocab_size, None)
    if repetition is not None:
        length = f"{space.model.context} tokens of the training split"
        return _Measured(vocab_size, repetition, (f"repetition, measured in sequences of {length}: {repetition:.4f}",))
    expected = min(1.0, math.pi**2 / (6 * math.log(max(2, vocab_size)) ** 2))
    note = f"repetition is not known before the corpus is read: checked at {expected:.4f}, as Zipf's law would give"
    return _Measured(vocab_size, expected, (note,))


def _check_objective(space: Space, problems: Problems) -> None:
    """A model that sees what comes next has nothing to learn from predicting it."""
    if not space.model.causal:
        message = "model.causal is false, but training predicts each next token: the model would see what it predicts"
        notes = ("set it to true; blocks with full attention can be shown and counted: ablate show BLOCK --space FILE",)
        problems.add(message, space.keys["model"].span, notes=notes)


def _with_baseline(layout: Layout, space: Space) -> tuple[Arm, ...]:
    """The design's arms, and the block they are judged against if it is none of them."""
    named = {arm.name for arm in layout.arms}
    against = space.judge.against
    return layout.arms if against in named else (Arm(against, space.blocks[against]), *layout.arms)


def _costs(arms: Iterable[Arm], space: Space, measured: _Measured, problems: Problems) -> dict[str, Cost]:
    """The cost of each arm; what cannot be built at the sizes of this space is noted once, with the arms it is in."""
    costs: dict[str, Cost] = {}
    broken: dict[str, list[str]] = {}
    for arm in arms:
        try:
            costs[arm.name] = cost(measured.model(space, arm.block), space.grammar.catalogue)
        except InputError as error:
            broken.setdefault(str(error), []).append(arm.name)
    for text, names in broken.items():
        message, *way_out = (line.strip(" =") for line in text.splitlines())
        place = place_of_block(space.located, names[0]) or space.keys["design"].span
        problems.add(message, place, label="in this block", notes=(f"blocks: {', '.join(names)}", *way_out))
    return costs


def _identity(arm: Arm, space: Space, measured: _Measured) -> str:
    return digest(model_identity(measured.model(space, arm.block), space.grammar.catalogue), 64)


def _check_different(layout: Layout, identities: Mapping[str, str], space: Space, problems: Problems) -> None:
    """A design whose models are all the same has no question."""
    if len({identities[arm.name] for arm in layout.arms}) == 1:
        names = ", ".join(arm.name for arm in layout.arms)
        message = "all blocks of this design are the same model at these sizes: there is nothing to compare"
        problems.add(message, space.keys["design"].span, notes=(f"they are: {names}",))


def _variant(group: list[Arm], counted: Cost, space: Space) -> Variant:
    arm = group[0]
    catalogue = space.grammar.catalogue
    return Variant(
        id=fingerprint(arm.block, catalogue),
        names=tuple(dict.fromkeys(other.name for other in group)),
        block=normalise(arm.block, catalogue),
        edits=arm.edits,
        parameters=counted.parameters,
        flops=counted.flops,
    )


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


def _trials(space: Space, variants: tuple[Variant, ...], measured: _Measured, corpus: str) -> Iterator[Trial]:
    """Seed by seed, so that an interrupted run has whole pairs."""
    architectures = {variant.id: measured.model(space, variant.block) for variant in variants}
    models = {id: computed(architecture, space.grammar.catalogue) for id, architecture in architectures.items()}
    for seed in space.seeds:
        for variant in variants:
            trial = Trial(
                id="",
                variant=variant.id,
                architecture=architectures[variant.id],
                data=space.data,
                corpus=corpus,
                folder=str(space.folder),
                recipe=space.recipe,
                measure=space.measure,
                seed=seed,
                salt=0,
                threads=space.threads,
            )
            yield dataclasses.replace(trial, id=trial_id_of(trial, models[variant.id]))
