"""The cookbook on what went on in training answers what it says: its numbers are those worked out here."""

from __future__ import annotations

import math
import statistics

import pytest
from cookbook_fixtures import ATTENTIONS, LAST, NAMES, about, endings, keyed, parts, sd
from store_fixtures import ADDRESSES, RECIPE, STEPS


@pytest.mark.full
def test_loss_curves_have_bands(told, ask):
    rows = keyed(ask("loss_curves", space="small"), "variant", "step")
    assert set(rows) == {(name, step) for name in NAMES for step in STEPS}
    for (name, step), row in rows.items():
        told_here = [
            value.value
            for (other, _), id in told.spaces["small"].items()
            for value in told.rows(id, "train_loss")
            if other == name and value.step == step
        ]
        values = [value for value in told_here if math.isfinite(value)]
        mean, spread = statistics.fmean(values), sd(values)
        assert (row["n"], row["n_not_finite"]) == (len(values), len(told_here) - len(values))
        assert row["mean"] == about(mean) and (row["min"], row["max"]) == (min(values), max(values))
        assert (row["low"], row["high"]) == ((about(mean - spread), about(mean + spread)) if spread else (None, None))
    assert {(row["space"], row["step"]) for row in ask("loss_curves", metric="eval_loss")} == {
        (space, 40) for space in told.spaces
    }


@pytest.mark.full
def test_kurtosis_by_layer_and_step(told, ask):
    rows = keyed(ask("kurtosis_by_layer", space="wider"), "variant", "address", "step")
    found = {}
    for name, _, row in parts(told, "wider", "kurtosis"):
        found.setdefault((name, row.address, row.step), []).append(row.value)
    assert set(rows) == set(found)
    for key, values in found.items():
        assert rows[key]["layer"] == {"layers.1": 1, "layers.2": 2, "head": None}[key[1]]
        assert (rows[key]["n"], rows[key]["max"]) == (len(values), max(values))
        assert rows[key]["mean"] == about(statistics.fmean(values))


def test_kurtosis_peaks(told, ask):
    rows = keyed(ask("kurtosis_peaks", space="wider"), "variant", "address")
    assert set(rows) == {(name, address) for name in NAMES for address in ADDRESSES}
    for (name, address), row in rows.items():
        here = [(seed, r) for n, seed, r in parts(told, "wider", "kurtosis") if (n, r.address) == (name, address)]
        value, step, seed = min((-r.value, r.step, seed) for seed, r in here)
        assert (row["peak"], row["step"], row["seed"]) == (-value, step, seed)
        assert row["n"] == len({seed for seed, _ in here})


def test_divergences(told, ask):
    rows = keyed(ask("divergences"), "space", "trial_id")
    assert set(rows) == {("small", "c30001"), ("wider", "c30001")}
    row = rows["small", "c30001"]
    assert (row["variant"], row["seed"], row["step"], row["steps"]) == ("op", 1, 20, RECIPE.steps)
    assert (row["address"], row["cause"]) == ("layers.2.mlp", "train_loss is inf")
    assert (row["last_step"], row["last_train_loss"], row["last_gradient_norm"]) == tuple(LAST.values())
    assert row["peak_kurtosis_until_then"] == max(r.value for r in told.rows("c30001", "kurtosis"))


@pytest.mark.full
def test_gradient_spikes(told, ask):
    rows = ask("gradient_spikes", space="small")
    norms = [row.value for row in told.rows("b20001", "gradient_norm")]
    (spike,) = [row for row in told.rows("b20001", "gradient_norm") if row.value > 3 * statistics.median(norms)]
    assert [(row["variant"], row["seed"], row["step"]) for row in rows] == [("half", 1, spike.step)]
    assert rows[0]["ratio"] == about(spike.value / statistics.median(norms))
    expected = sum(
        row.value > 1.1 * statistics.median(r.value for r in told.rows(id, "gradient_norm"))
        for id in told.spaces["small"].values()
        for row in told.rows(id, "gradient_norm")
    )
    assert len(ask("gradient_spikes", space="small", factor="1.1")) == expected > 1


def test_signal_propagation(told, ask):
    rows = keyed(ask("signal_propagation", space="small"), "variant", "address")
    assert set(rows) == {(name, address) for name in NAMES for address in ADDRESSES}
    for (name, address), row in rows.items():
        ids = [id for (other, _), id in told.spaces["small"].items() if other == name]
        of = {
            id: {r.step: r.value for r in told.rows(id, "token_correlation_rms") if r.address == address} for id in ids
        }
        done = told.finished("small", name).values()
        assert (row["n_at_start"], row["n_at_end"]) == (len(ids), len(done))
        assert row["at_start"] == about(statistics.fmean(of[id][0] for id in ids))
        assert row["at_end"] == about(statistics.fmean(of[id][30] for id in done))


def test_throughput(told, ask):
    rows = keyed(ask("throughput", space="small"), "variant")
    medians = {
        name: [
            statistics.median(told.timings(id, "tokens_per_second"))
            for (other, _), id in told.spaces["small"].items()
            if other == name
        ]
        for name in NAMES
    }
    for name, speeds in medians.items():
        row = rows[(name,)]
        assert (row["n"], row["slowest"], row["fastest"]) == (2, min(speeds), max(speeds))
        assert row["tokens_per_second"] == about(statistics.median(speeds))
        assert row["against_baseline"] == about(statistics.median(speeds) / statistics.median(medians["pre_ln"]))


@pytest.mark.full
def test_slowest_trials(told, ask):
    known = endings(told)
    took = {id: one.ended - one.began for id, one in known.items()}
    rows = ask("slowest_trials", space="small", limit="4")
    assert [row["seconds"] for row in rows] == sorted((took[id] for id in told.spaces["small"].values()), reverse=True)[
        :4
    ]
    assert all(row["seconds"] == took[row["trial_id"]] for row in rows)
    assert len(ask("slowest_trials")) == len([id for of in told.spaces.values() for id in of.values() if id in known])


def test_entropy_collapse(told, ask):
    rows = keyed(ask("entropy_collapse", space="small"), "variant", "address")
    assert set(rows) == {(name, place) for name in NAMES for place in ATTENTIONS}
    for (name, place), row in rows.items():
        told_here = [r for n, s, r in parts(told, "small", "attention_entropy") if (n, r.address) == (name, place)]
        lowest = min(told_here, key=lambda r: (r.value, r.step))
        assert (row["lowest_entropy"], row["step"]) == (lowest.value, lowest.step)


def test_generalisation(told, ask):
    rows = keyed(ask("generalisation"), "space", "variant")
    assert set(rows) == {(space, name) for space in told.spaces for name in NAMES}
    for (space, name), row in rows.items():
        ids = told.finished(space, name).values()
        gaps = [told.rows(id, "eval_loss")[-1].value - told.rows(id, "train_loss")[-1].value for id in ids]
        assert (row["n"], row["gap"]) == (len(gaps), about(statistics.fmean(gaps)))
        assert row["gap_sd"] == about(sd(gaps))
