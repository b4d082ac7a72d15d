"""Runs that diverge count: what survives of a variant whose worst seeds diverge is not called better for it.

Variants of one law; where the worst share of the runs of some of them diverges, these are worse, if anything. The twin
judges as it would be judged without ranks, by t over the seeds that finished on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from designed_fixtures import DESIGNS, LOOKS, designed, ends, rules
from numpy.typing import NDArray
from report_fixtures import LOSS, PEAK, finals, losses, path
from report_fixtures import rules as path_rules
from scipy.stats import norm, rankdata, t

from ablate.plan.plan import Plan
from ablate.report.json_form import document
from ablate.space.judge import Judged
from ablate.verdict.experiment import Final
from ablate.verdict.judge import judge
from ablate.verdict.summary import Effect, Summary

FREE = Judged(margin="none", scale="linear", better="lower")
PAIR = "{compare: [pre_ln, op]}"
GONE = "diverged"
FIRST = 0.04
"""What a question that is judged for the first time is held at."""

Table = NDArray[np.float64]


def allowed(times: int, level: float) -> float:
    """The level and 2.75 standard errors of so many tables."""
    return level + 2.75 * float(np.sqrt(level * (1 - level) / times))


def drawn(times: int, variants: int, seeds: int, share: float, of: list[int], rng: int = 0) -> tuple[Table, Table]:
    """Values [table, variant, seed] of one law, and which runs of the variants `of` diverge: the worst of that law."""
    random = np.random.default_rng(rng)
    values = random.standard_normal((times, 1, seeds)) + random.standard_normal((times, variants, seeds))
    lost = np.zeros(values.shape, dtype=bool)
    lost[:, of] = values[:, of] > np.sqrt(2) * norm.ppf(1 - share)
    return values, lost


def tables(plan: Plan, values: Table, lost: Table) -> Iterator[dict[str, Final]]:
    where = {(trial.variant, trial.seed): trial.id for trial in plan.trials}
    for table, gone in zip(values, lost, strict=True):
        cells = [where[plan.variants[i].id, plan.seeds[j]] for i, j in np.argwhere(gone)]
        made = ends(plan, {"eval_loss": 2.3 + 0.01 * table})
        yield made | {cell: Final(status="diverged", step=3, metrics={}) for cell in cells}


def judged(design: str, seeds: int, share: float, *, times: int, every: bool) -> Iterator[Summary]:
    """Tables of a design judged; all variants but the baseline lose their worst runs, or that as well (`every`)."""
    plan = designed(design, seeds=seeds)
    of = list(range(0 if every else 1, len(plan.variants)))
    for table in tables(plan, *drawn(times, len(plan.variants), seeds, share, of, rng=seeds)):
        yield judge(plan, rules(), table)


def survivors_better(values: Table, lost: Table) -> float:
    """The twin, all tables at once: how often t over the survivors calls the second variant better than the first."""
    d = np.where(lost.any(axis=1), np.nan, values[:, 1] - values[:, 0])
    n = (~np.isnan(d)).sum(axis=1)
    d, n = d[n > 1], n[n > 1]
    mean = np.nanmean(d, axis=1)
    p = 2 * t.sf(np.abs(mean) / (np.nanstd(d, axis=1, ddof=1) / np.sqrt(n)), n - 1)
    return float(((p < 0.05) & (mean < 0)).sum() / len(values))


def ranks_better(values: Table, lost: Table) -> float:
    """The same by ranks over all seeds, and t where none is lost: another computation than the judge's."""
    beyond = np.where(lost, 1e6, values)
    d = np.where(lost.all(axis=1), 0.0, beyond[:, 1] - beyond[:, 0])
    size = np.where(lost.any(axis=1) & (d != 0), 1e6, np.abs(d))
    size = np.where(d == 0, np.nan, size)
    signed = np.sign(d) * np.nan_to_num(rankdata(size, axis=1, nan_policy="omit"))
    signs = 1 - 2 * ((np.arange(2 ** d.shape[1])[:, None] >> np.arange(d.shape[1])) & 1)
    found = np.zeros(len(d), dtype=bool)
    for start in range(0, len(d), 500):
        part = signed[start : start + 500]
        p = (np.abs(part @ signs.T) >= np.abs(part.sum(axis=1))[:, None] - 1e-9).mean(axis=1)
        found[start : start + 500] = (p < FIRST) & (part.sum(axis=1) < 0)
    fine = ~lost.any(axis=(1, 2))
    by_t = 2 * t.sf(np.abs(d.mean(axis=1)) / (d.std(axis=1, ddof=1) / np.sqrt(d.shape[1])), d.shape[1] - 1) < FIRST
    return float(np.where(fine, by_t & (d.mean(axis=1) < 0), found).mean())


def better(summary: Summary) -> bool:
    return any(effect.improves for effect in summary.effects)


def claims(summary: Summary) -> bool:
    return any(effect.improves or effect.verdict in ("worse", "worse_by_rank") for effect in summary.effects)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("n", "share"), [(5, 0.4), (8, 0.4), (8, 0.2)])
def test_a_variant_whose_worst_seeds_diverge_is_not_called_better(n, share):
    found = [better(summary) for summary in judged(PAIR, n, share, times=250, every=False)]
    assert np.mean(found) <= 0.025
    assert survivors_better(*drawn(20_000, 2, n, share, [1])) > 0.05  # the twin


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("share", [0.2, 0.4])
@pytest.mark.parametrize("n", [5, 8, 12])
def test_nor_in_two_thousand_tables_and_by_another_computation_in_twenty_thousand(n, share, every):
    found = float(np.mean([better(summary) for summary in judged(PAIR, n, share, times=2000, every=every)]))
    of = [0, 1] if every else [1]
    alone, twin = (one(*drawn(20_000, 2, n, share, of, rng=1)) for one in (ranks_better, survivors_better))
    print(f"n = {n}, worst {share:.0%} of {'both' if every else 'one'}: {found:.2%}, {alone:.2%}; survivors {twin:.2%}")
    assert found <= (allowed(2000, 0.025) if every else 0.025)
    assert alone <= (allowed(20_000, 0.025) if every else 0.025)
    assert every or twin > 0.04


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.4])
@pytest.mark.parametrize("design", [*DESIGNS])
def test_where_all_variants_are_of_one_law_no_design_claims_more_than_it_may(design, share):
    found = [claims(summary) for summary in judged(design, 8, share, times=1000, every=True)]
    print(f"{design}, worst {share:.0%}: {np.mean(found):.2%}")
    assert np.mean(found) <= allowed(1000, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.4])
@pytest.mark.parametrize("design", [PAIR, "factorial"])
def test_nor_where_it_is_looked_again_and_again(design, share):
    plan = designed(design, looks=LOOKS)
    every = list(range(len(plan.variants)))
    found = [
        claims(judge(plan, rules(), table))
        for table in tables(plan, *drawn(1000, len(every), max(LOOKS), share, every, rng=3))
    ]
    print(f"{design}, looks, worst {share:.0%}: {np.mean(found):.2%}")
    assert np.mean(found) <= allowed(1000, 0.05)


def one_edit(before, after, judged=LOSS, metric="eval_loss", confidence=0.95) -> Effect:
    plan = path("edit", seeds=max(len(before), len(after)))
    return judge(plan, path_rules(confidence, **{metric: judged}), finals({"v0": before, "v1": after})).effects[0]


EIGHT = losses(2.30, 2.31, 2.29, 2.30, 2.32, 2.28, 2.27, 2.33)


def test_worst_ranks_decide_and_the_difference_that_is_shown_is_of_survivors():
    effect = one_edit(EIGHT, [*losses(2.2), *[GONE] * 7])
    assert (effect.verdict, effect.n, effect.ranked, effect.method) == ("worse_by_rank", 1, 8, "worst_rank")
    assert effect.estimate == pytest.approx(-0.1)  # of the one survivor, and of the other sign
    assert effect.p == pytest.approx(2 * 2 / 2**8)  # that, all of one sign, and the mirror images of both
    assert "judged by ranks over 8 seeds, with a diverged run worse than any number" in effect.note
    assert one_edit([*losses(2.2), *[GONE] * 7], EIGHT).verdict == "better_by_rank"


def test_diverged_is_worse_than_any_number_also_where_higher_is_better():
    higher = Judged(margin="none", scale="linear", better="higher")
    values = [{"m": x["eval_loss"]} for x in EIGHT]
    assert one_edit(values, [{"m": 9.0}, *[GONE] * 7], higher, "m").verdict == "worse_by_rank"
    assert one_edit([{"m": 9.0}, *[GONE] * 7], values, higher, "m").verdict == "better_by_rank"


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_one_loss_among_many_gains_is_not_enough_and_says_how_many_seeds_would_be(scale):
    judged = Judged(margin="none", scale=scale, better="lower")
    effect = one_edit(
        EIGHT, [*losses(*(x["eval_loss"] - 0.2 - 0.01 * i for i, x in enumerate(EIGHT[:7]))), GONE], judged
    )
    assert (effect.verdict, effect.n, effect.ranked) == ("undecided", 7, 8)
    assert effect.seeds_needed > 8
    twin = 2 * t.sf(abs(effect.estimate) / (effect.sd / np.sqrt(7)), 6)
    assert twin < 1e-4 < 0.05 < effect.p  # survivors alone would have been called better


@pytest.mark.parametrize(("n", "verdict"), [(5, "undecided"), (6, "worse_by_rank")])
def test_six_seeds_decide_by_ranks_and_five_say_that_six_would(n, verdict):
    effect = one_edit(EIGHT[:n], [GONE, *losses(*(x["eval_loss"] + 0.1 + 0.01 * i for i, x in enumerate(EIGHT[1:n])))])
    assert effect.verdict == verdict
    assert ("5 seeds cannot decide by ranks at level 0.04: that takes 6, 8 if judged again" in effect.note) == (n == 5)


def test_the_seeds_advised_can_decide_also_where_those_seen_do_not_agree():
    """Three of seven lost, three of the others better: eight seeds could decide did all agree, and these cannot."""
    after = losses(*(x["eval_loss"] + d for x, d in zip(EIGHT, (-0.10, -0.05, -0.02, 0.01), strict=False)))
    effect = one_edit(EIGHT[:7], [*after, GONE, GONE, GONE])
    assert (effect.verdict, effect.ranked) == ("undecided", 7)
    ranks = [-4, -3, -2, 1, *[6] * 3]
    at_most = [rankdata([abs(one) for one in [*ranks, *[6] * k]]) for k in range(7)]
    assert signs_as_far(at_most[1], against=9) > 0.2  # the twin: with one seed more there is no way
    assert signs_as_far(at_most[5], against=9) >= 0.008 > signs_as_far(at_most[6], against=9)
    assert effect.seeds_needed >= 13


def signs_as_far(ranks, against: int) -> float:
    """The share of signs at which ranks, of which so many are `against`, sum to as much or more to either side."""
    seen = ranks.sum() - 2 * against
    counts = {0.0: 1}
    for rank in ranks:
        after: dict[float, int] = {}
        for total, count in counts.items():
            for turned in (total + rank, total - rank):
                after[turned] = after.get(turned, 0) + count
        counts = after
    return sum(count for total, count in counts.items() if abs(total) >= seen - 1e-9) / 2 ** len(ranks)


@pytest.mark.parametrize("n", [2, 4, 5])
def test_seeds_that_all_agree_are_advised_to_be_as_many_as_can_decide(n):
    effect = one_edit(EIGHT[:n], [GONE, *losses(*(x["eval_loss"] + 0.1 + 0.01 * i for i, x in enumerate(EIGHT[1:n])))])
    assert (effect.verdict, effect.seeds_needed) == ("undecided", 8)  # 2^(1-n) < 0.8 %


def test_a_family_takes_more_seeds_and_the_level_of_the_judge_counts():
    plan = path("one", "two", seeds=6)
    sides = {
        "v0": EIGHT[:6],
        "v1": [GONE, *losses(2.9, 2.9, 2.9, 2.9, 2.9)],
        "v2": losses(3.1, 3.2, 3.0, 3.3, 3.4, 3.5),
    }
    notes = [e.note for e in judge(plan, path_rules(eval_loss=FREE), finals(sides)).effects if "by ranks" in e.note]
    said = "cannot decide by ranks at level 0.013 (one of 3 comparisons): that takes 8"
    assert notes and all(said in note for note in notes)
    fewer = one_edit(EIGHT[:6], sides["v1"], FREE, confidence=0.99)
    assert "6 seeds cannot decide by ranks at level 0.008: that takes 8" in fewer.note


def test_a_seed_at_which_both_diverge_is_a_tie_that_says_nothing():
    worse = [GONE, *losses(*(x["eval_loss"] + 0.1 + 0.01 * i for i, x in enumerate(EIGHT[1:])))]
    effect = one_edit([GONE, *EIGHT[1:]], worse)
    assert (effect.verdict, effect.p, effect.ranked) == ("worse_by_rank", 2.0**-6, 8)
    assert "1 seed is a tie: as many diverged on each side, or no difference" in effect.note


def test_a_diverged_run_is_never_equal_to_another():
    same = [*losses(*(2.3 + 0.01 * i for i in range(7))), GONE]
    for before, after in ((same, same), (same[:7] + losses(2.37), same)):
        effect = one_edit(before, after)
        assert (effect.verdict, effect.p_equivalent, effect.p_equivalent_adjusted) == ("undecided", None, None)
    assert one_edit(same[:7], same[:7]).verdict == "equivalent"  # the twin, without the seed


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_a_finished_run_without_a_number_counts_against_whatever_the_others_say(value):
    before = [{"m": 3.0 + 0.01 * i} for i in range(8)]
    after = [*({"m": 2.0 + 0.02 * i} for i in range(7)), {"m": value}]
    effect = one_edit(before, after, PEAK, "m")
    assert (effect.verdict, effect.ranked) == ("undecided", 8)
    assert "1 seed with a lost run counts against" in effect.note and "that takes 12" in effect.note


def test_what_was_not_run_or_failed_is_no_diverged_run():
    effect = one_edit([*EIGHT[:7], "bug"], [*losses(*(x["eval_loss"] - 0.2 for x in EIGHT[:6])), None, GONE])
    assert (effect.ranked, effect.n, effect.diverged_after) == (0, 6, 1)
    effect = one_edit([*EIGHT[:7], "bug"], [*losses(2.0, 2.1, 2.0, 2.05, 2.01), GONE, None, GONE])
    assert (effect.ranked, effect.n) == (6, 5)


def factorial(lost: dict[tuple[int, int], None]) -> Summary:
    """Two edits, nine seeds: qk_norm does harm at each; the runs at these places diverge."""
    plan = designed("{factorial: {from: pre_ln, to: op}}", seeds=9)
    random = np.random.default_rng(5)
    harm = np.array(["+qk_norm" in variant.edits for variant in plan.variants], dtype=float)
    values = 0.5 * random.standard_normal((1, len(plan.variants), 9)) + 20 * harm[None, :, None]
    gone = np.zeros(values.shape, dtype=bool)
    for place in lost:
        gone[0][place] = True
    (table,) = tables(plan, values, gone)
    return judge(plan, rules(), table)


def of(summary: Summary, change: str) -> Effect:
    return next(e for e in summary.effects if e.change == change and e.kind in ("main", "interaction"))


def test_a_diverged_run_of_a_factorial_counts_for_each_edit_it_has_and_against_what_edits_do_together():
    plan = designed("{factorial: {from: pre_ln, to: op}}", seeds=9)
    run = next(i for i, variant in enumerate(plan.variants) if variant.edits == ("+qk_norm",))
    whole, some = factorial({}), factorial({(run, 3): None})
    assert of(whole, "+qk_norm").verdict == "worse"
    harmful = of(some, "+qk_norm")
    assert (harmful.verdict, harmful.n, harmful.ranked) == ("worse_by_rank", 8, 9)
    assert harmful.p == 2.0**-8  # every seed up, the diverged one the furthest
    for effect in some.effects:
        if effect.kind == "interaction":
            assert effect.verdict == "undecided" and "1 seed with a lost run counts against" in effect.note
            assert effect.p >= of(some, "+qk_norm").p


@pytest.mark.full
def test_two_edits_that_each_lose_every_other_run_do_not_do_well_together():
    """Nothing is worse than lost: with ranks for it, what kills apart would be called a gain together."""
    plan = designed("{factorial: {from: pre_ln, to: op}}", seeds=9)
    dead = {
        (i, seed): None
        for i, variant in enumerate(plan.variants)
        for seed in range(8)
        if len({"+qk_norm", "-layer_norm"} & set(variant.edits))
    }
    summary = factorial(dead)
    together = of(summary, "+qk_norm × -layer_norm")
    assert not together.improves
    assert of(summary, "+qk_norm").verdict != "better"


def test_sums_over_variants_keep_what_diverged_open():
    plan = designed("{leave_one_out: {from: pre_ln, to: op}}", seeds=8)
    values = np.random.default_rng(3).normal(0, 0.1, (1, len(plan.variants), 8))
    values += np.arange(len(plan.variants))[None, :, None] * 3
    lost = np.zeros(values.shape, dtype=bool)
    lost[0, -1, 0] = True
    (table,) = tables(plan, values, lost)
    summary = judge(plan, rules(), table)
    sums = [effect for effect in summary.effects if effect.kind == "interaction"]
    assert sums and all((e.verdict, e.ranked, e.n) == ("undecided", 8, 7) for e in sums)


@pytest.mark.parametrize("twin", [False, True])
def test_a_sum_that_is_mere_rounding_is_a_tie_of_ranks_too(twin):
    """Variants whose edits add up but for the last bit, the same at each of thirteen seeds, of which one is lost."""
    plan = designed("{leave_one_out: {from: pre_ln, to: op}}", seeds=13)
    edits = np.array([len(variant.edits) for variant in plan.variants], dtype=float)
    values = np.repeat((0.1 * edits + twin * edits**2)[None, :, None], 13, axis=2)
    lost = np.zeros(values.shape, dtype=bool)
    lost[0, -1, 0] = True
    (table,) = tables(plan, values, lost)
    sums = [effect for effect in judge(plan, rules(), table).effects if effect.kind == "interaction"]
    assert sums
    for effect in sums:
        assert (effect.ranked, effect.p < 0.05) == (13, twin)
        assert ("12 seeds are ties: as many diverged on each side, or no difference" in effect.note) != twin


def test_json_has_the_verdict_by_its_own_name():
    plan = path("edit", seeds=8)
    summary = judge(plan, path_rules(eval_loss=FREE), finals({"v0": EIGHT, "v1": [*losses(2.2), *[GONE] * 7]}))
    (effect,) = [one for one in document(summary)["effects"] if one["kind"] == "edit"]
    assert (effect["verdict"], effect["method"], effect["ranked"]) == ("worse_by_rank", "worst_rank", 8)
    assert "by rank: where a run of a comparison diverged, every seed counts" in " ".join(
        document(summary)["definitions"]
    )
