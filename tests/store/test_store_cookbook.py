"""Every query of the cookbook answers what it says: its numbers are those worked out here from what trials yielded."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter

import numpy
import pytest
from cookbook_worlds import ATTENTIONS, LAST, OTHERWISE, about, endings, keyed, parts, sd, tell
from store_worlds import ADDRESSES, RECIPE, STEPS, VARIANTS, VERSIONS, trial

from ablate.store import lines
from ablate.store.cookbook import find, queries
from ablate.store.describe import trial_document
from ablate.store.query import query

METRICS = ("eval_loss", "log_peak_kurtosis", "token_correlation")
NAMES = ("pre_ln", "half", "op")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return tell(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def ask(told):
    """Rows of a named query as dictionaries."""

    def asked(name, **given):
        found = find(name)
        answer = query(told.folder, found.sql, parameters=found.given(given))
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

    return asked


def test_best_variants(told, ask):
    rows = keyed(ask("best_variants"), "space", "metric")
    assert set(rows) == {(space, metric) for space in told.spaces for metric in METRICS}
    for (space, metric), row in rows.items():
        values = {
            name: {seed: told.judged(id)[metric] for seed, id in told.finished(space, name).items()} for name in NAMES
        }
        means = {name: statistics.fmean(of.values()) for name, of in values.items()}
        best = min(NAMES, key=lambda name: (means[name], name))
        mine, base = values[best], values["pre_ln"]
        differences = [mine[seed] - base[seed] for seed in mine if seed in base]
        assert row["variant"] == best
        assert (row["n"], row["asked"]) == (len(mine), sum(name == best for name, _ in told.spaces[space]))
        assert row["mean"] == about(means[best]) and row["sd"] == about(sd(list(mine.values())))
        assert row["pairs"] == len(differences)
        assert row["difference"] == about(statistics.fmean(differences))
        assert row["difference_sd"] == about(sd(differences))


def test_edit_effects(told, ask):
    rows = keyed(ask("edit_effects"), "edit")
    assert set(rows) == {("+qk_norm",), ("residual.gain=0.5",)}
    for (edit,), (before, after) in {("+qk_norm",): ("pre_ln", "half"), ("residual.gain=0.5",): ("half", "op")}.items():
        row, differences, left_out = rows[(edit,)], {metric: [] for metric in METRICS}, 0
        for space, trials in told.spaces.items():
            for seed in {seed for _, seed in trials}:
                pair = [told.finished(space, name).get(seed) for name in (before, after)]
                if None in pair or "a10002" in pair:  # not finished, or with other versions
                    left_out += 1
                    continue
                for metric in METRICS:
                    one, other = (told.judged(id)[metric] for id in pair)
                    differences[metric].append(other - one)
        losses = differences["eval_loss"]
        assert (row["spaces"], row["pairs"], row["not_paired"]) == (3, len(losses), left_out)
        assert row["eval_loss_difference"] == about(statistics.fmean(losses))
        assert row["eval_loss_difference_sd"] == about(sd(losses))
        assert row["loss_is_lower"] == sum(value < 0 for value in losses)
        assert row["peak_kurtosis_ratio"] == about(math.exp(statistics.fmean(differences["log_peak_kurtosis"])))
        assert row["token_correlation_difference"] == about(statistics.fmean(differences["token_correlation"]))
    assert rows[("+qk_norm",)]["not_paired"] == 2, "one with other versions, one that runs"


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


def test_cost_per_verdict(told, ask):
    known, seq_len = endings(told), trial().architecture.sizes.seq_len
    rows = keyed(ask("cost_per_verdict"), "space")
    assert set(rows) == {(space,) for space in told.spaces}
    for space, trials in told.spaces.items():
        row, ended = rows[(space,)], [known[id] for id in trials.values() if id in known]
        hours = sum(one.ended - one.began for one in ended) / 3600
        tokens = sum(one.outcome.step for one in ended) * RECIPE.batch * seq_len
        in_spaces = Counter(id for others in told.spaces.values() for id in others.values())
        assert (row["trials"], row["ended"], row["comparisons"]) == (len(trials), len(ended), 4)
        assert row["shared"] == sum(in_spaces[id] > 1 for id in trials.values())
        assert (row["tokens"], row["tokens_per_verdict"]) == (tokens, tokens / 4)
        assert row["training_flops"] == 3 * 2000 * tokens / seq_len
        assert row["hours_per_verdict"] == pytest.approx(hours / 4, rel=1e-6)


def test_missing_seeds(told, ask):
    rows = keyed(ask("missing_seeds"), "space", "variant", "seed")
    assert {key: (row["status"], row["step"]) for key, row in rows.items()} == {
        ("small", "op", 1): ("diverged", 20),
        ("wider", "op", 1): ("diverged", 20),
        ("wider", "op", 2): ("bug", 10),
        ("hot", "pre_ln", 1): ("unfinished", None),
        ("hot", "op", 1): ("planned", None),
    }


def test_failures_with_the_last_line_of_their_trace(ask):
    (row,) = ask("failures")
    assert (row["space"], row["variant"], row["seed"], row["status"], row["step"]) == ("wider", "op", 2, "bug", 10)
    assert row["error"] == "ValueError: no" and row["place"] == 'File "b.py", line 7, in g'
    assert ask("failures", space="small") == []


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


def test_same_blocks(told, ask):
    rows = keyed(ask("same_blocks"), "variant_id")
    assert set(rows) == {(id,) for id in VARIANTS}
    for id, name in VARIANTS.items():
        row = rows[(id,)]
        assert (row["spaces"], row["shared_trials"]) == (3, 2)
        assert row["variants"] == ", ".join(f"{space}: {name}" for space in sorted(told.spaces))


def test_mixed_versions(ask):
    assert [(r["space"], r["name"], r["version"], r["trials"]) for r in ask("mixed_versions")] == [
        ("wider", "torch", VERSIONS["torch"], 8),
        ("wider", "torch", OTHERWISE["torch"], 1),
    ]


def test_recipe_differences(told, ask):
    rows = keyed(ask("recipe_differences"), "path", "value")
    here = json.loads(lines.compact(trial_document(trial())))
    assert here["recipe"]["optimizer"]["adamw"]["lr"] == 0.01
    lr = "recipe.optimizer.adamw.lr"
    assert {key: (row["trials"], row["spaces"]) for key, row in rows.items()} == {
        (lr, "0.01"): (9, "small, wider"),
        (lr, "0.03"): (6, "hot"),
    }
    assert ask("recipe_differences", space="hot") == []


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


def test_slowest_trials(told, ask):
    known = endings(told)
    took = {id: one.ended - one.began for id, one in known.items()}
    rows = ask("slowest_trials", space="small", limit="4")
    assert [row["seconds"] for row in rows] == sorted((took[id] for id in told.spaces["small"].values()), reverse=True)[
        :4
    ]
    assert all(row["seconds"] == took[row["trial_id"]] for row in rows)
    assert len(ask("slowest_trials")) == len([id for of in told.spaces.values() for id in of.values() if id in known])


def test_seed_noise(told, ask):
    rows = keyed(ask("seed_noise"), "space", "metric")
    for (space, metric), row in rows.items():
        groups = [[told.judged(id)[metric] for id in told.finished(space, name).values()] for name in NAMES]
        groups = [group for group in groups if len(group) > 1]
        free = sum(len(group) - 1 for group in groups)
        pooled = math.sqrt(sum((len(group) - 1) * numpy.var(group, ddof=1) for group in groups) / free)
        assert (row["variants"], row["degrees_of_freedom"]) == (len(groups), free)
        assert row["pooled_sd"] == about(pooled)
        assert (row["least_sd"], row["largest_sd"]) == (about(min(map(sd, groups))), about(max(map(sd, groups))))
        mean = statistics.fmean(statistics.fmean(group) for group in groups)
        assert row["relative_sd"] == (None if metric == "log_peak_kurtosis" else about(pooled / mean))


def test_pareto(told, ask):
    rows = ask("pareto")
    for space in told.spaces:
        points = {}
        for name in NAMES:
            judged = [told.judged(id) for id in told.finished(space, name).values()]
            points[name] = tuple(statistics.fmean(j[metric] for j in judged) for metric in METRICS[:2])
        front = {
            name
            for name, (loss, peak) in points.items()
            if not any(o[0] <= loss and o[1] <= peak and o != (loss, peak) for o in points.values())
        }
        found = {row["variant"]: row for row in rows if row["space"] == space}
        assert set(found) == front
        for name, row in found.items():
            assert row["eval_loss_mean"] == about(points[name][0])
            assert math.log(row["peak_kurtosis"]) == about(points[name][1])


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


def test_same_numbers(told, ask):
    found = {tuple(row["trial_ids"].split(", ")): row["variants"] for row in ask("same_numbers")}
    assert found == {("hb20000", "hc30000"): 2}


def test_definitions(ask):
    assert [
        (r["metric"], r["definition"], r["spaces"], r["definitions_of_this_metric"]) for r in ask("definitions")
    ] == [
        ("kurtosis", "mean s⁴ / (mean s²)²", 2, 2),
        ("kurtosis", "that minus 3", 1, 2),
    ]


def test_every_query_is_asked_above():
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert len(queries()) >= 12
    assert [q.name for q in queries() if not any(name.startswith(q.name) for name in tests)] == []
