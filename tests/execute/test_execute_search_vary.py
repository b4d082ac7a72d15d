"""Searches over values beside blocks: what is proposed, what it is as a model, and that numbers are seen as numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wilcoxon
from space_fixtures import space as small

from ablate.block.address import parts_by_name
from ablate.execute.search.proposer import Proposer, sampler_on
from ablate.execute.search.ranking import Result
from ablate.execute.search.search_space import TOGETHER, VETO, SpaceGround, parts_of_number, space_ground
from ablate.grammar.choices import choices
from ablate.grammar.mutate import draw, mutate
from ablate.plan.build import build_plan
from ablate.plan.models import Models
from ablate.plan.proposals import TreatedBlock, block_of, join, setting_of, treated
from ablate.space.documents import Choice

RATE = "recipe.optimizer.adamw.lr"
NUMBERS = f"{RATE}: {{from: 1e-4, to: 1e-1, scale: log}}, recipe.clip: {{from: 0.5, to: 2}}"
GRAMMAR = Path(__file__).parent.parent / "errors" / "grammars" / "small.yaml"
ONE = """\
  norm: [none, layer_norm, rms_norm]
  block:
    - [residual: [$norm, attention], residual: [$norm, mlp]]
"""


def searching(folder: Path, vary: str, *set_: str, more: str = "", grammar: Path = GRAMMAR, **sections: str):
    """A space that searches, with these values varied."""
    design = (
        f"{{search: {{from: pre_ln, objective: {{eval_loss: min}}, budget: {{trials: 60}}{more}, vary: {{{vary}}}}}}}"
    )
    return small(folder, *set_, design=design, grammar=str(grammar), **sections)


def ground(folder: Path, vary: str = NUMBERS, *set_: str, **options: str) -> SpaceGround:
    return space_ground(searching(folder, vary, *set_, **options), vocab_size=32, repetition=None)


def only_block(folder: Path) -> Path:
    """A grammar of one block, which is pre_ln."""
    text = GRAMMAR.read_text(encoding="utf-8")
    assert ONE in text
    rules = "  block:\n    - [residual: [layer_norm, attention], residual: [layer_norm, mlp]]\n"
    path = folder / "only.yaml"
    path.write_text(text.replace(ONE, rules), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> SpaceGround:
    """One block, and two numbers."""
    folder = tmp_path_factory.mktemp("plain")
    return ground(folder, grammar=only_block(folder))


def made(here: SpaceGround, sampler: str, seed: int = 0) -> Proposer:
    return sampler_on(here, Choice(sampler), seed, ("min",), here.space.grammar.catalogue)


def values(here: SpaceGround, index: int) -> dict[str, object]:
    return {
        f.address: level.value for f, level in zip(here.varied, parts_of_number(index, here.varied)[1], strict=True)
    }


# What a derivation is


@pytest.mark.fast
def test_without_vary_nothing_is_beside_the_grammar(tmp_path: Path) -> None:
    design = "{search: {from: pre_ln, objective: {eval_loss: min}, budget: {trials: 60}}}"
    here = space_ground(small(tmp_path, design=design, grammar=str(GRAMMAR)), vocab_size=32, repetition=None)
    assert here.derivations is here.space.grammar.derivations and here.count == here.space.grammar.count
    assert here.derive(0) == here.space.grammar.derive(0)


@pytest.mark.fast
def test_a_derivation_is_one_of_the_grammar_with_a_value_at_each_address(tmp_path: Path) -> None:
    here = ground(tmp_path)
    grammar = here.space.grammar
    assert here.count == grammar.count * 691 * 151
    rng = random.Random(0)
    for _ in range(20):
        index = rng.randrange(here.count)
        of_grammar, _ = parts_of_number(index, here.varied)
        names = [(one.name, one.word) for one in choices(here.derivations, index)]
        alone = [(one.name, one.word) for one in choices(grammar.derivations, of_grammar)]
        assert names[: len(alone)] == alone
        assert [name for name, _ in names[len(alone) :]] == [RATE, "recipe.clip"]
        assert block_of(here.derive(index)) == grammar.derive(of_grammar)
        assert set(setting_of(here.derive(index)).changes) <= set(values(here, index).items())
        assert {one.name: float(one.word) for one in choices(here.derivations, index)[len(alone) :]} == pytest.approx(
            values(here, index)
        )


@pytest.mark.fast
def test_a_value_that_the_space_has_is_no_change(tmp_path: Path) -> None:
    here = ground(tmp_path, "recipe.schedule.warmup: [0, 5%, 0.1], model.layers: {from: 2, to: 6, step: 2}")
    seen = {
        (values(here, k)["recipe.schedule.warmup"], values(here, k)["model.layers"]): here.derive(k) for k in range(9)
    }
    assert setting_of(seen["5%", 4]).changes == ()
    assert not isinstance(seen["5%", 4], TreatedBlock)
    assert setting_of(seen[0, 4]).changes == (("recipe.schedule.warmup", 0),)
    assert setting_of(seen["5%", 6]).changes == (("model.layers", 6),)
    reference = here.space.blocks["pre_ln"]
    assert here.mark(reference) in {here.mark(here.derive(k)) for k in range(here.count)}


@pytest.mark.fast
def test_marks_and_flops_are_those_of_the_changed_space(tmp_path: Path) -> None:
    here = ground(tmp_path, f"{NUMBERS}, model.layers: [2, 4, 8], recipe.steps: [20, 40], recipe.batch: [4, 8]")
    block = here.space.blocks["pre_ln"]
    changes = ((), ((RATE, 1e-3),), (("model.layers", 8),), (("recipe.steps", 40),), (("recipe.batch", 8),))
    of = [treated(block, change) for change in changes]
    assert len({here.mark(one) for one in of}) == 5
    base, rate, deep, long, wide = map(here.flops, of)
    assert rate == base and long == 2 * base and wide == 2 * base and base < deep < 2 * base
    assert here.measure("parameters", of[2]) > here.measure("parameters", block)


@pytest.mark.fast
def test_values_of_fields_are_set_where_a_block_has_them(tmp_path: Path) -> None:
    here = ground(tmp_path, "block.*_norm.eps: {from: 1e-8, to: 1e-4, scale: log}")
    rng, with_norm = random.Random(1), 0
    for _ in range(30):
        index = rng.randrange(here.count)
        block, eps = here.derive(index), values(here, index)["block.*_norm.eps"]
        norms = [node for name, node in parts_by_name(block_of(block), here.space.grammar.catalogue) if "norm" in name]
        assert all(node["eps"] == eps for node in norms)
        with_norm += bool(norms)
    assert 0 < with_norm < 30


# What is refused


def test_values_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    here = ground(tmp_path, "model.heads: [4, 5], model.width: {from: 32, to: 40, step: 8}")
    block = here.space.blocks["pre_ln"]
    together = treated(block, (("model.heads", 5), ("model.width", 40)))
    assert here.refusals(together) == ()
    assert here.refusals(treated(block, (("model.heads", 5),))) == (f"{TOGETHER}5 heads do not divide the width 32",)
    assert "design.search.vary" in here.way_out(f"{TOGETHER}5 heads do not divide the width 32")
    rng = random.Random(0)
    draws = [draw(here, rng) for _ in range(12)]
    assert any(why.startswith(TOGETHER) for one in draws for why in one.refused)
    assert any(one.met for one in draws) and all(here.refusals(one.block) == () for one in draws)


@pytest.mark.fast
def test_a_value_that_a_block_cannot_take_is_refused(tmp_path: Path) -> None:
    here = ground(tmp_path, "block.attention_norm.scale: [true, false]")
    assert here.refusals(here.derive(0)) == ()
    deep = TreatedBlock(here.space.blocks["pre_ln"], (("block.attention_norm.scale", 7),))
    assert here.refusals(deep) == (f"{TOGETHER}block.attention_norm.scale=7 cannot be set in this block",)


@pytest.mark.fast
def test_a_veto_counts_the_changed_model(tmp_path: Path) -> None:
    here = ground(tmp_path, "model.layers: [4, 8]", more=", beforehand: {veto: {parameters: 110%}}")
    block = here.space.blocks["pre_ln"]
    assert here.refusals(block) == ()
    assert here.refusals(treated(block, (("model.layers", 8),))) == (f"{VETO}parameters, at most 110% of pre_ln's",)


# What is proposed


@given(
    sampler=st.sampled_from(["random", "evolution", "tpe"]), seed=st.integers(0, 99), n=st.sampled_from([0, 3, 12, 25])
)
@settings(max_examples=examples_of(60), deadline=None)
def test_proposals_lie_within_the_ends_and_are_the_same_again(
    plain: SpaceGround, sampler: str, seed: int, n: int
) -> None:
    rng = random.Random(seed)
    history = [Result(rng.randrange(plain.count), "finished", (rng.gauss(0, 1),)) for _ in range(n)]
    proposal = made(plain, sampler, seed).propose(n, history)
    found = values(plain, proposal.index)
    assert 1e-4 <= found[RATE] <= 1e-1 and 0.5 <= found["recipe.clip"] <= 2  # type: ignore[operator]
    assert float(f"{found[RATE]:.3g}") == found[RATE]
    assert made(plain, sampler, seed).propose(n, history) == proposal


def surface(here: SpaceGround, seed: int) -> Callable[[int], float]:
    """The squared distance from a rate and a clip that the seed draws, each on its own scale."""
    rng = random.Random(seed)
    rate, clip = rng.uniform(math.log(1e-4), math.log(1e-1)), rng.uniform(0.5, 2)

    @cache
    def value(index: int) -> float:
        at = values(here, index)
        logs = math.log(at[RATE]) - rate  # type: ignore[arg-type]
        return (logs / math.log(1e3)) ** 2 + ((at["recipe.clip"] - clip) / 1.5) ** 2  # type: ignore[operator]

    return value


def reached(here: SpaceGround, sampler: str, seed: int, trials: int = 40) -> float:
    """The least value of so many proposals."""
    value, history = surface(here, seed), list[Result]()
    proposer = made(here, sampler, 1000 + seed)
    for k in range(trials):
        index = proposer.propose(k, history).index
        history.append(Result(index, "finished", (value(index),)))
    return min(result.values[0] for result in history)


@pytest.fixture(scope="module")
def drawn(plain: SpaceGround) -> list[float]:
    return [reached(plain, "random", seed) for seed in range(12)]


@pytest.mark.full
@pytest.mark.parametrize("sampler", ["tpe", "evolution", "cmaes"])
def test_samplers_beat_random_on_smooth_numbers(plain: SpaceGround, drawn: list[float], sampler: str) -> None:
    """The same 12 surfaces, 40 proposals each; one-sided Wilcoxon."""
    found = [reached(plain, sampler, seed) for seed in range(12)]
    assert wilcoxon([math.log(x) for x in found], [math.log(x) for x in drawn], alternative="less").pvalue < 0.05


@pytest.mark.full
def test_random_does_not_beat_random(plain: SpaceGround, drawn: list[float]) -> None:
    """The twin: the test above can fail."""
    others = []
    for seed in range(12):
        value, proposer = surface(plain, seed), made(plain, "random", 5000 + seed)
        others.append(min(value(proposer.propose(k, []).index) for k in range(40)))
    assert wilcoxon([math.log(x) for x in others], [math.log(x) for x in drawn], alternative="less").pvalue > 0.05


@pytest.mark.fast
def test_a_mutation_moves_a_number_nearby(plain: SpaceGround) -> None:
    rng, start = random.Random(0), plain.count // 2
    before = values(plain, start)
    moved = [values(plain, mutate(plain.derivations, start, rng)) for _ in range(300)]
    assert all(sum(before[name] != after[name] for name in before) == 1 for after in moved)
    ratios = [abs(math.log(after[RATE] / before[RATE])) for after in moved if after[RATE] != before[RATE]]  # type: ignore[operator]
    assert fmean(ratios) < 0.15 * math.log(1e3)  # drawn anew it would be a quarter, from the middle
    assert max(ratios) > 0.15 * math.log(1e3)


@pytest.mark.fast
def test_half_of_the_mutations_are_of_values(tmp_path: Path) -> None:
    here, rng = ground(tmp_path), random.Random(0)
    start = here.count // 2
    changed = [parts_of_number(mutate(here.derivations, start, rng), here.varied)[0] for _ in range(400)]
    assert 150 < sum(index == parts_of_number(start, here.varied)[0] for index in changed) < 250


# What joins the plan


def test_a_proposal_is_named_by_its_edits_and_values(tmp_path: Path) -> None:
    space = searching(tmp_path, f"{NUMBERS}, recipe.batch: [4, 8], block.mlp_residual.gain: {{from: 0.1, to: 1}}")
    plan = build_plan(space, vocab_size=32, corpus="none")
    models = Models(space, 32, "none")
    here = space_ground(space, vocab_size=32, repetition=None)
    wanted = {RATE: 0.0123, "recipe.clip": 1, "recipe.batch": 8, "block.mlp_residual.gain": 0.25}
    index = 4  # layer_norm before both, as in pre_ln
    for factor in here.varied:
        index = index * len(factor.levels) + factor.values.index(_nearest(factor.values, wanted[factor.address]))
    joined = join(models, "p0", here.derive(index), plan.variants[0])
    assert joined.variant.edits == ("residual.gain=0.25", "recipe.batch=8", f"{RATE}=0.0123")
    assert "0.01 → 0.0123 at recipe.optimizer.adamw.lr" in joined.comparison.detail
    assert joined.comparison.unpaired == ("recipe.batch",)
    (trial,) = models.trials([joined.variant], [0], "tuning")
    assert trial.work.recipe.batch == 8 and trial.work.recipe.optimizer.settings["lr"] == 0.0123
    assert any(note.startswith(f"varied beside them: {RATE}: 0.0001 to 0.1, 691 numbers") for note in plan.notes)
    assert any("equally many tokens: recipe.batch is varied" in note for note in plan.notes)


def _nearest(values: tuple[object, ...], wanted: float) -> object:
    return min(values, key=lambda value: abs(math.log(value / wanted)))  # type: ignore[operator]
