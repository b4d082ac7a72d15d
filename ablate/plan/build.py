"""From a space to its plan: arms folded into variants, sizes checked and counted, trials with their identities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, islice
from typing import TypeAlias

from ablate.block.architecture import CLASSIFIERS
from ablate.block.normal_form import digest
from ablate.block.sizes import Cost
from ablate.errors import InputError
from ablate.output.words import listed, plural
from ablate.plan.comparisons import (
    FEWEST_ROWS,
    OF_TWO,
    check_bits,
    check_losses,
    check_pairing,
    uncompared_pairs,
    unpaired_notes,
    with_pairing,
)
from ablate.plan.designs import Contrast, DesignArm, DesignLayout, arm_of, lay_out
from ablate.plan.fairness import Fitted, fit, term_notes
from ablate.plan.models import Models, TokenisedText, Tuned, fields_of
from ablate.plan.notes import address_notes, choice_notes, constraint_notes
from ablate.plan.plan import NOTHING_KNOWN, Comparison, Factors, HeldOut, Known, Plan, PlannedLadder, Trial, Variant
from ablate.plan.proposals import search_notes
from ablate.plan.tuning import check_tuned, tuning_notes, tuning_seeds, tuning_settings
from ablate.source.located import Span
from ablate.source.problems import Problems, quote
from ablate.space.fair import Tune
from ablate.space.judge import Expected
from ablate.space.metrics import directions
from ablate.space.model import ENCODER_ALONE
from ablate.space.space import Space, place_of_block

MOST_COMPARED = 4
FACTORIAL_SEEDS = 6  # with fewer seeds the effects of a factorial, each with its own error, are rarely found


def build_plan(
    space: Space,
    *,
    vocab_size: int,
    corpus: str,
    repetition: float | None = None,
    read: Callable[[Space], TokenisedText] | None = None,
    known: Known = NOTHING_KNOWN,
) -> Plan:
    """Build the plan of a space over a corpus, as in `Models`, by `plan_of`. Raises InputError where there is none."""
    return plan_of(Models(space, vocab_size, corpus, repetition, read), known)


def plan_of(models: Models, known: Known = NOTHING_KNOWN) -> Plan:
    """Build the plan of a space from its models. Raises InputError where there is none.

    Arms that are the same model, trained for as many steps, are one variant. A search starts with its reference alone
    and is open: proposals join the plan as they are made. A plan whose later trials depend on the results of earlier
    ones (see `Known`) is open too, and does not have those trials yet.
    """
    space, problems = models.space, Problems()
    layout = lay_out(models, problems)
    _check_objective(space, problems)
    _check_reference(space, problems)
    problems.raise_if_any()
    assert layout is not None
    against = layout.baseline or space.judge.against
    has_baseline = any(arm.name == against for arm in layout.arms)
    arms = layout.arms if has_baseline else (arm_of(space, against), *layout.arms)
    costs = _costs(arms, models, problems)
    problems.raise_if_any()  # before identities, which assume that every expression has a value here
    _check_different(layout, {arm.name: models.treatment(arm.block, arm.setting) for arm in arms}, space, problems)
    problems.raise_if_any()
    terms = fit(arms, models, known, problems)
    problems.raise_if_any()
    folded = _fold(terms.fitted, models)
    untuned = [_variant(group, models, costs) for group in folded.values()]
    check_tuned(untuned, models, problems)
    problems.raise_if_any()
    variants = [_tuned(variant, models, known) for variant in untuned]
    of = {
        (fitted.terms, fitted.arm.name): variant
        for variant, group in zip(variants, folded.values(), strict=True)
        for fitted in group
    }
    baseline = of[next(iter(space.fair.terms)), against]
    noise = _noise(space, models, baseline)
    seeds = known.seeds or space.seeds
    tried, trials = _tuning(variants, models)
    ready = [v for v in variants if not v.setting.open and (len(_settings(v, models)) < 2 or v.id in known.tuned)]
    split: HeldOut = "verdict" if space.design.search is None else "tuning"
    trials += models.trials(ready, seeds, split)
    if noise is not None and baseline in ready:
        trials += models.trials([baseline, noise], _noise_seeds(space), split)
    factors, ladders = tuple(_factors(layout, of, space)), tuple(_ladders(layout, of, space))
    known_variants = {variant.id: variant for variant in variants}
    comparisons = tuple(
        with_pairing(comparison, known_variants, models, ladders)
        for comparison in _comparisons(layout, of, space, baseline, noise)
    )
    check_losses(variants, baseline, models, problems)
    check_bits(variants, models, problems)
    check_pairing(comparisons, factors, known_variants, models, problems)
    _check_claims(comparisons, variants, space, problems)
    problems.raise_if_any()
    notes = (
        *constraint_notes(variants, space),
        *layout.notes,
        *space.replaced,
        *_folding_notes(folded),
        *terms.notes,
        *term_notes(variants, models),
        *tuning_notes(models, variants),
        *models.notes,
        *address_notes(variants, baseline, space.grammar.catalogue),
        *unpaired_notes(comparisons, factors, known_variants, models),
        *search_notes(space),
        *_few_seeds(layout, space, seeds),
        *choice_notes(variants, models),
    )
    return Plan(
        space=space.name,
        question=space.question,
        design=space.design.kind,
        baseline=baseline.id,
        variants=(*variants, *([noise] if noise else [])),
        comparisons=comparisons,
        seeds=seeds,
        trials=tuple({trial.id: trial for trial in trials}.values()),
        notes=notes,
        open=space.design.search is not None or len(ready) < len(variants),
        looks=space.auto.looks if space.auto is not None else (),
        factors=factors,
        tried=tuple(tried),
        ladders=ladders,
        profile=space.profile,
    )


def _few_seeds(layout: DesignLayout, space: Space, seeds: Sequence[int]) -> Iterator[str]:
    if space.auto is not None or space.design.search is not None:
        return
    if layout.factors is None and len(seeds) < 2:
        yield "one seed says nothing about noise: no interval and no verdict (seeds: 5, or seeds: auto)"
    if layout.factors is not None and len(seeds) < FACTORIAL_SEEDS:
        yield (
            "each effect of a factorial is tested against its own variation over seeds: fewer than "
            f"{FACTORIAL_SEEDS} seeds find little (seeds: 8, or seeds: auto)"
        )


def _fold(fitted: Sequence[Fitted], models: Models) -> dict[str, list[Fitted]]:
    """Group arms that are trained identically by their identity, in order of first appearance."""
    folded: dict[str, list[Fitted]] = {}
    for arm in fitted:
        steps = "not known yet" if arm.setting.open else models.recipe(arm.setting).steps
        folded.setdefault(digest([models.treatment(arm.block, arm.setting), steps], 64), []).append(arm)
    return folded


def _variant(group: Sequence[Fitted], models: Models, costs: Mapping[str, Cost]) -> Variant:
    first = next((arm for arm in group if arm.as_it_is), group[0])
    counted = costs[first.arm.name] if first.as_it_is else models.cost(first.block, first.setting)
    names = [first.name, *(arm.name for arm in group)]
    terms = tuple(dict.fromkeys(arm.terms for arm in group if arm.terms))
    return models.variant(names, first.block, first.arm.edits, counted, first.setting, terms)


def _tuned(variant: Variant, models: Models, known: Known) -> Variant:
    settings = _settings(variant, models)
    if len(settings) == 1:
        return models.tuned(variant, settings[0])
    return models.tuned(variant, known.tuned[variant.id]) if settings and variant.id in known.tuned else variant


def _settings(variant: Variant, models: Models) -> tuple[Tuned, ...]:
    tune = models.space.fair.tune
    if not isinstance(tune, Tune):
        return ()
    recipe = models.at(variant.setting.changes).recipe
    return tuning_settings(fields_of(tune, variant.block, recipe, models.space.grammar.catalogue))


def _tuning(variants: Sequence[Variant], models: Models) -> tuple[list[tuple[str, Tuned]], list[Trial]]:
    """Return the settings tried and the tuning trials: every variant with known steps under each of its settings."""
    tune = models.space.fair.tune
    if not isinstance(tune, Tune):
        return [], []
    tried: list[tuple[str, Tuned]] = []
    trials: list[Trial] = []
    settings = {variant: _settings(variant, models) for variant in variants if not variant.setting.open}
    left = {variant: list(each) for variant, each in settings.items() if len(each) > 1}
    while any(left.values()):
        tuned = {variant.id: (variant, each.pop(0)) for variant, each in left.items() if each}
        trained = [*models.trials((models.tuned(*pair) for pair in tuned.values()), tuning_seeds(tune), "tuning")]
        tried += [(trial.id, tuned[trial.variant][1]) for trial in trained]
        trials += trained
    return tried, trials


def _noise(space: Space, models: Models, baseline: Variant) -> Variant | None:
    """Return the baseline with another initialisation (A/A), to measure the noise."""
    if space.noise is None:
        return None
    setting = replace(baseline.setting, salt=1)
    return models.variant([f"{baseline.name}, A/A"], baseline.block, baseline.edits, baseline.cost, setting)


def _noise_seeds(space: Space) -> tuple[int, ...]:
    """Return the space's own seeds first, at which the baseline is trained anyway, then others, counted from 0."""
    wanted = space.noise.seeds if space.noise is not None else 0
    others = (seed for seed in count() if seed not in space.seeds)
    return tuple(islice(chain(space.seeds, others), wanted))


def _check_objective(space: Space, problems: Problems) -> None:
    if space.model.kind == ENCODER_ALONE:
        if space.model.causal:
            message = "model.causal is true, but an encoder sees its whole input"
            problems.add(message, space.origins.key("model", "causal"), notes=("set it to false",))
    elif space.model.kind not in CLASSIFIERS and not space.model.causal:
        message = "model.causal is false, but training predicts each next token: the model would see what it predicts"
        notes = ("set it to true; blocks with full attention can be shown and counted: ablate show BLOCK --space FILE",)
        problems.add(message, space.origins.key("model", "causal"), notes=notes)


def _check_reference(space: Space, problems: Problems) -> None:
    search, against = space.design.search, space.judge.against
    if search is not None and search.from_ != against:
        message = f"the search starts from {search.from_}, but is judged against {against}"
        place = place_of_block(space.located, against) or space.origins.section("judge")
        problems.add(message, place, notes=(f"set against: {search.from_}, or search from: {against}",))


def _costs(arms: Iterable[DesignArm], models: Models, problems: Problems) -> dict[str, Cost]:
    """Return the cost of each arm; what cannot be built at these sizes is reported once, with the arms it is in."""
    space = models.space
    costs: dict[str, Cost] = {}
    broken: dict[str, list[str]] = {}
    for arm in arms:
        try:
            costs[arm.name] = models.cost(arm.block, arm.setting)
        except InputError as error:
            broken.setdefault(str(error), []).append(arm.name)
    for text, names in broken.items():
        message, *way_out = (line.strip(" =") for line in text.splitlines())
        place = place_of_block(space.located, names[0]) or space.origins.section("design")
        space.origins.add_in_block(problems, message, place, (f"blocks: {', '.join(names)}", *way_out))
    return costs


def _check_different(layout: DesignLayout, identities: Mapping[str, str], space: Space, problems: Problems) -> None:
    if space.design.search is not None:  # other models are yet to be proposed
        return
    if len({identities[arm.name] for arm in layout.arms}) == 1:
        names = ", ".join(arm.name for arm in layout.arms)
        message = "all blocks of this design are the same model at these sizes: there is nothing to compare"
        problems.add(message, space.origins.section("design"), notes=(f"they are: {names}",))


def _folding_notes(folded: Mapping[str, list[Fitted]]) -> Iterator[str]:
    for group in folded.values():
        names = list(dict.fromkeys(fitted.arm.name for fitted in group))
        if len(names) > 1:
            yield f"the same model, trained once: {', '.join(names)}"


Variants: TypeAlias = Mapping[tuple[str, str], Variant]  # variants by the name of their terms and of their arm


def _comparisons(
    layout: DesignLayout, of: Variants, space: Space, baseline: Variant, noise: Variant | None
) -> Iterator[Comparison]:
    """Yield under each set of terms the design's contrasts, then each variant against the baseline; last the noise."""
    for terms in space.fair.terms:
        for contrast in layout.contrasts:
            if (comparison := _comparison(contrast, of, terms)) is not None:
                yield comparison
        arms = (arm.name for arm in layout.arms) if layout.against is None else layout.against
        against = dict.fromkeys(of[terms, name] for name in arms)
        for variant in against:
            if variant.id != baseline.id:
                yield Comparison(
                    kind="baseline",
                    change=variant.name,
                    detail="against the baseline",
                    before=baseline.id,
                    after=variant.id,
                    terms=terms,
                )
    if noise is not None:
        yield Comparison(
            kind="noise",
            change="nothing but the initialisation",
            detail="the baseline against itself: any difference is noise",
            before=baseline.id,
            after=noise.id,
        )


def _comparison(contrast: Contrast, of: Variants, terms: str) -> Comparison | None:
    """Turn a contrast of arms into one of variants; None where both sides are the same model."""
    before = of[terms, contrast.before].id if contrast.before else ""
    after = of[terms, contrast.after].id if contrast.after else ""
    weights: dict[str, float] = {}
    for name, weight in contrast.weights:
        id = of[terms, name].id
        weights[id] = weights.get(id, 0.0) + weight
    kept = tuple((id, weight) for id, weight in weights.items() if weight)
    if (before and before == after) or (contrast.weights and not kept):
        return None
    return Comparison(
        kind=contrast.kind,
        change=contrast.change,
        detail=contrast.detail,
        before=before,
        after=after,
        weights=kept,
        terms=terms,
    )


def _check_claims(
    comparisons: Sequence[Comparison], variants: Sequence[Variant], space: Space, problems: Problems
) -> None:
    if space.design.search is not None:  # what it compares is yet to be proposed
        return
    changes = [comparison.change for comparison in comparisons if comparison.kind not in ("baseline", "noise")]
    # The runs of a factorial are no comparisons with the baseline: only whole variants are
    whole = {comparison.after for comparison in comparisons if comparison.kind == "baseline"}
    names = [name for variant in variants if variant.id in whole for name in variant.names]
    trends = {comparison.change for comparison in comparisons if comparison.kind == "trend"}
    every = {name: variant.id for variant in variants for name in variant.names}
    for position, claim in enumerate(space.judge.expect):
        different = directions(space.judge.metrics[claim.metric].better)
        if claim.of is not None and claim.of not in (*names, *changes):
            message = f"a claim is about {quote(claim.of)}, which this design does not compare"
            place = space.origins.value("judge", "expect", position, "of")
            problems.add_unknown(message, place, claim.of, dict.fromkeys([*names, *changes]), "it compares")
        elif claim.of in trends and (unsaid := _unsaid_of_trend(claim, different)):
            place = space.origins.value("judge", "expect", position, "verdict")
            problems.add(f"the claim {quote(claim.claim)} {unsaid}", place, notes=(f"such as verdict: {different[0]}",))
        elif claim.order is not None or claim.equivalent is not None:
            place = space.origins.value("judge", "expect", position, *claim.forms)
            _check_steps(claim, every, comparisons, place, problems)
        elif claim.correlation is not None and len(variants) < FEWEST_ROWS:
            message = f"the claim {quote(claim.claim)} is about a correlation over {plural(len(variants), 'variant')}"
            place = space.origins.value("judge", "expect", position, "correlation")
            problems.add(message, place, notes=(f"a correlation takes {FEWEST_ROWS} variants or more",))


def _unsaid_of_trend(claim: Expected, different: Collection[str]) -> str:
    """The fault of a claim about a trend, which has no margin: all verdicts confirm it, or none; empty if not."""
    foreseen = set(different).intersection(claim.verdicts)
    if len(foreseen) == len(different):
        return "allows every verdict, since a trend over sizes has no margin: whatever is seen, it comes true"
    return "" if foreseen else "cannot come true: no trend over sizes is equivalent"


def _check_steps(
    claim: Expected, names: Mapping[str, str], comparisons: Sequence[Comparison], place: Span, problems: Problems
) -> None:
    for name in claim.variants:
        if name not in names:
            message = f"a claim is about {quote(name)}, which is no variant of this design"
            problems.add_unknown(message, place, name, names, "its variants are")
            return
    if len({names[name] for name in claim.variants}) == 1:
        message = f"the claim {quote(claim.claim)} is about {listed(claim.variants)}, which are the same model here"
        problems.add(message, place, notes=("there is nothing to compare: name others, or change their sizes",))
        return
    ids = {id: name for name, id in reversed(list(names.items()))}
    compared = [f"{ids[c.after]} with {ids[c.before]}" for c in comparisons if c.kind in OF_TWO]
    for one, other in uncompared_pairs(claim, names, comparisons):
        message = f"the claim {quote(claim.claim)} is about {one} and {other}, which this design does not compare"
        way = "judge: {against: …} compares each variant with one of them, design: {path: …} each with that before it"
        left = f", and {len(compared) - MOST_COMPARED} more" if len(compared) > MOST_COMPARED else ""
        problems.add(message, place, notes=(f"it compares {', '.join(compared[:MOST_COMPARED])}{left}", way))


def _factors(layout: DesignLayout, of: Variants, space: Space) -> Iterator[tuple[str, Factors]]:
    if layout.factors is not None:
        for terms in space.fair.terms:
            runs = tuple((of[terms, name].id, levels) for name, levels in layout.factors.runs)
            yield terms, replace(layout.factors, runs=runs)


def _ladders(layout: DesignLayout, of: Variants, space: Space) -> Iterator[tuple[str, PlannedLadder]]:
    if layout.ladder is not None:
        for terms in space.fair.terms:
            steps = tuple(
                replace(step, variants=tuple((name, of[terms, arm].id) for name, arm in step.variants))
                for step in layout.ladder.steps
            )
            yield terms, replace(layout.ladder, steps=steps)
