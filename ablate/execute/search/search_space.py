"""The search space: the derivations of a grammar under the settings of a space.

Every derived block has the overrides of the space's `block:`. It is admitted if no row of parts is too long, if the
constraints admit it, if it can be built at the sizes of the space, and if no veto and no forecast excludes it. Counts
are checked first, then forecasts, then whether it can be built, then measurements; a block that is refused at one stage
is not examined in the next. If this machine cannot examine a block, that is not a refusal.

If the search varies values too, a derivation has one of each address: those of the block's fields are laid over the
block, all others around it, and the space must admit them together. A value that the space has already is no change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from collections.abc import Sequence as SequenceABC
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from ablate.block import expression
from ablate.block.architecture import BLOCK as OF_BLOCK
from ablate.block.architecture import Architecture, check_reads_encoder, encoder_block, faults
from ablate.block.expression import Block, Node, Sequence, Series, Value
from ablate.block.reader import MOST_PARTS, Invalid
from ablate.block.sizes import Cost
from ablate.errors import InputError, RefusedError
from ablate.execute.forecaster import Forecaster
from ablate.execute.start import MEASURED, StartMeasures, build_layers, measure_start
from ablate.grammar.derivation import Alternatives, FixedValue, Hole, Product, Scale, Template, Varied
from ablate.grammar.mutate import DerivationSource
from ablate.plan.models import Models, TokenisedText
from ablate.plan.proposals import Treated, block_of, setting_of, treated
from ablate.source.problems import Problems
from ablate.space.changes import decided
from ablate.space.design import AVOID, Search, ZeroCost
from ablate.space.fair import Plain, text_of
from ablate.space.model import WITH_ENCODER
from ablate.space.schedule import sequences_of
from ablate.space.space import Space
from ablate.space.variants import BLOCK, Changes, overridden, with_value
from ablate.space.vary import FactorLevel, VariedAddress, as_numbers, level_texts

if TYPE_CHECKING:
    from ablate.data.batch import Batch

VETO = "veto: "  # the prefix of a refusal by a veto; others are by constraints, overrides, sizes and forecasts
UNBUILT = "cannot be built at these sizes: "
OTHER_KIND = "it does not fit the kind of model: "
IN_DANGER = "forecast: "
UNSTARTED = "cannot be computed at its start: "
MISFIT = "an override of the space does not fit: "
TOGETHER = "the values do not fit together: "
IN_BLOCK = f"{BLOCK}."
TOO_LONG = f"more than {MOST_PARTS} parts in a row, which take too long to compare"
WAYS_OUT = {
    VETO: "raise that bound in design.search.beforehand.veto, or remove it",
    UNBUILT: "change the sizes in `model:`, or remove from the rules what needs other sizes",
    OTHER_KIND: "search rules of your own whose blocks fit it (grammar), or set another model.kind",
    IN_DANGER: "remove from the rules what leads to it, or set design.search.beforehand.forecast: ignore",
    UNSTARTED: "remove that from the rules, or use no start measure in design.search.beforehand",
    TOGETHER: "change the values in design.search.vary, or what they do not fit to",
    MISFIT: "remove that override from `block:`, or remove from the rules what cannot take it",
    TOO_LONG: "derive shorter blocks, and use model.layers for a deeper model",
}


class SearchGround(DerivationSource, Protocol):
    """A ground whose blocks, with or without values around them, are models that it can identify, count and measure."""

    def mark(self, block: Treated) -> str:
        """Return a mark that is equal for blocks that are the same model at the sizes of the space, trained alike."""

    def flops(self, block: Treated) -> float:
        """Count the FLOPs of training one trial over the whole recipe, see `Cost`; evaluations not counted."""

    def measure(self, by: ZeroCost, block: Treated) -> float:
        """Measure an admitted block before it is trained; InputError if it cannot be built. See `measure_start`."""


@dataclass(frozen=True)
class Bound:
    """Blocks whose measure `by` is above `limit` are vetoed. `text` is the bound as it is printed."""

    by: ZeroCost
    limit: float
    text: str

    @property
    def reason(self) -> str:
        return f"{VETO}{self.by}, at most {self.text}"


@dataclass(frozen=True)
class _Known:
    """A cache by block; `own` tells whether a value around a block is that of the space."""

    costs: dict[Treated, Cost] = field(default_factory=dict)
    starts: dict[Treated, StartMeasures] = field(default_factory=dict)
    marks: dict[Treated, str] = field(default_factory=dict)
    refusals: dict[Treated, tuple[str, ...]] = field(default_factory=dict)
    own: dict[Changes, bool] = field(default_factory=dict)
    unbuilt: dict[Architecture, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class SpaceGround:
    models: Models
    batch: Batch | None = field(repr=False, compare=False)
    bounds: tuple[Bound, ...] = ()
    forecaster: Forecaster | None = field(default=None, repr=False, compare=False)
    _known: _Known = field(default_factory=_Known, repr=False, compare=False)

    @property
    def space(self) -> Space:
        return self.models.space

    @property
    def search(self) -> Search:
        search = self.space.design.search
        assert search is not None
        return search

    @property
    def name(self) -> str:
        return self.space.grammar.name

    @property
    def varied(self) -> tuple[VariedAddress, ...]:
        return self.search.vary.factors

    @cached_property
    def derivations(self) -> Template:
        return with_values(self.space.grammar.derivations, self.varied)

    @property
    def count(self) -> int:
        return self.derivations.count

    def derive(self, k: int) -> Treated:
        """The k-th derivation with the overrides of the space and its values. An override that does not fit is left out
        (then `_unfit` refuses the block). A value of its fields that does not fit stays beside it (then `_apart`
        does)."""
        index, levels = parts_of_number(k, self.varied)
        block = self.space.grammar.derive(index)
        try:
            block = self._overridden(block)
        except InputError:
            return block
        reader = self.space.grammar.reader_for(Problems())
        changes: list[tuple[str, Plain]] = []
        for factor, level in zip(self.varied, levels, strict=True):
            change = (factor.address, level.value)
            if factor.in_block:
                try:
                    block = with_value(block, factor.override(level), reader)
                except Invalid:
                    changes.append(change)
            elif not self._is_own(change):
                changes.append(change)
        return treated(block, tuple(sorted(changes, key=lambda change: change[0])))

    def _is_own(self, change: tuple[str, Plain]) -> bool:
        known = self._known.own
        if (change,) not in known:
            try:
                known[change,] = decided(self.models.at((change,))) == decided(self.space)
            except InputError:  # it may fit to another value, and is checked together with all others
                known[change,] = False
        return known[change,]

    def refusals(self, block: Treated) -> tuple[str, ...]:
        """The reasons not to train a block; empty if it is admitted. RefusedError if this machine cannot tell, for lack
        of memory for example."""
        known = self._known.refusals
        if block not in known:
            known[block] = next(filter(None, self._stages(block)), ())
        return known[block]

    def _stages(self, block: Treated) -> Iterator[tuple[str, ...]]:
        for of_block in (_too_long, self._unfit, self.space.grammar.refusals):
            yield tuple(of_block(block_of(block)))
        of_models = (self._apart, self._misplaced, self._uncounted, self._counted, self._in_danger)
        for of_model in (*of_models, self._unbuilt, self._started):
            yield tuple(of_model(block))

    def way_out(self, reason: str) -> str:
        ways = (way for beginning, way in WAYS_OUT.items() if reason.startswith(beginning))
        return next(ways, self.space.grammar.way_out(reason))

    def mark(self, block: Treated) -> str:
        known = self._known.marks
        if block not in known:
            known[block] = self.models.treatment(block_of(block), setting_of(block))
        return known[block]

    def flops(self, block: Treated) -> float:
        recipe = self.models.recipe(setting_of(block))
        return float(self._cost(block).training_flops * sequences_of(recipe))

    def measure(self, by: ZeroCost, block: Treated) -> float:
        match by:
            case "parameters":
                return float(self._cost(block).parameters)
            case "flops":
                return float(self._cost(block).flops)
            case "start_loss":
                return self._start(block).loss
            case "start_gradient_norm":
                return self._start(block).gradient_norm

    def _overridden(self, block: Block) -> Block:
        problems = Problems()
        try:
            return overridden(block, self.space.overrides, self.space.grammar.reader_for(problems))
        except Invalid:
            raise InputError(next(iter(problems)).message) from None

    def _unfit(self, block: Block) -> Iterator[str]:
        """Refuse a block that an override does not fit, which `derive` returned without it."""
        try:
            self._overridden(block)
        except InputError as error:
            yield f"{MISFIT}{error}"

    def _apart(self, block: Treated) -> Iterator[str]:
        changes = setting_of(block).changes
        misfits = [f"{address}={text_of(value)}" for address, value in changes if address.startswith(IN_BLOCK)]
        if misfits:
            yield f"{TOGETHER}{', '.join(misfits)} cannot be set in this block"
            return
        try:
            self.models.at(changes)
        except InputError as error:
            yield from (f"{TOGETHER}{mistake.message}" for mistake in error.mistakes)

    def _misplaced(self, block: Treated) -> Iterator[str]:
        architecture, catalogue = self._architecture(block), self.space.grammar.catalogue
        for fault in faults(architecture, catalogue):
            if fault.field == OF_BLOCK:
                yield OTHER_KIND + fault.message
        if architecture.kind == WITH_ENCODER:
            try:
                check_reads_encoder(architecture)
                encoder_block(architecture.block, architecture.of_encoder().sizes, catalogue)
            except InputError as error:
                yield OTHER_KIND + _first_line(error)

    def _uncounted(self, block: Treated) -> Iterator[str]:
        try:
            self._cost(block)
        except InputError as error:
            yield UNBUILT + _first_line(error)

    def _counted(self, block: Treated) -> Iterator[str]:
        return self._vetoes(block, [bound for bound in self.bounds if bound.by not in MEASURED])

    def _in_danger(self, block: Treated) -> Iterator[str]:
        """Refuse by the dangers in a forecast, if the search avoids them; each kind of danger is one reason."""
        if self.forecaster is not None and self.search.beforehand.forecast == AVOID:
            yield from (f"{IN_DANGER}{kind}" for kind in self.forecaster.of(block_of(block), setting_of(block)).kinds)

    def _unbuilt(self, block: Treated) -> tuple[str, ...]:
        """Refuse a block that cannot be built; proposals that differ in their recipe alone are built once."""
        known, architecture = self._known.unbuilt, self._architecture(block)
        if architecture not in known:
            try:
                build_layers(architecture, self.space.grammar.catalogue)
            except Exception as error:  # noqa: BLE001  whatever a component raises, its block cannot be trained
                _check_machine(error)
                known[architecture] = (UNBUILT + _first_line(error),)
            else:
                known[architecture] = ()
        return known[architecture]

    def _started(self, block: Treated) -> Iterator[str]:
        """Refuse by measurements at initialisation, made here so that every admitted block has them."""
        order = self.search.beforehand.order
        if (order is None or order.by not in MEASURED) and all(bound.by not in MEASURED for bound in self.bounds):
            return
        try:
            self._start(block)
        except Exception as error:  # noqa: BLE001  as above
            _check_machine(error)
            yield UNSTARTED + _first_line(error)
            return
        yield from self._vetoes(block, [bound for bound in self.bounds if bound.by in MEASURED])

    def _vetoes(self, block: Treated, bounds: list[Bound]) -> Iterator[str]:
        """NaN exceeds every bound."""
        return (bound.reason for bound in bounds if not self.measure(bound.by, block) <= bound.limit)

    def _cost(self, block: Treated) -> Cost:
        known = self._known.costs
        if block not in known:
            known[block] = self.models.cost(block_of(block), setting_of(block))
        return known[block]

    def _architecture(self, block: Treated) -> Architecture:
        return self.models.architecture(block_of(block), setting_of(block))

    def _start(self, block: Treated) -> StartMeasures:
        known = self._known.starts
        if block not in known:
            space = self.space
            if self.batch is None:
                raise ValueError("a start is measured on a batch, and this ground has none")
            architecture, catalogue = self._architecture(block), space.grammar.catalogue
            recipe = self.models.recipe(setting_of(block))
            known[block] = measure_start(
                architecture, catalogue, recipe, self.batch, seed=space.seeds[0], threads=space.threads
            )
        return known[block]


def space_ground(
    space: Space,
    *,
    vocab_size: int,
    repetition: float | None,
    tokens: Callable[[], Batch] | None = None,
    read: Callable[[Space], TokenisedText] | None = None,
    forecaster: Forecaster | None = None,
) -> SpaceGround:
    """The ground of a space over a corpus of that vocabulary; `repetition` and `read` are as in `Models`.

    `tokens` gives the first training batch of the space's first seed as `Batches.at(0)` does, with targets; it is
    called here, once, if a start is to be measured. ValueError for a space that is not a search, or that measures
    without a batch or avoids dangers without a `forecaster`; InputError for a veto by a share of a measure that is not
    finite for the reference.
    """
    search = space.design.search
    if search is None:
        raise ValueError(f"space {space.name} is no search")
    order = search.beforehand.order
    measures = (*search.beforehand.veto, *(() if order is None else (order.by,)))
    batch: Batch | None = None
    if any(by in MEASURED for by in measures):
        if tokens is None:
            raise ValueError(f"space {space.name} measures blocks at their start, for which it needs a batch")
        batch = tokens()  # not during a proposal, where an error would be attributed to a block
    if search.beforehand.forecast == AVOID and forecaster is None:
        raise ValueError(f"space {space.name} avoids what a forecast finds in danger, for which it needs a forecaster")
    ground = SpaceGround(Models(space, vocab_size, "", repetition, read), batch, forecaster=forecaster)
    return replace(ground, bounds=tuple(_bound(ground, by, limit) for by, limit in search.beforehand.veto.items()))


def _bound(ground: SpaceGround, by: ZeroCost, limit: float | str) -> Bound:
    if isinstance(limit, float):
        return Bound(by, limit, f"{limit:,.15g}")
    name = ground.search.from_
    whole = ground.measure(by, ground.space.blocks[name])
    if not math.isfinite(whole):
        raise InputError(
            f"{by} of {name} is {whole:g}, so {limit} of it is no bound\n"
            f"  = give design.search.beforehand.veto.{by} a number, or remove it"
        )
    return Bound(by, float(limit[:-1]) * whole / 100, f"{limit} of {name}'s")


def _too_long(block: Block) -> Iterator[str]:
    if _longest_row(block) > MOST_PARTS:
        yield TOO_LONG


def _longest_row(value: Value) -> int:
    match value:
        case Node(fields=fields):
            return max((_longest_row(child) for _, child in fields), default=0)
        case Sequence() | Series() | tuple():
            here = len(value) if isinstance(value, Sequence) else 0
            return max(here, *(_longest_row(child) for child in value), 0)
    return 0


def _check_machine(error: Exception) -> None:
    """Raise RefusedError if the machine is at fault: at another time the block might be built, so it is not refused."""
    from ablate.train.loop import lacks_memory

    if isinstance(error, OSError) or lacks_memory(error):
        raise RefusedError(
            f"this machine could not build a block of the search: {_first_line(error)}\n"
            "  = once it can, the same command continues from here\n"
            "  = if it lacks memory, free some, or exclude large blocks with design.search.beforehand.veto.parameters"
        ) from error


def _first_line(error: Exception) -> str:
    text = str(error).removeprefix("error: ").partition("\n")[0]
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"


# Derivations of a grammar with values beside them: one more choice for each address that a search varies. The number of
# one stands for a derivation of the grammar and a place among the values of each address, the last one changing
# fastest. So samplers see values like the alternatives of a rule: the address is the name of the choice, and numbers
# are ordered, at even distances on their scale.

NO_VALUE = FixedValue(None)  # the part of a varied value in the block that the grammar derives


def with_values(derivations: Template, factors: SequenceABC[VariedAddress]) -> Template:
    """The derivations of a grammar, each with every combination of values; as they are if nothing is varied."""
    if not factors:
        return derivations
    holes = (derivations, *map(_varied, factors))
    shape = expression.Sequence(tuple(Hole(place) for place in range(len(holes))))  # type: ignore[misc]
    return Product(shape, holes)


def parts_of_number(k: int, factors: SequenceABC[VariedAddress]) -> tuple[int, tuple[FactorLevel, ...]]:
    """The derivation of the grammar, and the value of each address, that a number stands for."""
    levels: list[FactorLevel] = []
    for factor in reversed(factors):
        k, place = divmod(k, len(factor.levels))
        levels.append(factor.levels[place])
    return k, tuple(reversed(levels))


def _varied(factor: VariedAddress) -> Varied:
    words = level_texts(factor.values)
    return Varied(factor.address, Alternatives((NO_VALUE,) * len(words), words, _scale_of(factor)))


def _scale_of(factor: VariedAddress) -> Scale | None:
    """The values of a list count as evenly spaced; None if they are no numbers."""
    if factor.range is not None:
        return factor.range.scale
    return None if as_numbers(factor.values) is None else "linear"
