"""The drawing of a block: what is drawn where, as text and as SVG."""

from xml.etree import ElementTree

import pytest
from builders import CATALOGUE, gain, many_blocks, node, op, pre_ln, residual, sequence
from reading import transformer

from ablate.block.diagram import Box, as_svg, as_text, diagram
from ablate.block.expression import Block

pytestmark = pytest.mark.fast

DEFAULTS = {name: dict(fields) for name, fields in transformer().defaults.items()}
BOXES = "┌┐└┘"
SVG = "{http://www.w3.org/2000/svg}"


def text(block: Block) -> str:
    return as_text(diagram(block, CATALOGUE, DEFAULTS))


def test_pre_norm() -> None:
    expected = """\
│ x
│
├───────────┐
│    ┌──────┴─────┐
│    │ layer_norm │
│    └──────┬─────┘
│           │
│     ┌─────┴─────┐
│     │ attention │
│     └─────┬─────┘
⊕───────────┘
│
├───────────┐
│    ┌──────┴─────┐
│    │ layer_norm │
│    └──────┬─────┘
│           │
│        ┌──┴──┐
│        │ mlp │
│        └──┬──┘
⊕───────────┘
│
│ y"""
    assert text(transformer().block("pre_ln")) == expected


def test_a_gain_stands_on_the_edge_of_its_branch_and_a_skips_beside_it() -> None:
    found = text(sequence(residual("mlp", gain="1/sqrt(2*depth)", skip=0.5)))
    (summed,) = [line for line in found.splitlines() if "⊕" in line]
    assert "⊕─ × 1/√(2L) ─" in summed
    assert any(line.startswith("│ × 0.5") for line in found.splitlines())


def test_without_a_skip_nothing_is_summed() -> None:
    found = text(sequence(residual("mlp", skip=0, gain=gain(0.3, trainable=True))))
    assert "⊕" not in found and "× 0.3, trained" in found


def test_parallel_branches_stand_side_by_side() -> None:
    found = text(many_blocks()["parallel"])
    assert any("attention" in line and "mlp" in line for line in found.splitlines())
    assert found.count("⊕") == 1 and "┬" in found.splitlines()[2]


def test_without_a_skip_the_first_branch_is_the_straight_line() -> None:
    found = text(sequence(node("parallel", skip=0, branches=[["attention"], ["mlp"]])))
    assert found.count("⊕") == 1
    ports = {line.index("⊕") for line in found.splitlines() if "⊕" in line}
    assert ports == {found.splitlines()[0].index("│")}


def test_boxes_say_what_the_defaults_do_not() -> None:
    found = text(op())
    assert "entropy: {qk_norm: rms_norm}" in found and "matrix" not in found
    bare = as_text(diagram(op(), CATALOGUE))
    assert "matrix: softmax" in bare


def test_a_combinator_without_gains_is_a_frame() -> None:
    spec = CATALOGUE["admin"]
    assert spec.fields.keys() == {"branch"}
    found = text(sequence(node("admin", branch=["mlp"])))
    assert "┌ admin ─" in found and "mlp" in found


@pytest.mark.parametrize("name", [*many_blocks(), *transformer().blocks])
def test_every_box_is_whole_and_the_drawing_narrow(name: str) -> None:
    block = many_blocks().get(name) or transformer().block(name)
    drawn = diagram(block, transformer().catalogue, DEFAULTS)
    rows = as_text(drawn).splitlines()
    assert max(map(len, rows)) <= 100 and len(rows) == drawn.height
    for box in (item for item in drawn.items if isinstance(item, Box)):
        right, below = box.x + box.width - 1, box.y + box.height - 1
        corners = [rows[y][x] for y in (box.y, below) for x in (box.x, right)]
        assert corners == list(BOXES)
        for row, line in enumerate(box.lines, start=1):
            assert rows[box.y + row][box.x + 2 : box.x + 2 + len(line)] == line


def test_boxes_do_not_touch_each_other() -> None:
    for block in many_blocks().values():
        boxes = [item for item in diagram(block, CATALOGUE, DEFAULTS).items if isinstance(item, Box)]
        cells = [{(x, y) for x in range(b.x, b.x + b.width) for y in range(b.y, b.y + b.height)} for b in boxes]
        assert sum(map(len, cells)) == len(set().union(*cells))


def test_a_wide_block_is_made_narrow_by_narrower_boxes() -> None:
    regulated = node("attention", pre_qk="rms_norm", pre_v="layer_norm", position="rope", bias="alibi")
    wide = sequence(node("parallel", branches=[[regulated], [regulated], [regulated]]))
    assert max(len(line) for line in as_text(diagram(wide, CATALOGUE, DEFAULTS, columns=100)).splitlines()) <= 100
    assert max(len(line) for line in as_text(diagram(wide, CATALOGUE, DEFAULTS, columns=10**6)).splitlines()) > 100


@pytest.mark.parametrize("name", many_blocks())
def test_the_svg_is_well_formed_and_says_the_same(name: str) -> None:
    drawn = diagram(many_blocks()[name], CATALOGUE, DEFAULTS)
    root = ElementTree.fromstring(as_svg(drawn, "a <block> & more"))
    assert root.find(f"{SVG}title").text == "a <block> & more"
    texts = {element.text for element in root.iter(f"{SVG}text")}
    assert texts >= {line for box in drawn.items if isinstance(box, Box) for line in box.lines}
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for shape in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(shape.get(key)) for key in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height


def test_the_svg_refers_to_nothing_outside_and_knows_dark_pages() -> None:
    svg = as_svg(diagram(pre_ln(), CATALOGUE, DEFAULTS), "pre_ln")
    assert "prefers-color-scheme: dark" in svg
    assert "href" not in svg and "url(" not in svg and "@import" not in svg and "<script" not in svg
