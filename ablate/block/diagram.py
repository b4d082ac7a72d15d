"""A block as a diagram: boxes, lines and labels on a grid of characters, from which text and SVG are rendered.

The signal flows downwards. The skip of a combinator is the straight line; its branches leave it to the right and return
at ⊕, with the gain written on the edge. Boxes show the fields that differ from the grammar's defaults.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias
from xml.sax.saxutils import escape

from ablate.block.address import sequences_of
from ablate.block.arithmetic import Expression
from ablate.block.catalogue import Catalogue
from ablate.block.equation import number, written
from ablate.block.expression import Block, Defaults, Gain, Node, Sequence, print_value
from ablate.block.normal_form import fixed

WIDTHS = (44, 36, 30, 26, 22, 18, 14)
"""Widths of the text in a box, tried in this order until the drawing is narrow enough."""
GAP = 3


@dataclass(frozen=True, slots=True)
class Box:
    """A frame around `lines`, the first of which is a title; `kind` is its role, empty for a modifier."""

    x: int
    y: int
    width: int
    lines: tuple[str, ...]
    kind: str

    @property
    def height(self) -> int:
        return len(self.lines) + 2


@dataclass(frozen=True, slots=True)
class Wire:
    """A straight line between the centres of two cells in one row or column."""

    x: int
    y: int
    to_x: int
    to_y: int


@dataclass(frozen=True, slots=True)
class SumSign:
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Label:
    x: int
    y: int
    text: str


@dataclass(frozen=True, slots=True)
class Frame:
    x: int
    y: int
    width: int
    height: int
    title: str


Item: TypeAlias = Box | Frame | Wire | SumSign | Label


@dataclass(frozen=True, slots=True)
class Diagram:
    """Items on a grid of `width` × `height` cells; the signal enters at the top of column `port`, and leaves below."""

    width: int
    height: int
    port: int
    items: tuple[Item, ...]

    def moved(self, x: int, y: int) -> tuple[Item, ...]:
        return tuple(_moved(item, x, y) for item in self.items)


def diagram(block: Block, catalogue: Catalogue, defaults: Defaults | None = None, *, columns: int = 100) -> Diagram:
    """Draw a block, at most `columns` wide if its shape allows."""
    for width in WIDTHS:
        drawn = _Draw(catalogue, defaults or {}, width).block(block)
        if drawn.width <= columns:
            break
    return drawn


def _moved(item: Item, x: int, y: int) -> Item:
    if isinstance(item, Wire):
        return Wire(item.x + x, item.y + y, item.to_x + x, item.to_y + y)
    return replace(item, x=item.x + x, y=item.y + y)


@dataclass(frozen=True, slots=True)
class _Draw:
    catalogue: Catalogue
    defaults: Defaults
    text: int

    def block(self, block: Block) -> Diagram:
        ends = [Diagram(3, 1, 0, (*WIRE.items, Label(2, 0, name))) for name in ("x", "y")]
        return _stacked([ends[0], *(self._node(node) for node in block), ends[1]])

    def _sequence(self, sequence: Sequence) -> Diagram:
        return _stacked([self._node(node) for node in sequence]) if len(sequence) else WIRE

    def _node(self, node: Node) -> Diagram:
        spec = self.catalogue[node.name]
        if spec.chooses is not None:
            return _box(self._lines(node), "")
        branches = [self._sequence(branch) for _, branch in sequences_of(node, spec)]
        if not branches:
            return _box(self._lines(node), "" if spec.modifier else spec.role)
        gains = {name: value for name, value in node.fields if isinstance(value, Gain)}
        if set(gains) == JOINING:
            return _joined(branches, gains["gain"], gains["skip"])
        inside = branches[0] if len(branches) == 1 else _joined(branches, Gain(Expression("1")), Gain(Expression("0")))
        return _framed(inside, node.name)

    def _lines(self, node: Node) -> tuple[str, ...]:
        known, absent = self.defaults.get(node.name, {}), object()
        shown = [(name, value) for name, value in node.fields if known.get(name, absent) != value]
        texts = [f"{name}: {print_value(value, self.catalogue, self.defaults)}" for name, value in shown]
        lines = [line for text in texts for line in textwrap.wrap(text, self.text, subsequent_indent="  ")]
        return (node.name, *lines)


WIRE = Diagram(1, 1, 0, (Wire(0, 0, 0, 0),))
JOINING = {"skip", "gain"}
"""The gains of a combinator that is drawn as a skip and branches; any other is a frame around its contents."""


def _box(lines: tuple[str, ...], kind: str) -> Diagram:
    width = max(len(line) for line in lines) + 4
    return Diagram(width, len(lines) + 2, width // 2, (Box(0, 0, width, lines, kind),))


def _framed(inside: Diagram, title: str) -> Diagram:
    left = max(2, len(title) + 4 - inside.port)  # so that the incoming line passes to the right of the title
    width, height = inside.width + left + 2, inside.height + 4
    port = inside.port + left
    ways = (Wire(port, 0, port, 2), Wire(port, height - 3, port, height - 1))
    return Diagram(width, height, port, (Frame(0, 0, width, height, title), *ways, *inside.moved(left, 2)))


def _stacked(drawings: list[Diagram]) -> Diagram:
    port = max(drawing.port for drawing in drawings)
    items: list[Item] = []
    y = 0
    for index, drawing in enumerate(drawings):
        if index:
            items.append(Wire(port, y - 1, port, y + 1))
            y += 1
        items.extend(drawing.moved(port - drawing.port, y))
        y += drawing.height
    return Diagram(max(port - drawing.port + drawing.width for drawing in drawings), y, port, tuple(items))


def _joined(branches: list[Diagram], gain: Gain, skip: Gain) -> Diagram:
    """Draw a skip straight down, and branches that leave it and return to the sum.

    Without a skip (a fixed 0) the first branch is the straight line, and the gain stands below the sum.
    """
    skips = fixed(skip) != 0
    times, beside = _times(gain), _times(skip)
    if not skips and len(branches) == 1:
        return _stacked([branches[0], *_labelled(times)])
    height = max(branch.height for branch in branches)
    lead = max(GAP + 1, len(times) + 5, len(beside) + 4) if skips else 0
    items: list[Item] = []
    ports, x = [], lead
    for branch in branches:
        start = max(x, lead + 1 - branch.port) if skips else x
        items.extend(branch.moved(start, 1))
        ports.append(start + branch.port)
        items.append(Wire(ports[-1], 0, ports[-1], 1))
        items.append(Wire(ports[-1], branch.height, ports[-1], height + 1))
        x = start + branch.width + GAP
    rail = 0 if skips else ports[0]
    last = height + 1
    items += [Wire(rail, 0, ports[-1], 0), Wire(rail, last, ports[-1], last), SumSign(rail, last)]
    if skips:
        items.append(Wire(rail, 0, rail, last))
        items += [Label(rail + 2, last // 2, beside)] if beside else []
        items += [Label(rail + 2, last, f" {times} ")] if times else []
    drawn = Diagram(x - GAP, last + 1, rail, tuple(items))
    return drawn if skips else _stacked([drawn, *_labelled(times)])


def _labelled(times: str) -> list[Diagram]:
    return [Diagram(len(times) + 3, 1, 0, (Wire(0, 0, 0, 0), Label(2, 0, times)))] if times else []


def _times(gain: Gain) -> str:
    """Return '× 1/√(2L)'; empty for a fixed 1, and with `trained` if the number is only the start."""
    if fixed(gain) == 1:
        return ""
    constant = gain.value.constant
    text = written(gain.value) if constant is None else number(constant)
    return f"× {text}" if not gain.trainable else f"× {text}, trained{PER[gain.per]}"


PER = {"scalar": "", "head": " per head", "channel": " per channel"}


# The drawing as text, in box-drawing characters, and as SVG, both from one layout.

NORTH, EAST, SOUTH, WEST = 1, 2, 4, 8
STROKES = " ╵╶└╷│┌├╴┘─┴┐┤┬┼"  # the character for each set of directions in which lines leave a cell
CELL = (9, 18)  # width and height of a cell in the SVG's units
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


def as_text(drawing: Diagram) -> str:
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


def as_svg(drawing: Diagram, title: str) -> str:
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
    (left, top), (right, below) = _middle(item.x, item.y), _middle(item.x + item.width - 1, item.y + item.height - 1)
    return f'<rect {style} x="{left:g}" y="{top:g}" width="{right - left:g}" height="{below - top:g}"/>'


def _middle(x: int, y: int) -> tuple[float, float]:
    return MARGIN + (x + 0.5) * CELL[0], MARGIN + (y + 0.5) * CELL[1]


def _upper(x: int, y: int) -> tuple[float, float]:
    return MARGIN + (x + 0.5) * CELL[0], MARGIN + float(y * CELL[1])
