"""A grammar: rules that derive blocks, named blocks, defaults of fields, and constraints with reasons."""

from __future__ import annotations

import dataclasses
import functools
import random
import shlex
from collections.abc import Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from ablate.block.address import parts_by_name
from ablate.block.catalogue import Catalogue, Sequenced, value_before
from ablate.block.expression import Block, Defaults, Sequence, Value
from ablate.block.reader import LISTING, OF_YOUR_OWN, Invalid, Reader
from ablate.errors import InputError
from ablate.grammar.constraint import Constraint, Refusals, read_constraints
from ablate.grammar.derivation import Template
from ablate.grammar.named_blocks import (
    GrammarText,
    NamedBlock,
    Preset,
    looks_included,
    read_blocks,
    read_included,
    read_presets,
)
from ablate.grammar.rules import Expander, Scope, read_rules
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import (
    Problem,
    Problems,
    missing_keys,
    note_unknown,
    quote,
    shorten,
    shown_name,
    suggest,
    together,
)
from ablate.source.yaml import read_yaml

KEYS = ("grammar", "description", "include", "defaults", "rules", "start", "blocks", "presets", "constraints", "space")
REQUIRED = ("grammar", "defaults", "rules", "start", "blocks")
DRAWS = 10_000
T = TypeVar("T")
USUAL = "transformer"  # the grammar that commands use if none is named


@dataclass(frozen=True)
class Grammar:
    """The set of blocks that may be built. `derivations` numbers every block that the rules derive, before constraints.

    A grammar may have several `starts`, by the names of their rules: `derivations` are those of the first, unless it is
    `starting` from another. `defaults` are the fields that YAML may leave out; `space` holds, still located, the
    defaults of a space, and `presets` the sections that it can take by name. The files that it includes are part of it;
    `texts` are what was read of each, by the name at which it is included, and of its own file, by "".
    """

    name: str
    path: Path
    catalogue: Catalogue
    located_defaults: Map[str, Map[str, Located]]
    defaults: Defaults
    derivations: Template
    blocks: Map[str, NamedBlock]
    presets: Map[str, Preset]
    constraints: tuple[Constraint, ...]
    space: Mapping | None
    starts: Map[str, Template] = dataclasses.field(default_factory=dict)
    texts: Map[str, str] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        size = f"{len(self.blocks)} named blocks, {len(self.presets)} presets, {len(self.constraints)} constraints"
        return f"<Grammar {self.name}: {size}, {shorten(f'{self.count:,}')} derivations; {self.path}>"

    @property
    def count(self) -> int:
        """The exact number of derivations, before constraints."""
        return self.derivations.count

    def starting(self, name: str) -> Grammar:
        """Return the grammar that derives from another of its starts; KeyError if it is none."""
        return replace(self, derivations=self._named("start", name, self.starts))

    def _named(self, noun: str, name: str, known: Map[str, T]) -> T:
        if name not in known:
            hint = suggest(name, tuple(known))
            raise KeyError(f"grammar {self.name} has no {noun} {name!r}" + (f": {hint}" if hint else ""))
        return known[name]

    def derive(self, k: int) -> Block:
        """Return the k-th derivation, 0 <= k < count, even if a constraint refuses it; IndexError for any other k."""
        if not 0 <= k < self.count:
            raise IndexError(f"derivation {k} of {self.count}")
        block = self.derivations.at(k, {})
        assert isinstance(block, Sequence)
        return block

    def enumerate(self) -> Iterator[Block]:
        """Yield every derivation that no constraint refuses, in order."""
        return (block for k in range(self.count) if not self.refusals(block := self.derive(k)))

    def sample(self, rng: random.Random) -> Block:
        """Draw uniformly from the derivations that no constraint refuses, by rejection.

        Raises InputError after 10,000 refusals in a row: the constraints then admit practically nothing.
        """
        for _ in range(DRAWS):
            block = self.derive(rng.randrange(self.count))
            if not self.refusals(block):
                return block
        raise InputError(
            f"grammar {self.name}: constraints refused {DRAWS:,} blocks in a row that were drawn from its rules\n"
            "  = offer fewer alternatives that the constraints refuse"
        )

    def refusals(self, block: Block) -> tuple[str, ...]:
        """Return the reasons of the constraints that refuse a block; empty for a block that is admitted."""
        return tuple(constraint.because for constraint in self.broken(block))

    def broken(self, block: Block) -> tuple[Constraint, ...]:
        """Return the constraints that refuse a block; empty for a block that is admitted."""
        return self._refusals.of(parts_by_name(block, self.catalogue))

    @cached_property
    def _refusals(self) -> Refusals:
        return Refusals(self.constraints)

    def way_out(self, reason: str) -> str:
        """Return the way out of a constraint that admits practically nothing."""
        return "offer fewer such alternatives in the rules, or relax the constraint"

    def listing(self, what: str) -> str:
        """Return the command that lists its `blocks` or `presets`."""
        usual = self.name == self.path.stem == USUAL
        return f"ablate list {what}" + ("" if usual else f" --grammar {shlex.quote(shown_name(str(self.path)))}")

    def reader_for(self, problems: Problems) -> Reader:
        """Return a reader of expressions with this grammar's defaults, which notes mistakes in `problems`."""
        return Reader(self.catalogue, self.located_defaults, problems)

    def block(self, name: str) -> Block:
        """Return a named block; KeyError with a suggestion if the grammar has none of that name."""
        return self._named("block", name, self.blocks).block


def load_grammar(path: Path, catalogue: Catalogue) -> Grammar:
    """Read a grammar; raises InputError with every mistake at its place."""
    problems = Problems()
    try:
        grammar = read_grammar(read_yaml(path), path, catalogue, problems)
    except InputError as unreadable:
        raise together([*problems.errors(), unreadable]) from None
    problems.raise_if_any()
    assert grammar is not None
    return grammar


def read_grammar(
    located: Located, path: Path, catalogue: Catalogue, problems: Problems, kept: Map[str, str] | None = None
) -> Grammar | None:
    """Read a grammar from located YAML; None if mistakes (noted in `problems`) leave nothing to work with.

    `kept` has the texts of the files that it includes, where these are not to be read from the disk. Raises InputError
    for an included file that cannot be read at all.
    """
    entries = _entries(located, problems)
    if entries is None:
        return None
    own = GrammarText("", entries, "", located.span.source.text)
    grammar, mistakes = _read((own, *read_included(entries.get("include"), path, problems, kept)), path, catalogue)
    for mistake in mistakes:
        problems.append(mistake)
    return grammar


@functools.lru_cache(maxsize=8)
def _read(
    texts: tuple[GrammarText, ...], path: Path, catalogue: Catalogue
) -> tuple[Grammar | None, tuple[Problem, ...]]:
    """Read the files of a grammar, and the mistakes in them; cached, as one process reads a grammar many times."""
    problems, entries = Problems(), texts[0].entries
    name = entries["grammar"]
    if not isinstance(name, Scalar) or not isinstance(name.value, str):
        problems.add("grammar must be a name", name.span)
    defaults = _located_defaults(texts, catalogue, problems)
    reader = Reader(catalogue, defaults, problems)
    starts = _derivations(entries["rules"], entries["start"], reader)
    blocks, presets = read_blocks(texts, reader), read_presets(texts, problems)
    written = [text.entries["constraints"] for text in texts if "constraints" in text.entries]
    constraints = tuple(read for listed in written for read in read_constraints(listed, catalogue, problems))
    space = entries.get("space")
    if space is not None and not isinstance(space, Mapping):
        problems.add("space must be a mapping of defaults for spaces", space.span)
        space = None
    parsed = _with_added(_parsed_defaults(defaults, reader), catalogue)
    if not starts or not isinstance(name, Scalar):
        return None, tuple(problems)
    grammar = Grammar(
        str(name.value),
        path,
        catalogue,
        defaults,
        parsed,
        next(iter(starts.values())),
        blocks,
        presets,
        constraints,
        space,
        starts,
        {text.name: text.text for text in texts},
    )
    return grammar, tuple(problems)


def _entries(located: Located, problems: Problems) -> dict[str, Located] | None:
    if not isinstance(located, Mapping):
        problems.add("a grammar must be a mapping", located.span, notes=(f"with the keys: {', '.join(KEYS)}",))
        return None
    if looks_included(located):
        message = "this file is a part of a grammar, and is meant to be included"
        problems.add(message, located.entries[0][0].span, notes=("check the grammar that includes it",))
        return None
    unknown = note_unknown(located, KEYS, problems, "unknown key", " in a grammar", lead="a grammar accepts")
    first = located.entries[0][0].span if located.entries else located.span
    for word in missing_keys(located, REQUIRED, unknown):
        problems.add(f"missing key {word!r} in the grammar", first)
    entries = {str(key.value): value for key, value in located.entries}
    return entries if all(word in entries for word in REQUIRED) else None


def _derivations(rules: Located, start: Located, reader: Reader) -> dict[str, Template]:
    problems = reader.problems
    before = len(problems)
    expander = Expander(read_rules(rules, problems), reader, problems)
    named = _starts(start, problems)
    read = {name: _derived(written, expander, problems) for name, written in named.items()}
    if len(problems) == before:
        for rule in expander.unused():
            way_out = ("remove it, or use it in a rule that a start reaches",)
            problems.add(f"rule {quote(rule.name)} is never used", rule.key.span, notes=way_out)
    starts = {name: template for name, template in read.items() if template is not None and template.count}
    for name, template in read.items():
        if template is not None and name not in starts:
            way_out = ("every derivation reaches max_depth: add an alternative that ends",)
            message = f"{quote(str(named[name].value))} derives no block at all"
            problems.add(message, named[name].span, notes=way_out)
    return starts if len(starts) == len(read) == len(named) else {}


def _starts(start: Located, problems: Problems) -> dict[str, Scalar]:
    """Return the rules that are named as starts, by their names: one, or a list of different ones."""
    listed = isinstance(start, Items)
    items = start.items if isinstance(start, Items) else (start,)
    if not items:
        problems.add("start must name a rule", start.span, notes=("such as start: block",))
    named: dict[str, Scalar] = {}
    for item in items:
        if not isinstance(item, Scalar) or not isinstance(item.value, str):
            message = "each start must name a rule" if listed else "start must name a rule"
            problems.add(message, item.span, notes=("such as start: block",))
            continue
        name = item.value.removeprefix("$")
        if name in named:
            also = ((named[name].span, "first listed here"),)
            problems.add(f"start {quote(name)} is listed twice", item.span, label="and again", also=also)
        named.setdefault(name, item)
    return named


def _derived(start: Scalar, expander: Expander, problems: Problems) -> Template | None:
    reference = Scalar("$" + str(start.value).removeprefix("$"), start.text, start.span)
    try:
        return expander.template(reference, Sequenced(), Scope())
    except Invalid:
        return None
    except RecursionError:
        problems.add("the rules nest too deeply to be read", start.span, notes=("lower max_depth",))
        return None


def _located_defaults(
    texts: tuple[GrammarText, ...], catalogue: Catalogue, problems: Problems
) -> dict[str, dict[str, Located]]:
    defaults: dict[str, dict[str, Located]] = {}
    for text in texts:
        if "defaults" not in text.entries:
            continue
        for component, fields in _defaults_of(text.entries["defaults"], catalogue, problems).items():
            known = defaults.setdefault(component, {})
            for field, value in fields.items():
                if field in known:
                    message = f"the default of {component}.{field} is given twice"
                    also = ((known[field].span, "first given here"),)
                    problems.add(message, value.span, label="and again", also=also)
                known.setdefault(field, value)
    return defaults


def _defaults_of(located: Located, catalogue: Catalogue, problems: Problems) -> dict[str, dict[str, Located]]:
    defaults: dict[str, dict[str, Located]] = {}
    if not isinstance(located, Mapping):
        problems.add("defaults must map components to fields", located.span)
        return defaults
    names = tuple(spec.name for spec in catalogue)
    for key, body in located.entries:
        if key.value not in catalogue:
            message, what = f"unknown component {quote(key.text)}", "components"
            problems.add_unknown(message, key.span, key.text, names, what, command=LISTING, notes=(OF_YOUR_OWN,))
        elif not isinstance(body, Mapping):
            problems.add(f"the defaults of {key.text} must be a mapping of fields", body.span)
        else:
            fields = catalogue[str(key.value)].fields
            note_unknown(body, fields, problems, f"{key.text} has no field", lead="its fields are")
            defaults[str(key.value)] = {str(f.value): value for f, value in body.entries if f.value in fields}
    return defaults


def _parsed_defaults(defaults: Map[str, Map[str, Located]], reader: Reader) -> dict[str, dict[str, Value]]:
    """Read every default as a value, so that a mistake is found even in one that nothing uses."""
    parsed: dict[str, dict[str, Value]] = {}
    for component, fields in defaults.items():
        parsed[component] = {}
        for field in fields:
            try:
                parsed[component][field] = reader.default(component, field)
            except Invalid:
                continue
    return parsed


def _with_added(parsed: Map[str, Map[str, Value]], catalogue: Catalogue) -> dict[str, dict[str, Value]]:
    """Add the fields that came later, at the values of before: they are left out wherever a block is printed."""
    added = {spec.name: {field: value_before(spec, field) for field in spec.added} for spec in catalogue if spec.added}
    return {name: {**added.get(name, {}), **parsed.get(name, {})} for name in {**parsed, **added}}
