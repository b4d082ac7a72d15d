"""A drawing as text, in box-drawing characters, and as SVG, both from one layout."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from ablate.block.diagram import Box, Drawing, Frame, Item, Label, SumSign, Wire

NORTH, EAST, SOUTH, WEST = 1, 2, 4, 8
STROKES = " ╵╶└╷│┌├╴┘─┴┐┤┬┼"
"""The character for each set of directions in which lines leave a cell."""
CELL = (9, 18)
"""Width and height of a cell in the SVG's units."""
MARGIN = 12
FILLS = ("#cfe0f5", "#f7e3c4", "#e6d5ee", "#f3d0d3")
"""One for each role of the principal parts in a drawing, in the order in which they appear."""
SERVING = "#d8e8d0"
PLAIN = "#e4e4ea"
STYLE = """\
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1c1e21; white-space: pre; }
.title { font-weight: 600; }
.edge { stroke: #5f6570; stroke-width: 1.5; fill: none; }
.frame { stroke-dasharray: 4 3; }
.box { stroke: #5f6570; stroke-width: 1; }
.beside { fill: #3c4047; }
@media (prefers-color-scheme: dark) {
  .edge { stroke: #a3abb8; }
  .beside { fill: #d5d9e0; }
}"""


def as_text(drawing: Drawing) -> str:
    """Render a drawing as lines of text without trailing spaces."""
    strokes: dict[tuple[int, int], int] = {}
    letters: dict[tuple[int, int], str] = {}

    def draw(x: int, y: int, to_x: int, to_y: int) -> None:
        forth, back, step = (EAST, WEST, (1, 0)) if to_x > x else (SOUTH, NORTH, (0, 1))
        if (x, y) == (to_x, to_y):
            strokes[x, y] = strokes.get((x, y), 0) | NORTH | SOUTH
        while (x, y) != (to_x, to_y):
            strokes[x, y] = strokes.get((x, y), 0) | forth
            x, y = x + step[0], y + step[1]
            strokes[x, y] = strokes.get((x, y), 0) | back

    def write(x: int, y: int, text: str) -> None:
        letters.update({(x + index, y): letter for index, letter in enumerate(text)})

    for item in drawing.items:
        match item:
            case Wire(x=x, y=y, to_x=to_x, to_y=to_y):
                draw(x, y, to_x, to_y)
            case Box(x=x, y=y) | Frame(x=x, y=y):
                right, below = x + item.width - 1, y + item.height - 1
                for ends in ((x, y, right, y), (x, below, right, below), (x, y, x, below), (right, y, right, below)):
                    draw(*ends)
                for row, line in enumerate(item.lines if isinstance(item, Box) else (), start=1):
                    write(x + 2, y + row, line)
                if isinstance(item, Frame):
                    write(x + 1, y, f" {item.title} ")
            case SumSign(x=x, y=y):
                write(x, y, "⊕")
            case Label(x=x, y=y, text=text):
                write(x, y, text)
    cells = {place: STROKES[directions] for place, directions in strokes.items()} | letters
    rows = range(drawing.height)
    width = max(x for x, _ in cells) + 1
    return "\n".join("".join(cells.get((x, y), " ") for x in range(width)).rstrip() for y in rows)


def as_svg(drawing: Drawing, title: str) -> str:
    """Render a drawing as a complete SVG file, readable on light and dark pages."""
    labels = [item.x + len(item.text) for item in drawing.items if isinstance(item, Label)]
    width = max([drawing.width, *labels]) * CELL[0] + 2 * MARGIN
    height = drawing.height * CELL[1] + 2 * MARGIN
    order = (Wire, Frame, Box, SumSign, Label)
    items = sorted(drawing.items, key=lambda item: order.index(type(item)))
    kinds = dict.fromkeys(item.kind for item in drawing.items if isinstance(item, Box) and item.kind)
    fills = {"": SERVING} | {kind: FILLS[index % len(FILLS)] for index, kind in enumerate(kinds)}
    shapes = "\n".join(shape for item in items for shape in _shapes(item, fills))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n{shapes}\n</svg>\n'
    )


def _shapes(item: Item, fills: Mapping[str, str]) -> list[str]:
    match item:
        case Wire(x=x, y=y, to_x=to_x, to_y=to_y):
            long = (x, y) != (to_x, to_y)
            start, end = (_middle(x, y), _middle(to_x, to_y)) if long else (_upper(x, y), _upper(x, y + 1))
            return [f'<path class="edge" d="M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}"/>']
        case Box(lines=lines, kind=kind):
            left, top = item.x * CELL[0] + MARGIN, item.y * CELL[1] + MARGIN
            frame = _rectangle(item, f'class="box" rx="5" fill="{fills[kind]}"')
            texts = (
                f"<text{' class=' + chr(34) + 'title' + chr(34) if row == 1 else ''} "
                f'x="{left + 2 * CELL[0]}" y="{top + row * CELL[1] + 13}">{escape(line)}</text>'
                for row, line in enumerate(lines, start=1)
            )
            return [frame, *texts]
        case Frame(title=title):
            left, top = item.x * CELL[0] + MARGIN, item.y * CELL[1] + MARGIN
            where = f'x="{left + 2 * CELL[0]}" y="{top + CELL[1] + 6}"'
            return [
                _rectangle(item, 'class="edge frame" rx="5"'),
                f'<text class="beside" {where}>{escape(title)}</text>',
            ]
        case SumSign(x=x, y=y):
            across, down = _middle(x, y)
            return [
                f'<circle cx="{across:g}" cy="{down:g}" r="7" class="box" fill="{PLAIN}"/>',
                f'<path class="edge" style="stroke:#1c1e21" d="M{across - 4:g} {down:g}h8M{across:g} {down - 4:g}v8"/>',
            ]
        case Label(x=x, y=y, text=text):
            across, down = _middle(x, y)
            raised = -5 if text.startswith(" ") else 5  # a label on a line is raised above it
            return [f'<text class="beside" x="{across - CELL[0] / 2:g}" y="{down + raised:g}">{escape(text)}</text>']


def _rectangle(item: Box | Frame, style: str) -> str:
    """Draw a rectangle through the centres of the cells at the edge of an item."""
    (left, top), (right, below) = _middle(item.x, item.y), _middle(item.x + item.width - 1, item.y + item.height - 1)
    return f'<rect {style} x="{left:g}" y="{top:g}" width="{right - left:g}" height="{below - top:g}"/>'


def _middle(x: int, y: int) -> tuple[float, float]:
    return MARGIN + (x + 0.5) * CELL[0], MARGIN + (y + 0.5) * CELL[1]


def _upper(x: int, y: int) -> tuple[float, float]:
    return MARGIN + (x + 0.5) * CELL[0], MARGIN + float(y * CELL[1])
