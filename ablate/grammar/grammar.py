"""A grammar: rules that derive blocks, blocks with names, defaults that may be left out, constraints with reasons."""

from __future__ import annotations

import random
from collections.abc import Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass
from pathlib import Path

from ablate.block.catalogue import Catalogue, Sequenced
from ablate.block.expression import Block, Sequence, Value
from ablate.block.printer import Defaults
from ablate.block.read import Invalid, Reader
from ablate.block.select import parts_by_name
from ablate.grammar.constraint import Constraint, read_constraints
from ablate.grammar.derivation import Template
from ablate.grammar.expand import Expander, Scope
from ablate.grammar.rules import read_rules
from ablate.source.located import Located, Mapping, Scalar
from ablate.source.problems import Problems, suggest
from ablate.source.yaml import read_yaml

KEYS = ("grammar", "description", "defaults", "rules", "start", "blocks", "constraints", "space")
REQUIRED = ("grammar", "defaults", "rules", "start", "blocks")


@dataclass(frozen=True, slots=True)
class NamedBlock:
    """A block that a grammar gives a name, and the comment that stands beside it in the list of blocks."""

    name: str
    block: Block
    key: Scalar


@dataclass(frozen=True)
class Grammar:
    """What may be built. `derivations` numbers every block that the rules derive, before constraints.

    `defaults` are the fields that YAML may leave out; `space` holds, still located, what a space may leave out.
    """

    name: str
    path: Path
    catalogue: Catalogue
    located_defaults: Map[str, Map[str, Located]]
    defaults: Defaults
    derivations: Template
    blocks: Map[str, NamedBlock]
    constraints: tuple[Constraint, ...]
    space: Mapping | None

    @property
    def count(self) -> int:
        """How many derivations the rules have, exactly, before constraints."""
        return self.derivations.count

    def derive(self, k: int) -> Block:
        """The k-th derivation, 0 <= k < count, whether a constraint refuses it or not. IndexError beyond."""
        if not 0 <= k < self.count:
            raise IndexError(f"derivation {k} of {self.count}")
        block = self.derivations.at(k, {})
        assert isinstance(block, Sequence)
        return block

    def enumerate(self) -> Iterator[Block]:
        """Every derivation that no constraint refuses, in order."""
        return (block for k in range(self.count) if not self.refusals(block := self.derive(k)))

    def sample(self, rng: random.Random) -> Block:
        """A uniform draw from the derivations that no constraint refuses (by rejection).

        Raises ValueError after 10,000 refusals in a row: the constraints then leave practically nothing.
        """
        for _ in range(10_000):
            block = self.derive(rng.randrange(self.count))
            if not self.refusals(block):
                return block
        raise ValueError(f"grammar {self.name}: 10,000 draws in a row were refused by constraints")

    def refusals(self, block: Block) -> tuple[str, ...]:
        """The reasons of the constraints that refuse a block; empty for a block that may be."""
        parts = parts_by_name(block, self.catalogue)
        return tuple(c.because for c in self.constraints if c.refuses(parts))

    def reader_for(self, problems: Problems) -> Reader:
        """A reader of expressions with this grammar's defaults, noting mistakes in `problems`."""
        return Reader(self.catalogue, self.located_defaults, problems)

    def block(self, name: str) -> Block:
        """A named block. KeyError with a suggestion where the grammar has none of that name."""
        if name not in self.blocks:
            hint = suggest(name, tuple(self.blocks))
            raise KeyError(f"grammar {self.name} has no block {name!r}" + (f": {hint}" if hint else ""))
        return self.blocks[name].block


def load_grammar(path: Path, catalogue: Catalogue) -> Grammar:
    """Read a grammar; raises InputError with every mistake at its place."""
    problems = Problems()
    located = read_yaml(path)
    grammar = read_grammar(located, path, catalogue, problems)
    problems.raise_if_any()
    assert grammar is not None
    return grammar


def read_grammar(located: Located, path: Path, catalogue: Catalogue, problems: Problems) -> Grammar | None:
    """Read a grammar from located YAML; None where mistakes (noted in `problems`) leave nothing to work with."""
    entries = _entries(located, problems)
    if entries is None:
        return None
    named = entries["grammar"]
    if not isinstance(named, Scalar) or not isinstance(named.value, str):
        problems.add("grammar must be a name", named.span)
    defaults = _located_defaults(entries["defaults"], catalogue, problems)
    reader = Reader(catalogue, defaults, problems)
    rules = read_rules(entries["rules"], problems)
    expander = Expander(rules, reader, problems)
    template = _start(entries["start"], expander, problems)
    for rule in rules.values():
        if not expander.used(rule.name):
            problems.add(
                f"rule {rule.name!r} is never used", rule.key.span, notes=("remove it, or reach it from start",)
            )
    blocks = _blocks(entries["blocks"], reader, problems)
    constraints = read_constraints(entries["constraints"], problems) if "constraints" in entries else ()
    space = entries.get("space")
    if space is not None and not isinstance(space, Mapping):
        problems.add("space must be a mapping: what a space may leave out", space.span)
        space = None
    parsed = _parsed_defaults(defaults, reader)
    if template is None:
        return None
    return Grammar(str(named.value), path, catalogue, defaults, parsed, template, blocks, constraints, space)  # type: ignore[union-attr]


def _entries(located: Located, problems: Problems) -> dict[str, Located] | None:
    if not isinstance(located, Mapping):
        problems.add("a grammar is a mapping", located.span, notes=(f"with the keys: {', '.join(KEYS)}",))
        return None
    entries: dict[str, Located] = {}
    for key, value in located.entries:
        if key.value not in KEYS:
            label = suggest(key.text, KEYS) or ""
            notes = (f"a grammar accepts: {', '.join(KEYS)}",)
            problems.add(f"unknown key {key.text!r} in a grammar", key.span, label=label, notes=notes)
        entries[str(key.value)] = value
    missing = [key for key in REQUIRED if key not in entries]
    for key in missing:
        problems.add(f"missing key {key!r} in the grammar", located.span)
    return None if missing else entries


def _start(located: Located, expander: Expander, problems: Problems) -> Template | None:
    if not isinstance(located, Scalar) or not isinstance(located.value, str):
        problems.add("start must name a rule", located.span)
        return None
    reference = Scalar("$" + located.value.removeprefix("$"), located.text, located.span)
    try:
        template = expander.template(reference, Sequenced(), Scope())
    except Invalid:
        return None
    if template.count == 0:
        problems.add(f"{located.value} derives no block at all", located.span)
        return None
    return template


def _located_defaults(located: Located, catalogue: Catalogue, problems: Problems) -> dict[str, dict[str, Located]]:
    found: dict[str, dict[str, Located]] = {}
    if not isinstance(located, Mapping):
        problems.add("defaults must map components to fields", located.span)
        return found
    names = tuple(spec.name for spec in catalogue)
    for key, body in located.entries:
        if key.value not in catalogue:
            problems.add(f"unknown component {key.text!r}", key.span, label=suggest(key.text, names) or "")
        elif not isinstance(body, Mapping):
            problems.add(f"the defaults of {key.text} must be a mapping of fields", body.span)
        else:
            fields = catalogue[str(key.value)].fields
            for field, _ in body.entries:
                if field.value not in fields:
                    label = suggest(field.text, tuple(fields)) or ""
                    notes = (f"its fields are: {', '.join(fields) or 'none'}",)
                    problems.add(f"{key.text} has no field {field.text!r}", field.span, label=label, notes=notes)
            found[str(key.value)] = {str(f.value): value for f, value in body.entries if f.value in fields}
    return found


def _parsed_defaults(defaults: Map[str, Map[str, Located]], reader: Reader) -> dict[str, dict[str, Value]]:
    """Every default as a value; a mistake in one that nothing uses is found here too."""
    parsed: dict[str, dict[str, Value]] = {}
    for component, fields in defaults.items():
        parsed[component] = {}
        for field in fields:
            try:
                parsed[component][field] = reader.default(component, field)
            except Invalid:
                continue
    return parsed


def _blocks(located: Located, reader: Reader, problems: Problems) -> dict[str, NamedBlock]:
    if not isinstance(located, Mapping):
        problems.add("blocks must be a mapping from names to blocks", located.span)
        return {}
    found = {}
    for key, body in located.entries:
        block = reader.block(body)
        if block is not None:
            found[str(key.value)] = NamedBlock(str(key.value), block, key)
    return found
