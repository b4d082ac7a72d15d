"""What a page reads from the store: the same as the rows that were told, reckoned anew."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from store_fixtures import DOCUMENTS, STEPS, course, fill, number, opened, plan, trial

from ablate.plan.plan import Plan
from ablate.store import pages
from ablate.train.events import Outcome, Row

ADDRESSES = ("layers.1", "layers.2", "head")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three variants at two seeds; the second seed of the last diverged."""
    made = tmp_path_factory.mktemp("results")
    fill(made)
    return made


def asked(the_plan: Plan) -> dict[str, str]:
    return {one.id: one.variant for one in the_plan.trials}


def read(folder: Path, trials: dict[str, str] | None = None) -> pages.Measured:
    return pages.measured(folder, trials or {}, trials or {})


def curves(folder: Path, trials: dict[str, str]) -> tuple[pages.MetricCurve, ...]:
    return read(folder, trials).curves


def gains(folder: Path, trials: dict[str, str]) -> tuple[pages.MetricCurve, ...]:
    return read(folder, trials).gains


def layers(folder: Path, trials: dict[str, str]) -> tuple[pages.LayerCurve, ...]:
    return read(folder, trials).layers


def endings(folder: Path, trials: dict[str, str]) -> tuple[pages.TrialEnd, ...]:
    return read(folder, trials).endings


def one(found: tuple[pages.MetricCurve, ...], variant: str, metric: str, of: str) -> pages.MetricCurve:
    (course,) = [c for c in found if (c.variant, c.metric, c.of) == (variant, metric, of)]
    return course


def close(found: float | None, expected: float) -> bool:
    return found is not None and math.isclose(found, expected, rel_tol=1e-12)


def test_a_course_is_mean_and_deviation_over_seeds(folder: Path) -> None:
    found = curves(folder, asked(plan()))
    ids = ["a10000", "a10001"]
    loss = one(found, "a1", "train_loss", "whole")
    assert loss.steps == STEPS and loss.measured == len(STEPS) and loss.lost == (0,) * 4
    for place, step in enumerate(STEPS):
        values = [number(id, step, "train_loss") for id in ids]
        assert loss.n[place] == 2
        assert close(loss.mean[place], statistics.mean(values)) and close(loss.sd[place], statistics.stdev(values))
        logs = [math.log(value) for value in values]
        assert close(loss.log_mean[place], statistics.mean(logs)) and close(loss.log_sd[place], statistics.stdev(logs))


def test_over_parts_there_is_a_mean_and_a_largest(folder: Path) -> None:
    found = curves(folder, asked(plan()))
    for of, over in (("mean", statistics.mean), ("largest", max)):
        kurtosis = one(found, "b2", "kurtosis", of)
        for place, step in enumerate(STEPS):
            seeds = [[number(id, step, "kurtosis", a) for a in ADDRESSES] for id in ("b20000", "b20001")]
            assert close(kurtosis.mean[place], statistics.mean(over(values) for values in seeds))
    assert not [c for c in found if c.metric == "kurtosis" and c.of == "whole"]
    assert not [c for c in found if c.metric == "train_loss" and c.of != "whole"]


def test_what_diverged_is_counted_where_it_is_lost(folder: Path) -> None:
    found = curves(folder, asked(plan()))
    loss = one(found, "c3", "train_loss", "whole")
    assert loss.steps == STEPS and loss.n == (2, 2, 1, 1) and loss.lost == (0, 0, 1, 0)
    assert loss.sd[2] is None and loss.mean[2] == number("c30000", 20, "train_loss")


def test_only_the_trials_that_are_named_count(folder: Path) -> None:
    """One seed, and under another name: what a trial stands for is said by whoever asks."""
    found = curves(folder, {"a10000": "x", "b20001": "x"})
    assert {course.variant for course in found} == {"x"}
    values = [number("a10000", 10, "train_loss"), number("b20001", 10, "train_loss")]
    assert close(one(found, "x", "train_loss", "whole").mean[1], statistics.mean(values))
    assert curves(folder, {}) == () and layers(folder, {"no such trial": "x"}) == ()


def test_layers_are_in_order_with_what_stands_behind_them(folder: Path) -> None:
    found = [c for c in layers(folder, asked(plan())) if (c.variant, c.metric) == ("a1", "kurtosis")]
    assert {c.part for c in found} == {"1", "2", "head"}
    for course_of in found:
        address = course_of.part if course_of.part == "head" else f"layers.{course_of.part}"
        assert course_of.steps == STEPS and course_of.n == (2,) * 4
        for place, step in enumerate(STEPS):
            values = [number(id, step, "kurtosis", address) for id in ("a10000", "a10001")]
            assert close(course_of.mean[place], statistics.mean(values))
    assert not [c for c in layers(folder, asked(plan())) if c.metric in ("train_loss", "eval_loss")]


def test_how_trials_ended_is_in_the_order_asked(folder: Path) -> None:
    ids = [one.id for one in plan().trials]
    found = endings(folder, dict.fromkeys(reversed(ids), ""))
    assert [one.trial_id for one in found] == ids[::-1]
    by_id = {one.trial_id: one for one in found}
    bad, good = by_id["c30001"], by_id["a10000"]
    a_step = 4 * trial().work.architecture.sizes.seq_len
    assert (bad.status, bad.step, bad.address, bad.tokens) == ("diverged", 20, "layers.2.mlp", 20 * a_step)
    assert (good.status, good.step, good.address, good.spaces) == ("finished", 40, None, 1)
    assert good.tokens == 40 * a_step and good.versions_id in read(folder).versions
    assert read(folder).versions[good.versions_id]["torch"] == "2.13.0"
    assert endings(folder, {"no such trial": "x"}) == ()


def test_definitions_are_there(folder: Path) -> None:
    assert read(folder).definitions["kurtosis"] == "mean s⁴ / (mean s²)²"


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trial measured at a thousand steps, with gains, and gradient norms of several parts of a layer."""
    made = tmp_path_factory.mktemp("long")
    small = replace(plan((0,)), trials=(trial("a1", 0),))
    with opened(made) as results:
        results.record_plan(small, DOCUMENTS)
        results.begin(small.trials[0])
        rows = []
        for step in range(1000):
            rows.append(Row(step, "train_loss", "", 2.0 + step))
            rows.append(Row(step, "gain", "layers.1.mlp_residual.gain", 0.001 * step))
            if step % 100 == 0:
                rows += [Row(step, "gradient_norm", "", 9.0), Row(step, "learning_rate", "embedding", 0.1)]
                rows += [Row(step, "gradient_norm", f"layers.1.{part}", value) for part, value in PARTS.items()]
                rows.append(Row(step, "gradient_norm", "embedding", 7.0))
        results.append("a10000", [*rows, Outcome("finished", 1000)])
        results.refresh()
    return made


PARTS = {"attention.query": 3.0, "mlp.up": 4.0}


def test_long_courses_are_thinned_evenly_and_say_so(long: Path) -> None:
    (loss,) = [c for c in curves(long, {"a10000": "a1"}) if c.metric == "train_loss"]
    assert loss.measured == 1000 and len(loss.steps) == pages.CURVE_STEPS
    assert loss.steps[0] == 0 and loss.steps[-1] == 999
    gaps = {b - a for a, b in zip(loss.steps, loss.steps[1:], strict=False)}
    assert gaps == {6, 7}
    assert loss.mean == tuple(2.0 + step for step in loss.steps)
    (gain,) = gains(long, {"a10000": "a1"})
    assert (gain.metric, gain.of, gain.measured) == ("gain", "layers.1.mlp_residual.gain", 1000)
    assert len(gain.steps) == pages.GAIN_STEPS and gain.steps[0] == 0 and gain.steps[-1] == 999


def test_rates_and_gains_are_no_curves(long: Path) -> None:
    assert {c.metric for c in curves(long, {"a10000": "a1"})} == {"train_loss", "gradient_norm"}
    assert {c.metric for c in layers(long, {"a10000": "a1"})} == {"gradient_norm"}


def test_the_gradient_of_a_layer_is_the_norm_over_its_parts(long: Path) -> None:
    found = {c.part: c for c in layers(long, {"a10000": "a1"})}
    assert found.keys() == {"1", "embedding"}
    assert found["1"].mean == (5.0,) * 10 and found["embedding"].mean == (7.0,) * 10


@pytest.mark.full
def test_it_reads_while_a_run_writes(tmp_path: Path) -> None:
    small = replace(plan((0,)), trials=(trial("a1", 0), trial("b2", 0)))
    with opened(tmp_path) as results:
        results.record_plan(small, DOCUMENTS)
        for one_trial in small.trials:
            results.begin(one_trial)
        results.append("a10000", course("a10000"))
        results.append("b20000", [event for event in course("b20000") if isinstance(event, Row) and event.step < 20])
        found = curves(tmp_path, asked(small))
        loss = one(found, "b2", "train_loss", "whole")
        assert loss.steps == (0, 10) and loss.mean[1] == number("b20000", 10, "train_loss")
        states = {ended.trial_id: ended.status for ended in endings(tmp_path, asked(small))}
    assert states == {"a10000": "finished", "b20000": "unfinished"}
