"""Fairness: each block's model and training where a space declares what is to be equal.

Equal steps are the default of the grammar. Other terms match the parameters of a block to those of the baseline first,
and then give it as many steps as cost as much as the baseline's training (`matching.py`). A learning rate that suits
one block rarely suits all others, so a comparison at untuned rates is described as one of blocks at these rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ablate.block.expression import Block
from ablate.output.words import listed
from ablate.plan.designs import DesignArm, arm_of
from ablate.plan.matching import Matched, Training, compared_counts, match, steps_for
from ablate.plan.models import Models, fields_of
from ablate.plan.plan import PLAIN, TERMS, Known, Setting, Variant
from ablate.plan.tuning import tuning_seeds
from ablate.source.located import Scalar
from ablate.source.problems import Problems
from ablate.space import fair
from ablate.space.fair import DEPTH, HIDDEN, WIDTH, Fair, Match, Tune
from ablate.space.overlay import GRAMMAR
from ablate.space.space import Space
from ablate.space.variants import Change, Changes, is_inside

# Declared terms: what a space makes equal, and the learning rates that are tuned for no block.

WORDS: Mapping[str, str] = {
    "steps": "steps",
    "tokens": "tokens",
    "flops": "training FLOPs",
    "wallclock": "wall-clock time of all steps",
}
"""The quantity that is equal under each budget."""
RATE_FACTOR = 3  # the factor from the present rate to the least and the largest that a note proposes to try


def budget_declared(space: Space, terms: str) -> bool:
    """Return whether the space says what its blocks may spend under these terms, and not the grammar for it."""
    keys = ("fair", "under", terms) if terms else ("fair", "budget")
    return space.origins.layer(space.origins.key(*keys)) != GRAMMAR


def declared_terms(space: Space, terms: str) -> list[str]:
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
    yield f"{TERMS}: {_equal(space)}; {at}, {_tuned_for_none(untuned, compared, space)}; {_rates_to_try(rates, space)}"


def _is_rate(address: str) -> bool:
    words = address.split(".")
    return words[:2] == ["recipe", "optimizer"] and words[3:] == ["lr"]


def _is_tuned(variant: Variant, models: Models) -> bool:
    space = models.at(variant.setting.changes)
    tune, recipe = space.fair.tune, space.recipe
    if not isinstance(tune, Tune):
        return False
    rate = ("recipe", "optimizer", recipe.optimizer.name, "lr")
    fields = fields_of(tune, variant.block, recipe, space.grammar.catalogue)
    return any(len(field.values) > 1 and field.path and rate[: len(field.path)] == field.path for field in fields)


def _equal(space: Space) -> str:
    if space.fair.under:
        return f"{listed(list(space.fair.under))} (declared)"
    phrases = declared_terms(space, "")
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


def _rates_to_try(rates: Mapping[str, Sequence[float]], space: Space) -> str:
    ends = {name: (min(of) / RATE_FACTOR, max(of) * RATE_FACTOR) for name, of in rates.items()}
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


# Checks of `fair` across sections of a space: whether it fits the design, the recipe and the seeds.

RESIZED = {WIDTH: ("model.width", "model.heads"), DEPTH: ("model.layers",), HIDDEN: ()}
"""The addresses of the sizes that a match changes."""
UNTIMED = ("recipe.batch", "recipe.batch_ramp", "recipe.dtype", "recipe.optimizer", "data.")
"""Addresses whose effect on seconds per step is not measured."""
TIMED = "seconds per step are measured with the batch, precision, optimiser and text of the space"


def check_fair(space: Space, problems: Problems) -> None:
    fair = space.fair
    declared = not all(terms.plain for terms in fair.terms.values()) or fair.under or fair.tune != "none"
    if space.design.search is not None and declared:
        message = "a search trains each block at the sizes and for the steps of the space: fair has no effect on it"
        notes = ("remove fair, and compare the blocks found in a separate space: design: {compare: [...]}",)
        problems.add(message, space.origins.section("fair"), notes=notes)
    if isinstance(fair.tune, Tune):
        _check_tuning_seeds(fair.tune, space, problems)
        _check_better_side(space, problems)

    def check(what: str, address: str, section: str, key: Scalar, why: str | None) -> None:
        if why is not None:
            way_out = f"remove {address} from {section}, or from fair"
            problems.add(f"{what} and fair contradict each other: {why}", key.span, notes=(way_out,))

    for variant in space.variants.values():
        for change in variant.changes:
            what = f"{change.address} of variant {variant.name}"
            check(what, change.address, "the variant", change.key, _contradicted(change, fair))
    for factor in space.design.vary.factors:
        if not factor.in_block:
            why = _contradicted(factor.change(factor.levels[0]), fair)
            check(f"vary of {factor.address}", factor.address, "vary", factor.key, why)
    for change in space.design.sizes.changes:
        timed = any(terms.budget == "wallclock" and change.address.startswith(UNTIMED) for terms in fair.terms.values())
        why = TIMED if timed else _tuned_instead(change, fair)
        check(f"{change.address} of a size", change.address, "the sizes", change.key, why)


def _contradicted(change: Change, fair: Fair) -> str | None:
    """Return why what is held equal would undo a change, or could not take it into account; None where it can."""
    for terms in fair.terms.values():
        if terms.budget != "steps" and is_inside(change.address, "recipe.steps"):
            return f"with budget: {terms.budget} the steps follow from what the baseline spends"
        if terms.budget == "wallclock" and change.address.startswith(UNTIMED):
            return TIMED
        if isinstance(terms.match, Match) and change.address in RESIZED[terms.match.by]:
            return f"match by {terms.match.by} sets that size"
    return _tuned_instead(change, fair)


def _tuned_instead(change: Change, fair: Fair) -> str | None:
    """Return the reason if a tuned field would replace the value of a change, else None."""
    for tuned_field in fair.tune.fields if isinstance(fair.tune, Tune) else ():
        tuned = ".".join(tuned_field.path)
        if tuned and is_inside(change.address, tuned):
            return f"fair.tune chooses {tuned_field.name}"
    return None


def _check_better_side(space: Space, problems: Problems) -> None:
    name, judged = next(iter(space.judge.metrics.items()))
    if judged.better == "none":
        message = f"no setting is the best by {name}, the first metric judged: neither side of it is better"
        notes = (
            "judge another metric first, such as eval_loss",
            f"or name a side: judge: {{metrics: {{{name}: {{better: lower}}}}}}",
        )
        also = ((space.origins.key("judge", "metrics", name), "judged first"),)
        problems.add(message, space.origins.key("fair", "tune"), notes=notes, also=also)


def _check_tuning_seeds(tune: Tune, space: Space, problems: Problems) -> None:
    both = sorted(set(space.seeds) & set(tuning_seeds(tune)))
    if both:
        message = f"seed {both[0]:,} is a tuning seed: the verdict would reuse the runs that settings were chosen by"
        notes = (f"seeds from {tuning_seeds(tune)[0]:,} on are reserved for tuning: use lower ones for the verdict",)
        problems.add(message, space.origins.section("seeds"), notes=notes)


# Fitted arms: each arm under one set of terms.


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """An arm under one set of terms (by name): the block and the setting that it is trained with."""

    terms: str
    arm: DesignArm
    block: Block
    setting: Setting = PLAIN

    @property
    def as_it_is(self) -> bool:
        return self.setting == self.arm.setting and self.block == self.arm.block

    @property
    def name(self) -> str:
        return self.arm.name if self.as_it_is or not self.terms else f"{self.arm.name}, {self.terms}"


@dataclass(frozen=True, slots=True)
class FairnessResult:
    """Every arm under every set of terms; `open` while some steps depend on a measurement still to come."""

    fitted: tuple[Fitted, ...]
    notes: tuple[str, ...] = ()
    open: bool = False


# Fitting: every arm to every set of terms, matched in size first, then given its steps.


def fit(arms: Sequence[DesignArm], models: Models, known: Known, problems: Problems) -> FairnessResult:
    """Fit every arm to every set of terms; the baseline has the sizes and steps of the space under all of them.

    Arms that cannot be matched are reported in `problems`.
    """
    space = models.space
    check_fair(space, problems)
    fitting = _Fitting(models, known, problems)
    fitted = tuple(fitting.under(name, arm) for name in space.fair.terms for arm in arms)
    tokens = [name for name, terms in space.fair.terms.items() if terms.budget == "tokens"]
    notes = [*(fitting.tokens(name, arms) for name in tokens), *fitting.notes]
    is_open = any(arm.setting.open for arm in fitted)
    if is_open:
        notes.append(
            "wall-clock budgets: seconds per step are measured once, when the space runs; "
            "until then the numbers of steps under them are not known"
        )
    return FairnessResult(fitted, tuple(notes), open=is_open)


@dataclass
class _Fitting:
    models: Models
    known: Known
    problems: Problems
    notes: list[str] = field(default_factory=list)
    _matched: dict[tuple[Block, Changes, fair.Match], Matched | None] = field(default_factory=dict)
    _baselines: dict[Changes, Training] = field(default_factory=dict)

    def _beside(self, arm: DesignArm) -> DesignArm:
        """Return the baseline that an arm is compared with: that of its size."""
        space = self.models.space
        baseline = arm_of(space, space.judge.against)
        changes = dict(baseline.changes) | dict(arm.size)
        return replace(baseline, changes=tuple(sorted(changes.items())))

    def _baseline(self, arm: DesignArm) -> Training:
        if arm.size not in self._baselines:
            beside = self._beside(arm)
            self._baselines[arm.size] = self._training(beside.block, beside.setting)
        return self._baselines[arm.size]

    def under(self, name: str, arm: DesignArm) -> Fitted:
        terms = self.models.space.fair.terms[name]
        plain = Fitted(terms=name, arm=arm, block=arm.block, setting=arm.setting)
        if self._costs_the_same(terms, arm) or self._is_baseline(arm):
            return plain
        block, setting = arm.block, arm.setting
        if isinstance(terms.match, fair.Match):
            matched = self._match(name, arm, terms.match)
            if matched is None:
                return plain
            block, setting = matched.block, matched.setting
        return replace(plain, block=block, setting=self._budget(name, arm, block, setting, terms.budget))

    def _is_baseline(self, arm: DesignArm) -> bool:
        beside = self._beside(arm)
        return self.models.treatment(arm.block, arm.setting) == self.models.treatment(beside.block, beside.setting)

    def tokens(self, name: str, arms: Sequence[DesignArm]) -> str:
        if len({arm.size for arm in arms}) > 1:
            return f"{name or 'equal tokens'}: at each size, as many tokens for every block as for the baseline"
        baseline = self._baseline(arms[0])
        steps, batches = baseline.steps, f"{baseline.steps:,} steps × {baseline.batch:,} sequences"
        if baseline.ramp is not None:
            grown = f"{baseline.ramp.from_:,} to {baseline.batch:,} sequences, {baseline.sequences(steps):,} in all"
            batches = f"{steps:,} steps of {grown},"
        number = f"{batches} × {baseline.context:,} tokens"
        alike = all(self._tokens_like_baseline(arm) for arm in arms)
        rest = ", the same as equal steps" if alike else "; where the batch or the context differs, the steps follow"
        tokens = baseline.sequences(steps) * baseline.context
        return f"{name or 'equal tokens'}: {number} = {tokens:,} tokens for every block{rest}"

    def _tokens_like_baseline(self, arm: DesignArm) -> bool:
        changed, baseline = self.models.at(arm.changes), self._baseline(arm)
        tokens = changed.recipe.batch * changed.model.context
        return (tokens, changed.recipe.batch_ramp) == (baseline.tokens, baseline.ramp)

    def _costs_the_same(self, terms: fair.Terms, arm: DesignArm) -> bool:
        return terms.plain and (terms.budget == "steps" or self._tokens_like_baseline(arm))

    def _training(self, block: Block, setting: Setting) -> Training:
        changed = self.models.at(setting.changes)
        return Training(
            steps=changed.recipe.steps,
            batch=changed.recipe.batch,
            context=changed.model.context,
            cost=self.models.cost(block, setting),
            pace=self.known.paces.get(self.models.as_written(block, setting)),
            ramp=changed.recipe.batch_ramp,
        )

    def _match(self, name: str, arm: DesignArm, terms: fair.Match) -> Matched | None:
        key = arm.block, arm.changes, terms
        if key not in self._matched:
            self._matched[key] = match(arm, self._baseline(arm).cost.parameters, terms, self.models)
        matched = self._matched[key]
        if matched is None or not matched.within:
            self._report_unmatched(name, arm, terms, matched)
            return None
        text = f"{matched.what}, parameters {compared_counts(matched.parameters, matched.wanted)}"
        self.notes.append(f"{_arm_under(arm, name)}: {text}")
        return matched

    def _report_unmatched(self, name: str, arm: DesignArm, terms: fair.Match, nearest: Matched | None) -> None:
        space = self.models.space
        against = f"{arm.name} cannot be matched to {space.judge.against} in parameters by {terms.by}"
        if nearest is not None:
            why = f"the nearest is {nearest.what}, {compared_counts(nearest.parameters, nearest.wanted)}"
        elif terms.by == fair.HIDDEN:
            why = "it has no MLP whose hidden width can be matched"
        else:
            why = f"it cannot be built at any other {terms.by}"
        ways = [f"match by {' or '.join(by for by in fair.BYS if by != terms.by)}"]
        if nearest is not None and (share := _rounded_up(abs(nearest.off))) < 1:
            ways.append(f"allow parameters: {100 * share:.4g}%")
        own, origins = ("fair", "under", name, "match"), space.origins
        place = origins.section(*own) if name and origins.written(*own) else origins.section("fair", "match")
        self.problems.add(f"{against}: {why}", place, notes=(f"{', '.join(ways)}, or set match: none",))

    def _budget(self, name: str, arm: DesignArm, block: Block, setting: Setting, budget: fair.BudgetKind) -> Setting:
        here = self._training(block, setting)
        spent = steps_for(budget, here, self._baseline(arm))
        if spent.what:
            self.notes.append(f"{_arm_under(arm, name)}: {spent.what}")
        if spent.steps is None:
            return replace(setting, open=True)
        return replace(setting, steps=None if spent.steps == here.steps else spent.steps)


def _arm_under(arm: DesignArm, terms: str) -> str:
    return f"{arm.name}, {terms}" if terms else arm.name


def _rounded_up(share: float) -> float:
    """Round a share up to one digit of its per cent, or to a whole per cent.

    >>> _rounded_up(0.00131), _rounded_up(0.0421)
    (0.002, 0.05)
    """
    unit = 10.0 ** min(math.floor(math.log10(share)), -2)
    return round(math.ceil(share / unit) * unit, 12)
