"""All text output: everything is escaped here that could act on the terminal, page or program that shows it.

escape.py       control characters, escape sequences and bidirectional marks, as `\\x1b` or `\\u202e`
streams.py      output without a console: messages, and data for a pipe
terminal.py     the console and its texts
latex.py        texts within LaTeX
markdown.py     user texts within Markdown
spreadsheet.py  texts within a CSV that a spreadsheet opens
numbers.py      numbers, rounded to two uncertain digits of their interval
words.py        counts, lists, times

Messages (screens, errors, notes, pages) are escaped wherever they go, since a log may later be read on a terminal. Data
(CSV) is exact in a pipe or a file and escaped on a terminal. User texts are never read as markup.
"""
