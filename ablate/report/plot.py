"""A plot as a value, and as SVG within a page: the same text every time, with colours by name that the page defines.

`figures/` draws the same values as files.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ablate.output.escape import for_html as escape
from ablate.output.escape import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

Draw: TypeAlias = "Callable[[Axes], None]"
Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot with a panel for each of `draw`, row by row.

    `name` is the name of its files, and `id` makes its element ids unique on a page. `about` is its alternative text,
    `headline` the sentence before the `caption` where the plot stands alone. `height` is that of a row of panels, or
    those of all rows, in inches. The `legend` is that of the last panel. `key`, under `key_title`, is the meaning of
    the shades, each with the name of its colour. `rows` under `columns` are the numbers drawn, in full.
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


def row_heights(plot: Plot) -> list[float]:
    rows = -(-len(plot.draw) // plot.panels_across)
    return [plot.height] * rows if isinstance(plot.height, int | float) else list(plot.height)


def fill(figure: Figure, plot: Plot, heights: Sequence[float]) -> tuple[list[Axes], Axes]:
    """Draw every panel; return those that were drawn, and the last, whose legend is that of all."""
    grid = figure.subplots(len(heights), plot.panels_across, squeeze=False, gridspec_kw={"height_ratios": heights})
    panels: list[Axes] = list(grid.flat)
    for panel, axes in zip(plot.draw, panels, strict=False):
        panel(axes)
    for empty in panels[len(plot.draw) :]:
        empty.set_axis_off()
    return panels[: len(plot.draw)], panels[len(plot.draw) - 1]


SERIES = 6  # number of lines of a plot with a colour of their own
SHADES = 8  # the number of shades of a heat map, from the lowest to the highest
INK: Mapping[str, str] = {
    "ink": "#010101",
    "faint": "#020202",
    "front": "#030303",
    "reference": "#040404",
    "fresh": "#050505",
    "paper": "#060606",
    "wash": "#070707",
    "better": "#080808",
    "worse": "#090909",
    "same": "#0a0a0a",
    **{f"line{k}": f"#1{k}1{k}1{k}" for k in range(SERIES)},
    **{f"shade{k}": f"#2{k}2{k}2{k}" for k in range(SHADES)},
}
"""Placeholder colours, which are replaced by the page's colour of that name (`var(--front)`)."""
WIDTH, HEIGHT = 5.4, 4.2  # size of a plot, in inches
LONG = 36  # length of a name, in characters, beyond which a legend as wide as `WIDTH` has one column
SETTINGS: Mapping[RcKeyType, object] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ablate",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.parse_math": False,
    "text.color": INK["ink"],
    "axes.edgecolor": INK["faint"],
    "axes.labelcolor": INK["ink"],
    "axes.facecolor": "none",
    "xtick.color": INK["ink"],
    "ytick.color": INK["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}

LINE, LINES = 0.17, 2
"""Height of a line of a legend in inches, and the number of lines beyond which a legend makes its plot higher."""


@contextmanager
def configured(settings: Mapping[RcKeyType, object]) -> Iterator[None]:
    """Use these settings of matplotlib, whatever the user has configured."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        yield


def svg_of(plot: Plot, width: float = WIDTH) -> str:
    """Return the plot as an SVG element of this width in inches; its `id` makes ids unique on the page."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    heights = row_heights(plot)
    with configured(SETTINGS):
        figure = Figure(figsize=(width, sum(heights)), layout="constrained")
        canvas: Any = FigureCanvasSVG(figure)
        _, last = fill(figure, plot, heights)
        handles, labels = last.get_legend_handles_labels()
        if labels and plot.legend:
            ncols = 2 if max(map(len, labels)) <= LONG * width / WIDTH else 1
            figure.legend(handles, labels, loc="outside lower center", ncols=ncols)
            lines = -(-len(labels) // ncols)
            figure.set_figheight(sum(heights) + LINE * max(0, lines - LINES))
        file = io.StringIO()
        with warnings.catch_warnings():
            # A letter that this font lacks is only measured with it: the reader's browser draws it.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            # Not with `savefig`, which draws everything twice.
            canvas.print_svg(file, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _within(visible(file.getvalue()), plot.id, plot.about)


def _within(svg: str, name: str, about: str) -> str:
    """Return the element alone: no declaration, no fixed size, ids and colours of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (width|height|version|xmlns:xlink)="[^"]*"', "", opening)
    rest = rest.replace("xlink:href", "href")
    for colour, value in INK.items():
        rest = rest.replace(value, f"var(--{colour})")
    rest = re.sub(r'\bid="', f'id="{name}-', rest)
    rest = re.sub(r'href="#', f'href="#{name}-', rest)
    rest = re.sub(r"url\(#", f"url(#{name}-", rest)
    described = f'<title id="{name}-about">{escape(about)}</title>'
    return f'{opening} role="img" aria-labelledby="{name}-about">{described}{rest.strip()}\n'
