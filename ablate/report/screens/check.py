"""What `check` and `diff` print: a space, a grammar, the edits between two blocks."""

from __future__ import annotations

import json

import yaml
from rich.console import Group, RenderableType

from ablate.block.diff import diff, path_order
from ablate.block.expression import Block
from ablate.block.printer import print_block
from ablate.grammar.census import take_census
from ablate.grammar.derivation import ordered
from ablate.grammar.grammar import Grammar
from ablate.grammar.include import looks_included
from ablate.output.terminal import Text
from ablate.output.words import plural
from ablate.plan.plan import Plan
from ablate.source.located import Located, Mapping, to_python
from ablate.source.problems import quote, unknown
from ablate.source.yaml import parse_yaml
from ablate.space.space import Space


def is_grammar(located: Located) -> bool:
    """Whether a file is a grammar, or part of one: a space names one too, but has `space` as a name and no rules."""
    if not isinstance(located, Mapping):
        return False
    return looks_included(located) or ("grammar" in located and ("rules" in located or "space" not in located))


def grammar(checked: Grammar, *, as_json: bool = False) -> RenderableType:
    """What a grammar comes to: its blocks, its derivations, and what constraints leave of them."""
    census = take_census(checked)
    numbers = ordered(checked.derivations)
    how = "counted" if census.exact else f"{census.low:,} to {census.high:,} at 95 %, from {census.samples:,} draws"
    if as_json:
        return json.dumps(
            {
                "mistakes": [],
                "grammar": checked.name,
                "blocks": list(checked.blocks),
                "derivations": census.derivations,
                "admitted": census.admitted,
                "admitted_low": census.low,
                "admitted_high": census.high,
                "exact": census.exact,
                "ordered": [{"numbers": [float(word) for word in one.words], "scale": one.scale} for one in numbers],
            },
            indent=2,
        )
    lines = [
        f"grammar {checked.name} is fine: {len(checked.blocks)} named blocks, {census.derivations:,} derivations, "
        f"{census.admitted:,} of them after {len(checked.constraints)} constraints ({how})"
    ]
    lines += [
        f"  numbers in order: {len(one.words)} from {one.words[0]} to {one.words[-1]}, {one.scale}" for one in numbers
    ]
    return "\n".join(lines)


def space(checked: Space, plan: Plan, *, as_json: bool = False) -> RenderableType:
    """What a space comes to: variants, comparisons, trials."""
    edits, interactions = _asked(plan, "edit", "main"), _asked(plan, "interaction")
    notes = [*plan.notes, *checked.grammar_from_elsewhere, *checked.texts_from_elsewhere]
    trials = len({trial.id for trial in plan.trials})
    if as_json:
        return json.dumps(
            {
                "mistakes": [],
                "space": plan.space,
                "design": plan.design,
                "variants": [list(variant.names) for variant in plan.variants],
                "edits": edits,
                "interactions": interactions,
                "seeds": list(plan.seeds),
                "looks": list(plan.looks),
                "trials": trials,
                "notes": notes,
            },
            indent=2,
        )
    lines = [f"space {plan.space} is fine: {plan.design}, {_size(checked, plan, trials)}"]
    lines += [f"  edit: {edit}" for edit in edits]
    lines += [f"  interaction: {pair}" for pair in interactions]
    lines += [f"  note: {note}" for note in notes]
    return Text("\n".join(lines))


def _asked(plan: Plan, *kinds: str) -> list[str]:
    """What is asked about, once each: under several terms the same is asked again."""
    return list(dict.fromkeys(one.change for one in plan.comparisons if one.kind in kinds))


def _size(checked: Space, plan: Plan, trials: int) -> str:
    """How many of what are trained, as far as that is known."""
    seeds = plural(len(plan.seeds), "seed")
    if checked.design.search is not None:
        return f"from {plan.variants[0].name}, blocks × {seeds}"
    salted = [variant for variant in plan.variants if variant.setting.salt]
    variants = plural(len(plan.variants) - len(salted), "variant")
    if plan.looks:
        seeds = f"{' then '.join(map(str, plan.looks))} seeds, until all is decided"
    if plan.open:
        return f"{variants} × {seeds}; {trials} trials are certain before anything is measured"
    noise = ", the A/A arm's among them" if salted else ""
    return f"{variants} × {seeds}: {trials} trials{noise}" + (" at the first look" if plan.looks else "")


def resolved(whole: Space) -> str:
    """The space with nothing left out: what it says, what its grammar's defaults say, and its blocks in full."""
    said = to_python(whole.located)
    said.pop("profiles", None)
    said["blocks"] = {name: to_python(parse_yaml(print_block(block), name)) for name, block in whole.blocks.items()}
    return yaml.safe_dump(said, sort_keys=False, allow_unicode=True, width=100)


def difference(of: Grammar, before: str, after: str, *, split: bool, as_json: bool = False) -> RenderableType:
    """The edits between two named blocks."""
    found = diff(block(of, before), block(of, after), of.catalogue, split=split, defaults=of.defaults)
    edits = path_order(found.edits)
    if as_json:
        said = [{"edit": e.name, "places": e.places, "before": e.before, "after": e.after} for e in edits]
        return json.dumps({"from": before, "to": after, "edits": said}, indent=2, ensure_ascii=False)
    if not edits:
        return Text(f"{before} and {after} are the same block")
    return Group(*(Text.assemble((edit.name, "bold"), f"\n    {edit.detail}") for edit in edits))


def block(of: Grammar, name: str) -> Block:
    """A named block; InputError with a suggestion where there is none."""
    if name not in of.blocks:
        message = f"grammar {of.name} has no block {quote(name)}"
        raise unknown(message, name, of.blocks, "blocks", command=of.listing("blocks"))
    return of.block(name)
