"""Matching: sizes at which a model has as many parameters as another, and steps at which its training costs as much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from ablate.block.address import change_parts, parts_by_name
from ablate.block.expression import Block, Node, Size
from ablate.block.sizes import Cost
from ablate.errors import InputError
from ablate.output.words import plural
from ablate.plan.designs import DesignArm
from ablate.plan.models import Models
from ablate.plan.plan import Setting
from ablate.space.fair import DEPTH, HIDDEN, WIDTH, BudgetKind, Match
from ablate.space.recipe import BatchRamp
from ablate.space.schedule import sequences, steps_of

# Sizes that give a model as many parameters as another: searched over exact counts, in closed form.
#
# A size is a whole number n: the width of a head for `width` (so that the number of heads stays), layers for `depth`,
# hidden units of the first MLP for `mlp` (others keep their proportion to it). Parameters rise with each, so
# bisection finds the last n below the target and the first that is not; the nearer is taken, the smaller if both are
# equally near. A size at which a component cannot be built (an odd head under RoPE, a hidden width that is not a
# whole number) is skipped.

LARGEST = {WIDTH: 1_000_000, DEPTH: 1_000, HIDDEN: 1_000_000}
MOST_SKIPPED = 64
"""The most consecutive sizes skipped because they cannot be built; after these no larger one is tried."""
UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The nearest size of a block: its `parameters` against those `wanted`, `within` the tolerance or not.

    `what` describes the change of size.
    """

    block: Block
    setting: Setting
    parameters: int
    wanted: int
    what: str
    within: bool

    @property
    def off(self) -> float:
        """The relative error in parameters."""
        return self.parameters / self.wanted - 1


@dataclass(frozen=True, slots=True)
class _Axis:
    """The models along one size: how many there are, the block and setting of each, and the present size in `has`."""

    most: int
    at: Callable[[int], tuple[Block, Setting]]
    says: Callable[[int], str]
    has: str


def match(arm: DesignArm, wanted: int, terms: Match, models: Models) -> Matched | None:
    """Match the parameters of a treatment; None where its block has no such size, or can be built at none.

    One within the tolerance already stays unchanged.
    """
    block, own = arm.block, arm.setting
    as_it_is = models.cost(block, own).parameters
    if abs(as_it_is / wanted - 1) <= terms.parameters:
        return Matched(block=block, setting=own, parameters=as_it_is, wanted=wanted, what=UNCHANGED, within=True)
    axis = _axis(arm, terms, models)
    if axis is None:
        return None

    @cache
    def count(n: int) -> int | None:
        try:
            return models.cost(*axis.at(n)).parameters
        except InputError:
            return None

    below, above = _around(count, wanted, axis.most)
    sizes = [(n, size) for n in (below, above) if n is not None and (size := count(n)) is not None]
    if not sizes:
        return None
    n, parameters = min(sizes, key=lambda entry: abs(entry[1] - wanted))
    changed, setting = axis.at(n)
    return Matched(
        block=changed,
        setting=setting,
        parameters=parameters,
        wanted=wanted,
        what=axis.has if parameters == as_it_is else axis.says(n),
        within=abs(parameters / wanted - 1) <= terms.parameters,
    )


def _around(count: Callable[[int], int | None], wanted: int, most: int) -> tuple[int | None, int | None]:
    """Return the last size below the target and the first that is not, among those that can be built."""

    def first(start: int, end: int) -> int | None:
        passed = range(start, min(end, start + MOST_SKIPPED))
        return next((n for n in passed if count(n) is not None), None)

    def reaches(n: int) -> bool:
        return (count(n) or 0) >= wanted

    above = first(1, most + 1)
    below = None
    while above is not None and not reaches(above):
        below, above = above, first(min(2 * above, most), most + 1) if above < most else None
    if below is None:
        return None, above
    end = most + 1 if above is None else above
    while end - below > 1:
        middle = (below + end) // 2
        n = first(middle, end)
        if n is None:
            end = middle
        elif reaches(n):
            above, end = n, middle
        else:
            below = n
    return below, above


def _axis(arm: DesignArm, terms: Match, models: Models) -> _Axis | None:
    block, own, model = arm.block, arm.setting, models.at(arm.changes).model
    if terms.by == WIDTH:
        heads, width = model.heads, model.width
        return _Axis(
            LARGEST[WIDTH] // heads,
            lambda n: (block, replace(own, width=None if n * heads == width else n * heads)),
            lambda n: f"width {width} → {n * heads}",
            f"its width of {width}",
        )
    if terms.by == DEPTH:
        layers = model.layers
        return _Axis(
            LARGEST[DEPTH],
            lambda n: (block, replace(own, layers=None if n == layers else n)),
            lambda n: f"layers {layers} → {n}",
            f"its {plural(layers, 'layer')}",
        )
    parts = parts_by_name(block, models.space.grammar.catalogue)
    widths = [_units(node, model.width) for _, node in parts if has_hidden(node)]
    if not widths:
        return None
    return _Axis(
        LARGEST[HIDDEN],
        lambda n: (_with_hidden(block, n, widths[0], model.width, models), own),
        lambda n: f"hidden width of the MLP {widths[0]:g} → {n}",
        f"its hidden width of the MLP, {widths[0]:g}",
    )


def has_hidden(node: Node) -> bool:
    return any(name == "hidden" for name, _ in node.fields)


def _units(node: Node, width: int) -> float:
    size = node["hidden"]
    assert isinstance(size, Size)
    return float(size.at(width))


def _with_hidden(block: Block, units: int, first: float, width: int, models: Models) -> Block:
    """Return the block with its first MLP `units` wide, and the others in proportion."""

    def change(node: Node) -> Node:
        if not has_hidden(node):
            return node
        return node.replace({"hidden": Size(units=max(1, round(_units(node, width) * units / first)))})

    changed, _ = change_parts(block, "*", change, models.space.grammar.catalogue)
    return changed


# Steps such that a model's training costs as much as the baseline's.
#
#     tokens      steps = steps of the baseline × tokens per step of the baseline / tokens per step of the model
#     flops       steps = steps of the baseline × training FLOPs per step of the baseline / those of the model
#     wallclock   steps = steps of the baseline × seconds per step of the baseline / seconds per step of the model
#
# to the nearest whole number of at least 1; FLOPs per step are those of training on one sequence (see `Cost`) ×
# batch. Where no treatment changes the batch or the context, equal steps are equal tokens. Where the batch grows,
# steps are not alike, and it is sequences that are counted: a run has the number of steps whose sequences
# (`space/schedule.py`), each with its tokens, FLOPs, or seconds of a full batch / batch, come nearest to what the
# baseline's cost.


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBudget:
    """The `steps` of a model (None: they depend on a measurement still to come), and their description."""

    steps: int | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The cost of a training: its `steps`, and per step the sequences, their tokens, and seconds (None: not known)."""

    steps: int
    batch: int
    context: int
    cost: Cost
    pace: float | None = None
    ramp: BatchRamp | None = None

    @property
    def tokens(self) -> int:
        """Tokens per step."""
        return self.batch * self.context

    @property
    def flops(self) -> int:
        """Training FLOPs per step."""
        return self.cost.training_flops * self.batch

    def sequences(self, steps: int) -> int:
        return sequences(self.batch, self.ramp, steps)

    def steps_at(self, each: float, total: Fraction) -> int:
        """Return the steps of the run that costs nearest to `total`, if a full batch costs `each`."""
        if self.ramp is None:
            return nearest_steps(1, total, each)
        return steps_of(self.batch, self.ramp, total / Fraction(each) * self.batch)

    def total(self, each: float) -> Fraction:
        """The cost of the whole training, if a full batch costs `each`."""
        return Fraction(each) * Fraction(self.sequences(self.steps), self.batch)


def steps_for(budget: BudgetKind, here: Training, baseline: Training) -> StepBudget:
    """Return the steps at which a model's training costs as much as the baseline's."""
    steps = baseline.steps
    if budget == "tokens" and (here.tokens, here.ramp) != (baseline.tokens, baseline.ramp):
        fair = here.steps_at(here.tokens, baseline.total(baseline.tokens))
        tokens = compared_counts(here.context * here.sequences(fair), baseline.context * baseline.sequences(steps))
        return StepBudget(steps=fair, what=f"steps {_steps_change(steps, fair)}, tokens {tokens}")
    if budget == "flops":
        fair = here.steps_at(here.flops, baseline.total(baseline.flops))
        each, of_baseline = here.cost.training_flops, baseline.cost.training_flops
        flops = compared_counts(each * here.sequences(fair), of_baseline * baseline.sequences(steps))
        return StepBudget(steps=fair, what=f"steps {_steps_change(steps, fair)}, training FLOPs {flops}")
    if budget == "wallclock":
        if here.pace is None or baseline.pace is None:
            return StepBudget(steps=None, what="")
        total = baseline.total(baseline.pace)
        fair = here.steps_at(here.pace, total)
        pace = f"{milliseconds(here.pace)} per step against {milliseconds(baseline.pace)}"
        spent = here.pace * here.sequences(fair) / here.batch
        off = f"{spent / float(total) - 1:+.1%}".replace("%", " %")
        return StepBudget(steps=fair, what=f"steps {_steps_change(steps, fair)}, {pace}, total time {off}")
    return StepBudget(steps=here.steps, what="")


def nearest_steps(steps: int, baseline: float | Fraction, here: float) -> int:
    """Return steps times baseline / here, to the nearest whole number of at least 1.

    >>> nearest_steps(200, 10, 8), nearest_steps(3, 1, 100)
    (250, 1)
    """
    return max(1, round(steps * Fraction(baseline) / Fraction(here)))


def compared_counts(here: int, wanted: int) -> str:
    """Compare a count with the one that was wanted.

    >>> compared_counts(1_250_304, 1_249_024)
    '1,250,304 against 1,249,024 (+0.1 %)'
    """
    off = here / wanted - 1
    share = "the same" if here == wanted else f"{100 * off:+.1f} %" if abs(off) >= 0.0005 else f"{100 * off:+.1g} %"
    return f"{_count(here)} against {_count(wanted)} ({share})"


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**10 else f"{number:.4e}"


def _steps_change(before: int, after: int) -> str:
    return f"{before:,} → {after:,}" if before != after else f"{before:,}"


def milliseconds(seconds: float) -> str:
    """Format a time per step, to three digits.

    >>> milliseconds(0.01234), milliseconds(2.5)
    ('12.3 ms', '2.5 s')
    """
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
