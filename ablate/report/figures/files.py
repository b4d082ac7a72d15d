"""The files of a plot: drawings at the width of a column and of a page, and its numbers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ablate.output.escape import visible
from ablate.output.spreadsheet import no_formula
from ablate.report.figures.drawing import figure_of, settings
from ablate.report.plot import Plot
from ablate.report.screens.query import as_csv

WIDTHS: Mapping[str, float] = {"column": 3.25, "page": 6.75}
"""Widths of a figure in inches: 234 and 486 pt, the column and text widths of most conferences and journals."""
FORMATS = ("svg", "pdf", "png")
LETTERS = 80
"""Maximum length of a file name, in characters."""


def files_of(plot: Plot, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield each file of a plot with its name, which begins with `name`. The same plot gives the same bytes."""
    with settings():
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
    """Return a file name for each plot: its own, made safe for any file system, and numbered if already taken."""
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
    """Return the file names that belong to an export: drawings, and the numbers beside one."""
    figures = {match["name"] for name in names if (match := _OURS.fullmatch(name))}
    return [name for name in names if _OURS.fullmatch(name) or name.removesuffix(".csv") in figures]
