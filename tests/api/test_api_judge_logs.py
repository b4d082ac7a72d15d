"""Logs of trainers: folders of them, event files, the state of a trainer, line charts, metrics below one another."""

import json
import struct

import pandas
import pytest
from tensorboardX import SummaryWriter

import ablate

LOSSES = {("a", 1): 2.51, ("a", 2): 2.60, ("a", 3): 2.70, ("b", 1): 2.41, ("b", 2): 2.52, ("b", 3): 2.63}
NAMED = {"name": "{variant}-s{seed}", "metrics": "loss", "at": "last"}


def refused(table, **asked):
    with pytest.raises(ablate.InputError) as error:
        ablate.judge(table, **{"metrics": "loss", **asked})
    return str(error.value)


def numbers(judged):
    (effect,) = judged.summary.effects
    return effect.n, effect.estimate, effect.low, effect.high


@pytest.fixture
def known():
    rows = [{"variant": v, "seed": s, "loss": x} for (v, s), x in LOSSES.items()]
    return pytest.approx(numbers(ablate.judge(rows, metrics="loss")), rel=1e-5)


def steps_of(loss):
    return [(0, loss + 2), (50, loss + 1), (100, loss)]


def test_a_folder_of_csv_is_judged_by_the_names_of_its_files(tmp_path, known):
    for (v, s), loss in LOSSES.items():
        text = "step,loss\n" + "".join(f"{step},{x}\n" for step, x in steps_of(loss))
        (tmp_path / f"{v}-s{s}.csv").write_text(text)
    (tmp_path / "notes.md").write_text("not a log")
    judged = ablate.judge(tmp_path, **NAMED)
    assert numbers(judged) == known
    assert judged.summary.notes[0].startswith("6 runs of ") and "(6 logs), in 18 rows" in judged.summary.notes[0]


def test_the_states_of_trainers_are_judged_by_their_folders(tmp_path, known):
    """What is logged of training and of evaluation at one step is one row."""
    for (v, s), loss in LOSSES.items():
        history = [{"step": step, "train": x, "epoch": step / 50} for step, x in steps_of(9)]
        history += [{"step": step, "loss": x, "epoch": step / 50} for step, x in steps_of(loss)]
        folder = tmp_path / f"{v}-s{s}" / "checkpoint"
        folder.mkdir(parents=True)
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": history, "max_steps": 100}))
    judged = ablate.judge(tmp_path, **NAMED | {"name": "{variant}-s{seed}/checkpoint"})
    assert numbers(judged) == known
    single = folder / "trainer_state.json"
    assert "no column 'variant'" in refused(single)
    single.write_text('{"log": []}')
    assert "is not the state of a trainer: KeyError 'log_history'" in refused(tmp_path, **NAMED)


def test_event_files_of_tensorboard_are_judged_and_one_cut_off_keeps_what_it_has(tmp_path, known):
    for (v, s), loss in LOSSES.items():
        with SummaryWriter(str(tmp_path / f"{v}-s{s}")) as writer:
            for step, x in steps_of(loss):
                writer.add_scalar("loss", x, step)
                writer.add_scalar("lr", 1e-3, step)
    assert numbers(ablate.judge(tmp_path, **NAMED)) == known
    (events,) = (tmp_path / "b-s3").iterdir()
    whole = events.read_bytes()
    events.write_bytes(whole[:-7])
    cut = ablate.judge(tmp_path, **NAMED)
    assert numbers(cut)[1] == numbers(ablate.judge(tmp_path, **NAMED))[1]
    events.write_bytes(struct.pack("<QI", 1 << 40, 0) + whole)
    assert "is not an event file of TensorBoard: a record of" in refused(tmp_path, **NAMED)
    events.write_bytes(struct.pack("<QI", 5, 0) + b"\xff\xff\xff\xff\xff" + b"0000")
    assert "is not an event file of TensorBoard" in refused(tmp_path, **NAMED)


def test_line_charts_with_a_column_for_each_run_are_rows_again(tmp_path, known):
    runs = {f"{v}-s{s}": dict(steps_of(x)) for (v, s), x in LOSSES.items()}
    heading = ['"Step"'] + [f'"{run} - loss{bound}"' for run in runs for bound in ("", "__MIN", "__MAX")]
    lines = [",".join(heading)]
    lines += [f"{k}," + ",".join(f"{of[k]},{of[k] - 1},{of[k] + 1}" for of in runs.values()) for k in (0, 50, 100)]
    path = tmp_path / "wandb.csv"
    path.write_text("\n".join(lines))
    assert numbers(ablate.judge(path, **NAMED)) == known
    assert "no column 'variant'" in refused(path, at="last")


def test_a_table_whose_columns_only_look_like_runs_is_left_as_it_is(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("seed,variant,a - loss\n" + "".join(f"{s},{v},{x}\n" for (v, s), x in LOSSES.items()))
    assert ablate.judge(path, metrics="a - loss").summary.effects[0].n == 3
    path.write_text("variant,a - seed,a - loss\n" + "".join(f"{v},{s},{x}\n" for (v, s), x in LOSSES.items()))
    assert ablate.judge(path, pair="a - seed", metrics="a - loss").summary.effects[0].n == 3


def test_runs_of_other_lengths_have_no_rows_where_their_cells_are_empty(tmp_path):
    path = tmp_path / "wandb.csv"
    path.write_text("Step,a-s1 - loss,a-s2 - loss,b-s1 - loss,b-s2 - loss\n0,3,3,3,3\n50,2.5,2.6,2.4,\n100,2.2,2.3,,\n")
    arms = ablate.judge(path, **NAMED).summary.arms
    assert [arm.levels["loss"].mean for arm in arms] == pytest.approx([2.25, 2.7])


def test_metrics_below_one_another_become_columns(known):
    rows = [
        {"variant": v, "seed": s, "metric": metric, "value": value}
        for (v, s), x in LOSSES.items()
        for metric, value in (("loss", x), ("accuracy", 1 / x))
    ]
    assert numbers(ablate.judge(rows, metrics="loss", long="metric,value")) == known
    assert "has 'loss' twice at variant a, seed 1" in refused([*rows, rows[0]], long="metric,value")
    assert "--long names two of variant, seed, metric, value" in refused(rows, long="metric,number")
    assert "--long metric: it names two columns" in refused(rows, long="metric")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("{variant}_s{seed}", "does not fit the run 'a-s1'"),
        ("a-s1", "names no columns"),
        ("{variant}-{variant}", "names no columns"),
    ],
)
def test_a_pattern_that_fits_no_run_is_a_mistake(tmp_path, name, said):
    for (v, s), loss in LOSSES.items():
        (tmp_path / f"{v}-s{s}.csv").write_text(f"step,loss\n0,{loss}\n")
    assert said in refused(tmp_path, name=name)


def test_a_folder_without_logs_is_said_to_have_none(tmp_path):
    said = refused(tmp_path)
    assert "no log is below" in said and "trainer_state.json" in said
    table = [{"variant": "a", "seed": 0, "loss": 1.0}]
    assert "has no column 'run', whose names --name takes apart" in refused(table, name="{variant}")


@pytest.mark.parametrize("run", ["llama-small-s1", "a-s1-s2"])
def test_a_name_that_a_pattern_fits_in_several_ways_is_a_mistake(tmp_path, run):
    (tmp_path / f"{run}.csv").write_text("step,loss\n0,1\n")
    said = refused(tmp_path, name="{variant}-s{seed}")
    assert f"fits '{run}' in several ways" in said and "{seed:d}" in said


def test_digits_tell_the_parts_of_a_name_apart(tmp_path):
    for variant, loss in (("llama-small", 2.0), ("llama-swish", 2.2)):
        for seed in range(3):
            (tmp_path / f"{variant}-s{seed}.csv").write_text(f"step,loss\n0,{loss + 0.1 * seed}\n")
    arms = ablate.judge(tmp_path, metrics="loss", name="{variant}-s{seed:d}").summary.arms
    assert [(arm.name, arm.finished) for arm in arms] == [("llama-small", 3), ("llama-swish", 3)]


def test_two_runs_of_the_same_names_are_no_run(tmp_path):
    for folder in ("x1", "x2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a-s1.csv").write_text("step,loss\n0,1\n")
    said = refused(tmp_path, name="{variant}-s{seed:d}")
    assert "'x1/a-s1' and 'x2/a-s1' have the same names" in said


def test_a_column_is_not_replaced_by_a_part_of_a_name():
    table = [{"run": f"{v}-s{s}", "variant": v.upper(), "loss": x} for (v, s), x in LOSSES.items()]
    assert "has a column 'variant' already" in refused(table, name="{variant}-s{seed:d}")


def test_nan_in_a_data_frame_is_as_open_in_any_shape():
    frame = pandas.DataFrame([{"run": f"{v}-s{s}", "loss": x} for (v, s), x in LOSSES.items()])
    frame.loc[2, "loss"] = float("nan")
    assert "a run that diverged, or an empty cell?" in refused(frame, name="{variant}-s{seed:d}")


def test_a_log_without_a_row_is_a_run_without_a_number(tmp_path):
    for (v, s), loss in LOSSES.items():
        (tmp_path / f"{v}-s{s}.csv").write_text("step,loss\n" + ("" if (v, s) == ("a", 1) else f"0,{loss}\n"))
    judged = ablate.judge(tmp_path, metrics="loss", name="{variant}-s{seed:d}")
    assert "counted as missing, because the cell is empty: a at seed 1 (no loss)" in judged.summary.notes
    assert judged.summary.baseline == "a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Step,a-s1 - loss__MIN,a-s1 - loss__MAX\n0,1,2\n", "has bounds of runs and no run"),
        ("Step,a-s1 - loss,a-s1 - loss\n0,1,2\n", "has two columns 'a-s1 - loss'"),
    ],
)
def test_charts_that_hold_no_run_or_one_twice_are_mistakes(tmp_path, text, said):
    (tmp_path / "chart.csv").write_text(text)
    assert said in refused(tmp_path / "chart.csv")


@pytest.mark.parametrize("name", ["trainer_state.json", "events.out.tfevents.1"])
def test_a_log_that_is_not_there_is_said_so(tmp_path, name):
    assert f"cannot read {tmp_path / name}" in refused(tmp_path / name)


def test_a_state_whose_steps_are_none_is_no_state(tmp_path):
    (tmp_path / "trainer_state.json").write_text('{"log_history": [{"step": null, "loss": 1}, {"step": 2}]}')
    assert "is not the state of a trainer: TypeError" in refused(tmp_path / "trainer_state.json")


def test_logs_of_one_name_are_runs_by_their_folders(tmp_path, known):
    for (v, s), loss in LOSSES.items():
        path = tmp_path / v / f"run_{s}" / "log.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps({"step": step, "loss": x}) + "\n" for step, x in steps_of(loss)))
    judged = ablate.judge(tmp_path, **NAMED | {"name": "{variant}/run_{seed:d}"})
    assert numbers(judged) == known
    said = refused(tmp_path)
    assert """--name takes names of runs apart: "{variant}/{seed}" one like 'a/run_1'""" in said
