"""How much differences vary is taken from pairs like those to be judged, where there are any, and said whose."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from store_fixtures import DOCUMENTS, RECIPE, opened, plan, trial, under
from test_store_noise import RULES, noisy

from ablate.plan.plan import Plan
from ablate.report.screens.plan import floor_lines
from ablate.statistics import Floor, floor_of, floor_of_edits
from ablate.store.measurements import noise_of
from ablate.train.events import Outcome, Row

SEEDS = (0, 1, 2, 3)


def loss(variant: str, seed: int) -> float:
    """Edits share what a seed does to their baseline; an A/A arm does not, and so varies more against it."""
    own = {
        "a1": 0.0,
        "a1salt": 0.2 * math.sin(5 * seed + 1),
        "b2": 0.01 * math.cos(3 * seed),
        "c3": 0.03 * math.sin(9 * seed),
    }
    return 3.0 + 0.1 * math.sin(7 * seed) + own.get(variant, 0.05 * math.sin(11 * seed + 2))


def tell(folder, asked: Plan) -> None:
    with opened(folder) as results:
        results.record_plan(asked, DOCUMENTS)
        for one in asked.trials:
            if one.id not in results.outcomes():
                results.begin(one)
                results.append(one.id, [Row(40, "eval_loss", "", loss(one.variant, one.seed)), Outcome("finished", 40)])
        results.refresh()


def sd_of(*variants: str, seeds=SEEDS) -> float:
    """By an independent computation: within each edit around its own mean."""
    squares, df = 0.0, 0
    for variant in variants:
        d = [loss(variant, seed) - loss("a1", seed) for seed in seeds]
        squares += (len(d) - 1) * statistics.variance(d)
        df += len(d) - 1
    return math.sqrt(squares / df)


def floor(folder, asked: Plan) -> Floor:
    (found,) = noise_of(folder, asked, RULES).floors
    return found


@pytest.mark.full
def test_the_pairs_of_the_plans_own_edits_come_first(tmp_path):
    tell(tmp_path, noisy(SEEDS))
    assert floor(tmp_path, plan(SEEDS)).edits == 0
    assert floor(tmp_path, plan(SEEDS)).sd == pytest.approx(sd_of("a1salt"), rel=1e-12)
    tell(tmp_path, plan(SEEDS, "small"))
    found = floor(tmp_path, plan((0, 1, 2, 3, 4, 5), "small"))
    assert found.sd == pytest.approx(sd_of("b2", "c3"), rel=1e-12) and found.sd < sd_of("a1salt") / 3
    assert (found.n, found.pairs, found.edits, found.whose) == (4, 8, 2, "half, op against pre_ln")


def other(seeds) -> Plan:
    """A plan of the same baseline with an edit that no plan before it had."""
    asked = plan(seeds, "other")
    new = replace(asked.variants[1], id="d4", names=("new",))
    trials = tuple(one for one in asked.trials if one.variant == "a1")
    trials += tuple(replace(trial("a1", seed), id=f"d4{seed:04x}", variant="d4") for seed in seeds)
    against = replace(asked.comparisons[2], after="d4", change="new")
    return replace(asked, variants=(asked.variants[0], new), comparisons=(against,), trials=trials, proposals=())


def test_else_those_of_any_edit_of_that_baseline(tmp_path):
    tell(tmp_path, plan(SEEDS, "small"))
    found = floor(tmp_path, other(SEEDS))
    assert found.sd == pytest.approx(sd_of("b2", "c3"), rel=1e-12)
    assert found.whose == "2 variants of other plans against pre_ln"


def test_under_other_conditions_they_do_not_count(tmp_path):
    tell(tmp_path, plan(SEEDS, "small"))
    longer = RECIPE.model_copy(update={"steps": 80})
    asked = plan(SEEDS, "longer")
    asked = replace(asked, trials=tuple(under(one, id=f"l{one.id}", recipe=longer) for one in asked.trials))
    assert noise_of(tmp_path, asked, RULES).floors == ()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("seeds", "edits"), [((0, 1), 0), ((0, 1, 2), 2)])
def test_two_pairs_tell_too_little(tmp_path, seeds, edits):
    tell(tmp_path, noisy(SEEDS))
    tell(tmp_path, plan(seeds, "small"))
    assert floor(tmp_path, plan(SEEDS)).edits == edits


@pytest.mark.full
def test_the_plan_says_whose_they_are(tmp_path):
    tell(tmp_path, noisy(SEEDS))
    aa = "\n".join(floor_lines(plan(SEEDS), RULES, noise_of(tmp_path, plan(SEEDS), RULES).floors, {}, {}))
    assert "noise floor of eval loss (A/A, pre_ln)" in aa and "n = 4 pairs" in aa
    tell(tmp_path, plan(SEEDS, "small"))
    text = "\n".join(floor_lines(plan(SEEDS), RULES, noise_of(tmp_path, plan(SEEDS), RULES).floors, {}, {}))
    assert "spread of eval loss over seeds (trained before: half, op against pre_ln)" in text and "A/A" not in text
    assert "n = 8 pairs, at most 4 of one variant, on which the interval is based" in text


def test_pooled_within_edits_is_what_numpy_says():
    random = np.random.default_rng(5)
    edits = [[(2.0 + x, 2.0 + x + k + y) for x, y in random.normal(0, 0.1, (n, 2))] for k, n in enumerate((3, 5, 8))]
    found = floor_of_edits("eval_loss", edits, whose="some")
    apart = [np.array([y - x for x, y in pairs]) for pairs in edits]
    expected = np.sqrt(sum(((d - d.mean()) ** 2).sum() for d in apart) / sum(d.size - 1 for d in apart))
    assert found.sd == pytest.approx(float(expected), rel=1e-12)
    assert (found.n, found.pairs, found.edits) == (8, 16, 3)
    one = floor_of("eval_loss", [x for x, _ in edits[0]], [y for _, y in edits[0]])
    assert floor_of_edits("eval_loss", edits[:1]).sd == pytest.approx(one.sd, rel=1e-12)
    logs = floor_of_edits("peak", [[(math.e**x, math.e**y) for x, y in pairs] for pairs in edits], log=True)
    assert logs.sd == pytest.approx(float(expected), rel=1e-9)
