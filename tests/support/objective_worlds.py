"""What turns a tiny space of a decoder into one of another objective: a model that can have it, and a text for it."""

from pathlib import Path

TWO_STACKS = (
    "model.kind=encoder_decoder",
    "model.source=24",
    "blocks={cross: [residual: [layer_norm, attention], residual: [attention: {source: encoder}], residual: [mlp]],"
    " other: [residual: [layer_norm, attention], residual: [attention: {source: encoder}]]}",
    "design={compare: [cross, other]}",
    "judge.against=cross",
)
IMAGES = ("data.corpus=digits", "model.kind=vit", "model.causal=false", "model.patch=2")
OBJECTIVES: dict[str, tuple[str, ...]] = {
    "masked_words": (
        "recipe.objective={masked_words: {next_sentence: true}}",
        "model.kind=encoder",
        "model.causal=false",
        "model.segments=2",
    ),
    "sequence_to_sequence": ("recipe.objective=sequence_to_sequence", "data.corpus=pairs_of_words", *TWO_STACKS),
    "span_filling": ("recipe.objective={span_filling: {spans: 4}}", *TWO_STACKS),
    "classification": ("recipe.objective=classification", "model.pooling=class_token", "model.context=17", *IMAGES),
    "regression": (
        "recipe.objective={regression: {weight: 15, value: 30}}",
        "model.pooling=mean",
        "model.position=sine_cosine_2d",
        "model.head=mlp",
        *IMAGES,
    ),
}
"""The model and the text of each objective but the next token, which every other case has."""
PLUGINS = (Path(__file__).parent / "pairs_of_words.py",)
