"""Treatments that change something around the block: edits of every design, and which of them are paired by seed."""

import pytest
from reading import ROOT
from space_fixtures import space

from ablate.api import load_space
from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.plan.models import TokenisedText
from ablate.session import planning

ADDRESSES = {
    "block": "block.attention.scale: 1/width",
    "model": "model.layers: 2",
    "recipe": "recipe.optimizer.adamw.lr: 2e-2",
    "data": "data.tokenizer: {bpe: 300}",
}
ENDS = "{from: pre_ln, to: changed"
DESIGNS = {
    "compare": "{compare: [pre_ln, changed]}",
    "path": f"{{path: {ENDS}}}}}",
    "leave_one_out": f"{{leave_one_out: {ENDS}}}}}",
    "add_one_in": f"{{add_one_in: {ENDS}}}}}",
    "factorial": f"{{factorial: {ENDS}}}}}",
    "fractional": f"{{fractional: {ENDS}, resolution: III}}}}",
    "plackett_burman": f"{{plackett_burman: {ENDS}}}}}",
    "d_optimal": f"{{d_optimal: {ENDS}, runs: 6}}}}",
    "ladder": "{ladder: {compare: [pre_ln, changed],"
    " sizes: [{recipe.steps: 2}, {recipe.steps: 3}, {recipe.steps: 4}]}}",
    "search": "{search: {from: changed, objective: {eval_bits_per_byte: min}, budget: {trials: 4}}}",
}
BITS = "{eval_bits_per_byte: {margin: 1%}, peak_kurtosis: {scale: log}}"


def text_of(space):
    return TokenisedText(vocab_size=300, fingerprint="other text")


def planned(folder, *changes, design, against="pre_ln", **sections):
    variants = f"{{changed: {{block: op, set: {{{', '.join(changes)}}}}}}}"
    judge = f"{{against: {against}, metrics: {BITS}}}"
    found = space(folder, design=design, variants=variants, judge=judge, **sections)
    return build_plan(found, vocab_size=256, corpus="text", read=text_of)


def of(plan, name):
    return next(variant for variant in plan.variants if name in variant.names)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("section", ADDRESSES)
@pytest.mark.parametrize("design", DESIGNS)
def test_every_design_has_treatments_in_every_section(tmp_path, design, section):
    against = "changed" if design == "search" else "pre_ln"
    plan = planned(tmp_path, ADDRESSES[section], design=DESIGNS[design], against=against, seeds="2")
    assert plan.trials
    if design == "search":
        return
    if design == "ladder":
        trend = next(comparison for comparison in plan.comparisons if comparison.kind == "trend")
        assert len(plan.variants) == 6 and trend.unpaired == (("data.tokenizer",) if section == "data" else ())
        return
    edit = ADDRESSES[section].split(":")[0].removeprefix("block.")
    named = [edits for variant in plan.variants for edits in variant.edits if edit in edits]
    changed = of(plan, "changed")
    assert design == "compare" or named
    assert [address for address, _ in changed.setting.changes] == ([] if section == "block" else [edit])
    start = next(trial for trial in plan.trials if trial.variant == of(plan, "pre_ln").id)
    end = next(trial for trial in plan.trials if trial.variant == changed.id)
    differs = {
        "model": start.work.architecture.sizes.n_layers != end.work.architecture.sizes.n_layers,
        "recipe": start.work.recipe != end.work.recipe,
        "data": (start.work.data, start.work.corpus, start.work.architecture.sizes.vocab_size)
        != (end.work.data, end.work.corpus, end.work.architecture.sizes.vocab_size),
    }
    assert differs == {name: name == section for name in differs}


def test_an_edit_around_the_block_is_one_edit_with_its_values(tmp_path):
    plan = planned(tmp_path, "recipe.optimizer.adamw.lr: 2e-2", "model.layers: 2", design=DESIGNS["path"])
    assert of(plan, "changed").edits[-2:] == ("model.layers=2", "recipe.optimizer.adamw.lr=0.02")
    details = {comparison.change: comparison.detail for comparison in plan.comparisons}
    assert details["model.layers=2"] == "4 → 2 at model.layers"
    assert details["recipe.optimizer.adamw.lr=0.02"] == "0.01 → 0.02 at recipe.optimizer.adamw.lr"


def test_applying_edits_in_another_order_gives_the_same_models(tmp_path):
    changes = ("recipe.optimizer.adamw.lr: 2e-2", "model.layers: 2")
    one = planned(tmp_path, *changes, design="{path: {from: pre_ln, to: changed, order: [model.layers=2]}}")
    other = planned(
        tmp_path, *changes, design="{path: {from: changed, to: pre_ln, order: [recipe.optimizer.adamw.lr=0.01]}}"
    )
    assert of(one, "changed").id == of(other, "changed").id
    assert of(one, "pre_ln+1").edits == ("model.layers=2",)
    without = of(other, "changed+1")
    assert [address for address, _ in without.setting.changes] == ["model.layers"]


def test_an_address_inside_another_that_changes_is_no_edit_of_its_own(tmp_path):
    """Since a rate of AdamW means nothing once the optimiser is another."""
    variants = (
        "{warm: {block: pre_ln, set: {recipe.optimizer.adamw.lr: 2e-2}},"
        " sgd: {block: pre_ln, set: {recipe.optimizer: {sgd: {lr: 0.1, momentum: 0.9}}, model.layers: 2}}}"
    )
    judge = "{against: warm, metrics: {eval_loss: {margin: 1%}}}"
    found = space(tmp_path, variants=variants, design="{path: {from: warm, to: sgd}}", judge=judge)
    plan = build_plan(found, vocab_size=256, corpus="text")
    edits = [comparison.change for comparison in plan.comparisons if comparison.kind == "edit"]
    assert edits == ["model.layers=2", "recipe.optimizer={sgd: {lr: 0.1, momentum: 0.9}}"]


def test_values_that_do_not_fit_together_are_left_out_with_the_reason(tmp_path):
    changes = ("model.width: 60", "model.heads: 5")
    plan = planned(tmp_path, *changes, design=DESIGNS["leave_one_out"])
    left = [note for note in plan.notes if note.startswith("left out: ")]
    assert left == ["left out: changed without model.width=60 (5 heads do not divide the width 32)"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("recipe.batch: 8", ("recipe.batch",)),
        ("model.context: 8", ("model.context",)),
        ("data.tokenizer: {bpe: 300}", ("data.tokenizer",)),
        ("model.layers: 2", ()),
        ("model.width: 64", ()),
        ("recipe.steps: 40", ()),
        ("recipe.optimizer: {sgd: {lr: 0.1, momentum: 0.9}}", ()),
        ("recipe.dtype: bfloat16", ()),
    ],
)
def test_what_changes_the_batches_of_a_seed_is_not_paired_and_that_is_told(tmp_path, change, why):
    plan = planned(tmp_path, change, design=DESIGNS["compare"])
    assert [comparison.unpaired for comparison in plan.comparisons] == [why]
    told = [note for note in plan.notes if note.startswith("not paired by seed")]
    assert len(told) == bool(why) and all(address in note for address in why for note in told)


OTHER_KINDS = {
    "images": """
model:   {kind: vit, patch: 8, pooling: mean, causal: false, layers: 2, width: 32, heads: 4, context: 16, init: fan_in}
data:    {corpus: {drawn_images: 600}}
recipe:  {steps: 20, batch: 4, objective: classification, optimizer: {adamw: {lr: 1e-2}}}
variants: {changed: {block: a, set: {model.pooling: class_token, model.context: 17}}}
blocks: {a: [residual: [layer_norm, attention], residual: [layer_norm, mlp]]}
""",
    "spans": """
model:   {kind: encoder_decoder, layers: 2, width: 32, heads: 4, context: 40, source: 64, init: fan_in}
recipe:  {steps: 20, batch: 4, objective: span_filling, optimizer: {adamw: {lr: 1e-2}}}
variants: {changed: {block: a, set: {model.source: 80}}}
blocks: {a: [residual: [layer_norm, attention], residual: [layer_norm, attention: {source: encoder}]]}
""",
}


@pytest.mark.parametrize(("kind", "why"), [("images", ()), ("spans", ("model.source",))])
def test_what_an_example_is_made_of_decides_whether_they_are_paired(tmp_path, kind, why):
    """The length of what a model reads: of no image, but of a text that it is cut from."""
    (tmp_path / "kind.yaml").write_text(
        f"space: kind\nquestion: Is it paired?\ngrammar: {ROOT / 'grammars' / 'transformer.yaml'}\n"
        f"{OTHER_KINDS[kind]}design: {{compare: [a, changed]}}\nseeds: 2\n"
        "measure: {every: 5, probes: [], evaluation: {every: 10, windows: 8}}\n"
        "judge: {against: a, metrics: {eval_loss: {margin: 1%}}}\n"
    )
    plan = build_plan(load_space(tmp_path / "kind.yaml"), vocab_size=256, corpus="data", read=text_of)
    assert [comparison.unpaired for comparison in plan.comparisons] == [why]


def test_at_an_unchanged_address_ids_are_those_without_variants(tmp_path):
    """So that a space that begins to have treatments keeps its results."""
    plan = planned(tmp_path, "model.layers: 2", design="{compare: [pre_ln, op, changed]}")
    judge = f"{{against: pre_ln, metrics: {BITS}}}"
    plain = build_plan(space(tmp_path, design="{compare: [pre_ln, op]}", judge=judge), vocab_size=256, corpus="text")
    assert {trial.id for trial in plain.trials} < {trial.id for trial in plan.trials}


@pytest.mark.full
def test_a_variant_that_comes_to_the_same_is_trained_once(tmp_path):
    variants = (
        "{a: {block: op, set: {recipe.optimizer.adamw.lr: 2e-2}},"
        " b: {block: op, set: {recipe.optimizer: {adamw: {lr: 0.02}}}}}"
    )
    found = space(tmp_path, variants=variants, design="{compare: [pre_ln, a, b]}")
    plan = build_plan(found, vocab_size=256, corpus="text")
    assert of(plan, "a") is of(plan, "b") and len(plan.variants) == 2
    assert "the same model, trained once: a, b" in plan.notes


def test_a_budget_of_flops_or_tokens_counts_the_batch_that_a_treatment_changes(tmp_path):
    for budget in ("flops", "tokens"):
        fair = f"{{budget: {budget}, match: none, tune: none, under: {{}}}}"
        plan = planned(tmp_path, "recipe.batch: 8", design="{compare: [op, changed]}", against="op", fair=fair)
        steps = {trial.work.recipe.batch: trial.work.recipe.steps for trial in plan.trials}
        assert steps == {4: 20, 8: 10}
        told = [note for note in plan.notes if note.startswith("equal tokens: ")]
        assert told == ["equal tokens: 20 steps × 4 sequences × 16 tokens = 1,280 tokens for every block; where the "
                        "batch or the context differs, the steps follow"] * (budget == "tokens")  # fmt: skip


def test_a_match_counts_the_sizes_that_a_treatment_changes(tmp_path):
    fair = "{budget: steps, match: {parameters: 4%, by: width}, tune: none, under: {}}"
    plan = planned(tmp_path, "model.layers: 8", design="{compare: [op, changed]}", against="op", fair=fair)
    changed = of(plan, "changed")
    assert changed.setting.width is not None and changed.setting.width < 32
    (trial, *_) = [trial for trial in plan.trials if trial.variant == changed.id]
    assert (trial.work.architecture.sizes.n_layers, trial.work.architecture.sizes.d_model) == (8, changed.setting.width)


def test_across_texts_loss_in_nats_is_refused(tmp_path):
    variants = "{other: {block: pre_ln, set: {data.tokenizer: {bpe: 300}}}}"
    found = space(tmp_path, variants=variants, design="{compare: [pre_ln, other]}")
    with pytest.raises(InputError, match="judge eval_bits_per_byte"):
        build_plan(found, vocab_size=256, corpus="text", read=text_of)


def test_each_optimiser_is_tuned_over_rates_of_its_own(tmp_path):
    fair = (
        "{budget: steps, match: none, under: {},"
        " tune: {recipe.optimizer.adamw.lr: [1e-3, 1e-2], recipe.optimizer.muon.lr: [3e-3, 3e-2], seeds: 1}}"
    )
    variants = "{muon: {block: pre_ln, set: {recipe.optimizer: {muon: {lr: 1e-2}}}}}"
    found = space(tmp_path, variants=variants, design="{compare: [pre_ln, muon]}", fair=fair)
    plan = build_plan(found, vocab_size=256, corpus="text")
    rates = {
        (t.work.recipe.optimizer.name, t.work.recipe.optimizer.settings["lr"])
        for t in plan.trials
        if t.split == "tuning"
    }
    assert rates == {("adamw", 0.001), ("adamw", 0.01), ("muon", 0.003), ("muon", 0.03)}
    assert plan.open and not [trial for trial in plan.trials if trial.split == "verdict"]


def test_a_rate_of_an_optimiser_that_nobody_has_cannot_be_tuned(tmp_path):
    fair = "{budget: steps, match: none, under: {}, tune: {recipe.optimizer.muon.lr: [3e-3, 3e-2], seeds: 1}}"
    with pytest.raises(InputError, match="the space has optimiser adamw, not muon"):
        space(tmp_path, design="{compare: [pre_ln, op]}", fair=fair)


def test_values_to_tune_are_read_with_the_optimiser_that_they_are_of(tmp_path):
    fair = "{budget: steps, match: none, under: {}, tune: {recipe.optimizer.sgd.momentum: [0.9, 2], seeds: 1}}"
    variants = "{sgd: {block: pre_ln, set: {recipe.optimizer: {sgd: {lr: 0.1, momentum: 0.5}}}}}"
    with pytest.raises(InputError, match="momentum must be less than 1, got 2"):
        space(tmp_path, design="{compare: [pre_ln, sgd]}", variants=variants, fair=fair)


def test_a_factorial_whose_runs_share_no_batches_says_so(tmp_path):
    notes = planned(tmp_path, "recipe.batch: 8", "model.layers: 2", design=DESIGNS["factorial"]).notes
    (told,) = [note for note in notes if "between the runs of the factorial" in note]
    assert told.startswith("recipe.batch differs between the runs of the factorial, which then share no batches")
    notes = planned(tmp_path, "model.layers: 2", design=DESIGNS["factorial"]).notes
    assert not [note for note in notes if "between the runs of the factorial" in note]


def test_values_to_tune_are_told_apart_as_the_schedule_that_they_are_of_reads_them(tmp_path):
    fair = '{budget: steps, match: none, under: {}, tune: {recipe.schedule.decay.wsd.over: ["20%", 0.2], seeds: 1}}'
    variants = "{wsd: {block: pre_ln, set: {recipe.schedule.decay: {wsd: {over: 30%, shape: sqrt}}}}}"
    with pytest.raises(InputError, match="is listed twice in fair"):
        space(tmp_path, design="{compare: [pre_ln, wsd]}", variants=variants, fair=fair)


def test_before_the_corpus_is_read_other_data_are_another_text(tmp_path):
    """Variants that change data alone are trials of their own, as many as when the corpus is read."""
    found = space(
        tmp_path,
        model="{kind: mlp, layers: 2, width: 16, heads: 1, context: 1, causal: false, embedding: {std: 0.02, scale: 1},"
        " head: untied, init: {normal: 0.02}}",
        data="{corpus: digits, whiten: 0.1}",
        recipe="{objective: classification, steps: 2, batch: 4, optimizer: {adamw: {lr: 1e-2}}}",
        measure="{every: 1, probes: [gradient_norm], evaluation: {every: 1, windows: 8}}",
        blocks="{own: [residual: [layer_norm, mlp]], other: [residual: [mlp]]}",
        variants="{whiter: {block: own, set: {data.whiten: 0.2}}, whitest: {block: own, set: {data.whiten: 0}}}",
        judge="{against: own, metrics: {eval_accuracy: {margin: 0.01}}}",
        design="{compare: [own, other, whiter, whitest]}",
    )
    checked = planning.check(found)
    assert len(checked.trials) == 2 * 4 and len({trial.work.corpus for trial in checked.trials}) == 3
    planned = planning.plan_space(found, results=tmp_path / "results").plan
    assert len(planned.trials) == len(checked.trials)
