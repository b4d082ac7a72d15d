"""The output of `check` and `diff`: a space, a grammar, the edits between two blocks."""

from __future__ import annotations

import json

import yaml
from rich.console import Group, RenderableType

from ablate.block.diff import diff, path_order
from ablate.block.expression import Block, print_block
from ablate.grammar.census import Census, take_census
from ablate.grammar.derivation import ordered
from ablate.grammar.grammar import Grammar
from ablate.grammar.named_blocks import looks_included
from ablate.output.terminal import Text
from ablate.output.words import plural
from ablate.plan.plan import Plan
from ablate.source.located import Located, Mapping, to_python
from ablate.source.problems import quote, unknown
from ablate.source.yaml import parse_yaml
from ablate.space.space import Space


def is_grammar(located: Located) -> bool:
    """Return whether a file is a grammar, or part of one: a space names one too, but has `space` and no rules."""
    if not isinstance(located, Mapping):
        return False
    return looks_included(located) or ("grammar" in located and ("rules" in located or "space" not in located))


def grammar(checked: Grammar, *, as_json: bool = False) -> RenderableType:
    census = take_census(checked)
    numbers = ordered(checked.derivations)
    others = {name: take_census(checked.starting(name)) for name in tuple(checked.starts)[1:]}
    if as_json:
        return json.dumps(
            {
                "mistakes": [],
                "grammar": checked.name,
                "blocks": list(checked.blocks),
                **_counted(census),
                **({"starts": {name: _counted(other) for name, other in others.items()}} if others else {}),
                "ordered": [{"numbers": [float(word) for word in each.words], "scale": each.scale} for each in numbers],
            },
            indent=2,
        )
    lines = [
        f"grammar {checked.name} is fine: {len(checked.blocks)} named blocks, "
        f"{_admitted(census, f'{len(checked.constraints)} constraints')}"
    ]
    lines += [
        f"  numbers in order: {len(each.words)} from {each.words[0]} to {each.words[-1]}, {each.scale}"
        for each in numbers
    ]
    lines += [f"  from the start {name}: {_admitted(other, 'the constraints')}" for name, other in others.items()]
    return "\n".join(lines)


def _counted(census: Census) -> dict[str, int | bool]:
    return {
        "derivations": census.derivations,
        "admitted": census.admitted,
        "admitted_low": census.low,
        "admitted_high": census.high,
        "exact": census.exact,
    }


def _admitted(census: Census, constraints: str) -> str:
    how = "counted" if census.exact else f"{census.low:,} to {census.high:,} at 95 %, from {census.samples:,} draws"
    return f"{census.derivations:,} derivations, {census.admitted:,} of them after {constraints} ({how})"


def space(checked: Space, plan: Plan, *, as_json: bool = False) -> RenderableType:
    edits, interactions = _changes(plan, "edit", "main"), _changes(plan, "interaction")
    trends = _changes(plan, "trend")
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
                **({"trends": trends} if plan.ladders else {}),
                "seeds": list(plan.seeds),
                "looks": list(plan.looks),
                "trials": trials,
                "notes": notes,
            },
            indent=2,
        )
    lines = [f"space {plan.space} is fine: {plan.design}, {_size(checked, plan, trials)}"]
    lines += [f"  {'comparison' if plan.ladders else 'edit'}: {edit}" for edit in edits]
    lines += [f"  interaction: {pair}" for pair in interactions]
    lines += [f"  trend: {trend}" for trend in trends]
    lines += [f"  note: {note}" for note in notes]
    return Text("\n".join(lines))


def _changes(plan: Plan, *kinds: str) -> list[str]:
    return list(dict.fromkeys(comparison.change for comparison in plan.comparisons if comparison.kind in kinds))


def _size(checked: Space, plan: Plan, trials: int) -> str:
    seeds = plural(len(plan.seeds), "seed")
    if checked.design.search is not None:
        return f"from {plan.variants[0].name}, blocks × {seeds}"
    salted = [variant for variant in plan.variants if variant.setting.salt]
    variants = plural(len(plan.variants) - len(salted), "variant")
    if plan.looks:
        seeds = f"{' then '.join(map(str, plan.looks))} seeds, until everything is decided"
    if plan.open:
        return f"{variants} × {seeds}; {trials} trials are certain before anything is measured"
    noise = ", including the A/A arm" if salted else ""
    return f"{variants} × {seeds}: {trials} trials{noise}" + (" at the first analysis" if plan.looks else "")


def resolved(whole: Space) -> str:
    document = to_python(whole.located)
    document.pop("profiles", None)
    document["blocks"] = {name: to_python(parse_yaml(print_block(block), name)) for name, block in whole.blocks.items()}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def difference(of: Grammar, before: str, after: str, *, split: bool, as_json: bool = False) -> RenderableType:
    differences = diff(block(of, before), block(of, after), of.catalogue, split=split, defaults=of.defaults)
    edits = path_order(differences.edits)
    if as_json:
        rows = [{"edit": e.name, "places": e.places, "before": e.before, "after": e.after} for e in edits]
        return json.dumps({"from": before, "to": after, "edits": rows}, indent=2, ensure_ascii=False)
    if not edits:
        return Text(f"{before} and {after} are the same block")
    return Group(*(Text.assemble((edit.name, "bold"), f"\n    {edit.detail}") for edit in edits))


def block(of: Grammar, name: str) -> Block:
    """Return a named block; InputError with a suggestion if there is none."""
    if name not in of.blocks:
        message = f"grammar {of.name} has no block {quote(name)}"
        raise unknown(message, name, of.blocks, "blocks", command=of.listing("blocks"))
    return of.block(name)
