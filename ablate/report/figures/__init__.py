"""Figures that leave the page: files for a paper, each of one plot, and what is said beside them.

export.py    what a space and a search export, and what is left out
files.py     the files of a plot: SVG, PDF and PNG at the width of a column and of a page, and its numbers as CSV
drawing.py   a plot at its true size: text of one size, names that fit, the key of its shades
colours.py   colours that stay apart in grey
latex.py     the verdicts as a booktabs table
captions.py  a sentence for each figure, and the sentence on methods
"""

from ablate.report.figures.export import Export, of_search, of_space
from ablate.report.figures.files import belongs_to_export, files_of

__all__ = ["Export", "belongs_to_export", "files_of", "of_search", "of_space"]
