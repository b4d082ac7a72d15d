"""All pairs of a table: which variants are not told apart, and which may be the best."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

import ablate

MEANS = {"a": 2.50, "b": 2.41, "c": 2.41, "d": 2.30}


def table(means, n=6, sd=0.01, seed=1):
    random = np.random.default_rng(seed)
    shared = random.normal(0, 0.02, n)
    return [
        {"variant": name, "seed": k, "loss": float(mean + shared[k] + sd * random.normal())}
        for name, mean in means.items()
        for k in range(n)
    ]


def told(rows, metric="loss", **asked):
    return ablate.judge(rows, metrics=metric, groups=True, **asked).summary


def notes(summary):
    return [note for note in summary.notes if " in " in note and note.startswith(("not told", "may be", "all are"))]


def test_all_pairs_are_judged_by_holm_over_all():
    rows = table(MEANS)
    summary = told(rows)
    values = {name: np.array([row["loss"] for row in rows if row["variant"] == name]) for name in MEANS}
    assert len(summary.effects) == 6
    p = [stats.ttest_rel(values[e.after], values[e.before]).pvalue for e in summary.effects]
    _, adjusted, *_ = multipletests(p, method="holm")
    assert [effect.p_adjusted for effect in summary.effects] == pytest.approx(list(adjusted), abs=1e-12)


def test_those_that_are_not_told_apart_are_together_and_the_best_is_the_best():
    assert notes(told(table(MEANS))) == [
        "not told apart in loss: b, c",
        "may be the best in loss: d (95 %: no other is found better)",
    ]


def test_what_is_not_told_apart_is_not_transitive():
    summary = told(table({"a": 2.500, "b": 2.506, "c": 2.512}, n=5, sd=0.003, seed=4))
    verdicts = {(e.before, e.after): e.verdict for e in summary.effects}
    assert verdicts == {("a", "b"): "undecided", ("a", "c"): "worse", ("b", "c"): "undecided"}
    first, best = notes(summary)
    assert first == "not told apart in loss: a, b; b, c; two groups that share one are no single group"
    assert best == "may be the best in loss: a and b (95 %: no other is found better)"


def test_where_higher_is_better_the_highest_may_be_the_best():
    assert notes(told(table(MEANS), "loss:higher"))[1].startswith("may be the best in loss: a (")


def test_where_neither_side_is_better_none_is_the_best():
    assert notes(told(table(MEANS), "loss:none")) == ["not told apart in loss: b, c"]


def test_all_may_be_told_apart():
    assert notes(told(table({"a": 1.0, "b": 2.0, "c": 3.0})))[0] == "all are told apart in loss"


def test_a_path_is_no_group():
    with pytest.raises(ablate.InputError, match="--path and --groups are two designs"):
        told(table(MEANS), path=True)


def test_variants_without_a_number_are_in_no_group():
    rows = [{**row, "loss": None} if row["variant"] == "c" else row for row in table(MEANS)]
    assert [note for note in told(rows).notes if "no group" in note] == ["without a loss, and in no group: c"]
    nothing = [{**row, "loss": None} for row in rows]
    assert any("in no group: a, b, c and d" in note for note in told(nothing).notes)


@pytest.mark.slow
def test_the_best_is_among_those_that_may_be_it():
    """At equal means of all but the best, which is half a standard deviation better."""
    missed = 0
    for seed in range(1_000):
        summary = told(table({"a": 2.505, "b": 2.505, "c": 2.5, "d": 2.505}, n=5, seed=seed))
        missed += "c" not in notes(summary)[1].partition(": ")[2].partition(" (")[0]
    assert missed <= 0.05 * 1_000
