"""A plot as a value: its drawing functions, its texts, and the numbers behind it. `html/` and `figures/` show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw: TypeAlias = "Callable[[Axes], None]"
"""A function that fills a panel."""
Cell: TypeAlias = str | int | float | None
"""A value of the table behind a plot; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot with a panel for each of `draw`, row by row.

    `name` is the name of its files, and `id` makes its element ids unique on a page. `about` is its alternative text,
    `caption` its caption, and `headline` the sentence before the caption where the plot stands alone. `height` is that
    of a row of panels, or those of all rows, in inches. The `legend` is that of the last panel. `key`, under
    `key_title`, is the meaning of the shades, each with the name of its colour; the page has it in words beside the
    plot. `rows` under `columns` are the numbers drawn, in full.
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
    """Return the height of each row of `panels` panels, `across` of them side by side."""
    return [height] * -(-panels // across) if isinstance(height, int | float) else list(height)


def fill(figure: Figure, draw: Sequence[Draw], across: int, heights: Sequence[float]) -> tuple[list[Axes], Axes]:
    """Draw every panel; return those that were drawn, and the last, whose legend is that of all."""
    grid = figure.subplots(len(heights), across, squeeze=False, gridspec_kw={"height_ratios": heights})
    panels: list[Axes] = list(grid.flat)
    for panel, axes in zip(draw, panels, strict=False):
        panel(axes)
    for empty in panels[len(draw) :]:
        empty.set_axis_off()
    return panels[: len(draw)], panels[len(draw) - 1]
