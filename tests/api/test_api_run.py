"""What a run is in Python: three tables that say what SQL says, and one line each for whatever is printed by itself."""

from __future__ import annotations

import io
import math
import re

import numpy
import pytest
from rich.console import Console
from search_runs import design, searched
from tiny_spaces import write_world

import ablate
from ablate.session import run_result

LINE = 300


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    space = ablate.load_space(write_world(folder))
    return space, run(space)


def run(space):
    console = Console(file=io.StringIO())
    return ablate.run(space, results=space.folder / "results", executor="inline", console=console, mirror=False)


def sql(done, statement):
    return ablate.query(statement, given=["space=tiny"], results=done.results)


def same(frame, asked):
    """Whether two tables hold the same, but for how they write that nothing is there."""
    assert list(frame.columns) == list(asked.columns) and len(frame) == len(asked) > 0
    for name in frame.columns:
        for one, other in zip(frame[name], asked[name], strict=True):
            none = [value is None or (isinstance(value, float) and math.isnan(value)) for value in (one, other)]
            assert none == [True, True] or one == other, (name, one, other)


@pytest.mark.full
def test_verdicts_are_the_effects_of_sql_with_ratios_beside_logarithms(world):
    _, done = world
    shared = [name for name in done.verdicts.columns if name != "more_seeds"]
    same(
        done.verdicts[shared],
        sql(done, f"SELECT {', '.join(shared)} FROM effects WHERE space = $space ORDER BY position"),
    )
    log = done.verdicts[done.verdicts.scale == "log"]
    assert len(log) and numpy.allclose(log.ratio, numpy.exp(log.estimate))
    assert numpy.allclose(log.ratio_low, numpy.exp(log.low)) and (log.ratio_low < log.ratio_high).all()
    assert done.verdicts[done.verdicts.scale == "linear"].ratio.isna().all()
    more = sql(done, "SELECT more_seeds FROM verdicts WHERE space = $space ORDER BY position").more_seeds
    assert [None if value is None or value != value else int(value) for value in more] == [
        None if value is numpy.nan or str(value) == "<NA>" else int(value) for value in done.verdicts.more_seeds
    ]


def test_trials_are_those_of_the_plan_with_their_numbers(world):
    space, done = world
    frame = done.trials
    assert list(frame.trial_id) == [trial.id for trial in done.plan.trials] and set(frame.status) == {"finished"}
    columns = "trial_id, variant, seed, status, eval_loss, peak_kurtosis, token_correlation"
    asked = sql(done, f"SELECT {columns} FROM final WHERE space = $space").sort_values("trial_id")
    same(frame.sort_values("trial_id")[columns.split(", ")], asked)
    assert (
        frame.set_index("variant").loc["op"].eval_loss.notna().all() and (frame.ended_step == space.recipe.steps).all()
    )


def test_curves_are_those_of_sql(world):
    _, done = world
    order = "ORDER BY variant, metric, address, step"
    columns = "variant, metric, address, step, n, n_not_finite, mean, sd, low, high, min, max"
    asked = sql(done, f"SELECT {columns} FROM curves WHERE space = $space {order}")
    same(done.curves.sort_values(["variant", "metric", "address", "step"]), asked)


@pytest.mark.parametrize("name", ["verdicts", "trials", "curves"])
def test_every_column_says_what_it_means(world, name):
    """Each stands at the head of a line of the docstring; the trials' numbers are told of together."""
    said = getattr(run_result.Run, name).__doc__
    words = {
        word for line in re.findall(r"^ {12}(\S.*)$", said, re.M) for word in re.findall(r"\w+", line.split("  ")[0])
    }
    frame = getattr(world[1], name)
    told = frame.columns[:10] if name == "trials" else frame.columns
    assert len(told) >= 10 and set(told) <= words, set(told) - words


def test_everything_that_prints_itself_does_so_in_a_line(world):
    space, done = world
    planned = ablate.plan_space(space, results=space.folder / "results")
    block = space.blocks["op"]
    shown = [
        *(space, done, planned, done.plan, done.summary, space.grammar, space.grammar.catalogue, block, block.parts[0]),
        *(*done.plan.variants, *done.plan.comparisons, *done.plan.trials, *done.summary.effects, *done.summary.arms),
        *(
            *space.grammar.blocks.values(),
            *space.grammar.presets.values(),
            *space.grammar.catalogue,
            *ablate.catalogue(),
        ),
    ]
    for one in shown:
        assert len(repr(one)) <= LINE and "\n" not in repr(one), (type(one), repr(one)[:LINE])
    assert repr(space).startswith("<Space tiny: path of pre_ln, op; 2 seeds; grammar transformer; ")
    assert re.fullmatch(
        r"<Run of tiny: .*8 trials of 4 variants at 2 seeds; 8 trained now; none failed; 12 verdicts: .*>", repr(done)
    )
    assert "0 to run, 8 known" in repr(planned)


def test_a_run_that_knew_everything_has_the_same_tables(world):
    space, done = world
    again = run(space)
    assert (
        again.verdicts.equals(done.verdicts) and again.trials.equals(done.trials) and again.curves.equals(done.curves)
    )
    assert "0 trained now" in repr(again)


@pytest.mark.full
def test_a_search_has_tables_too(tmp_path):
    done = run(searched(write_world(tmp_path, seeds=1), design(trials=3)))
    assert done.searched is not None and len(repr(done)) <= LINE and len(repr(done.searched)) <= LINE
    assert set(done.trials.split) == {"tuning"} and len(done.trials) == len(done.plan.trials) > 2
    assert set(done.curves.variant) == {variant.name for variant in done.plan.variants}
    judged = 0 if done.summary is None else len(done.summary.effects)
    assert len(done.verdicts) == judged and "ratio_low" in done.verdicts.columns
