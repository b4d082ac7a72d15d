"""Pages for a browser, each a self-contained HTML file: what the pages of a space and of a search share.

renderer.py   a document as the whole file
style.py      the style sheet: light and dark, narrow and wide, and on paper
drawn.py      plots as SVG within a page
"""
