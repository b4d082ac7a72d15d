"""Tables of runs as others have them: logs of steps, replicates, runs without partners, states, spellings."""

import numpy as np
import pytest
from scipy import stats

import ablate

RUNS = [("a", 1, 2.51), ("a", 2, 2.60), ("a", 3, 2.70), ("b", 1, 2.41), ("b", 2, 2.52), ("b", 3, 2.63)]


def rows(*more, columns=("variant", "seed", "loss"), of=RUNS):
    return [dict(zip((*columns, *more), row, strict=True)) for row in of]


def written(tmp_path, text, name="runs.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(table, **asked):
    with pytest.raises(ablate.InputError) as error:
        ablate.judge(table, **{"metrics": "loss", **asked})
    return str(error.value)


def numbers(judged):
    (effect,) = judged.summary.effects
    return effect.n, effect.estimate, effect.low, effect.high, effect.verdict


def level(judged, name):
    (arm,) = (arm for arm in judged.summary.arms if arm.name == name)
    return arm.levels["loss"].mean


# Spellings


def test_decimal_commas_are_read_where_semicolons_part_the_cells_and_told(tmp_path):
    text = "variant;seed;loss\n" + "".join(f"{v};{s};{str(x).replace('.', ',')}\n" for v, s, x in RUNS)
    judged = ablate.judge(written(tmp_path, text), metrics="loss")
    assert numbers(judged) == numbers(ablate.judge(rows(), metrics="loss"))
    assert "loss has decimal commas: 2,51 is 2.51" in judged.summary.notes


@pytest.mark.parametrize("cell", ["1.234,5", "2,51,3"])
def test_a_comma_that_is_no_decimal_comma_is_a_mistake(tmp_path, cell):
    text = "variant;seed;loss\n" + "".join(f"{v};{s};{x}\n" for v, s, x in RUNS) + f"b;4;{cell}\na;4;2\n"
    assert f"loss of variant b at seed 4 is not a number: '{cell}'" in refused(written(tmp_path, text))


def test_a_decimal_comma_between_quotes_is_named(tmp_path):
    text = "variant,seed,loss\n" + "".join(f"{v},{s},{x}\n" for v, s, x in RUNS) + 'b,4,"2,5"\n'
    assert "write a decimal comma as a point, or part cells by semicolons" in refused(written(tmp_path, text))


@pytest.mark.parametrize("spelling", ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "None", "null", "-", "–", "."])
def test_a_cell_that_says_that_it_is_empty_is_a_missing_number(tmp_path, spelling):
    text = "variant,seed,loss\n" + "".join(f"{v},{s},{x}\n" for v, s, x in RUNS) + f"a,4,2\nb,4,{spelling}\n"
    judged = ablate.judge(written(tmp_path, text), metrics="loss")
    assert "counted as missing, because the cell is empty: b at seed 4 (no loss)" in judged.summary.notes
    assert numbers(judged)[0] == 3


def test_the_word_diverged_is_nan(tmp_path):
    text = "variant,seed,loss\n" + "".join(f"{v},{s},{x}\n" for v, s, x in RUNS) + "a,4,2\nb,4,diverged\n"
    judged = ablate.judge(written(tmp_path, text), metrics="loss")
    assert judged.summary.arms[1].diverged == 1


# Steps


LOG = [(v, s, step, x + 2 / (1 + step)) for v, s, x in RUNS for step in (0, 50, 100)]


def log(order=1):
    return rows(columns=("variant", "seed", "step", "loss"), of=LOG[::order])


def test_a_log_of_steps_is_one_mistake_with_the_sql_that_reads_it(tmp_path):
    text = "variant,seed,step,loss\n" + "".join(f"{v},{s},{t},{x}\n" for v, s, t, x in LOG)
    path = written(tmp_path, text)
    said = refused(path)
    assert said.count("error:") == 1
    assert said.startswith("error: 12 of 18 rows repeat a run: 6 runs of 3 rows, which step tells apart")
    sql = said.partition("--sql '")[2].partition("'")[0]
    by_sql = ablate.judge(path, metrics="loss", sql=sql)
    assert numbers(by_sql) == pytest.approx(numbers(ablate.judge(path, metrics="loss", at="last")))


def test_the_sql_quotes_names_that_are_no_words(tmp_path):
    text = '"model","config/seed","_step","eval/loss"\n' + "".join(f"{v},{s},{t},{x}\n" for v, s, t, x in LOG)
    path = written(tmp_path, text)
    asked = {"metrics": "eval/loss", "by": "model", "pair": "config/seed"}
    sql = refused(path, **asked).partition("--sql '")[2].partition("'")[0]
    assert '"config/seed"' in sql and 'arg_max("eval/loss", "_step")' in sql
    assert ablate.judge(path, sql=sql, **asked).summary.effects[0].n == 3


@pytest.mark.parametrize("order", [1, -1])
def test_which_step_is_judged_is_as_asked_whatever_the_order_of_rows(order):
    last = {s: {v: x + 2 / 101 for v, s2, x in RUNS if s2 == s} for s in (1, 2, 3)}
    expected = np.mean([of["b"] - of["a"] for of in last.values()])
    judged = ablate.judge(log(order), metrics="loss", at="last", baseline="a")
    assert judged.summary.effects[0].estimate == pytest.approx(expected, abs=1e-12)
    assert level(judged, "a") == pytest.approx(np.mean([of["a"] for of in last.values()]))
    assert "judged at the last of each run by step" in judged.summary.notes
    highest = ablate.judge(log(order), metrics="loss:higher", at="best")
    assert level(highest, "a") == pytest.approx(np.mean([x + 2 for v, _, x in RUNS if v == "a"]))
    two = ablate.judge(log(order), metrics="loss", at="mean:2")
    mean = np.mean([x + (2 / 51 + 2 / 101) / 2 for v, _, x in RUNS if v == "a"])
    assert level(two, "a") == pytest.approx(mean)
    assert "judged at the mean of the last 2 of each run by step" in two.summary.notes


def test_a_run_whose_last_step_is_nan_has_diverged_whatever_is_judged():
    table = log()
    table[-1]["loss"] = float("inf")
    for at in ("last", "best", "mean:2"):
        assert ablate.judge(table, metrics="loss", at=at).summary.arms[1].diverged == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"at": "first"}, "'first' is no step of a run\n  = --at is last, best, or mean:k"),
        ({"at": "best", "metrics": "loss:none"}, "--at best: neither side of loss is better"),
        ({"at": "last", "step": "stp"}, "no column 'stp'\n  = did you mean 'step'?"),
        ({"at": "mean:0"}, "'mean:0' is no step of a run"),
    ],
    ids=str,
)
def test_steps_that_are_asked_for_wrongly_are_told(asked, said):
    assert said in refused(log(), **asked)


# Replicates


def test_runs_that_share_variant_and_seed_are_averaged_and_told():
    twice = [*RUNS, ("b", 1, 2.45)]
    judged = ablate.judge(rows(of=twice), metrics="loss")
    once = [(v, s, 2.43 if (v, s) == ("b", 1) else x) for v, s, x in RUNS]
    assert numbers(judged) == pytest.approx(numbers(ablate.judge(rows(of=once), metrics="loss")))
    assert "replicates, of which the mean is judged: b at seed 1 (2 rows)" in judged.summary.notes
    assert judged.summary.notes[0] == "6 runs of the table, in 7 rows"


def test_an_epoch_that_is_the_same_in_both_rows_counts_no_steps():
    table = [{**row, "epoch": 3} for row in rows(of=[*RUNS, ("b", 1, 2.45)])]
    assert any(note.startswith("replicates") for note in ablate.judge(table, metrics="loss").summary.notes)


# Two samples


def samples(n, m, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(3.28, 0.001, n), random.normal(3.279, 0.001, m)


def unpaired(x, y):
    return [{"variant": name, "loss": float(value)} for name, of in (("a", x), ("b", y)) for value in of]


@pytest.mark.parametrize(("n", "m"), [(10, 10), (6, 12)])
def test_runs_without_partners_are_two_samples_by_welch(n, m):
    x, y = samples(n, m)
    judged = ablate.judge(unpaired(x, y), metrics="loss:margin=0.01", unpaired=True)
    (effect,) = judged.summary.effects
    known = stats.ttest_ind(y, x, equal_var=False)
    low, high = known.confidence_interval(0.95)
    assert (effect.estimate, effect.low, effect.high) == pytest.approx((y.mean() - x.mean(), low, high), abs=1e-12)
    assert effect.p == pytest.approx(known.pvalue, abs=1e-12)
    assert (effect.method, effect.n, judged.summary.arms[1].finished) == ("welch", min(n, m), m)
    assert "not paired" in judged.summary.design and "not planned" not in effect.note


def test_names_of_runs_pair_nothing_and_that_is_a_mistake_with_the_ways_out():
    table = [{**row, "seed": f"run {k}"} for k, row in enumerate(rows())]
    said = refused(table)
    assert said.startswith("error: no run has a partner: no seed of a is that of another variant")
    assert "--unpaired judges two variants as two samples" in said
    assert ablate.judge(table, metrics="loss", unpaired=True).summary.effects[0].method == "welch"


def test_a_table_without_a_column_of_seeds_says_how_it_can_be_judged():
    said = refused(unpaired(*samples(5, 5)))
    assert "no column 'seed'" in said and "--unpaired judges two variants as two samples" in said


def test_some_partners_are_enough_to_pair():
    table = rows(of=[*RUNS, ("c", 9, 2.3)])
    assert [effect.n for effect in ablate.judge(table, metrics="loss").summary.effects] == [3, 0]


def test_where_runs_without_partners_diverged_ranks_decide_whatever_the_survivors_say():
    """A candidate whose survivors are better is not, if half of its runs diverged."""
    x, y = samples(8, 4)
    (survivors,) = ablate.judge(unpaired(x, y - 0.01), metrics="loss", unpaired=True).summary.effects
    (effect,) = ablate.judge(unpaired(x, [*(y - 0.01), *[np.inf] * 4]), metrics="loss", unpaired=True).summary.effects
    assert (survivors.verdict, survivors.method) == ("better", "welch")
    assert (effect.verdict, effect.method) == ("undecided", "mann_whitney")
    (neither,) = ablate.judge(unpaired(x, [*(y - 0.01), np.inf]), metrics="loss:none", unpaired=True).summary.effects
    assert neither.method == "mann_whitney" and "over survivors only" in neither.note


# States


STATES = [(v, s, x, "finished") for v, s, x in RUNS] + [("a", 4, 2.5, "finished"), ("b", 4, 5.9, "running")]


def with_states(**changed):
    table = rows("State", of=STATES)
    for at, state in changed.items():
        table[int(at[1:])]["State"] = state
    return table


def test_a_run_that_is_running_or_has_crashed_is_left_out_and_told():
    judged = ablate.judge(with_states(r5="crashed"), metrics="loss")
    note = "left out, as they have not finished: b at seed 3 (State is crashed) and b at seed 4 (State is running)"
    assert note in judged.summary.notes
    assert judged.summary.effects[0].n == 2


def test_states_may_count_as_diverged():
    judged = ablate.judge(with_states(r5="crashed"), metrics="loss", diverged="State=crashed,failed")
    assert "counted as diverged: b at seed 3 (State is crashed)" in judged.summary.notes
    assert judged.summary.arms[1].diverged == 1
    said = refused(with_states(), diverged="State=exploded")
    assert "no State is 'exploded'" in said and "State is one of: finished, running" in said
    assert "--diverged 'State=finished'" in refused(with_states(), diverged="State")


def test_a_status_that_says_something_else_is_no_state():
    table = [{**row, "status": "KEEP" if row["seed"] < 3 else "DISCARD"} for row in rows()]
    judged = ablate.judge(table, metrics="loss")
    assert judged.summary.effects[0].n == 3


# Steps and runs that no column tells apart


def test_steps_of_one_run_are_not_taken_for_runs_without_partners():
    table = [{"variant": v, "step": k, "loss": 3 - 0.1 * k} for v in "ab" for k in range(5)]
    said = refused(table, unpaired=True)
    assert "rows of a look like steps of a run, by step, and no column tells its runs apart" in said
    assert "no column tells the runs of a variant apart, whose steps are asked for" in refused(
        table, unpaired=True, at="last"
    )
    named = [{**row, "run": f"{row['variant']} {k % 2}"} for k, row in enumerate(table)]
    assert ablate.judge(named, metrics="loss", unpaired=True, at="last").summary.arms[0].finished == 2


def test_runs_that_end_at_the_same_step_are_runs():
    table = [{**row, "step": 1000} for row in unpaired(*samples(5, 5))]
    assert ablate.judge(table, metrics="loss", unpaired=True).summary.effects[0].method == "welch"


def test_a_choice_of_steps_where_there_are_none_is_a_mistake():
    assert "--at last: no run has several rows\n  = leave out --at" in refused(rows(), at="last")


@pytest.mark.parametrize("step", [50, "nan", ""])
@pytest.mark.parametrize("at", [None, "last"])
def test_a_step_that_is_twice_or_missing_is_a_mistake_at_its_row(step, at):
    table = log()
    table[2]["step"] = step
    said = refused(table, at=at)
    assert said.count("error:") == 1 and said.startswith("error: row 3")
    assert "each row of a run has a step of its own" in said


def test_runs_that_end_at_other_steps_and_short_means_are_told():
    table = [row for row in log() if (row["variant"], row["step"]) != ("b", 100)]
    notes = ablate.judge(table, metrics="loss", at="mean:3").summary.notes
    assert "runs end at other steps: a 100, b 50" in notes
    assert "the mean is of all rows where there are fewer than 3: b 1 (2), b 2 (2) and b 3 (2)" in notes


def test_a_state_that_is_not_known_beside_others_is_a_mistake():
    said = refused(with_states(r5="napping"))
    assert "row 6: State is 'napping': has that run finished?" in said and "--diverged" in said
    assert any(
        "State is TIMEOUT" in note for note in ablate.judge(with_states(r5="TIMEOUT"), metrics="loss").summary.notes
    )


def test_durations_are_judged_in_seconds_and_told(tmp_path):
    import pandas

    frame = pandas.DataFrame(rows()).assign(loss=lambda t: pandas.to_timedelta(t.loss, unit="s"))
    frame.to_parquet(tmp_path / "runs.parquet")
    for table in (frame, tmp_path / "runs.parquet"):
        judged = ablate.judge(table, metrics="loss", space="timed", results=tmp_path / "results")
        assert numbers(judged)[:2] == (3, pytest.approx(numbers(ablate.judge(rows(), metrics="loss"))[1]))
        assert "loss has durations, judged in seconds" in judged.summary.notes
        assert not ablate.verify(tmp_path / "results").wrong
