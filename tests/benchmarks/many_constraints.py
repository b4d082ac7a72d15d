"""Seconds to read a grammar of 4,096 derivations with 500 constraints, to count what they leave, and to walk it.

    python tests/benchmarks/many_constraints.py [constraints [choices]]

Each derivation is another kind of block to the constraints, so that none can be counted together with another.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path

from ablate import api
from ablate.grammar.census import take_census

RULES = """\
grammar: many
start: block
defaults:
  mlp: {{activation: gelu, hidden: 4x, input_scale: 1, up: dense, gate: none, down: dense}}
  dense: {{bias: false, init: none, rate: 1}}
blocks: {{}}
rules:
  block:
    one_of: [[{parts}]]
  part:
    one_of:
      - mlp: {{activation: relu}}
      - mlp: {{activation: gelu}}
constraints:
{constraints}
"""


def text(constraints: int, choices: int) -> str:
    """A grammar of 2**choices derivations, with constraints on three of the choices each."""
    names = ["mlp", *(f"mlp_{place}" for place in range(2, choices + 1))]
    triples = itertools.cycle(itertools.combinations(names, 3))
    written = (
        f"  - {{when: {{{one}.activation: relu, {two}.activation: relu}}, forbid: {{{three}.activation: {word}}}, "
        f"because: number {number}}}"
        for number, ((one, two, three), word) in enumerate(
            zip(itertools.islice(triples, constraints), itertools.cycle(["relu", "relu", "gelu"]))
        )
    )
    parts = ", ".join(["$part"] * choices)
    return RULES.format(parts=parts, constraints="\n".join(written))


def main(constraints: int = 500, choices: int = 12) -> None:
    """Print the seconds of each part."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.yaml"
        path.write_text(text(constraints, choices), encoding="utf-8")
        start = time.perf_counter()
        grammar = api.load_grammar(path)
        read = time.perf_counter()
        census = take_census(grammar)
        counted = time.perf_counter()
        kept = sum(1 for _ in grammar.enumerate())
        walked = time.perf_counter()
    assert kept == census.admitted
    print(f"{len(grammar.constraints)} constraints, {grammar.count:,} derivations, {kept:,} of them may be")
    print(f"read {read - start:.2f} s, counted {counted - read:.2f} s, walked {walked - counted:.2f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
