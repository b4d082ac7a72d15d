"""The noise floor: found over all spaces under the same conditions, and only there; numbers are worked out here."""

from __future__ import annotations

import math
import statistics
import sys
from dataclasses import replace

import pytest
from builders import architecture, op
from store_fixtures import DOCUMENTS, RECIPE, VERSIONS, opened, plan, trial, under

from ablate.plan.plan import Comparison, Setting
from ablate.space.judge import Judge, Judged
from ablate.store.measurements import noise_of
from ablate.store.query import cookbook_query, query
from ablate.train.events import Outcome, Row

RULES = Judge(
    metrics={
        "eval_loss": Judged(margin="1%", scale="linear", better="lower"),
        "peak_kurtosis": Judged(margin="none", scale="log", better="lower"),
    },
    against="pre_ln",
    confidence=0.95,
)


def loss(seed, salt):
    return 3.0 + 0.1 * math.sin(7 * seed + 3 * salt)


def kurtosis(seed, salt):
    return 5.0 + math.cos(3 * seed + 5 * salt)


def noisy(seeds=(0, 1, 2), space="noisy"):
    """A plan whose baseline has an A/A arm."""
    asked = plan(seeds, space)
    salted = replace(asked.variants[0], id="a1salt", names=("pre_ln, A/A",), setting=Setting(salt=1))
    arm = tuple(replace(trial("a1", seed), id=f"aa{seed:04x}", variant="a1salt", salt=1) for seed in seeds)
    noise = Comparison(kind="noise", change="nothing", detail="", before="a1", after="a1salt")
    return replace(
        asked,
        variants=(*asked.variants, salted),
        comparisons=(*asked.comparisons, noise),
        trials=(*(one for one in asked.trials if one.variant == "a1"), *arm),
    )


def tell(folder, asked, versions=VERSIONS, lost=()):
    """Run the trials of a plan that are not known."""
    with opened(folder, versions=versions) as results:
        results.record_plan(asked, DOCUMENTS)
        for one in asked.trials:
            if one.id not in results.outcomes():
                results.begin(one)
                end = [Row(40, "eval_loss", "", loss(one.seed, one.salt)), Outcome("finished", 40)]
                if one.id in lost:
                    end = [Outcome("diverged", 20, {"cause": "loss"})]
                results.append(one.id, [Row(0, "kurtosis", "layers.1", kurtosis(one.seed, one.salt)), *end])
        results.refresh()


def expected(seeds=(0, 1, 2)):
    losses = [loss(seed, 1) - loss(seed, 0) for seed in seeds]
    logs = [math.log(kurtosis(seed, 1) / kurtosis(seed, 0)) for seed in seeds]
    return statistics.stdev(losses), statistics.stdev(logs)


def test_the_floor_is_the_sd_of_the_paired_differences(tmp_path):
    tell(tmp_path, noisy())
    by_loss, by_log = expected()
    found = noise_of(tmp_path, noisy(), RULES)
    eval_loss, peak = found.floors
    assert (eval_loss.metric, eval_loss.n, eval_loss.whose, eval_loss.scale) == ("eval_loss", 3, "pre_ln", "linear")
    assert eval_loss.sd == pytest.approx(by_loss, rel=1e-9)
    assert (peak.metric, peak.scale) == ("peak_kurtosis", "log") and peak.sd == pytest.approx(by_log, rel=1e-9)
    assert found.means["eval_loss"] == pytest.approx(statistics.fmean(loss(seed, 0) for seed in range(3)))
    rows = query(tmp_path, "SELECT metric, whose, n, sd, log_sd, spaces FROM noise_floor ORDER BY metric").rows
    assert [row[:3] for row in rows] == [("eval_loss", "pre_ln", 3), ("peak_kurtosis", "pre_ln", 3)]
    assert rows[0][3] == pytest.approx(by_loss, rel=1e-9) and rows[1][4] == pytest.approx(by_log, rel=1e-9)
    assert rows[0][5] == ["noisy"]


def test_it_is_used_again_by_a_space_that_has_no_arm_of_its_own(tmp_path):
    tell(tmp_path, noisy())
    other = plan((10, 11), "other")
    assert [floor.n for floor in noise_of(tmp_path, other, RULES).floors] == [3, 3]


def test_it_holds_for_any_block_as_a_last_resort(tmp_path):
    tell(tmp_path, noisy())
    other = replace(plan((10, 11), "other"), baseline="c3")
    (floor, _) = noise_of(tmp_path, other, RULES).floors
    assert floor.whose == "pre_ln"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "changed",
    [
        {"recipe": RECIPE.model_copy(update={"steps": 41})},
        {"corpus": "beef"},
        {"threads": 2},
        {"measure": trial().work.measure.model_copy(update={"every": 11})},
        {"architecture": replace(architecture(op()), sizes=replace(architecture(op()).sizes, n_layers=3))},
        {"split": "tuning"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_under_other_conditions_there_is_none(tmp_path, changed):
    tell(tmp_path, noisy())
    other = plan((10, 11), "other")
    other = replace(other, trials=tuple(under(one, **changed) for one in other.trials))
    assert noise_of(tmp_path, other, RULES).floors == ()


def test_conditions_are_all_but_block_seed_salt_and_place():
    one = trial("a1", 0)
    alike = under(
        one, id="x", variant="c3", architecture=architecture(op()), seed=7, salt=1, folder="/elsewhere",
        measure=one.work.measure.model_copy(update={"checkpoint_every": 3}),
    )  # fmt: skip
    assert one.conditions == alike.conditions
    assert one.conditions != under(one, threads=2).conditions


def test_pairs_need_the_same_versions_and_two_ends(tmp_path):
    asked = noisy((0, 1, 2, 3))
    first = replace(asked, trials=tuple(one for one in asked.trials if one.id != "aa0003"))
    tell(tmp_path, first, lost=("aa0002",))
    tell(tmp_path, asked, versions={**VERSIONS, "torch": "2.14.0"})
    assert query(tmp_path, "SELECT DISTINCT seed FROM noise_pairs ORDER BY ALL").rows == ((0,), (1,))
    by_loss, _ = expected((0, 1))
    (floor, _) = noise_of(tmp_path, asked, RULES).floors
    assert floor.n == 2 and floor.sd == pytest.approx(by_loss, rel=1e-9)


def test_one_pair_is_no_floor(tmp_path):
    tell(tmp_path, noisy((0,)))
    assert noise_of(tmp_path, noisy((0,)), RULES).floors == ()
    assert query(tmp_path, "SELECT n, sd FROM noise_floor WHERE metric = 'eval_loss'").rows == ((1, None),)


def test_where_nothing_was_run_nothing_is_known(tmp_path):
    assert noise_of(tmp_path, noisy(), RULES).floors == ()


def test_the_arm_is_beside_the_baseline_in_no_other_table(tmp_path):
    """It is a variant of its own, and no pair: its noise is in noise_pairs."""
    tell(tmp_path, noisy())
    assert query(tmp_path, "SELECT count(*) FROM pairs").rows == ((0,),)
    assert query(tmp_path, "SELECT count(*) FROM edit_pairs").rows == ((0,),)
    rows = query(tmp_path, "SELECT variant, n FROM leaderboard ORDER BY ALL").rows
    assert rows == (("pre_ln", 3),)
    assert query(tmp_path, "SELECT DISTINCT salt FROM final WHERE variant = 'pre_ln, A/A'").rows == ((1,),)
    assert query(tmp_path, "SELECT variant, trials FROM costs ORDER BY ALL").rows == (*rows, ("pre_ln, A/A", 3))


def test_curves_leave_out_trials_that_only_chose(tmp_path):
    asked = plan((0,))
    chose = tuple(replace(trial("a1", 1_000_000), id=f"tune{k}", split="tuning") for k in range(2))
    tell(tmp_path, replace(asked, trials=(*asked.trials, *chose)))
    assert query(tmp_path, "SELECT DISTINCT n FROM curves").rows == ((1,),)
    assert query(tmp_path, "SELECT count(*) FROM counted").rows == ((3,),)
    assert query(tmp_path, "SELECT n FROM leaderboard WHERE variant = 'pre_ln'").rows == ((1,),)
    assert query(tmp_path, "SELECT trials FROM costs WHERE variant = 'pre_ln'").rows == ((3,),), "they cost, too"
    assert query(tmp_path, "SELECT count(*) FROM pairs").rows == ((2,),)


def test_the_arm_is_no_winner(tmp_path, monkeypatch):
    """Its numbers are better by far here, and it is in none of the tables that compare variants."""
    monkeypatch.setattr(sys.modules[__name__], "loss", lambda seed, salt: 3.0 + 0.1 * math.sin(7 * seed) - 2 * salt)
    monkeypatch.setattr(sys.modules[__name__], "kurtosis", lambda seed, salt: 5.0 + math.cos(3 * seed) - 3 * salt)
    tell(tmp_path, noisy())

    def named(name):
        found = query(tmp_path, cookbook_query(name).sql, parameters={"space": None})
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    assert {row["variant"] for row in named("best_variants")} == {"pre_ln"}
    assert [row["variant"] for row in named("pareto")] == ["pre_ln"]
    assert {row["variants"] for row in named("seed_noise")} == {1}
    assert [row["comparisons"] for row in named("cost_per_verdict")] == [len(plan((0,)).comparisons)]


def test_while_settings_are_tuned_there_is_no_leader(tmp_path):
    """Trials of several settings have no mean together."""
    chose = tuple(replace(trial("a1", 1_000_000), id=f"tune{k}", split="tuning") for k in range(2))
    tell(tmp_path, replace(plan((0,)), trials=chose))
    assert query(tmp_path, "SELECT count(*) FROM leaderboard").rows == ((0,),)
    assert query(tmp_path, "SELECT count(*) FROM final").rows == ((2,),)
