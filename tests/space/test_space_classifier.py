"""What computes nothing in a model of images or of features: it is refused, as it would be compared with itself."""

import pytest
from space_fixtures import space

from ablate.errors import InputError
from ablate.plan.build import build_plan

JUDGE = "{against: flat, metrics: {eval_loss: {}}}"
MLP = {
    "model": "{kind: mlp, layers: 2, width: 32, heads: 1, context: 1, embedding: {std: 0.02, scale: 1}}",
    "blocks": "{flat: [residual: [layer_norm, mlp]], bare: [residual: [mlp]]}",
    "data": "{corpus: digits}",
    "recipe": "{objective: classification, steps: 20, batch: 4, optimizer: {adamw: {lr: 1e-2}}}",
    "design": "{compare: [flat, bare]}",
    "judge": JUDGE,
}
VIT = {
    **MLP,
    "model": "{kind: vit, layers: 2, width: 32, heads: 4, context: 16, causal: false, patch: 2, pooling: mean,"
    " embedding: {std: 0.02, scale: 1}}",
}
TOKEN = ("model.pooling=class_token", "model.context=17")
NO_HEADS = "model.heads is 4, but a model of kind mlp has one token, and no attention(.|\n)*= set it to 1"
NO_TABLE = "model.embedding.std is 0.5, but a model of kind mlp has nothing that starts at it(.|\n)*= set it to 0.02;"
NO_TOKEN = "0.5, but a model of kind vit with pooling: mean has nothing that starts at it(.|\n)*= set it to 0.02;"
CASES = [(MLP, "model.heads=4", NO_HEADS), (MLP, "model.embedding.std=0.5", NO_TABLE)]
CASES += [(VIT, "model.embedding.std=0.5", NO_TOKEN)]


@pytest.mark.parametrize(("sections", "setting", "said"), CASES)
def test_what_computes_nothing_is_refused_in_a_space_and_in_a_variant(sections, setting, said, tmp_path):
    space(tmp_path, **sections)
    with pytest.raises(InputError, match=said):
        space(tmp_path, setting, **sections)
    address, value = setting.split("=")
    variants = f"{{other: {{block: flat, set: {{{address}: {value}}}}}}}"
    with pytest.raises(InputError, match=said):
        space(tmp_path, variants=variants, **{**sections, "design": "{compare: [flat, other]}"})


def test_the_same_written_otherwise_is_what_it_was(tmp_path):
    plain, written = space(tmp_path, **MLP), space(tmp_path, "model.embedding.std=2e-2", **MLP)
    ids = [{trial.id for trial in build_plan(each, vocab_size=10, corpus="c").trials} for each in (plain, written)]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("sections", "settings"),
    [
        (VIT, (*TOKEN, "model.embedding.std=0.5")),
        (VIT, ("model.heads=2",)),
        (MLP, ("model.heads=4", "blocks.bare=[residual: {gain: 1/sqrt(heads), branch: [mlp]}]")),
        (MLP, ("model.heads=4", "blocks.bare=[residual: [mlp: {input_scale: 1/sqrt(head_width)}]]")),
        (MLP, ("model.heads=4", "model.logit_scale=1/heads")),
        (MLP, ("model.heads=4", "model.init={xavier: {per_head: true}}")),
    ],
)
def test_what_computes_something_is_read_and_is_another_trial(sections, settings, tmp_path):
    """The twins of the refusals: the last of the settings alone makes other trials."""
    ids = []
    for more in (settings, settings[1:] if settings[0].startswith("model.heads") else settings[:-1]):
        plan = build_plan(space(tmp_path, *more, **sections), vocab_size=10, corpus="c")
        ids.append({trial.id for trial in plan.trials})
    assert ids[0] != ids[1]
