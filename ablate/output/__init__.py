"""What leaves the program as text: every exit escapes here what could do more than be read.

escape.py       control characters, escape sequences and marks that turn a text's direction, as `\\x1b` or `\\u202e`
streams.py      what is written without a console: words, and data for a pipe
terminal.py     the console and its texts
latex.py        texts within LaTeX
markdown.py     texts of others within Markdown
spreadsheet.py  texts within a CSV that a spreadsheet opens
numbers.py      numbers with the digits that their interval leaves uncertain
words.py        counts, lists, times

Words (screens, errors, notes, pages) are escaped wherever they go, since a log is read on a terminal later. Data (CSV)
is exact in a pipe or a file and escaped on a terminal. Texts of others are never read as markup.
"""
