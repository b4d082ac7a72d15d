"""Small grammars for tests, from their rules alone."""

from __future__ import annotations

from pathlib import Path

from builders import CATALOGUE
from reading import transformer

from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, print_block
from ablate.grammar.grammar import Grammar, read_grammar
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml


def grammar(rules: str, *, constraints: str = "", start: str = "block", catalogue: Catalogue = CATALOGUE) -> Grammar:
    """A grammar of these rules with the shipped defaults; InputError with its mistakes."""
    text = f"grammar: small\nstart: {start}\ndefaults: {{}}\nblocks: {{}}\nrules:\n{indented(rules)}"
    if constraints:
        text += f"\nconstraints:\n{indented(constraints)}"
    located = parse_yaml(text.replace("defaults: {}", DEFAULTS), "small.yaml")
    problems = Problems()
    found = read_grammar(located, Path("small.yaml"), catalogue, problems)
    problems.raise_if_any()
    assert found is not None
    return found


def many(word: str, times: int) -> str:
    """So many of these in a row, written ten by ten, since a list of parts holds few."""
    tens = ([word] * min(10, times - start) for start in range(0, times, 10))
    return ", ".join(f"{{one_of: [[{', '.join(ten)}]]}}" for ten in tens)


def texts(small: Grammar) -> list[str]:
    """Every derivation, printed, in order."""
    return [printed(small.derive(k)) for k in range(small.count)]


def printed(block: Block) -> str:
    return print_block(block, CATALOGUE, transformer().defaults)


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip("\n").splitlines())


DEFAULTS = """\
defaults:
  residual: {skip: 1, gain: 1, branch: []}
  parallel: {skip: 1, gain: 1, branches: []}
  layer_norm: {eps: 1e-5, scale: true, bias: true}
  rms_norm: {eps: 1e-8, outside: false, scale: true}
  simple_rms_norm: {eps: 1e-8}
  attention: {query: dense, key: dense, value: dense, projection: dense, pre_qk: none, pre_v: none, entropy: none,
              position: none, bias: none, matrix: softmax, scale: 1/sqrt(head_width), dropout: 0}
  mlp: {activation: gelu, hidden: 4x, input_scale: 1, up: dense, gate: none, down: dense}
  dense: {bias: false, init: none, rate: 1}
  leaky_relu: {slope: 0.01}
  rope: {base: 10000}
"""
