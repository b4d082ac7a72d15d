"""Promised rates of verdicts, held with noise of real trainings (`tests/benchmarks/verdict_rates.py` has them all).

Every row has a twin, the same tables judged wrongly on purpose, which has to be noticed.
"""

from __future__ import annotations

import numpy as np
import pytest
from kept_noise import Trained, as_they_are, drawn, newest, normal, trained
from verdict_rows import FLOOR, ROWS, Row, broken, counted, laws


@pytest.fixture(scope="module")
def spaces() -> tuple[Trained, ...]:
    return trained(newest())


@pytest.mark.fast
def test_the_kept_trainings_are_of_five_spaces_without_any_effect(spaces):
    assert len(spaces) == 5
    assert sum((len(space.arms) // 2) * space.seeds for space in spaces) >= 200  # no fewer than half of the arms
    for space in spaces:
        for log, metric in ((False, "eval_loss"), (True, "peak_kurtosis")):
            residuals = space.residuals(metric, log=log)
            values = np.log(space.values[metric]) if log else space.values[metric]
            level = space.level(metric, log=log)[:, None]
            assert np.abs(residuals.mean(axis=1)).max() < 1e-12
            np.testing.assert_allclose(level + residuals, values, rtol=1e-12)


@pytest.mark.fast
def test_a_table_takes_whole_seeds_and_keeps_what_varies_together():
    residuals = np.arange(1.0, 9.0) * np.array([[1.0], [10.0], [100.0]])
    for table in drawn(residuals, 5, 50, np.random.default_rng(0)):
        np.testing.assert_array_equal(table[1:], table[:1] * [[10.0], [100.0]])
        assert len(set(np.abs(table[0]))) == 5
    signs = np.sign([table[0] for table in drawn(residuals, 5, 400, np.random.default_rng(1))])
    assert abs(signs.mean()) < 4 / np.sqrt(signs.size)
    assert min(table.min() for table in as_they_are(residuals, 5, 50, np.random.default_rng(0))) > 0


@pytest.mark.fast
def test_normal_seeds_have_the_covariance_of_the_residuals(spaces):
    residuals = spaces[0].residuals("eval_loss")
    made = np.concatenate(list(normal(residuals, 5, 4000, np.random.default_rng(0), turned=True)), axis=1)
    np.testing.assert_allclose(np.cov(made), np.cov(residuals), rtol=0.1)


@pytest.mark.fast
def test_a_rate_is_beyond_its_promise_where_its_interval_is():
    assert broken(0.04, 60, 1000) and not broken(0.04, 45, 1000)
    assert broken(0.8, 700, 1000, least=True) and not broken(0.8, 790, 1000, least=True)


@pytest.mark.fast
def test_laws_go_through_losses_that_are_theirs():
    compute = np.array([1e8, 1e9, 1e10, 1e11])
    for name, losses in (("power", 5 * compute**-0.05), ("trained", np.exp(2 - 0.1 * np.log10(compute) ** 1.0))):
        np.testing.assert_allclose(laws(compute, losses)[name](compute), losses, rtol=1e-9)
    lower = FLOOR * 3.0
    bent = lower + (3.0 - lower) * (compute / compute[-1]) ** -0.3
    np.testing.assert_allclose(laws(compute, bent)["saturating"](compute), bent, rtol=1e-9)
    assert np.all(np.diff(np.diff(np.log(bent))) > 0)  # it levels out


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_promise_is_kept_or_known_not_to_be_and_its_twin_is_noticed(row: Row, spaces):
    came = counted(row, spaces)
    print(f"{row.name}: {came.hits} of {came.tables}, broken on purpose: {came.twins}")
    assert bool(row.reason) == (row.known is not None)
    assert not broken(row.promise if row.known is None else row.known, came.hits, came.tables, least=row.least)
    assert broken(row.promise, came.twins, came.tables, least=row.least)
