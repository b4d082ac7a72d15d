"""Figures as files for a paper, one plot each, with the texts that go with them.

export.py          the exports of a space, a table and a search, with the LaTeX table of verdicts, and their folder;
                   a caption for each figure, and the sentence on methods
forecast_plots.py  the export of forecasts: curves over the layers, and token kernels
files.py           the files of a plot: SVG, PDF and PNG at the width of a column and of a page, and its numbers as CSV
"""

from ablate.report.figures.export import Export, Figures, of_search, of_space, of_table, write_export

__all__ = ["Export", "Figures", "of_search", "of_space", "of_table", "write_export"]
