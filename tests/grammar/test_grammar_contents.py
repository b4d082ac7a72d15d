"""What stands in derivations, against all of them listed."""

from pathlib import Path

import pytest
from builders import CATALOGUE
from reading import ROOT

from ablate.block.architecture import sizes_named
from ablate.grammar.derivation import sizes_derived
from ablate.grammar.grammar import load_grammar

pytestmark = pytest.mark.fast
SMALL = (ROOT / "tests" / "errors" / "grammars" / "small.yaml").read_text(encoding="utf-8")
NORM = "  norm: [none, layer_norm, rms_norm]\n"
FIRST = "    - [residual: [$norm, attention], residual: [$norm, mlp]]\n"
GAIN = "  gain: [1, {init: 1/context, trainable: true}, {one_of: [2, 1/layer]}]\n"
BRANCH = "  branch(f): [residual: {gain: $gain, branch: [$norm, $f]}]\n"


@pytest.mark.parametrize(
    ("rules", "block", "named"),
    [
        (NORM + GAIN + BRANCH, "$branch(mlp)", {"context", "layer"}),
        ("", "{let: {g: 1-repetition}, in: [residual: {gain: $g, skip: $g, branch: [mlp]}]}", {"repetition"}),
        (NORM, "residual: {gain: {between: [0.1, 0.9], points: 3, scale: linear}, branch: [$norm, mlp]}", set()),
    ],
)
def test_the_sizes_are_those_of_all_derivations_together(
    tmp_path: Path, rules: str, block: str, named: set[str]
) -> None:
    """Every attention has its scale of 1/sqrt(head_width)."""
    assert NORM in SMALL
    assert FIRST in SMALL
    text = SMALL.replace(NORM, rules).replace(FIRST, f"    - [attention, {block}]\n")
    (tmp_path / "small.yaml").write_text(text, encoding="utf-8")
    grammar = load_grammar(tmp_path / "small.yaml", CATALOGUE)
    listed = [sizes_named(grammar.derive(k)) for k in range(grammar.count)]
    assert sizes_derived(grammar.derivations) == frozenset().union(*listed) == named | {"head_width"}
