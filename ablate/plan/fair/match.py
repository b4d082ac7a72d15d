"""Sizes that give a model as many parameters as another: searched over exact counts, in closed form.

A size is a whole number n: the width of a head for `width` (so that the number of heads stays), layers for `depth`,
hidden units of the first MLP for `mlp` (others keep their proportion to it). Parameters rise with each, so bisection
finds the last n below the target and the first that is not; the nearer is taken, the smaller if both are equally near.
A size at which a component cannot be built (an odd head under RoPE, a hidden width that is not a whole number) is
skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from ablate.block.expression import Block, Node, Size
from ablate.block.select import change_parts, parts_by_name
from ablate.errors import InputError
from ablate.output.words import plural
from ablate.plan.designs import DesignArm
from ablate.plan.models import Models
from ablate.plan.setting import Setting
from ablate.space.fair import DEPTH, HIDDEN, WIDTH, Match

MOST = {WIDTH: 1_000_000, DEPTH: 1_000, HIDDEN: 1_000_000}
"""The largest width, number of layers and hidden width that are tried."""
PASSED_OVER = 64
"""The most consecutive sizes skipped because they cannot be built; after these no larger one is tried."""
AS_IT_IS = "unchanged"
"""Describes a block that is within the tolerance already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The size of a block that is nearest: its `parameters` against the `wanted` number; `within` the tolerance or not.

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
    """Match the parameters of a treatment to those wanted; one within the tolerance already stays unchanged.

    None where its block has no such size, or cannot be built at any.
    """
    block, own = arm.block, arm.setting
    as_it_is = models.cost(block, own).parameters
    if abs(as_it_is / wanted - 1) <= terms.parameters:
        return Matched(block=block, setting=own, parameters=as_it_is, wanted=wanted, what=AS_IT_IS, within=True)
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
        passed = range(start, min(end, start + PASSED_OVER))
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
            MOST[WIDTH] // heads,
            lambda n: (block, replace(own, width=None if n * heads == width else n * heads)),
            lambda n: f"width {width} → {n * heads}",
            f"its width of {width}",
        )
    if terms.by == DEPTH:
        layers = model.layers
        return _Axis(
            MOST[DEPTH],
            lambda n: (block, replace(own, layers=None if n == layers else n)),
            lambda n: f"layers {layers} → {n}",
            f"its {plural(layers, 'layer')}",
        )
    widths = list(_hidden(block, model.width, models))
    if not widths:
        return None
    return _Axis(
        MOST[HIDDEN],
        lambda n: (_with_hidden(block, n, widths[0], model.width, models), own),
        lambda n: f"hidden width of the MLP {widths[0]:g} → {n}",
        f"its hidden width of the MLP, {widths[0]:g}",
    )


def _hidden(block: Block, width: int, models: Models) -> Iterator[float]:
    """Yield the hidden widths of the MLPs of a block, in reading order."""
    for _, node in parts_by_name(block, models.space.grammar.catalogue):
        if has_hidden(node):
            yield _units(node, width)


def has_hidden(node: Node) -> bool:
    """Return whether a part has a hidden width of its own."""
    return any(name == "hidden" for name, _ in node.fields)


def _units(node: Node, width: int) -> float:
    size = node["hidden"]
    assert isinstance(size, Size)
    return float(size.at(width))


def _with_hidden(block: Block, units: int, first: float, width: int, models: Models) -> Block:
    """Return the block with its first MLP that wide, and the others in proportion."""

    def change(node: Node) -> Node:
        if not has_hidden(node):
            return node
        return node.replace({"hidden": Size(units=max(1, round(_units(node, width) * units / first)))})

    changed, _ = change_parts(block, "*", change, models.space.grammar.catalogue)
    return changed
