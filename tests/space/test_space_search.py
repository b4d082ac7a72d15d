"""What a search says, and where what it leaves out comes from."""

from pathlib import Path

import pytest
from builders import CATALOGUE

from ablate.errors import InputError
from ablate.space.design import Search
from ablate.space.load import load_space
from ablate.space.space import Space

pytestmark = pytest.mark.fast
GRAMMAR = Path(__file__).parent.parent / "errors" / "grammars" / "small.yaml"


def space(folder: Path, design: str, *settings: str, profile: str | None = None) -> Space:
    text = f"""\
space: small
question: Which block loses least?
grammar: {GRAMMAR}
model:   {{layers: 4, width: 32, heads: 4, context: 16, init: {{normal: 0.02}}}}
recipe:  {{steps: 20, batch: 4, optimizer: {{adamw: {{lr: 1e-2}}}}}}
design:  {design}
seeds:   2
measure: {{every: 5, probes: [kurtosis], evaluation: {{every: 10, windows: 8}}}}
judge:   {{against: pre_ln, metrics: {{eval_loss: {{margin: 1%}}}}}}
profiles:
  long: {{design: {{search: {{budget: {{hours: 8}}}}}}}}
  path: {{design: {{path: {{from: pre_ln, to: op}}}}}}
"""
    (folder / "space.yaml").write_text(text, encoding="utf-8")
    return load_space(folder / "space.yaml", CATALOGUE, profile=profile, settings=settings)


WRITTEN = "{search: {from: pre_ln, objective: {eval_loss: min, peak_kurtosis: min}, budget: {trials: 60}}}"


def searched(found: Space) -> Search:
    assert found.design.search is not None
    return found.design.search


def test_what_is_left_out_comes_from_the_grammar(tmp_path: Path) -> None:
    found = space(tmp_path, WRITTEN)
    assert (found.design.kind, found.design.blocks, set(found.blocks)) == ("search", ("pre_ln",), {"pre_ln"})
    search = searched(found)
    assert search.objective == {"eval_loss": "min", "peak_kurtosis": "min"}
    assert (search.sampler, search.parallel, search.seed) == ("tpe", 1, 0)
    assert (search.budget.kind, search.budget.trials, search.budget.hours) == ("trials", 60, None)


def test_what_is_said_lies_on_top(tmp_path: Path) -> None:
    found = space(tmp_path, WRITTEN, "design.search.sampler=evolution", "design.search.parallel=4", profile="long")
    search = searched(found)
    assert (search.sampler, search.parallel, search.seed) == ("evolution", 4, 0)
    assert (search.budget.kind, search.budget.hours, search.budget.trials) == ("hours", 8.0, None)


def test_another_design_takes_nothing_of_a_search(tmp_path: Path) -> None:
    assert space(tmp_path, WRITTEN, profile="path").design.search is None
    assert space(tmp_path, "{compare: [pre_ln, op]}").design.kind == "compare"


def test_a_grammar_that_says_nothing_leaves_nothing_to_be_assumed(tmp_path: Path) -> None:
    bare = tmp_path / "bare.yaml"
    line = "  design: {search: {sampler: tpe, parallel: 1, seed: 0}}\n"
    text = GRAMMAR.read_text(encoding="utf-8")
    assert line in text
    bare.write_text(text.replace(line, ""), encoding="utf-8")
    with pytest.raises(InputError, match=r"missing keys 'sampler', 'parallel', 'seed' in design\.search"):
        space(tmp_path, WRITTEN, "grammar=bare.yaml")


@pytest.mark.parametrize("budget", ["{trials: null}", "{trials: 3, flops: null}"])
def test_a_budget_of_nothing(tmp_path: Path, budget: str) -> None:
    with pytest.raises(InputError, match="a budget is of exactly one kind"):
        space(tmp_path, WRITTEN.replace("{trials: 60}", budget))
