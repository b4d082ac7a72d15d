"""Comparisons: which are paired by seed, which numbers can be compared at all, and which of them a claim is about.

Runs of one seed share their batches, in the same order, and the initial values of every address that both models have.
With another batch size, context or text they do not, and are not judged as paired: their difference varies as that of
two independent runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ablate.plan.models import Models
from ablate.plan.plan import Comparison, Factors, PlannedLadder, Setting, Variant
from ablate.source.problems import Problems
from ablate.space.judge import Expected
from ablate.space.metrics import ACCURACY, BITS, NATS, SMOOTHED, Better, direction, of_averaged_weights
from ablate.space.schedule import ramp_of
from ablate.space.variants import is_inside

# Pairing by seed: the addresses at which two treatments differ so that they see other batches at one seed.

TEXT = "data."  # the prefix of the addresses of the text
UNITS = {ACCURACY: "a share of tokens", of_averaged_weights(ACCURACY): "a share of tokens", "perplexity": "per token"}
OF_TOKENS = (
    *(NATS, of_averaged_weights(NATS), f"mean_{NATS}", "train_loss", SMOOTHED),
    *UNITS,
)
"""The metrics of single tokens; `UNITS` has the units of those that are not in nats."""
LOSSLESS = "bytes or {bpe: 32000}"  # tokenizers that give their text back, as they are written


def unpaired_by(before: Setting, after: Setting, models: Models) -> tuple[str, ...]:
    """Return the addresses that keep two treatments from seeing the same batches; empty where they see the same."""
    x, y = (models.at(setting.changes) for setting in (before, after))
    ramps = [ramp_of(space.recipe, setting.steps) for space, setting in ((x, before), (y, after))]
    differs = {
        "recipe.batch": x.recipe.batch != y.recipe.batch,
        "recipe.batch_ramp": ramps[0] != ramps[1],
        "model.context": x.layout is None and x.model.context != y.model.context,
        "model.source": x.layout is None and x.model.source != y.model.source,
        "data.corpus": x.data.corpus != y.data.corpus,
        "data.tokenizer": x.data.tokenizer != y.data.tokenizer,
    }
    return tuple(address for address, different in differs.items() if different)


def with_pairing(
    comparison: Comparison,
    variants: Mapping[str, Variant],
    models: Models,
    ladders: Sequence[tuple[str, PlannedLadder]] = (),
) -> Comparison:
    if comparison.kind == "trend":
        ladder = dict(ladders)[comparison.terms]
        differ: dict[str, None] = {}
        for step in ladder.steps:
            of = dict(step.variants)
            before, after = variants[of[ladder.baseline]], variants[of[ladder.treatment_of(comparison.change)]]
            differ |= dict.fromkeys(unpaired_by(before.setting, after.setting, models))
        return replace(comparison, unpaired=tuple(differ))
    if not (comparison.before in variants and comparison.after in variants):
        return comparison
    settings = variants[comparison.before].setting, variants[comparison.after].setting
    return replace(comparison, unpaired=unpaired_by(*settings, models))


def unpaired_notes(
    comparisons: Sequence[Comparison],
    factorials: Sequence[tuple[str, Factors]],
    variants: Mapping[str, Variant],
    models: Models,
) -> Iterator[str]:
    reasons: dict[tuple[str, ...], list[str]] = {}
    for comparison in comparisons:
        if comparison.unpaired and comparison.before:
            between = f"{variants[comparison.before].name} and {variants[comparison.after].name}"
            reasons.setdefault(comparison.unpaired, []).append(between)
    for addresses, names in reasons.items():
        yield (
            f"not paired by seed, because {_differ(addresses)} and so do the batches: "
            f"{'; '.join(dict.fromkeys(names))}: judged by Welch's t, which finds less than a paired test"
        )
    mixed: dict[str, None] = {}
    for _, factors in factorials:
        first, *others = (variants[id].setting for id, _ in factors.runs)
        mixed |= dict.fromkeys(address for other in others for address in unpaired_by(first, other, models))
    if mixed:
        yield (
            f"{_differ(tuple(mixed))} between the runs of the factorial, which then share no batches: its effects are "
            "still judged seed by seed, which holds for independent runs, but finds less than with shared batches"
        )


def check_pairing(
    comparisons: Sequence[Comparison],
    factorials: Sequence[tuple[str, Factors]],
    variants: Mapping[str, Variant],
    models: Models,
    problems: Problems,
) -> None:
    """Report, where the judge requires pairing, each address that breaks it, at the change that sets it."""
    space = models.space
    if space.judge.pairing != "required":
        return
    broken: dict[str, str] = {}
    for comparison in comparisons:
        for address in comparison.unpaired:
            named = comparison.change if comparison.kind == "trend" else variants[comparison.after].name
            broken.setdefault(address, named)
    for _, factors in factorials:
        first, *others = (variants[id] for id, _ in factors.runs)
        for other in others:
            for address in unpaired_by(first.setting, other.setting, models):
                broken.setdefault(address, other.name)
    written = [change for variant in space.variants.values() for change in variant.changes]
    written += [*space.design.vary.changes, *space.design.sizes.changes]
    for address, named in broken.items():
        key = next((change.key for change in written if is_inside(change.address, address)), None)
        place = space.origins.key("judge", "pairing") if key is None else key.span
        message = f"{named} is not paired by seed, as judge requires: {address} differs, and so do the batches"
        notes = ("let it be the same for all, or set judge: {pairing: possible}, which judges by Welch's t",)
        problems.add(message, place, notes=notes)


def check_losses(variants: Sequence[Variant], baseline: Variant, models: Models, problems: Problems) -> None:
    """Refuse to judge numbers of tokens, or examples, across texts or tokenizers: they mean something else for each."""
    space = models.space
    judged = next((metric for metric in OF_TOKENS if metric in space.judge.metrics), None)
    if judged is None:
        return
    for variant in variants:
        addresses = unpaired_by(baseline.setting, variant.setting, models)
        texts = tuple(address for address in addresses if address.startswith(TEXT))
        if texts:
            names = f"{baseline.name} and {variant.name}"
            unit = "of other examples" if space.layout is not None else UNITS.get(judged, "in nats per token")
            message = f"{judged} of {names} cannot be compared: {_differ(texts)}, and it is {unit}"
            way = f"judge {BITS}, which means the same for every tokenizer that gives its text back"
            if any(models.at(each.setting.changes).data.loses for each in variants):
                way = f"give all the same data.tokenizer, or let each be {LOSSLESS}, and judge {BITS}"
            if space.layout is not None or not space.has_bits:
                way = f"give all the same {' and '.join(texts)}"
            problems.add(message, space.origins.key("judge", "metrics", judged), notes=(way,))
            return


def check_bits(variants: Sequence[Variant], models: Models, problems: Problems) -> None:
    """Refuse bits per byte, judged or searched for, of a tokenizer whose tokens do not say how much text they were.

    Claims, tuning and rungs use only metrics that are judged or searched for.
    """
    space, search = models.space, models.space.design.search
    texts = [models.at(variant.setting.changes).data for variant in variants]
    losing = next(((variant, text) for variant, text in zip(variants, texts, strict=True) if text.loses), None)
    if losing is None:
        return
    variant, text = losing
    message = f"{variant.name} has no {BITS}: {text.loses}, so tokens have no bytes"
    lossless = f"let data.tokenizer be {LOSSLESS}, which lose nothing"
    comparable = all(other.tokenizer == text.tokenizer for other in texts)
    for bits, nats in ((BITS, NATS), (of_averaged_weights(BITS), of_averaged_weights(NATS))):
        if bits in space.judge.metrics:
            way = f"judge {nats}, or {lossless}" if comparable else lossless
            problems.add(message, space.origins.key("judge", "metrics", bits), notes=(way,))
        if search is not None and bits in search.objective:
            place = space.origins.key("design", "search", "objective", bits)
            problems.add(message, place, notes=(f"search for {nats}, or {lossless}",))


def _differ(addresses: Sequence[str]) -> str:
    return f"{' and '.join(addresses)} {'differs' if len(addresses) == 1 else 'differ'}"


# Claims: the comparisons that a claim is about, and the verdict that it foresees of each.

BY_NAME = ("baseline", "edit", "main", "interaction", "trend")
"""The kinds of comparison that a claim can be about, by the name of a variant or of an edit."""
OF_TWO = ("baseline", "edit")  # the kinds of comparison that are a difference of two variants
FEWEST_ROWS = 3  # fewer variants have no correlation that says anything


@dataclass(frozen=True, slots=True)
class ClaimStep:
    """A comparison of which a claim foresees one of these verdicts. `turned`: the claim has its sides the other way."""

    comparison: Comparison
    verdicts: tuple[str, ...]
    turned: bool = False


def claim_steps(
    claim: Expected, names: Mapping[str, str], comparisons: Sequence[Comparison], better: Better
) -> tuple[ClaimStep, ...]:
    """Return the steps of a claim, all of which must be as it foresees; none where the design does not compare them.

    `names` has the id of the variant of each name, and `better` is the better side of its metric. Of equivalents
    the steps are all comparisons between two of them. A correlation has no steps. Where a variant is compared under
    several terms of fairness, the claim is about the first.
    """
    if claim.of is not None:
        about = _comparison_of(claim.of, names.get(claim.of), comparisons)
        return () if about is None else (ClaimStep(about, claim.verdicts),)
    ids = [names.get(name, "") for name in claim.variants]
    if claim.order is not None:
        steps = [_ordered_step(low, high, comparisons, better) for low, high in pairwise(ids)]
        return tuple(step for step in steps if step is not None) if None not in steps else ()
    between = {frozenset((each.before, each.after)): each for each in reversed(comparisons) if each.kind in OF_TWO}
    among = [each for sides, each in reversed(between.items()) if sides <= set(ids)]
    return (
        tuple(ClaimStep(each, ("equivalent",)) for each in among)
        if not uncompared_pairs(claim, names, comparisons)
        else ()
    )


def uncompared_pairs(
    claim: Expected, names: Mapping[str, str], comparisons: Sequence[Comparison]
) -> list[tuple[str, str]]:
    """Return the pairs of variants, by name, that an order or equivalents need compared and that are not.

    Of an order that is each step; equivalents must be connected by comparisons between them, or be one variant.
    """
    compared = {frozenset((each.before, each.after)) for each in comparisons if each.kind in OF_TWO}
    named = claim.variants
    if claim.order is not None:
        return [(x, y) for x, y in pairwise(named) if frozenset((names.get(x, ""), names.get(y, ""))) not in compared]
    reached, left = named[:1], list(named[1:])
    compared |= {frozenset((id,)) for id in names.values()}
    while near := [
        y for y in left if any(frozenset((names.get(x, ""), names.get(y, ""))) in compared for x in reached)
    ]:
        reached = (*reached, *near)
        left = [name for name in left if name not in near]
    return [(named[0], name) for name in left]


def _ordered_step(low: str, high: str, comparisons: Sequence[Comparison], better: Better) -> ClaimStep | None:
    """Return the comparison of two variants with the verdict by which the second has the higher value."""
    for each in comparisons:
        if each.kind in OF_TWO and {each.before, each.after} == {low, high}:
            turned = each.before == high
            return ClaimStep(each, (direction(not turned, better),), turned)
    return None


def _comparison_of(of: str, variant: str | None, comparisons: Sequence[Comparison]) -> Comparison | None:
    for comparison in comparisons:
        if comparison.kind not in BY_NAME:
            continue
        if comparison.after == variant if comparison.kind == "baseline" else comparison.change == of:
            return comparison
    return None
