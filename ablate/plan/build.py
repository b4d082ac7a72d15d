"""From a space to its plan: arms folded into variants, sizes checked and counted, trials with their identities."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ablate.block.catalogue import Catalogue
from ablate.block.fingerprint import digest, fingerprint
from ablate.block.normal import normalise
from ablate.plan.designs import Arm, Layout, fold, lay_out
from ablate.plan.identity import model_identity, trial_id
from ablate.plan.plan import Comparison, Plan, Variant
from ablate.plan.size import cost
from ablate.plan.trial import Trial
from ablate.source.problems import Problems
from ablate.space.space import Space


def build_plan(space: Space, *, vocab_size: int, corpus: str) -> Plan:
    """The plan of a space over a corpus of that vocabulary and fingerprint. Raises InputError where there is none.

    A variant's id is its block's fingerprint; arms that are the same model at the sizes of this space are one variant.
    """
    problems = Problems()
    layout = lay_out(space, problems)
    problems.raise_if_any()
    assert layout is not None
    catalogue = space.grammar.catalogue
    arms = _with_baseline(layout, space)
    identities = {
        arm.name: digest(model_identity(space.architecture(arm.block, vocab_size), catalogue), 32) for arm in arms
    }
    folded = fold(arms, identities)
    variants = {key: _variant(group, space, vocab_size, catalogue) for key, group in folded.items()}
    by_arm = {name: variants[identity].id for name, identity in identities.items()}
    baseline = by_arm[space.judge.against]
    notes = (*layout.notes, *_folding_notes(folded))
    return Plan(
        space=space.name,
        question=space.question,
        design=space.design.kind,
        baseline=baseline,
        variants=tuple(variants.values()),
        comparisons=tuple(_comparisons(layout, by_arm, tuple(variants.values()), baseline)),
        seeds=space.seeds,
        trials=tuple(_trials(space, tuple(variants.values()), vocab_size, corpus)),
        notes=notes,
    )


def _with_baseline(layout: Layout, space: Space) -> tuple[Arm, ...]:
    """The design's arms, and the block they are judged against if it is none of them."""
    named = {arm.name for arm in layout.arms}
    against = space.judge.against
    return layout.arms if against in named else (Arm(against, space.blocks[against]), *layout.arms)


def _variant(group: list[Arm], space: Space, vocab_size: int, catalogue: Catalogue) -> Variant:
    arm = group[0]
    counted = cost(space.architecture(arm.block, vocab_size), catalogue)
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


def _trials(space: Space, variants: tuple[Variant, ...], vocab_size: int, corpus: str) -> Iterator[Trial]:
    """Seed by seed, so that an interrupted run has whole pairs."""
    for seed in space.seeds:
        for variant in variants:
            trial = Trial(
                id="",
                variant=variant.id,
                architecture=space.architecture(variant.block, vocab_size),
                data=space.data,
                corpus=corpus,
                folder=str(space.folder),
                recipe=space.recipe,
                measure=space.measure,
                seed=seed,
                salt=0,
                threads=space.threads,
            )
            yield dataclasses.replace(trial, id=trial_id(trial, space.grammar.catalogue))
