"""The plan: variants, comparisons and trials, as frozen data. `plan` prints it and `run` executes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ablate.block.cost import Cost
from ablate.block.expression import Block
from ablate.plan.forecast import Forecast
from ablate.plan.setting import PLAIN, Setting
from ablate.plan.trial import Trial
from ablate.source.problems import shorten
from ablate.space.fair import Plain
from ablate.space.ladder import LawKind

DEFAULTS = "model: "
"""How the note of a plan begins that lists what the grammar sets around the blocks."""
TERMS, RATES, IN_FORCE = "equal terms", "rates", "in force"
"""How the notes begin that tell what is equal where no rate was tuned, the rates of a recipe, where there are several,
and what a model makes of a setting."""
INFORMATION = (DEFAULTS, TERMS, RATES, IN_FORCE)
"""How notes begin that are information, not warnings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One distinct block under one set of terms. `names` are all the names that led to it; the first is the one shown.

    `edits` are the names of the edits applied to the design's start. `parameters` trained, `flops` of matrix products
    in one forward pass over one sequence, and those `spared` in training on it (see `Cost`), are of the model of its
    `setting`. `terms` are the names of the terms of
    fairness that it is trained under; none where the space declares only one set. `breaks` are the constraints of the
    grammar that it breaks and that the space tolerates, each by its name and reason.
    """

    id: str
    names: tuple[str, ...]
    block: Block
    edits: tuple[str, ...]
    parameters: int
    flops: int
    spared: int = 0
    setting: Setting = PLAIN
    terms: tuple[str, ...] = ()
    breaks: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The name shown."""
        return self.names[0]

    @property
    def cost(self) -> Cost:
        """Parameters and FLOPs as one value."""
        return Cost(self.parameters, self.flops, self.spared)

    def __repr__(self) -> str:
        edits = "; ".join(self.edits) or "no edits"
        return f"<Variant {self.name}: {shorten(edits)}, {self.parameters:,} parameters, {self.flops:,} FLOPs>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison of the design: what does `change` do, from variant `before` to variant `after` (ids)?

    `kind` is `edit` (one edit), `baseline` (against the judge's baseline), `noise` (the baseline against itself with
    another initialisation: nothing changes, so any difference is noise), in a factorial `main` or `interaction`, or in
    a ladder `trend` (of a treatment's speed-up over sizes). The last three, and the interactions of other designs, are
    not differences of two variants: `weights` has the weight of each variant in a sum, and `before` and `after` are
    empty. `terms` names the terms of fairness. `unpaired` are the addresses that keep the two variants from seeing the
    same batches at one seed (see `plan/pairing.py`).

    The effect of an edit in a factorial is the mean difference it makes over the other edits' levels. The interaction
    of two edits is how much the effect of one changes when the other is present.
    """

    kind: str
    change: str
    detail: str
    before: str
    after: str
    weights: tuple[tuple[str, float], ...] = ()
    terms: str = ""
    unpaired: tuple[str, ...] = ()

    def __repr__(self) -> str:
        under = f" under {self.terms}" if self.terms else ""
        return f"<Comparison {self.kind}: {shorten(self.change)}{under}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """An effect that a factorial estimates, and one it does not, which enters the estimate with the factor `times`."""

    term: tuple[str, ...]
    other: tuple[str, ...]
    times: float


Scale: TypeAlias = Literal["linear", "log", "nominal"]
"""The scale on which the levels of a factor are ordered; none for a nominal one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedFactor:
    """A factor with several levels: an address of the space and its values there, ascending if they are ordered.

    A list or a mapping is kept as text.
    """

    address: str
    values: tuple[bool | int | float | str | None, ...]
    scale: Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """The runs of a factorial: for each variant (by id) whether each edit is present (+1) or not (-1).

    Factors with several levels are `varied`: after the edits, each run has the number of its level of each, from 0.
    Their effects are contrasts of levels, which are named as in `designs/coding.py`.

    `effects` are those that are estimated, as tuples of edits, each with the comparison's name in `Comparison.change`;
    `aliases` are the effects of one or two edits that enter their estimates, and, without a `resolution`, those of
    three edits (up to 12 edits). `resolution` is the Roman numeral of a regular fraction, empty otherwise. A variant
    may be several runs where edits make no difference. `how` describes how the runs were chosen.
    """

    edits: tuple[str, ...]
    runs: tuple[tuple[str, tuple[int, ...]], ...]
    effects: tuple[tuple[str, ...], ...]
    aliases: tuple[Alias, ...] = ()
    resolution: str = ""
    how: str = ""
    varied: tuple[VariedFactor, ...] = ()

    def __repr__(self) -> str:
        varied = f" and {', '.join(factor.address for factor in self.varied)}" if self.varied else ""
        return f"<Factors: {len(self.edits)} edits{varied} in {len(self.runs)} runs, {len(self.effects)} effects>"


def trend_name(treatment: str) -> str:
    """Return what the trend of a treatment over the sizes of a ladder is called."""
    return f"{treatment} over sizes"


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderStep:
    """One size of a ladder in words, and the variant (by id) that each treatment is there."""

    size: str
    variants: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLadder:
    """The `treatments` of a ladder and its `baseline` at each step, from the least training compute to the most.

    `law` is fitted to the baseline's losses. `next` is a size that is not trained, in words, and `next_compute` the
    training FLOPs of each treatment there; empty where none is given.
    """

    baseline: str
    treatments: tuple[str, ...]
    law: LawKind
    steps: tuple[LadderStep, ...]
    next: str = ""
    next_compute: tuple[tuple[str, float], ...] = ()

    def treatment_of(self, trend: str) -> str:
        """Return the treatment whose trend has that name; KeyError if there is none."""
        return {trend_name(treatment): treatment for treatment in self.treatments}[trend]

    def __repr__(self) -> str:
        return f"<PlannedLadder: {', '.join(self.treatments)} against {self.baseline} at {len(self.steps)} sizes>"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptProposal:
    """Proposal number `k` of a search: derivation `derivation` of its grammar, which is `variant`.

    `repeat`: it was proposed before, or is the reference. Of its `choices`, `random` were made independently of any
    result. `skipped` counts what was drawn before it and not trained because of a forecast, by the danger in it.
    """

    k: int
    derivation: int
    variant: str
    repeat: bool
    choices: int
    random: int
    skipped: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The variants, comparisons and trials of a space. `notes` say what was merged, left out or assumed.

    `proposals` are those of a search; while more trials may follow (a search, seeds that are added, settings that are
    tuned), the plan is `open`. `seeds` are those of the verdict, `looks` the numbers of seeds of the interim analyses,
    after each of which more may be added (none: the seeds are fixed). `factors` are a factorial's, by the name of their
    terms, and `ladders` a ladder's. `tried` are the values that tuning trials try, by trial id; one trial may try
    several equivalent settings. `forecasts` are those of the variants, by their ids; none until they are made.
    `profile` is that of the space, if one was chosen.
    """

    space: str
    question: str
    design: str
    baseline: str
    variants: tuple[Variant, ...]
    comparisons: tuple[Comparison, ...]
    seeds: tuple[int, ...]
    trials: tuple[Trial, ...]
    notes: tuple[str, ...]
    proposals: tuple[KeptProposal, ...] = ()
    open: bool = False
    looks: tuple[int, ...] = ()
    factors: tuple[tuple[str, Factors], ...] = ()
    tried: tuple[tuple[str, tuple[tuple[str, Plain], ...]], ...] = ()
    ladders: tuple[tuple[str, PlannedLadder], ...] = ()
    forecasts: tuple[tuple[str, Forecast], ...] = ()
    profile: str | None = None

    def __repr__(self) -> str:
        size = f"{len(self.variants)} variants, {len(self.seeds)} seeds, {len(self.trials)} trials"
        return f"<Plan of {self.space}: {self.design}, {size}{', open' if self.open else ''}>"

    def variant(self, id: str) -> Variant:
        """Return the variant of that id; KeyError if the plan has none."""
        return next(v for v in self.variants if v.id == id)
