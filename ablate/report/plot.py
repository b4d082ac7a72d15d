"""A plot as a value: what draws it, what it says, and the numbers behind it. `html/` and `figures/` show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw: TypeAlias = "Callable[[Axes], None]"
"""What fills a panel."""
Cell: TypeAlias = str | int | float | None
"""A value of the table behind a plot; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot with a panel for each of `draw`, row by row.

    `name` is that of its files and `id` what keeps its ids apart on a page. `about` says what it shows to who does not
    see it, `caption` the rest in sentences, and `headline` what stands before that where no page is around it.
    `height` is that of a row of panels, or those of all rows, in inches. The `legend` is that of the last panel. `key`,
    under `key_title`, is what shades stand for, each with the name of its colour; the page says that in words beside
    the plot. `rows` under `columns` are the numbers drawn, in full.
    """

    name: str
    id: str
    draw: tuple[Draw, ...]
    about: str
    caption: str
    height: float | tuple[float, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    panels_across: int = 1
    legend: bool = True
    key: tuple[tuple[str, str], ...] = ()
    key_title: str = ""
    headline: str = ""


def row_heights(panels: int, across: int, height: float | Sequence[float]) -> list[float]:
    """The height of each row of so many panels, so many of them side by side."""
    return [height] * -(-panels // across) if isinstance(height, int | float) else list(height)


def fill(figure: Figure, draw: Sequence[Draw], across: int, heights: Sequence[float]) -> tuple[list[Axes], Axes]:
    """Draw every panel; those that were drawn, and the last, whose legend is that of all."""
    grid = figure.subplots(len(heights), across, squeeze=False, gridspec_kw={"height_ratios": heights})
    panels: list[Axes] = list(grid.flat)
    for panel, axes in zip(draw, panels, strict=False):
        panel(axes)
    for empty in panels[len(draw) :]:
        empty.set_axis_off()
    return panels[: len(draw)], panels[len(draw) - 1]
