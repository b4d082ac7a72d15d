"""Pages for a browser: one HTML file each that needs no other. What the page of a space and that of a search share.

renderer.py   a document as the whole file
style.py      the style sheet: light and dark, narrow and wide, and on paper
drawn.py      how a plot becomes SVG within a page
"""
