"""A plot at its true size on paper: text of one size that fits its place, and the key of its shades."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from ablate.output.escape import visible, written_out
from ablate.output.words import wrapped
from ablate.report.figures.colours import PAPER, colour_in
from ablate.report.html.drawn import SETTINGS as ON_PAGE
from ablate.report.plot import Plot, fill, row_heights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

POINTS = 8
"""Size of all text."""
DOTS = 300
"""Dots per inch of a PNG."""
LINE = 0.16
"""Height of a line of a legend, in inches."""
LINES = 2
"""Number of lines that a title or an axis label may take."""
SIGNS = "=./("
"""Characters after which a long name is wrapped; not the comma, which also occurs within numbers."""
BESIDE = 0.45
"""Inches above and below a square panel."""
SETTINGS: Mapping[str, Any] = {
    **{name: value for name, value in ON_PAGE.items() if "color" not in name},
    "font.family": "DejaVu Sans",
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


@contextmanager
def settings() -> Iterator[None]:
    """Use the settings for paper within the context, whatever the user has configured."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(cast("Any", SETTINGS))
        yield


def figure_of(plot: Plot, width: float) -> Figure:
    """Return the plot laid out at this width in inches; to be called within `settings`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = row_heights(len(plot.draw), plot.panels_across, plot.height)
    figure = Figure(figsize=(width, sum(heights)), dpi=DOTS, layout="constrained")
    FigureCanvasAgg(figure)  # which can measure texts
    panels, last = fill(figure, plot.draw, plot.panels_across, heights)
    if any(axes.get_aspect() != "auto" for axes in panels):
        heights = [min(height, width / plot.panels_across + BESIDE) for height in heights]
    colour_in(figure)
    for text in _texts(figure):
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

    known = get_font(findfont(SETTINGS["font.family"])).get_charmap()
    return "".join(c if c == "\n" or ord(c) in known else written_out(c) for c in visible(text))


def _texts(figure: Figure) -> list[Text]:
    from matplotlib.text import Text

    return [artist for artist in figure.findobj(Text) if isinstance(artist, Text)]


def _legend(figure: Figure, plot: Plot, last: Axes) -> int:
    """Put the legend, or the key of the shades, below everything, in as many columns as fit; return its line count."""
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
        wide = legend.get_window_extent(figure.canvas.get_renderer()).width  # type: ignore[attr-defined]
        if wide <= room or columns == 1:
            return -(-len(labels) // columns) + (title is not None)
        legend.remove()
    return 0


def _fit(figure: Figure, panels: Sequence[Axes], width: float) -> None:
    """Wrap titles and axis labels that are longer than the side they stand along."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for axes in panels:
        box = axes.get_window_extent(renderer)
        along = {
            axes.xaxis.label: (box.width, width * figure.dpi),
            axes.yaxis.label: (box.height, box.height),
            **dict.fromkeys(_titles(axes), (box.width, box.width)),
        }
        for text, (room, most) in along.items():
            extent = text.get_window_extent(renderer)
            long = extent.height if text is axes.yaxis.label else extent.width
            if text.get_text() and long > min(most, 1.02 * max(room, 1.0)):
                letters = max(len(line) for line in text.get_text().split("\n"))
                text.set_text(_broken(text.get_text(), max(6, int(letters * room / long))))


def _titles(axes: Any) -> tuple[Text, ...]:
    """Return the three titles above a panel."""
    return axes.title, axes._left_title, axes._right_title  # what `get_title` reads them from


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
