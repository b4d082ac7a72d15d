"""Design: which blocks a space compares, and which differences between them it estimates.

Each kind of design is a document. The keys of a search must fit together, and fit the sections around it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from ablate.extension.declaration import SAMPLER, Configured, Kind
from ablate.source.document import validate
from ablate.source.located import Located, Mapping, Scalar
from ablate.source.problems import Problems
from ablate.space.documents import (
    HINTS,
    PERCENT,
    Choice,
    Count,
    Document,
    Positive,
    SectionReader,
    Share,
    as_tuple,
    without_settings,
)
from ablate.space.fair import Auto, Noise
from ablate.space.judge import JudgeReader, Measure
from ablate.space.metrics import OF_AVERAGE
from ablate.space.overlay import Origins, replaced, without
from ablate.space.recipe import Recipe
from ablate.space.vary import NEXT, SIZES, VARY, LadderSizes, LawKind, Vary, fill_end, read_sizes, read_vary

Objectives: TypeAlias = Literal["one", "several"]  # the number of objectives that a sampler supports in one search


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerSpec(Configured):
    """A sampler; `design.search.sampler` chooses one. `objectives` says whether a search with it may have several."""

    kind: ClassVar[Kind] = SAMPLER
    objectives: Objectives = "one"


class OneKind(Document):
    """A document of which one key is given, which says of what kind it is; checked by its reader."""

    @property
    def kind(self) -> str:
        return next((name for name in type(self).model_fields if getattr(self, name) is not None), "")


Split = Annotated[tuple[str, ...] | bool, BeforeValidator(as_tuple)]  # the edits to split by place; true: all
Interactions = Literal["none", "pairs"]


class _BetweenBlocks(Document):
    from_: Annotated[str, Field(alias="from")]
    to: str
    split: Split = ()


class Path(Document):
    """A path from one block to another, one edit at a time, in this `order`; without one stabilisers come first."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    order: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    split: Split = ()


class LeaveOneOut(_BetweenBlocks):
    """The full treatment `to`, and `to` with each edit from `from` undone."""


class AddOneIn(_BetweenBlocks):
    """The block `from`, and `from` with each single edit towards `to`; also `to`, to see whether the edits add up."""


class Factorial(_BetweenBlocks):
    """Every combination of the edits between two blocks and of the levels of the factors in `vary`.

    Without edits, `to` is the same as `from`.
    """

    interactions: Interactions = "pairs"
    vary: Vary = Vary()


class Fractional(_BetweenBlocks):
    """A regular fraction of all combinations: the smallest of this resolution.

    At III an edit's effect is aliased with those of pairs; at IV only pairs are aliased with each other; at V none is.
    """

    resolution: Literal["III", "IV", "V"]
    interactions: Interactions = "none"


class PlackettBurman(_BetweenBlocks):
    """The fewest runs, a multiple of 4, in which each edit's effect is separate from every other's.

    The effect of a pair is partially aliased with those of many edits.
    """


class DOptimal(_BetweenBlocks):
    """A D-optimal design: `runs` of all combinations, chosen so that the effects are jointly least uncertain."""

    runs: Count
    interactions: Interactions = "none"


class SizeLadderDesign(Document):
    """Treatments at several sizes: the fall of loss with training compute, and the compute saved over the baseline.

    `law` is fitted to the losses of the baseline: a power law, or one that ends at an irreducible loss.
    """

    compare: Annotated[tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=2)]
    law: LawKind = "power"
    sizes: LadderSizes = LadderSizes()


Goal = Literal["min", "max"]
ZeroCost = Literal["parameters", "flops", "start_loss", "start_gradient_norm"]
"""A number of a block that is known before training: a count, or a measurement on one batch at its initialisation."""


class Budget(OneKind):
    """The limit of a search, over its reference and proposals and all workers; exactly one key is given.

    `trials` counts trained trials (a proposal whose result is known costs none), `hours` are hours of training, summed
    over trials, and `flops` FLOPs of training. The trials that confirm the best blocks are not included.
    """

    trials: Count | None = None
    hours: Positive | None = None
    flops: Positive | None = None

    def described(self) -> str:
        if self.trials is not None:
            return f"{self.trials:,} trials"
        if self.hours is not None:
            return f"{self.hours:g} hours of training"
        return f"{self.flops:.4g} FLOPs of training"


class Rungs(Document):
    """Comparisons of the trials of a search during training, at each of which the best `1/factor` continue.

    The first is after the share `first` of the steps, each later one after `factor` times as many.
    """

    first: Annotated[Share, Field(gt=0, lt=1)]
    factor: Annotated[int, Field(ge=2, le=100)]


class Pruner(OneKind):
    """Early stopping by rungs: `asha`, or `hyperband`, whose brackets also start, in turn, at the later rungs.

    A slow starter is stopped even if it would have won: the rank correlation between rungs says how likely that is.
    """

    asha: Rungs | None = None
    hyperband: Rungs | None = None

    @property
    def rungs(self) -> Rungs:
        rungs = self.asha or self.hyperband
        assert rungs is not None
        return rungs

    def described(self) -> str:
        rungs = self.rungs
        return f"{self.kind}, from {rungs.first:.3g} of the steps on, the best 1/{rungs.factor} of a rung go on"


class Order(Document):
    """Of every `of` proposals, the one with the lowest `by` is trained."""

    by: ZeroCost
    of: Annotated[int, Field(ge=2, le=100)]


AVOID: Final = "avoid"


class Beforehand(Document):
    """The requirements of a proposal before it is trained.

    `veto` sets upper bounds: a number, or a share of the reference's value (`110%`). `order` chooses among several.
    `forecast: avoid` skips a proposal in any danger, but none that cannot be forecast for another reason.
    """

    veto: Annotated[
        dict[
            ZeroCost,
            Positive
            | Annotated[str, Field(pattern=PERCENT, description="a share of the reference's value such as 110%")],
        ],
        Field(description="a mapping such as {parameters: 110%}"),
    ]
    order: Order | None
    forecast: Literal["ignore", "avoid"] = "ignore"


class Confirm(Document):
    """The best `blocks` of a search, trained again beside the reference at `seeds` that the search has not seen.

    A block chosen for its good numbers looks better than it is; these new numbers play no part in the choice.
    """

    blocks: Count
    seeds: Annotated[int, Field(ge=2, le=1_000)]


class Search(Document):
    """Blocks proposed one after another from what the grammar derives, named by their edits from the block `from`.

    `start` names the start of the grammar that they are derived from: None is its first.
    With `vary` each proposal also has one of the values of every address there.

    Work item j (the reference is item 0) depends only on `seed`, j and the results of items 0 … j − `parallel` (where
    these leave nothing to do, or the proposed block is already in training, it waits for the next result): so a search
    that was stopped and resumed proposes what it would have proposed without the stop.
    """

    from_: Annotated[str, Field(alias="from")]
    objective: Annotated[dict[str, Goal], Field(min_length=1, description="a mapping such as {eval_loss: min}")]
    budget: Budget
    sampler: Annotated[Choice, Field(description="one sampler, such as tpe")]
    pruner: Literal["none"] | Pruner
    beforehand: Beforehand
    confirm: Literal["none"] | Confirm
    parallel: Annotated[int, Field(ge=1, le=1_024)]
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)]
    vary: Vary = Vary()
    start: str | None = None


Ends: TypeAlias = Path | LeaveOneOut | AddOneIn | Factorial | Fractional | PlackettBurman | DOptimal


class Design(OneKind):
    """A design; exactly one key is given, and says which kind it is."""

    compare: Annotated[tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=2)] | None = None
    path: Path | None = None
    leave_one_out: LeaveOneOut | None = None
    add_one_in: AddOneIn | None = None
    factorial: Factorial | None = None
    fractional: Fractional | None = None
    plackett_burman: PlackettBurman | None = None
    d_optimal: DOptimal | None = None
    ladder: SizeLadderDesign | None = None
    search: Search | None = None

    @property
    def vary(self) -> Vary:
        varying = self.factorial or self.search
        return varying.vary if varying is not None else Vary()

    @property
    def sizes(self) -> LadderSizes:
        return self.ladder.sizes if self.ladder is not None else LadderSizes()

    @property
    def blocks(self) -> tuple[str, ...]:
        if self.compare is not None:
            return self.compare
        if self.ladder is not None:
            return tuple(dict.fromkeys(self.ladder.compare))
        if self.search is not None:
            return (self.search.from_,)
        ends = self.ends
        return (ends.from_, ends.to) if ends is not None else ()

    @property
    def ends(self) -> Ends | None:
        return (
            self.path
            or self.leave_one_out
            or self.add_one_in
            or self.factorial
            or self.fractional
            or self.plackett_burman
            or self.d_optimal
        )


# Checks across the keys of a search, which no key shows by itself

SEARCH = ("design", "search")
EVALUATED = ("measure", "evaluation", "every")
ROUNDING = 1e-9
"""A share of the steps that falls short of a whole number of evaluations by no more than this is taken as one."""


def check_search(
    search: Search,
    origins: Origins,
    problems: Problems,
    *,
    sampler: SamplerSpec,
    recipe: Recipe | None,
    measure: Measure | None,
    seeds: tuple[int, ...] | None,
) -> None:
    """Check that a search fits the sections around it; one that is None has its own mistakes, and is not checked."""
    if _has_one_kind(search.budget, "budget", origins, problems) and seeds is not None:
        _check_trials(search, len(seeds), origins, problems)
    pruner = search.pruner
    if isinstance(pruner, Pruner):
        sound = _has_one_kind(pruner, "pruner", origins, problems, "or pruner: none")
        if sound and recipe is not None and measure is not None:
            wrong = misplaced(pruner.rungs, recipe.steps, measure.evaluation.every)
            if wrong is not None:
                paths = ((*SEARCH, "pruner", pruner.kind, "first"), ("recipe", "steps"), EVALUATED)
                origins.add(problems, wrong[0], *paths, notes=(wrong[1],))
    for metric in search.objective:
        if metric in OF_AVERAGE and isinstance(pruner, Pruner):
            message = f"{metric} is measured at the end of a trial, but the pruner compares at rungs before it"
            notes = ("search for eval_loss, or set pruner: none",)
            origins.add(problems, message, (*SEARCH, "objective", metric), (*SEARCH, "pruner"), notes=notes)
    if sampler.objectives == "one" and len(search.objective) > 1:
        these = f"{len(search.objective)}: {', '.join(search.objective)}"
        message = f"{sampler.name} supports one objective, and this search has {these}"
        notes = ("keep one of them, or use a sampler for several, such as nsga2",)
        origins.add(problems, message, (*SEARCH, "sampler"), (*SEARCH, "objective"), notes=notes)


def _has_one_kind(document: OneKind, key: str, origins: Origins, problems: Problems, *or_else: str) -> bool:
    written, kinds = origins.written(*SEARCH, key), list(type(document).model_fields)
    given = [name for name in kinds if getattr(document, name) is not None]
    if len(given) == 1 and isinstance(written, Mapping) and len(written.entries) == 1:
        return True
    notes = (f"one of: {', '.join(kinds)}", *or_else)
    problems.add(f"a {key} must have exactly one kind", origins.key(*SEARCH, key), notes=notes)
    return False


def _check_trials(search: Search, seeds: int, origins: Origins, problems: Problems) -> None:
    """Check that a budget in trials covers the reference, at least one block, and all blocks to be confirmed."""
    trials = search.budget.trials
    if trials is None:
        return
    each = f"{seeds} {'seed' if seeds == 1 else 'seeds'} per block"
    blocks = trials // seeds - 1
    if blocks < 1:
        message = f"a budget of {trials} {'trial' if trials == 1 else 'trials'} leaves none for proposals"
        notes = (f"{each}, and the reference is the first block: give at least {2 * seeds:,} trials",)
        origins.add(problems, message, (*SEARCH, "budget", "trials"), ("seeds",), notes=notes)
    elif search.confirm != "none" and search.confirm.blocks > blocks:
        message = f"{search.confirm.blocks} blocks are to be confirmed, but at most {blocks} are trained"
        notes = (f"a budget of {trials:,} trials, {each}, and the reference is one of them",)
        paths = ((*SEARCH, "confirm", "blocks"), (*SEARCH, "budget", "trials"), ("seeds",))
        origins.add(problems, message, *paths, notes=notes)


def rung_steps(rungs: Rungs, steps: int, every: int) -> tuple[int, ...]:
    """Return the steps of the rungs, at the shares `first`, `first * factor`, … of the steps of a recipe.

    Each is rounded down to an evaluation (every `every` steps) before the end; `misplaced` must have returned None.
    """
    at: list[int] = []
    share = rungs.first
    while share < 1:
        at.append(math.floor(share * steps / every + ROUNDING) * every)
        share *= rungs.factor
    return tuple(step for step in at if step + 1 < steps)


def misplaced(rungs: Rungs, steps: int, every: int) -> tuple[str, str] | None:
    """The mistake in the places of rungs, and the way out; None if there is none.

    The first rung must be at an evaluation after the start and before the end.
    """
    at = rung_steps(rungs, steps, every)
    if at and at[0] > 0:
        return None
    if at and every < steps - 1:
        share = f"{100 * rungs.first:.4g}% of {steps:,} steps"
        message = f"the first rung, at {share}, is before the first evaluation, at step {every:,}"
        return message, f"start later (first: {math.ceil(100 * every / steps)}%), or evaluate more often"
    message = f"no evaluation, one every {every:,} of {steps:,} steps, can be a rung before the end"
    return message, "evaluate more often, start earlier, or set pruner: none"


def check_beside(origins: Origins, noise: Noise | None, auto: Auto | None, problems: Problems) -> None:
    """Note the sections that a search cannot use: A/A arms, and seeds that are added."""
    if noise is not None:
        notes = (
            "leave noise out, and measure it in a separate space with the same recipe: "
            "design: {compare: [...]}, noise: {seeds: 5}",
        )
        problems.add("a search trains no A/A arm: noise has no effect on it", origins.section("noise"), notes=notes)
    if auto is not None:
        notes = ("give a number: seeds: 3; to confirm the best blocks: design.search.confirm: {blocks: 3, seeds: 5}",)
        message = "a search trains each block at fixed seeds: it adds no seeds"
        problems.add(message, origins.section("seeds"), notes=notes)


class DesignReader(SectionReader):
    def read(self, measure: Measure | None, recipe: Recipe | None, seeds: tuple[int, ...] | None) -> Design | None:
        located = self.located.get("design")
        search = located.get("search") if isinstance(located, Mapping) else None
        judged = JudgeReader(self.located, self.grammar, self.problems, self.origins)
        objective = search.get("objective") if isinstance(search, Mapping) else None
        for key, _ in objective.entries if isinstance(objective, Mapping) else ():
            judged.check_metric(key, measure, "searched for", ("design", "search", "objective"))
        if not isinstance(located, Mapping):
            return self.section("design", Design)
        plain, vary = self._vary(located)
        plain, sizes = self._sizes(plain)
        sampler = None
        if isinstance(search, Mapping):
            plain = replaced(plain, "search", without(without_settings(search, "sampler"), VARY))
            sampler = self.chosen(search, SamplerSpec, "design.search.sampler")
        design = validate(Design, self.opened("design", plain.entries), self.problems, "design", HINTS)
        if design is None or vary is None or sizes is None:
            return None
        if len(located.entries) != 1:
            notes = (f"one of: {', '.join(Design.model_fields)}",)
            self.problems.add("a design must have exactly one kind", self.origins.section("design"), notes=notes)
            return None
        if design.factorial is not None:
            return design.model_copy(update={"factorial": design.factorial.model_copy(update={"vary": vary})})
        if design.ladder is not None:
            return design.model_copy(update={"ladder": design.ladder.model_copy(update={"sizes": sizes})})
        if design.search is None:
            return design
        if sampler is None:
            return None
        spec = self.grammar.catalogue.of_kind(SamplerSpec)[sampler.name]
        check_search(
            design.search, self.origins, self.problems, sampler=spec, recipe=recipe, measure=measure, seeds=seeds
        )
        searched = design.search.model_copy(update={"sampler": sampler, "vary": vary})
        return design.model_copy(update={"search": searched})

    def _vary(self, located: Mapping) -> tuple[Mapping, Vary | None]:
        entries: list[tuple[Scalar, Located]] = []
        found: Vary | None = Vary()
        for key, body in located.entries:
            if isinstance(body, Mapping) and VARY in body and key.value in Design.model_fields:
                searched = key.value == "search"
                if searched or key.value == "factorial":
                    found = read_vary(body.key(VARY), body[VARY], self.problems, ranges=searched)
                else:
                    found = None
                    message = f"{key.text} has no vary: only a factorial and a search try several values"
                    notes = ("such as factorial: {from: pre_ln, to: op, vary: {model.layers: [4, 8, 16]}}",)
                    self.problems.add(message, body.key(VARY).span, notes=notes)
                body = without(body, VARY) if searched else fill_end(body)
            entries.append((key, body))
        return Mapping(tuple(entries), located.span), found

    def _sizes(self, located: Mapping) -> tuple[Mapping, LadderSizes | None]:
        ladder = located.get("ladder")
        if not isinstance(ladder, Mapping):
            return located, LadderSizes()
        return replaced(located, "ladder", without(ladder, SIZES, NEXT)), read_sizes(ladder, self.problems)
