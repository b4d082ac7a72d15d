"""Contract: running all tests of a contract, and reading the YAML that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block
from ablate.extension.declaration import Configured
from ablate.grammar.grammar import Grammar
from ablate.source.located import Located
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.documents import HINTS, Choice, read_choice

S = TypeVar("S", bound=Configured)


class Contract:
    """Tests of one thing; `plugins` are the files to read."""

    plugins: Sequence[str | Path] = ()

    def check_all(self) -> None:
        """Run every test in turn; the first AssertionError says what does not hold."""
        for name in dir(self):
            if name.startswith("test_"):
                getattr(self, name)()


def written_choice(spec: type[Configured], text: str) -> Located:
    return parse_yaml(text, f"the {spec.kind.name} of the contract")


def chosen_of(spec: type[S], written: Located, catalogue: Catalogue) -> tuple[S, Choice]:
    """The declaration that is chosen, and its settings; InputError for a mistake in the YAML."""
    problems, known = Problems(), catalogue.of_kind(spec)
    chosen = read_choice(written, spec.kind, known, spec.kind.name, problems, HINTS)
    problems.raise_if_any()
    assert chosen is not None
    return known[chosen.name], chosen


def block_of(text: str, name: str, grammar: Grammar) -> Block:
    """A block in YAML, with the defaults of a grammar; InputError for a mistake in it."""
    problems = Problems()
    block = grammar.reader_for(problems).block(parse_yaml(text, name))
    problems.raise_if_any()
    assert block is not None
    return block
