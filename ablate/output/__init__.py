"""All text output: everything is escaped here that could act on the terminal, page or program that shows it.

escape.py    control characters, sequences and bidirectional marks, as `\\x1b` or `\\u202e`; texts within Markdown,
             LaTeX and CSV; output without a console: messages, and data for a pipe
terminal.py  the console and its texts
words.py     counts, lists, times; numbers, rounded to two uncertain digits of their interval

Messages (screens, errors, notes, pages) are escaped wherever they go, since a log may later be read on a terminal. Data
(CSV) is exact in a pipe or a file and escaped on a terminal. User texts are never read as markup.
"""
