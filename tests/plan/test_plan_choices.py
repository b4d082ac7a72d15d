"""What is seldom meant is told in the plan: margins out of proportion, hidden layers of a few units, no positions."""

from __future__ import annotations

import pytest
from reading import ROOT
from space_fixtures import space, text

from ablate.components.registry import declarations
from ablate.plan.build import build_plan
from ablate.space.load import load_space

MODEL = (
    "{{layers: 4, width: 32, heads: 4, context: 16, embedding: {{std: 0.02, scale: 50}}, head: untied,"
    " init: {{normal: 0.02}}, position: {position}}}"
)
MATCH = "{match: {parameters: 1%%, by: %s}}"
LONE = "no positions in {}: attention there sees token order only through its causal mask; "
WAY_OUT = "block: {attention.position: rope} adds them to every block"


def told(folder, start: str, **sections: str) -> list[str]:
    asked = space(folder, **{"design": "{compare: [pre_ln, op]}", **sections})
    return [note for note in build_plan(asked, vocab_size=256, corpus="c").notes if note.startswith(start)]


@pytest.mark.parametrize(("margin", "said"), [("1", True), ("0.6", True), ("0.02", False), ("1%", False)])
def test_a_margin_of_whole_nats_is_told(tmp_path, margin, said):
    judge = f"{{against: pre_ln, metrics: {{eval_loss: {{margin: {margin}}}}}}}"
    notes = told(tmp_path, "margin:", judge=judge)
    assert bool(notes) == said
    assert all(f"margin: {margin} of eval_loss is in nats" in note and "ln 256" in note for note in notes)


@pytest.mark.parametrize(("margin", "said"), [("1", True), ("0.7", False), ("1%", False)])
def test_a_margin_of_whole_bits_is_told(tmp_path, margin, said):
    judge = f"{{against: pre_ln, metrics: {{eval_bits_per_byte: {{margin: {margin}}}}}}}"
    notes = told(tmp_path, "margin:", judge=judge)
    assert bool(notes) == said
    assert all(
        "1 of eval_bits_per_byte is in bits, 12 % of the loss of guessing (8 per byte)" in note for note in notes
    )


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("metric", "judged", "said"),
    [
        ("eval_loss", "margin: 11%", "margin: 11% of eval_loss is that share of the baseline's mean"),
        ("eval_loss", "margin: 10%", None),
        ("eval_loss", "margin: none", None),
        ("eval_loss", "margin: 1, scale: log", "margin: 1 of eval_loss is a factor of 2.72 on its log scale"),
        ("eval_loss", "margin: 1e4, scale: log", "margin: 10000 of eval_loss is a factor of 1.01e+304 on its"),
        (
            "peak_kurtosis",
            "margin: 100%, scale: log",
            "margin: 100% of peak_kurtosis is a factor of 2 on its log scale",
        ),
        ("peak_kurtosis", "margin: 90%, scale: log", None),
        ("peak_kurtosis", "margin: 0.69, scale: log", None),
        ("peak_kurtosis", "margin: 3", None),
        ("peak_kurtosis", "margin: 99%", None),
        ("peak_kurtosis", "margin: 100%", "margin: 100% of peak_kurtosis is that share of the baseline's mean"),
        ("token_correlation", "margin: 0.2", "margin: 0.2 of token_correlation, which is at most 1"),
        ("token_correlation", "margin: 0.1", None),
        ("peak_token_cosine", "margin: 0.11", "margin: 0.11 of peak_token_cosine, which is at most 1"),
    ],
)
def test_a_margin_that_calls_everything_equivalent_is_told(tmp_path, metric, judged, said):
    judge = f"{{against: pre_ln, metrics: {{{metric}: {{{judged}}}}}}}"
    measure = "{every: 5, probes: [kurtosis, token_correlation, token_cosine], evaluation: {every: 10, windows: 8}}"
    notes = told(tmp_path, "margin:", judge=judge, measure=measure)
    assert len(notes) == (said is not None)
    assert all(note.startswith(said or "") and "any smaller difference is equivalent" in note for note in notes)


SEARCH = "{search: {from: pre_ln, objective: {%s}, budget: {trials: 8}, sampler: random, confirm: none}}"


@pytest.mark.parametrize(
    ("design", "metrics", "said"),
    [
        (
            "{compare: [pre_ln, op]}",
            "tokens_per_second: {}, eval_loss: {}",
            "tokens_per_second: depends on this",
        ),
        ("{compare: [pre_ln, op]}", "mean_eval_loss: {}, eval_loss: {}", None),
        (
            SEARCH % "eval_loss: min, step_seconds: min",
            "eval_loss: {}",
            "step_seconds: depends on this machine and its other load",
        ),
        (SEARCH % "eval_loss: min", "eval_loss: {}", None),
    ],
)
def test_a_metric_of_the_clock_is_told_to_be_one(tmp_path, design, metrics, said):
    judge = f"{{against: pre_ln, metrics: {{{metrics}}}}}"
    notes = [note for start in ("tok", "step") for note in told(tmp_path, start, design=design, judge=judge)]
    assert len(notes) == (said is not None)
    assert all(note.startswith(said or "") and "--workers 1 runs one at a time" in note for note in notes)


@pytest.mark.parametrize(("hidden", "said"), [("4", True), ("3x", False), ("32", False), ("5/4x", False)])
def test_a_hidden_layer_narrower_than_the_model_is_told(tmp_path, hidden, said):
    notes = told(tmp_path, "hidden:", block=f"{{mlp.hidden: {hidden}, attention.position: rope}}")
    assert bool(notes) == said
    assert all("hidden: 4 is 4 units, fewer than" in note and "pre_ln" in note and "4x" in note for note in notes)


def test_a_model_matched_by_its_width_is_held_against_its_own(tmp_path):
    sections = {"design": "{compare: [pre_ln, sas_p]}", "block": "{mlp.hidden: 33, attention.position: rope}"}
    (note,) = told(tmp_path, "hidden:", fair=(MATCH % "width").replace("1%", "10%"), **sections)
    assert note.startswith("hidden: 33 is 33 units, fewer than the model's width of ")
    assert "(sas_p)" in note and "width of 32 " not in note


def test_units_that_a_match_has_chosen_are_nobodys_choice(tmp_path):
    blocks = "{wide: [residual: [layer_norm, attention, attention], residual: [layer_norm, mlp]]}"
    sections = {
        "design": "{compare: [pre_ln, wide]}",
        "blocks": blocks,
        "block": "{attention.position: rope, mlp.hidden: 80}",
    }
    asked = space(tmp_path, fair=MATCH % "mlp", **sections)
    plan = build_plan(asked, vocab_size=256, corpus="c")
    (matched,) = (note for note in plan.notes if note.startswith("wide: hidden width of the MLP 80 → "))
    assert int(matched.split(" → ")[1].split(",")[0]) < 32
    assert not [note for note in plan.notes if note.startswith("hidden:")]


@pytest.mark.parametrize("block", ["{}", "{mlp.activation: relu}"])
def test_attention_that_knows_no_positions_is_told(tmp_path, block):
    model = MODEL.format(position="none")
    assert told(tmp_path, "no positions", model=model, block=block) == [LONE.format("every block") + WAY_OUT]


@pytest.mark.parametrize(
    "place",
    [
        "position: rope",
        *(f"bias: {name}" for name in ("alibi", "t5", "transformer_xl")),
        "matrix: {e_spa: 0.2}, query: {dense: {init: zero}}",
    ],
)
def test_only_those_without_positions_are_named(tmp_path, place):
    blocks = f"{{placed: [residual: [layer_norm, attention: {{{place}}}], residual: [layer_norm, mlp]]}}"
    sections = {"design": "{compare: [pre_ln, placed, mixed]}", "model": MODEL.format(position="none")}
    mixed = "mixed: [residual: [layer_norm, attention, attention: {position: rope}], residual: [mlp]]"
    notes = told(tmp_path, "no positions", blocks=f"{blocks[:-1]}, {mixed}}}", **sections)
    assert notes == [LONE.format("pre_ln") + WAY_OUT]


@pytest.mark.parametrize("position", ["sinusoidal", "{learned: 0.02}"])
def test_positions_of_the_model_are_enough(tmp_path, position):
    assert told(tmp_path, "no positions", model=MODEL.format(position=position)) == []


def test_of_a_part_of_ones_own_it_is_not_known_what_it_tells_apart(tmp_path):
    path = tmp_path / "own.py"
    path.write_text((ROOT / "ablate" / "components" / "regularisers" / "dropout.py").read_text()
                    .replace('"dropout"', '"own"').replace("modifier=True", "modifier=False"))  # fmt: skip
    blocks = "{own: [residual: [layer_norm, attention], residual: [own: {p: 0.5}, mlp]]}"
    (tmp_path / "own.yaml").write_text(
        text(design="{compare: [pre_ln, own]}", blocks=blocks, model=MODEL.format(position="none")), encoding="utf-8"
    )
    found = load_space(tmp_path / "own.yaml", declarations((path,)))
    notes = build_plan(found, vocab_size=256, corpus="c").notes
    assert [note for note in notes if note.startswith("no positions")] == [LONE.format("pre_ln") + WAY_OUT]


def test_of_a_block_without_attention_nothing_is_said(tmp_path):
    blocks = "{lone: [residual: [layer_norm, mlp]]}"
    sections = {"design": "{compare: [pre_ln, lone]}", "model": MODEL.format(position="none")}
    assert told(tmp_path, "no positions", blocks=blocks, **sections) == [LONE.format("pre_ln") + WAY_OUT]


def recipe(optimizer: str) -> str:
    return f"{{steps: 20, batch: 4, optimizer: {{{optimizer}}}}}"


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        ("adamw: {lr: 1e-2}", None),
        ("adamw: {lr: 1e-2, head_lr: 1e-2}", None),
        ("muon: {lr: 0.02}", "matrices 0.02 by Muon; embedding, head and norms 0.003 by AdamW"),
        ("muon: {lr: 0.02, adamw_lr: null}", "matrices 0.02 by Muon; embedding, head and norms 0.02 by AdamW"),
        ("muon: {lr: 0.02, adamw_lr: lr}", "matrices 0.02 by Muon; embedding, head and norms 0.02 by AdamW"),
        ("adamw: {lr: 1e-2, embedding_lr: 1e-3}", "matrices and norms 0.01; embedding and head 0.001"),
        ("soap: {lr: 1e-2, head_lr: 1e-3}", "matrices, embedding and norms 0.01; head 0.001"),
        ("sgd: {lr: 1, embedding_lr: 2, head_lr: 3, norm_lr: 4}", "matrices 1; embedding 2; head 3; norms 4"),
    ],
)
def test_rates_are_told_where_there_are_several(tmp_path, optimizer, said):
    assert told(tmp_path, "rates", recipe=recipe(optimizer)) == ([] if said is None else [f"rates: {said}"])


def test_rates_of_one_variant_are_told_of_it_and_a_tuned_one_is_said_to_be(tmp_path):
    muon = "recipe.optimizer: {muon: {lr: 0.02}}"
    sections = {
        "variants": f"{{muon: {{block: pre_ln, set: {{{muon}}}}}}}",
        "design": "{compare: [pre_ln, muon]}",
        "fair": "{tune: {recipe.optimizer.muon.lr: [0.01, 0.02], seeds: 1}}",
    }
    wanted = "rates of muon: matrices as lr is tuned by Muon; embedding, head and norms 0.003 by AdamW"
    assert told(tmp_path, "rates", **sections) == [wanted]


def test_a_tied_head_has_no_rate_to_be_told(tmp_path):
    tied = MODEL.format(position="sinusoidal").replace("untied", "tied")
    notes = told(tmp_path, "rates", model=tied, recipe=recipe("muon: {lr: 0.02}"))
    assert notes == ["rates: matrices 0.02 by Muon; embedding and norms 0.003 by AdamW"]


@pytest.mark.parametrize(("context", "said"), [("17", "3 of 17 tokens of a sequence, 17.6 %"), ("20", None)])
def test_another_share_of_masked_words_than_was_asked_is_told(tmp_path, context, said):
    model = MODEL.format(position="sinusoidal").replace(
        "context: 16", f"context: {context}, kind: encoder, causal: false"
    )
    learned = recipe("adamw: {lr: 1e-2}").replace("steps", "objective: {masked_words: {share: 15%}}, steps")
    notes = told(tmp_path, "in force", model=model, recipe=learned)
    assert notes == ([] if said is None else [f"in force: masked words: {said} for the 15 % asked"])
