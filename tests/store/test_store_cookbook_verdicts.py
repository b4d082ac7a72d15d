"""The cookbook on variants, seeds and spaces answers what it says: its numbers are those worked out here."""

from __future__ import annotations

import io
import json
import math
import statistics
from collections import Counter
from dataclasses import replace

import numpy
import pytest
import scipy.stats
from altered_trials import altered
from claim_worlds import Ran, carry_out, claim
from cookbook_fixtures import METRICS, NAMES, OTHERWISE, about, endings, keyed, sd
from rich.console import Console
from store_fixtures import DOCUMENTS, RECIPE, VARIANTS, VERSIONS, fill, hash_of, opened, plan, trial
from test_store_noise import expected, noisy, tell
from test_store_questions import EIGHT, FIVE, judged_at, trained
from test_store_verdicts import RULES, judged

from ablate.data.sources import SPLITS
from ablate.report.screens.query import Answered
from ablate.session.judging import verdict_document
from ablate.space.data import Bpe
from ablate.statistics import welch as two_samples
from ablate.store import durable
from ablate.store.documents import trial_document
from ablate.store.query import cookbook_query, query
from ablate.train.events import Outcome, Row
from ablate.verdict.judge import judge


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
        bits = differences["eval_bits_per_byte"]
        assert row["eval_bits_per_byte_difference"] == about(statistics.fmean(bits))
        assert row["eval_bits_per_byte_difference_sd"] == about(sd(bits))
        assert row["tokenizers"] == 1
        assert row["loss_is_lower"] == sum(value < 0 for value in losses)
        assert row["peak_kurtosis_ratio"] == about(math.exp(statistics.fmean(differences["log_peak_kurtosis"])))
        assert row["token_correlation_difference"] == about(statistics.fmean(differences["token_correlation"]))
    assert rows[("+qk_norm",)]["not_paired"] == 2, "one with other versions, one that runs"


def read(seed, variant, tokenizer, metric):
    """A number of a trial in a world where tokenizers differ."""
    tokens = {"bytes": 1.0, 512: 2.7, 1024: 3.1}[tokenizer]
    bits = 2 + 0.3 * math.sin(5 * seed + hash_of(variant) + tokens)
    return bits if metric == "eval_bits_per_byte" else bits * math.log(2) * tokens


SEEDS_OF = {"of_bytes": (0, 1, 2, 3, 4, 5)}
"""By space, where they are others than three."""


def tokenised_trial(one, space, tokenizer):
    said, size = ("bytes", 256) if tokenizer == "bytes" else (Bpe(bpe=tokenizer), tokenizer)
    work = one.work
    sizes = replace(work.architecture.sizes, vocab_size=size)
    return altered(
        one,
        id=f"{space}{one.id}",
        corpus=f"{space}-0123",
        architecture=replace(work.architecture, sizes=sizes),
        data=work.data.model_copy(update={"tokenizer": said}),
        recipe=work.recipe.model_copy(update={"steps": 30}) if space == "shorter" else work.recipe,
    )


@pytest.fixture(scope="module")
def tokenised(tmp_path_factory):
    """The same blocks on the same text in bytes and in two vocabularies of BPE, and in bytes on another text and for
    fewer steps.
    """
    folder, text = tmp_path_factory.mktemp("tokenised"), {"title": "t", **{s: {"bytes": 9} for s in SPLITS}}
    spaces = {"of_bytes": "bytes", "of_512": 512, "of_1024": 1024, "elsewhere": "bytes", "shorter": "bytes"}
    for space, tokenizer in spaces.items():
        asked = plan(SEEDS_OF.get(space, (0, 1, 2)), space)
        trials = tuple(tokenised_trial(one, space, tokenizer) for one in asked.trials)
        with opened(folder) as results:
            corpus = {**text, "train": {"bytes": 8}} if space == "elsewhere" else text
            results.record_plan(replace(asked, trials=trials), replace(DOCUMENTS, corpus=corpus))
            for one in trials:
                results.begin(one)
                ends = [
                    Row(40, metric, "", read(one.seed, one.variant, tokenizer, metric))
                    for metric in ("eval_loss", "eval_bits_per_byte")
                ]
                results.append(one.id, [*ends, Outcome("finished", 40)])
            results.refresh()
    return folder


@pytest.mark.full
def test_across_tokenizers_a_block_is_compared_in_bits_per_byte_of_the_same_text(tokenised):
    rows = keyed(asked_of(tokenised, "across_tokenizers"), "variant", "space_a", "space_b")
    # Nothing of another text, or trained by another recipe.
    pairs = [("of_1024", "of_512"), ("of_1024", "of_bytes"), ("of_512", "of_bytes")]
    assert set(rows) == {(name, *pair) for name in NAMES for pair in pairs}
    kinds = {"of_bytes": "bytes", "of_512": 512, "of_1024": 1024}
    for (variant, a, b), row in rows.items():
        id = next(id for id, name in VARIANTS.items() if name == variant)
        one, other = (
            [read(seed, id, kinds[space], "eval_bits_per_byte") for seed in SEEDS_OF.get(space, (0, 1, 2))]
            for space in (a, b)
        )
        welch = scipy.stats.ttest_ind(other, one, equal_var=False)
        assert row["difference"] == about(statistics.fmean(other) - statistics.fmean(one))
        assert row["difference"] / row["standard_error"] == pytest.approx(welch.statistic, rel=1e-9)
        # Three seeds beside six are compared with the degrees of freedom of the three, as verdicts are.
        df = welch.df if b == "of_512" else 2
        assert row["degrees_of_freedom"] == pytest.approx(df, rel=1e-9)
        assert row["degrees_of_freedom"] == pytest.approx(two_samples(one, other).df, rel=1e-9)
        assert (row["n_a"], row["n_b"]) == (3, len(other)) and row["tokenizer_a"].startswith("bpe ")
    assert len(asked_of(tokenised, "across_tokenizers", space="of_512")) == 6
    assert asked_of(tokenised, "across_tokenizers", space="elsewhere") == []


@pytest.mark.full
def test_over_several_tokenizers_an_edit_has_no_mean_in_nats_per_token(tokenised):
    """Merges learnt from another text are another tokenizer, too."""
    for row in asked_of(tokenised, "edit_effects"):
        assert (row["spaces"], row["pairs"], row["tokenizers"]) == (5, 18, 3)
        assert row["eval_loss_difference"] is row["eval_loss_difference_sd"] is None
        assert row["eval_bits_per_byte_difference"] is not None and row["peak_kurtosis_ratio"] is None
    for row, (before, after) in zip(
        asked_of(tokenised, "edit_effects", space="of_512"), (("a1", "b2"), ("b2", "c3")), strict=True
    ):
        told = [read(seed, after, 512, "eval_loss") - read(seed, before, 512, "eval_loss") for seed in range(3)]
        assert row["tokenizers"] == 1 and row["eval_loss_difference"] == about(statistics.fmean(told))
    names = query(tokenised, "SELECT DISTINCT space, tokenizer FROM leaderboard ORDER BY ALL").rows
    assert names == (
        ("elsewhere", "bytes"),
        ("of_1024", "bpe 1024 of of_1024-"),
        ("of_512", "bpe 512 of of_512-0"),
        ("of_bytes", "bytes"),
        ("shorter", "bytes"),
    )


def test_cost_per_verdict(told, ask):
    known, seq_len = endings(told), trial().work.architecture.sizes.seq_len
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
        of_op = sum(known[id].outcome.step for (name, _), id in trials.items() if name == "op" and id in known)
        assert of_op > 0
        assert row["training_flops"] == 3 * 2000 * tokens / seq_len - 200 * of_op * RECIPE.batch, "op spares 200"
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


@pytest.mark.full
def test_failures_with_the_last_line_of_their_trace(ask):
    (row,) = ask("failures")
    assert (row["space"], row["variant"], row["seed"], row["status"], row["step"]) == ("wider", "op", 2, "bug", 10)
    assert row["error"] == "ValueError: no" and row["place"] == 'File "b.py", line 7, in g'
    assert ask("failures", space="small") == []


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


@pytest.mark.full
def test_recipe_differences(told, ask):
    rows = keyed(ask("recipe_differences"), "path", "value")
    here = json.loads(durable.compact(trial_document(trial())))
    assert here["recipe"]["optimizer"]["adamw"]["lr"] == 0.01
    lr = "recipe.optimizer.adamw.lr"
    assert {key: (row["trials"], row["spaces"]) for key, row in rows.items()} == {
        (lr, "0.01"): (9, "small, wider"),
        (lr, "0.03"): (6, "hot"),
    }
    assert ask("recipe_differences", space="hot") == []


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


def asked_of(folder, name, **given):
    """Rows of a named query over another folder than the one told of."""
    found = cookbook_query(name)
    answer = query(folder, found.sql, parameters=found.given(given))
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def test_verdicts(tmp_path):
    fill(tmp_path)
    effects = judged(tmp_path).effects
    rows = asked_of(tmp_path, "verdicts", space="small")
    assert [(row["change"], row["metric"], row["n"], row["difference"]) for row in rows] == [
        (effect.change, effect.metric, effect.n, effect.estimate if effect.scale == "linear" else None)
        for effect in effects
    ]
    assert asked_of(tmp_path, "verdicts", space="other") == []


def test_verdicts_have_the_ends_that_agree_with_them_as_differences_and_ratios(tmp_path):
    """Of two blocks one is better on both scales, and the other is not found worse, though alone it would be."""
    asked = plan(seeds=tuple(range(6)))
    shifts = {"a1": 0.0, "b2": 0.0095, "c3": -0.02}
    ends = {
        trial.id: {"status": "finished", "step": 9, "metrics": dict.fromkeys(("eval_loss", "peak_kurtosis"), value)}
        for trial in asked.trials
        for value in [2.3 + shifts[trial.variant] + 0.005 * math.sin(7 * trial.seed + hash_of(trial.variant))]
    }
    summary = judge(asked, RULES, ends)
    with opened(tmp_path) as results:
        results.record_plan(asked, DOCUMENTS)
        results.record_judgement("small", verdict_document(summary, asked), [])
        results.refresh()
    rows = asked_of(tmp_path, "verdicts", space="small")
    assert len(rows) == len(summary.effects) and {row["verdict"] for row in rows} > {"better", "undecided"}
    wider = set()
    for row, effect in zip(rows, summary.effects, strict=True):
        log, adjusted = effect.scale == "log", (effect.estimate, effect.adjusted_low, effect.adjusted_high)
        told, other = ("ratio", "difference") if log else ("difference", "ratio")
        ends_of = [row[name] for name in (told, f"{told}_adjusted_low", f"{told}_adjusted_high")]
        assert ends_of == pytest.approx([math.exp(one) for one in adjusted] if log else adjusted, rel=1e-12)
        assert {row[name] for name in (other, f"{other}_adjusted_low", f"{other}_adjusted_high")} == {None}
        nothing = 1.0 if log else 0.0
        _, low, high = ends_of
        if row["verdict"] in ("better", "worse"):
            assert not low <= nothing <= high
        if row["verdict"] == "undecided":
            assert low <= nothing <= high
            wider.add(effect.low > 0 or effect.high < 0)
    assert True in wider, "the twin: an unadjusted interval contradicts the verdict beside it"
    screen = Console(width=400, record=True, file=io.StringIO())
    screen.print(Answered(tuple(rows[0]), [tuple(row.values()) for row in rows]))
    assert "logarithm" not in screen.export_text(), "none of the columns has any"


@pytest.mark.full
def test_questions_over_time(tmp_path):
    trained(tmp_path, EIGHT)
    judged_at(tmp_path, FIVE)
    judged_at(tmp_path, EIGHT)
    first, second = asked_of(tmp_path, "questions_over_time", space="small")
    assert first["question"] == second["question"]
    assert (first["number"], first["n_seeds"], first["level"]) == (1, 5, about(0.04))
    assert (second["number"], second["n_seeds"], second["level"]) == (2, 8, about(0.008))
    assert (first["left_of_alpha"], second["left_of_alpha"]) == (about(0.01), about(0.002))
    assert (second["better"], second["undecided"], second["metrics"]) == (1, 1, ["eval_loss"])
    assert asked_of(tmp_path, "questions_over_time", space="other") == []


def test_effects(tmp_path):
    fill(tmp_path)
    judged(tmp_path)
    judged(tmp_path, plan())
    rows = asked_of(tmp_path, "effects", change="+qk_norm")
    assert [(row["space"], row["metric"], row["before"], row["after"]) for row in rows] == [
        ("small", "eval_loss", "pre_ln", "half"),
        ("small", "peak_kurtosis", "pre_ln", "half"),
    ]
    assert len(asked_of(tmp_path, "effects")) == 8


@pytest.mark.full
def test_noise_floor(tmp_path):
    tell(tmp_path, noisy())
    tell(tmp_path, plan((5,), "other"))
    by_loss, by_log = expected()
    loss, peak = asked_of(tmp_path, "noise_floor", space="other")
    assert (loss["metric"], loss["n"], loss["whose"]) == ("eval_loss", 3, "pre_ln")
    assert loss["sd"] == pytest.approx(by_loss, rel=1e-9) and peak["log_sd"] == pytest.approx(by_log, rel=1e-9)
    assert loss["measured_by"] == ["noisy"] and loss["holds_for"] == ["noisy", "other"]
    assert asked_of(tmp_path, "noise_floor", space="nowhere") == []


def test_claims_of_the_current_plans_with_their_stamps(tmp_path, monkeypatch):
    early = claim()
    runs = [Ran(day=1, claims=[early]), Ran(day=2, claims=[early, claim(["better", "equivalent"], of="cold")], seeds=4)]
    carry_out(tmp_path, runs, monkeypatch)
    asked = cookbook_query("claims")
    given: list[dict[str, str]] = [{}, {"space": "other"}]
    found, none = (query(tmp_path, asked.sql, parameters=asked.given(each)) for each in given)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    told = [(row["about"], row["expected"], row["outcome"], row["stamped"], row["changed_since"]) for row in rows]
    assert told == [
        ("hot", "better", "as expected", "before results", "seeds: 3 → 4"),
        ("cold", "better or equivalent", "not as expected", "after results", ""),
    ]
    assert [f"{row['stated']:%Y-%m-%d} {row['known']:%Y-%m-%d}" for row in rows] == [
        "2026-12-01 2026-12-01",
        "2026-12-02 2026-12-01",
    ]
    assert not none.rows
