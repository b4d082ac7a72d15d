"""The rules of a grammar as written: name, parameters, bound on recursion, and alternatives that are not yet read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, quote

HEAD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\(\s*([A-Za-z_][\w\s,]*)\))?")
KEYS = ("one_of", "max_depth")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule `name(parameters)` with its `alternatives`; it may nest in itself at most `max_depth` levels deep."""

    name: str
    parameters: tuple[str, ...]
    max_depth: int | None
    alternatives: tuple[Located, ...]
    key: Scalar


def read_rules(located: Located, problems: Problems) -> dict[str, Rule]:
    """Read all rules, by name; mistakes go to `problems`."""
    if not isinstance(located, Mapping):
        problems.add("rules must be a mapping from names to alternatives", located.span)
        return {}
    rules: dict[str, Rule] = {}
    for key, body in located.entries:
        rule = _read_rule(key, body, problems)
        if rule is not None and rule.name in rules:
            problems.add(f"rule {rule.name!r} is declared twice", key.span)
        elif rule is not None:
            rules[rule.name] = rule
    return rules


def _read_rule(key: Scalar, body: Located, problems: Problems) -> Rule | None:
    match = HEAD.fullmatch(str(key.value))
    if match is None:
        problems.add(f"{key.text!r} is not a rule name", key.span, notes=("write name or name(parameter, …)",))
        return None
    parameters = tuple(word.strip() for word in (match[2] or "").split(",") if word.strip())
    max_depth: int | None = None
    alternatives = body
    keys = {str(k.value): (k, v) for k, v in body.entries} if isinstance(body, Mapping) else {}
    if "max_depth" in keys:
        for name, (where, _) in keys.items():
            if name not in KEYS:
                problems.add_unknown(f"a rule has no {quote(name)}", where.span, name, KEYS, "it has")
        depth = keys["max_depth"][1]
        if not isinstance(depth, Scalar) or type(depth.value) is not int or not 1 <= depth.value <= 50:
            problems.add("max_depth must be a whole number from 1 to 50", depth.span)
        else:
            max_depth = depth.value
        if "one_of" not in keys:
            problems.add("a rule with max_depth needs its alternatives under one_of", key.span)
            return None
        alternatives = keys["one_of"][1]
    items = alternatives.items if isinstance(alternatives, Items) else (alternatives,)
    if not items:
        problems.add(f"rule {match[1]!r} has no alternatives", key.span)
        return None
    return Rule(match[1], parameters, max_depth, items, key)
