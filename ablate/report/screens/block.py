"""The output of `ablate show` for a block: its tree, its equations, its drawing, and the cost of each part."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from ablate.block.catalogue import Catalogue
from ablate.block.diagram import as_svg, as_text, diagram
from ablate.block.equation import Equation, equations
from ablate.block.expression import Block, Defaults, Node, Sequence, Series, Value, print_block, print_value
from ablate.block.layers import has_patterns
from ablate.block.normal_form import fingerprint
from ablate.block.sizes import Cost, Sizes
from ablate.data.corpus import outputs_of
from ablate.errors import InputError
from ablate.grammar.grammar import Grammar
from ablate.output.terminal import Text
from ablate.output.words import listed
from ablate.plan.size import block_costs
from ablate.report.screens import check
from ablate.source.located import to_python
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.changes import with_changes
from ablate.space.fair import text_of
from ablate.space.space import Space
from ablate.space.variants import Changes

DISPLAY = Sizes(n_layers=12, d_model=768, n_heads=12, seq_len=128, vocab_size=50_257, repetition=0.05)
"""The default sizes at which numbers are shown; the screen names them."""
DEPTHS = (12, 36, 72)
"""Depths tried in turn for display: equations solved for a depth have no solution at some of them."""


@dataclass(frozen=True)
class ShownBlock:
    """A block, its source, and the sizes at which it is shown; `where` says how those were chosen.

    `changes` are what a variant of a space sets around its block, by their addresses.
    """

    name: str
    block: Block
    about: str
    source: str
    defaults: Defaults
    catalogue: Catalogue
    sizes: Sizes
    where: str
    changes: Changes = ()

    def equations(self) -> Map[tuple[int, ...], Equation]:
        return equations(self.block, self.sizes, self.catalogue)

    def written(self) -> str:
        groups = self.equations()
        if len(groups) == 1:
            return next(iter(groups.values())).text
        return "\n\n".join(f"{_layers(layers).capitalize()}\n{each.text}" for layers, each in groups.items())

    def drawing(self) -> str:
        return as_text(diagram(self.block, self.catalogue, self.defaults))

    def svg(self) -> str:
        return as_svg(diagram(self.block, self.catalogue, self.defaults), f"The block {self.name}")

    def costs(self) -> list[tuple[str, dict[str, Cost]]]:
        """Return the cost of each part in layer 1, and in each later layer where costs change, with the layer's name.

        With patterns over layers, those that cost the same are together.
        """
        groups: list[tuple[list[int], dict[str, Cost]]] = []
        for layer, parts in enumerate(self._by_layer(), 1):
            alike = [layers for layers, known in (groups if self.patterned else groups[-1:]) if known == parts]
            if alike:
                alike[0].append(layer)
            else:
                groups.append(([layer], parts))
        return [(_layers(tuple(layers if self.patterned else layers[:1])), parts) for layers, parts in groups]

    @property
    def patterned(self) -> bool:
        return has_patterns(self.block, self.catalogue)

    def _by_layer(self) -> Iterator[dict[str, Cost]]:
        for layer in range(1, self.sizes.n_layers + 1):
            costs = block_costs(self.block, self.sizes, self.catalogue, layer)
            yield {address.removeprefix(f"layers.{layer}."): cost for address, cost in costs.items()}

    def total(self) -> Cost:
        """Return the cost of all layers: of a model of two stacks the decoder's, which are the block whole."""
        return sum((cost for parts in self._by_layer() for cost in parts.values()), Cost())


def find(name: str, grammar: Grammar | None, space: Space | None, sizes: Map[str, Any]) -> ShownBlock:
    """Return a block of a grammar, or of a space: with its overrides if its design names the block.

    `sizes` replace those of the space, or those for display. InputError if there is no such block.
    """
    of = grammar if space is None else space.grammar
    assert of is not None
    overridden = space is not None and name in space.blocks
    block = space.blocks[name] if space is not None and overridden else check.block(of, name)
    changes = () if space is None else space.changes_of(name)
    base = DISPLAY if space is None else sizes_of(_changed(space, changes))
    if space is None and "n_layers" not in sizes:
        base = _displayable(block, replace(base, **sizes), of.catalogue)
    named = of.blocks.get(name)
    where = (
        "as requested, the others for display" if sizes else "for display: choose with --layers, --width, …, or --space"
    )
    if space is not None and not sizes:
        what = " and what the variant sets" if changes else ""
        where = f"of {space.name}{', with its overrides' * overridden}{what}; r for display"
    return ShownBlock(
        name=name,
        block=block,
        about=named.about if named is not None else "",
        source=", ".join(filter(None, (named.paper, named.source))) if named is not None else "",
        defaults=of.defaults,
        catalogue=of.catalogue,
        sizes=replace(base, **sizes),
        where=where,
        changes=changes,
    )


def _changed(space: Space, changes: Changes) -> Space:
    problems = Problems()
    changed = with_changes(space, space.written_changes(changes), problems)
    problems.raise_if_any()
    assert changed is not None
    return changed


def _displayable(block: Block, sizes: Sizes, catalogue: Catalogue) -> Sizes:
    """Return the sizes at the first depth at which the block exists, or the first of all if at none."""
    for depth in DEPTHS:
        try:
            block_costs(block, sizes := replace(sizes, n_layers=depth), catalogue)
        except InputError:
            continue
        return sizes
    return replace(sizes, n_layers=DEPTHS[0])


def sizes_of(space: Space) -> Sizes:
    """The vocabulary is the most that its tokenizer may have."""
    outputs = outputs_of(space.data, space.grammar.catalogue)
    return replace(space.sizes(outputs), repetition=DISPLAY.repetition)


def screen(shown: ShownBlock) -> RenderableType:
    beside = (
        shown.source,
        f"fingerprint {fingerprint(shown.block, shown.catalogue)}",
        f"numbers at {sizes_in_words(shown.sizes)} ({shown.where})",
    )
    return Group(
        Text.assemble((shown.name, "bold"), f"  {shown.about}" if shown.about else ""),
        *(Text(line, style="dim") for line in beside if line),
        _heading("Block", "defaults of the grammar are dimmed"),
        tree(shown.block, shown.defaults),
        *_around(shown),
        _heading("Equations", ""),
        Text(shown.written()),
        _heading("Diagram", ""),
        Text(shown.drawing(), no_wrap=True, overflow="ignore"),
        _heading("Cost", "trained parameters, and FLOPs of the products of one forward pass over one sequence"),
        _cost_table(shown),
    )


def _around(shown: ShownBlock) -> tuple[RenderableType, ...]:
    if not shown.changes:
        return ()
    lines = "\n".join(f"{address}: {text_of(value)}" for address, value in shown.changes)
    return _heading("Around the block", "what this variant sets, by its address in the space"), Text(lines)


def as_json(shown: ShownBlock) -> str:
    groups, block = shown.equations(), shown.block
    first, *others = (
        {"layers": layers, "lines": each.lines, "definitions": each.definitions, "gains": each.gains}
        for layers, each in groups.items()
    )
    document = {
        "name": shown.name,
        "about": shown.about,
        "source": shown.source,
        "fingerprint": fingerprint(block, shown.catalogue),
        "written": print_block(block, shown.catalogue, shown.defaults),
        "block": to_python(parse_yaml(print_block(block), "block")),
        "changes": dict(shown.changes),
        "equation": first,
        "other_equations": others,
        "diagram": shown.drawing().splitlines(),
        "sizes": {
            "layers": shown.sizes.n_layers,
            "width": shown.sizes.d_model,
            "heads": shown.sizes.n_heads,
            "context": shown.sizes.seq_len,
            **({} if shown.sizes.source_len is None else {"source": shown.sizes.source_len}),
            "vocabulary": shown.sizes.vocab_size,
            "repetition": shown.sizes.repetition,
        },
        "costs": [
            {"from": name, "part": part, "parameters": cost.parameters, "flops": cost.flops}
            for name, parts in shown.costs()
            for part, cost in parts.items()
        ],
        "all_layers": {
            **({} if shown.sizes.source_len is None else {"stack": "decoder"}),
            "parameters": shown.total().parameters,
            "flops": shown.total().flops,
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def sizes_in_words(sizes: Sizes) -> str:
    source = "" if sizes.source_len is None else f", S = {sizes.source_len} of the source"
    repeated = "" if sizes.repetition is None else f", r = {sizes.repetition:g}"
    return (
        f"L = {sizes.n_layers} layers, d = {sizes.d_model}, H = {sizes.n_heads} heads, "
        f"T = {sizes.seq_len} tokens of V = {sizes.vocab_size:,}{source}{repeated}"
    )


def _layers(layers: tuple[int, ...]) -> str:
    return f"layer {layers[0]}" if len(layers) == 1 else f"layers {listed([str(layer) for layer in layers])}"


def _cost_table(shown: ShownBlock) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("part", overflow="fold")
    for heading in ("parameters", "FLOPs"):
        table.add_column(heading, justify="right")
    costs = shown.costs()
    for index, (name, parts) in enumerate(costs):
        own = (
            "each block"
            if len(costs) == 1
            else name
            if shown.patterned or index + 1 < len(costs)
            else f"from {name} on"
        )
        for part, cost in parts.items():
            if cost != Cost():
                table.add_row(f"  {part}", f"{cost.parameters:,}", f"{cost.flops:,}", style="dim")
        total = sum(parts.values(), Cost())
        table.add_row(own, f"{total.parameters:,}", f"{total.flops:,}")
    everything = shown.total()
    every = f"all {shown.sizes.n_layers} blocks{' of the decoder' if shown.sizes.source_len else ''}"
    table.add_row(every, f"{everything.parameters:,}", f"{everything.flops:,}")
    return table


def _heading(title: str, note: str) -> Text:
    return Text.assemble(f"\n{title}", (f"  {note}" if note else "", "dim"), style="bold")


# A block as YAML with every field of every part, in which the grammar's defaults are dimmed.

DIM = "dim"


def tree(block: Block, defaults: Defaults) -> Text:
    """Return lines of YAML: reading them back gives the same block."""
    lines = list(_sequence(block, 0, defaults)) or [Text("[]")]
    joined = Text("\n").join(lines)
    joined.no_wrap, joined.overflow = True, "ignore"  # a wrapped line would not read back
    return joined


def _sequence(parts: Sequence, indent: int, defaults: Defaults) -> Iterator[Text]:
    for node in parts:
        head = Text(" " * indent + "- ")
        if not node.fields:
            yield head.append(node.name)
            continue
        yield head.append(f"{node.name}:")
        for name, value in node.fields:
            yield from _field(name, value, indent + 4, defaults.get(node.name, {}), defaults)


def _field(name: str, value: Value, indent: int, known: Mapping[str, Value], defaults: Defaults) -> Iterator[Text]:
    start = Text(" " * indent)
    given = name in known and known[name] == value
    if isinstance(value, Sequence) and len(value):
        yield start.append(f"{name}:")
        yield from _sequence(value, indent, defaults)
    elif isinstance(value, Series | tuple) and any(isinstance(child, Sequence) for child in value):
        yield start.append(f"{name}:")
        for branch in value:
            assert isinstance(branch, Sequence)
            if not len(branch):
                yield Text(" " * indent + "- []")
                continue
            yield Text(" " * indent + "-")
            yield from _sequence(branch, indent + 2, defaults)
    else:
        yield start + _flow_field(name, value, given, defaults)


def _flow_field(name: str, value: Value, given: bool, defaults: Defaults) -> Text:
    text = Text(f"{name}: ") + _flow(value, defaults)
    if given:
        return Text(text.plain, style=DIM)
    return text


def _flow(value: Value, defaults: Defaults) -> Text:
    match value:
        case Node(fields=fields) if fields:
            known = defaults.get(value.name, {})
            inside = (_flow_field(n, v, n in known and known[n] == v, defaults) for n, v in fields)
            return Text.assemble("{", f"{value.name}: {{", Text(", ").join(inside), "}}")
        case Node(name=name):
            return Text(name)
        case Series():
            return Text.assemble("[", Text(", ").join(_flow(child, defaults) for child in value), "]")
        case (only,) if isinstance(only, Node):
            return _flow(only, defaults)
        case tuple() if value and all(isinstance(child, Node) for child in value):
            return Text.assemble("[", Text(", ").join(_flow(child, defaults) for child in value), "]")
    return Text(print_value(value))
