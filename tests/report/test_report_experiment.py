"""A verdict needs variants, comparisons and runs; a plan gives them, and whoever has no plan gives them himself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_fixtures import finals, losses, path, rules

from ablate.verdict.contrasts import contrasts, family_size
from ablate.verdict.experiment import Experiment, Treatment, experiment_of
from ablate.verdict.judge import judge

pytestmark = pytest.mark.fast

ENDS = {"v0": losses(2.30, 2.31, 2.29), "v1": losses(2.20, 2.23, 2.18), "v2": [*losses(2.1, 2.2), "diverged"]}


def without_costs(experiment: Experiment) -> Experiment:
    return replace(
        experiment,
        variants=tuple(Treatment(id=one.id, name=one.name, edits=one.edits) for one in experiment.variants),
    )


def test_a_plan_and_its_experiment_have_the_same_verdicts():
    plan = path("a", "b", seeds=3)
    experiment = experiment_of(plan)
    assert judge(plan, rules(), finals(ENDS)) == judge(experiment, rules(), finals(ENDS))
    assert contrasts(plan) == contrasts(experiment) and family_size(plan) == family_size(experiment)


def test_what_variants_cost_is_no_part_of_a_verdict():
    experiment = experiment_of(path("a", "b", seeds=3))
    known, unknown = (judge(one, rules(), finals(ENDS)) for one in (experiment, without_costs(experiment)))
    assert known.effects == unknown.effects
    assert all(arm.cost is not None for arm in known.arms) and all(arm.cost is None for arm in unknown.arms)


def test_names_pair_runs_as_seeds_do():
    experiment = experiment_of(path("a", seeds=3))
    name = dict(zip(experiment.seeds, ("arc", "boolq", "piqa"), strict=True))
    named = replace(
        experiment,
        seeds=tuple(name.values()),
        trials={v: {name[seed]: id for seed, id in trials.items()} for v, trials in experiment.trials.items()},
    )
    ends = {"v0": losses(2.30, 2.31, 2.29), "v1": [*losses(2.20, 2.23), "bug"]}
    by_seed, by_name = (judge(one, rules(), finals(ends)).effects[0] for one in (experiment, named))
    assert replace(by_name, note="") == replace(by_seed, note="")
    assert "seed piqa not paired: bug after" in by_name.note and by_name.n == 2


def test_a_variant_twice_at_one_seed_is_no_experiment():
    plan = path("a", seeds=2)
    with pytest.raises(ValueError, match="two trials of seed"):
        experiment_of(replace(plan, trials=(*plan.trials, plan.trials[0])))
