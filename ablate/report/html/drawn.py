"""Plots as SVG within a page: the same text every time, with colours by name that the page defines."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ablate.output.escape import for_html as escape
from ablate.output.escape import visible
from ablate.report.plot import Draw, Plot, fill, row_heights

SERIES = 6
"""Number of lines of a plot with a colour of their own."""
SHADES = 8
"""Number of shades of a heat map, from the lowest to the highest."""
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
WIDTH, HEIGHT = 5.4, 4.2
"""Size of a plot, in inches."""
LONG = 36
"""Length of a name, in characters, beyond which a legend as wide as `WIDTH` has one column."""
SETTINGS: Mapping[str, Any] = {
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


def shown(plot: Plot, width: float = WIDTH) -> str:
    """Return a plot as an SVG element of this width in inches."""
    return drawn(
        plot.draw,
        plot.id,
        plot.about,
        plot.height,
        width=width,
        columns=plot.panels_across,
        legend=plot.legend,
    )


def drawn(
    draw: Sequence[Draw],
    name: str,
    about: str,
    height: float | Sequence[float] = HEIGHT,
    *,
    width: float = WIDTH,
    columns: int = 1,
    legend: bool = True,
) -> str:
    """Return an SVG element with a panel for each of `draw`, row by row; `name` makes its ids unique on the page.

    `width` is the total width and `height` that of a row, or those of all rows, in inches. The legend is that of the
    last panel.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    heights = row_heights(len(draw), columns, height)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(cast("Any", SETTINGS))
        figure = Figure(figsize=(width, sum(heights)), layout="constrained")
        canvas: Any = FigureCanvasSVG(figure)
        _, last = fill(figure, draw, columns, heights)
        handles, labels = last.get_legend_handles_labels()
        if labels and legend:
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
    return _within(visible(file.getvalue()), name, about)


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
