"""Pages for a browser, each a self-contained HTML file: what the pages of a space and of a search share.

renderer.py   a document as the whole file, with its style sheet
drawn.py      plots as SVG within a page
"""
