"""What `check`, `show`, `diff` and `list` print: a space, a grammar, its blocks and the components."""

from __future__ import annotations

import json

import yaml
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ablate.block.catalogue import Catalogue
from ablate.block.diff import diff, path_order
from ablate.block.expression import Block
from ablate.block.fingerprint import fingerprint
from ablate.block.printer import print_block
from ablate.errors import InputError
from ablate.grammar.census import take_census
from ablate.grammar.grammar import Grammar
from ablate.plan.plan import Plan
from ablate.source.located import Located, Mapping, to_python
from ablate.space.space import Space


def is_grammar(located: Located) -> bool:
    """Whether a file is a grammar: a space names one too, but has `space` as a name and no rules."""
    return isinstance(located, Mapping) and "grammar" in located and ("rules" in located or "space" not in located)


def grammar(checked: Grammar, *, as_json: bool = False) -> RenderableType:
    """What a grammar comes to: its blocks, its derivations, and what constraints leave of them."""
    census = take_census(checked)
    how = "counted" if census.exact else f"{census.low:,} to {census.high:,} at 95 %, from {census.samples:,} draws"
    if as_json:
        return json.dumps(
            {
                "grammar": checked.name,
                "blocks": list(checked.blocks),
                "derivations": census.derivations,
                "admitted": census.admitted,
                "admitted_low": census.low,
                "admitted_high": census.high,
                "exact": census.exact,
            },
            indent=2,
        )
    return (
        f"grammar {checked.name} is fine: {len(checked.blocks)} named blocks, {census.derivations:,} derivations, "
        f"{census.admitted:,} of them after {len(checked.constraints)} constraints ({how})"
    )


def space(checked: Space, plan: Plan, *, as_json: bool = False) -> RenderableType:
    """What a space comes to: variants, comparisons, trials."""
    edits = [comparison.change for comparison in plan.comparisons if comparison.kind == "edit"]
    if as_json:
        return json.dumps(
            {
                "space": plan.space,
                "design": plan.design,
                "variants": [list(variant.names) for variant in plan.variants],
                "edits": edits,
                "seeds": list(plan.seeds),
                "trials": len({trial.id for trial in plan.trials}),
                "notes": list(plan.notes),
            },
            indent=2,
        )
    lines = [
        f"space {plan.space} is fine: {plan.design}, {len(plan.variants)} variants × {len(plan.seeds)} seeds = "
        f"{len({trial.id for trial in plan.trials})} trials"
    ]
    lines += [f"  edit: {edit}" for edit in edits]
    lines += [f"  note: {note}" for note in plan.notes]
    return Text("\n".join(lines))


def resolved(whole: Space) -> str:
    """The space with nothing left out: what it says, what its grammar's defaults say, and its blocks in full."""
    said = to_python(whole.located)
    said.pop("profiles", None)
    said["blocks"] = {name: yaml.safe_load(print_block(block)) for name, block in whole.blocks.items()}
    return yaml.safe_dump(said, sort_keys=False, allow_unicode=True, width=100)


def block(of: Grammar, name: str) -> str:
    """A block as one writes it, its fingerprint, and every field of every part."""
    found = _block(of, name)
    full = yaml.safe_dump(yaml.safe_load(print_block(found)), sort_keys=False, width=100)
    written = print_block(found, of.catalogue, of.defaults)
    return f"{name}: {written}\nfingerprint {fingerprint(found, of.catalogue)}\n\n{full}"


def difference(of: Grammar, before: str, after: str, *, split: bool) -> RenderableType:
    """The edits between two named blocks."""
    found = diff(_block(of, before), _block(of, after), of.catalogue, split=split, defaults=of.defaults)
    if not found.edits:
        return Text(f"{before} and {after} are the same block")
    return Group(*(Text.assemble((edit.name, "bold"), f"\n    {edit.detail}") for edit in path_order(found.edits)))


def blocks(of: Grammar) -> RenderableType:
    """Every named block with its fingerprint."""
    table = _table("block", "as one writes it", "fingerprint")
    for named in of.blocks.values():
        text = print_block(named.block, of.catalogue, of.defaults)
        table.add_row(named.name, Text(text), fingerprint(named.block, of.catalogue))
    return table


def components(catalogue: Catalogue) -> RenderableType:
    """Every component with its slots, summary and source."""
    table = _table("component", "slot", "what it does", "source")
    for spec in catalogue:
        table.add_row(spec.name, ", ".join(spec.slots), Text(spec.summary), Text(spec.source))
    return table


def _block(of: Grammar, name: str) -> Block:
    try:
        return of.block(name)
    except KeyError as error:
        raise InputError(f"error: {error.args[0]}\n  = blocks: {', '.join(of.blocks)}") from None


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
