"""The files of a plot: drawings at the width of a column and of a page, and its numbers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ablate.output.escape import no_formula, visible, written_out
from ablate.output.words import wrapped
from ablate.report.plot import INK, Plot, configured, fill, row_heights
from ablate.report.plot import SETTINGS as ON_PAGE
from ablate.report.screens.query import as_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.typing import RcKeyType

# Colours for paper: those of one plot differ in lightness, so that they stay distinct when printed in greyscale.

PAPER: Mapping[str, str] = {
    "ink": "#000000",
    "faint": "#8c8c8c",
    "front": "#0b3d91",
    "reference": "#8b3fb0",
    "fresh": "#7a4a00",
    "paper": "#ffffff",
    "wash": "#e9e9e9",
    "better": "#0b4a20",
    "worse": "#e0493f",
    "same": "#0b3d91",
    "line0": "#000000",
    "line1": "#450e64",
    "line2": "#0d4f9a",
    "line3": "#077e61",
    "line4": "#df6f20",
    "line5": "#85b7d1",
    "shade0": "#f3f7fc",
    "shade1": "#c6daf1",
    "shade2": "#99bbe6",
    "shade3": "#6d9edb",
    "shade4": "#4080cf",
    "shade5": "#2a64aa",
    "shade6": "#1f497d",
    "shade7": "#142f4f",
}


def lightness(colour: str) -> float:
    """Return how light a colour looks, from 0 (black) to 100 (white): L* of CIELAB, which is what greyscale preserves.

    >>> round(lightness("#ffffff")), round(lightness("#777777"))
    (100, 50)
    """
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return 116 * luminance ** (1 / 3) - 16 if luminance > (6 / 29) ** 3 else luminance * (29 / 3) ** 3


def colour_in(figure: Figure) -> None:
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    for artist in figure.findobj():
        if isinstance(artist, Line2D):
            artist.set_color(_on_paper(artist.get_color()))
            artist.set_markerfacecolor(_on_paper(artist.get_markerfacecolor()))
            artist.set_markeredgecolor(_on_paper(artist.get_markeredgecolor()))
        elif isinstance(artist, Collection):
            artist.set_facecolor([_on_paper(colour) for colour in artist.get_facecolor()])
            artist.set_edgecolor([_on_paper(colour) for colour in artist.get_edgecolor()])
        elif isinstance(artist, Patch):
            _recolour_patch(artist)
        elif isinstance(artist, Text):
            artist.set_color(_on_paper(artist.get_color()))
            box = artist.get_bbox_patch()
            if box is not None:
                _recolour_patch(box)


def _recolour_patch(patch: Any) -> None:
    patch.set_facecolor(_on_paper(patch.get_facecolor()))
    patch.set_edgecolor(_on_paper(patch.get_edgecolor()))


def _on_paper(colour: Any) -> Any:
    from matplotlib.colors import to_hex, to_rgba

    rgba = to_rgba(colour)
    name = _NAMES.get(to_hex(rgba))
    return colour if name is None else to_rgba(PAPER[name], rgba[3])


_NAMES = {value: name for name, value in INK.items()}


# A plot at its true size on paper: text of one size that fits its place, and the key of its shades.

POINTS = 8
FONT = "DejaVu Sans"
DOTS = 300
LINE = 0.16  # height of a line of a legend, in inches
TITLES = ("title", "_left_title", "_right_title")  # the attributes that `Axes.get_title` reads
LINES = 2  # lines that a title or an axis label may take
SIGNS = "=./("  # characters after which a long name is wrapped; not the comma, which also occurs within numbers
BESIDE = 0.45  # inches above and below a square panel
SETTINGS: Mapping[RcKeyType, object] = {
    **{name: value for name, value in ON_PAGE.items() if "color" not in name},
    "font.family": FONT,
    "font.size": POINTS,
    "axes.titlesize": POINTS,
    "legend.fontsize": POINTS,
    "legend.title_fontsize": POINTS,
    "axes.edgecolor": PAPER["faint"],
    "figure.facecolor": "white",
    "axes.facecolor": "none",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "savefig.dpi": DOTS,
}
"""Settings of matplotlib; its bundled font makes a figure the same on every machine."""


def figure_of(plot: Plot, width: float) -> Figure:
    """Return the plot laid out at this width in inches; to be called with matplotlib `configured` by `SETTINGS`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    heights = row_heights(plot)
    figure = Figure(figsize=(width, sum(heights)), dpi=DOTS, layout="constrained")
    FigureCanvasAgg(figure)  # which can measure texts
    panels, last = fill(figure, plot, heights)
    if any(axes.get_aspect() != "auto" for axes in panels):
        heights = [min(height, width / plot.panels_across + BESIDE) for height in heights]
    colour_in(figure)
    for text in (artist for artist in figure.findobj(Text) if isinstance(artist, Text)):
        text.set_text(_drawable(text.get_text()))
        text.set_fontsize(POINTS)
    lines = _legend(figure, plot, last)
    figure.set_figheight(sum(heights) + LINE * lines)
    figure.draw_without_rendering()
    _fit(figure, panels, width / plot.panels_across)
    figure.draw_without_rendering()  # again: the room taken by names beside points moves the points
    figure.set_layout_engine("none")
    return figure


def _drawable(text: str) -> str:
    """Return a text that the font can draw: letters that it lacks are written out, like control characters."""
    from matplotlib.font_manager import findfont, get_font

    known = get_font(findfont(FONT)).get_charmap()
    return "".join(c if c == "\n" or ord(c) in known else written_out(c) for c in visible(text))


def _legend(figure: Figure, plot: Plot, last: Axes) -> int:
    """Put the legend, or the key of the shades, below everything; return its number of lines."""
    from matplotlib.patches import Patch

    handles, labels = last.get_legend_handles_labels() if plot.legend else ([], [])
    handles = [*handles, *(Patch(fc=PAPER[ink], ec=PAPER["faint"], lw=0.4) for ink, _ in plot.key)]
    labels = [_drawable(label) for label in (*labels, *(text for _, text in plot.key))]
    if not labels:
        return 0
    title = _drawable(plot.key_title) or None
    room = figure.get_figwidth() * figure.dpi
    for columns in range(min(4, len(labels)), 0, -1):
        legend = figure.legend(
            handles, labels, loc="outside lower center", ncols=columns, columnspacing=1.2, title=title
        )
        colour_in(figure)
        wide = legend.get_window_extent().width
        if wide <= room or columns == 1:
            return -(-len(labels) // columns) + (title is not None)
        legend.remove()
    return 0


def _fit(figure: Figure, panels: Sequence[Axes], width: float) -> None:
    for axes in panels:
        box = axes.get_window_extent()
        titles: list[Text] = [getattr(axes, name) for name in TITLES]
        along = {
            axes.xaxis.label: (box.width, width * figure.dpi),
            axes.yaxis.label: (box.height, box.height),
            **dict.fromkeys(titles, (box.width, box.width)),
        }
        for text, (room, most) in along.items():
            extent = text.get_window_extent()
            long = extent.height if text is axes.yaxis.label else extent.width
            if text.get_text() and long > min(most, 1.02 * max(room, 1.0)):
                letters = max(len(line) for line in text.get_text().split("\n"))
                text.set_text(_broken(text.get_text(), max(6, int(letters * room / long))))


def _broken(text: str, letters: int) -> str:
    """Return a text wrapped to at most `LINES` lines; what does not fit is replaced by an ellipsis.

    >>> _broken("pre_ln + residual.gain=1/sqrt(2*depth)", 18)
    'pre_ln + residual.\\ngain=1/sqrt(…'
    """
    lines = [line for part in text.split("\n") for line in wrapped(part, letters, SIGNS)]
    if len(lines) <= LINES:
        return "\n".join(lines)
    last = lines[LINES - 1]
    return "\n".join([*lines[: LINES - 1], f"{last[: letters - 1]}…"])


WIDTHS: Mapping[str, float] = {"column": 3.25, "page": 6.75}
"""Widths of a figure in inches: 234 and 486 pt, the column and text widths of most conferences and journals."""
FORMATS = ("svg", "pdf", "png")
LETTERS = 80  # maximum length of a file name, in characters


def files_of(plot: Plot, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield each file of a plot with its name, which begins with `name`. The same plot gives the same bytes."""
    with configured(SETTINGS):
        for size, width in WIDTHS.items():
            for kind, content in _drawn(plot, width):
                yield f"{name}.{size}.{kind}", content
    yield f"{name}.csv", numbers(plot).encode()


def numbers(plot: Plot) -> str:
    """Return the numbers behind a plot as CSV, in full; texts that look like formulas get an apostrophe."""
    rows = [[no_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in plot.rows]
    return as_csv(plot.columns, rows)


def _drawn(plot: Plot, width: float) -> Iterator[tuple[str, bytes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    figure, about = figure_of(plot, width), visible(plot.about)
    png = io.BytesIO()
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(png, metadata={"Software": None, "Title": about})
    pdf = io.BytesIO()
    canvas = FigureCanvasPdf(figure)
    canvas.print_pdf(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None, "Title": about})
    figure.set_dpi(72)
    svg = io.StringIO()
    canvas = FigureCanvasSVG(figure)
    canvas.print_svg(svg, metadata={"Date": None, "Creator": None, "Title": about})
    contents = {"svg": svg.getvalue().encode(), "pdf": pdf.getvalue(), "png": png.getvalue()}
    yield from ((kind, contents[kind]) for kind in FORMATS)


def file_names(plots: list[Plot]) -> list[str]:
    """Return the plots' names, made safe for any file system, and numbered if already taken."""
    names: list[str] = []
    for plot in plots:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", plot.name).strip("-")[:LETTERS] or "figure"
        taken, number, name = {other.lower() for other in names}, 2, plain
        while name.lower() in taken:
            name, number = f"{plain}-{number}", number + 1
        names.append(name)
    return names


_OURS = re.compile(rf"(?P<name>.+)\.({'|'.join(WIDTHS)})\.({'|'.join(FORMATS)})")


def belongs_to_export(names: list[str]) -> list[str]:
    figures = {match["name"] for name in names if (match := _OURS.fullmatch(name))}
    return [name for name in names if _OURS.fullmatch(name) or name.removesuffix(".csv") in figures]
