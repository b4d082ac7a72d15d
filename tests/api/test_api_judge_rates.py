"""How often verdicts on tables without partners are false, and intervals hold the difference: 1,000 tables each (slow).

No difference is there, or one of half a standard deviation for coverage. Each has a twin that errs far more often.
"""

import numpy as np
import pytest

import ablate

TABLES = 1_000
GAUSS, HEAVY = "gauss", "t3"


def drawn(random, kind, n, sd=1.0):
    values = random.normal(size=n) if kind == GAUSS else random.standard_t(3, n) / np.sqrt(3)
    return 10 + sd * values


def rows(*of, seeds=False):
    return [
        {"variant": f"v{k}", "seed": j if seeds else f"{k} {j}", "loss": float(x)}
        for k, values in enumerate(of)
        for j, x in enumerate(values)
    ]


def rates(make, seed=0, **asked):
    """The share of tables with a verdict other than undecided, and of intervals without the difference, 0."""
    wrong = outside = count = 0
    for number in range(TABLES):
        summary = ablate.judge(make(np.random.default_rng([seed, number])), metrics="loss", **asked).summary
        wrong += any(effect.verdict != "undecided" for effect in summary.effects)
        for effect in summary.effects:
            outside += not effect.low <= 0 <= effect.high
            count += 1
    return wrong / TABLES, 1 - outside / count


def two(n, m, kind=GAUSS, sd=1.0):
    return lambda random: rows(drawn(random, kind, n), drawn(random, kind, m, sd))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(5, 5), (10, 10), (5, 12), (20, 8)])
def test_two_samples_of_normal_values_hold_their_level(n, m):
    false, held = rates(two(n, m), unpaired=True)
    assert 0.028 <= false <= 0.053
    assert 0.93 <= held <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "m", "kind", "sd"),
    [(5, 5, HEAVY, 1), (3, 3, GAUSS, 1), (3, 10, GAUSS, 3), (10, 3, GAUSS, 3), (6, 6, GAUSS, 4), (4, 12, HEAVY, 1)],
)
def test_two_samples_of_others_err_no_more(n, m, kind, sd):
    assert rates(two(n, m, kind, sd), unpaired=True)[0] <= 0.053


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "candidates", "least", "most"),
    [(GAUSS, 1, 0.028, 0.053), (GAUSS, 5, 0.015, 0.053), (HEAVY, 1, 0.0, 0.07), (HEAVY, 5, 0.05, 0.13)],
)
def test_single_runs_against_a_floor(kind, candidates, least, most):
    """Of several heavy-tailed candidates one is false more often, as the screen says."""

    def make(random):
        return rows(drawn(random, kind, 6), *(drawn(random, kind, 1) for _ in range(candidates)))

    false, held = rates(make, floor="v0")
    assert least <= false <= most
    assert 0.93 <= held <= 0.97


@pytest.mark.slow
def test_single_runs_against_a_given_sd():
    false, held = rates(lambda random: rows(drawn(random, GAUSS, 1), drawn(random, GAUSS, 1)), sd=1.0)
    assert 0.028 <= false <= 0.053
    assert 0.93 <= held <= 0.97


@pytest.mark.slow
def test_a_noisier_candidate_is_no_run_of_the_floor():
    """The twin, of which the screen warns."""
    false, _ = rates(lambda random: rows(drawn(random, GAUSS, 6), drawn(random, GAUSS, 1, 3.0)), floor="v0")
    assert false > 0.2


def replicated(random, *, apart):
    """Four seeds of two runs each, whose noise is half the seed's; `apart` gives each run a seed of its own."""
    table = []
    for name in ("a", "b"):
        for seed, mean in enumerate(10 + random.normal(size=4)):
            for k in range(3):
                row = {"variant": name, "seed": 3 * seed + k if apart else seed}
                table.append(row | {"loss": float(mean + 0.2 * random.normal())})
    return table


@pytest.mark.slow
def test_replicates_are_no_seeds():
    false, held = rates(lambda random: replicated(random, apart=False))
    assert 0.028 <= false <= 0.053
    assert 0.93 <= held <= 0.97
    assert rates(lambda random: replicated(random, apart=True))[0] > 0.15, "the twin"
