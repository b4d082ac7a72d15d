"""The named blocks of the papers: their sizes at the papers' presets, and that each of them trains on real text."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from reading import DEPTHS, decoders, transformer

import ablate
from ablate.execute.executor import cache_of
from ablate.execute.work import compute
from ablate.plan.size import cost
from ablate.train.events import Outcome, Row

GRAMMAR = transformer()

SPACE = """
space: sizes
question: How large are the blocks of a paper?
grammar: {grammar}
{preset}
design: {{compare: [{blocks}]}}
seeds: 1
measure: {{every: 10, probes: [], evaluation: {{every: 20, windows: 8}}}}
judge: {{against: {first}, metrics: {{eval_loss: {{}}}}}}
"""


def space_of(folder: Path, preset: str, *blocks: str) -> ablate.Space:
    """A space that compares `blocks` at a preset, or at the sections of a space written out."""
    text = SPACE.format(grammar=GRAMMAR.path, preset=preset, blocks=", ".join(blocks), first=blocks[0])
    path = folder / "space.yaml"
    path.write_text(text)
    return ablate.load_space(path)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("preset", "vocabulary", "block", "millions"),
    [
        ("simplify_codeparrot", 50257, "pre_rms", 166.0),
        ("simplify_codeparrot", 50257, "sas", 145.4),
        ("simplify_codeparrot_as_released", 50257, "simplify_pre_ln_as_released", 166.8),
        ("simplify_codeparrot_as_released", 50257, "sas_as_released", 146.2),
        ("simplify_crammed_bert", 32768, "pre_ln_bert", 119.5),
        ("simplify_crammed_bert", 32768, "sas_bert", 101.3),
        ("simplify_languini", 16384, "pre_ln", 97.6),
        ("simplify_languini", 16384, "sas", 84.0),
    ],
)
def test_parameters_at_the_presets_of_the_papers(tmp_path, preset, vocabulary, block, millions):
    """SIMPLIFY, Sec. 5 and Table 1: 16 % fewer parameters without values and projections."""
    space = space_of(tmp_path, f"preset: {preset}", block, "op")
    counted = cost(space.architecture(space.blocks[block], vocabulary), GRAMMAR.catalogue)
    assert counted.parameters / 1e6 == pytest.approx(millions, abs=0.1)


BERT = [
    (12, 1024, 185),
    (48, 512, 168),
    (192, 256, 160),
    (768, 128, 156),
    (24, 1024, 336),
    (96, 512, 319),
    (384, 256, 311),
]
GPT = [(12, 1024, 204), (48, 512, 178), (24, 1024, 355), (96, 512, 329)]


def counted(folder, preset, block, vocabulary, *, more="", other="op", **model):
    """The parameters of a block at a preset with another shape."""
    (folder / "space.yaml").write_text(
        SPACE.format(grammar=GRAMMAR.path, preset=f"preset: {preset}\n{more}", blocks=f"{block}, {other}", first=block)
    )
    settings = [f"model.{field}={value}" for field, value in model.items()]
    space = ablate.load_space(folder / "space.yaml", settings=settings)
    return cost(space.architecture(space.blocks[block], vocabulary), GRAMMAR.catalogue).parameters


@pytest.mark.parametrize(("preset", "shapes"), [("dslm_bert", BERT), ("dslm_gpt", GPT)])
def test_the_shapes_of_deepscalelm_have_the_published_parameters(tmp_path, preset, shapes):
    """Tables 4 and 8, in millions, with the biases of the code: 12 d² + 13 d a layer, and what is around the layers."""
    vocabulary, block = {"dslm_bert": 30522, "dslm_gpt": 50257}[preset], "dslm_post_ln_as_released"
    for layers, d, millions in shapes:
        found = counted(tmp_path, preset, block, vocabulary, layers=layers, width=d, heads=d // 64)
        if preset == "dslm_bert":
            head = (d * d + d) + 2 * d + vocabulary + (d * d + d) + (2 * d + 2)
            around = vocabulary * d + 256 * d + 2 * d + 2 * d + head
        else:
            around = vocabulary * d + 1024 * d + 2 * d
        assert found == layers * (12 * d * d + 13 * d) + around
        assert round(found / 1e6) == millions


@pytest.mark.fast
@pytest.mark.parametrize(
    ("preset", "layers", "d", "millions"),
    [
        ("outlier_languini_100m", 12, 768, 97.5),
        ("outlier_languini", 24, 1024, 318.8),
        ("outlier_languini_1b", 24, 2048, 1241.5),
    ],
)
def test_the_sizes_of_languini(tmp_path, preset, layers, d, millions):
    """OUTLIER, Table 1 names them 100M, 320M and 1.2B; its App. G gives depths and widths, which come to these."""
    found = counted(tmp_path, preset, "op", 16384, more=LANGUINI)
    assert found == layers * 12 * d * d + 16384 * d + layers * 2 * 64  # the last: scales of the query and key norms
    assert found / 1e6 == pytest.approx(millions, abs=0.05)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("encoder", "decoder", "d", "millions"), [(12, 6, 256, 31.1), (48, 24, 128, 28.4)])
def test_the_speech_models_lack_only_convolutions_and_biases(tmp_path, encoder, decoder, d, millions):
    """DSLM, Table 9: with fairseq's two convolutions on 80 features, and a bias behind each matrix, within 0.2 %."""
    shape = {"encoder_layers": encoder, "layers": decoder, "width": d}
    found = counted(tmp_path, "dslm_speech", "pre_ln_cross", 8000, more=PAIRS, other="post_ln_cross", **shape)
    convolutions = 80 * 1024 * 5 + 1024 + 512 * (2 * d) * 5 + 2 * d
    biases = encoder * (4 * d + 8 * d + d) + decoder * (8 * d + 8 * d + d)
    assert (found + convolutions + biases) / 1e6 == pytest.approx(millions, rel=0.002)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("preset", GRAMMAR.presets)
def test_every_preset_resolves(tmp_path, preset):
    named = GRAMMAR.presets[preset]
    assert named.about and named.source and named.paper
    space = space_of(tmp_path, f"preset: {preset}" + MISSING.get(preset, ""), *OF_PRESET.get(preset, ("pre_rms", "op")))
    assert ablate.check(space).trials


LANGUINI = "\ndata: {tokenizer: {bpe: 16384}}"
PAIRS = "\ndata: {corpus: code_docstrings, tokenizer: {unigram: 8000}}"
DRAWN = "\ndata: {corpus: {drawn_images: 5000}}"
MISSING = {
    "outlier_languini_100m": LANGUINI,
    "outlier_languini": LANGUINI,
    "outlier_languini_1b": LANGUINI,
    "simplify_languini": LANGUINI,
    "dslm_speech": PAIRS,
    "vit_s": f"{DRAWN}\nmodel: {{context: 5}}",
    "vit_s_plain": f"{DRAWN}\nmodel: {{context: 4}}",
}
"""What a preset leaves to the space, since it is nowhere to be had: Languini's books come with a tool of their own."""
OF_PRESET = {
    "dslm_speech": ("pre_ln_cross", "post_ln_cross"),
    "outlier_mlp": ("outlier_mlp_pre_norm", "outlier_mlp_no_norm"),
}
"""The blocks of presets that are for blocks of their own."""

TINY = """
model: {{layers: {layers}, width: 32, heads: 4, context: 32, embedding: {{std: 0.02, scale: 50}}, head: untied,
         init: {{fan_in: 1}}}}
block: {{attention.position: rope}}
data: {{corpus: python_stdlib, tokenizer: bytes}}
recipe: {{steps: 20, batch: 4, dtype: {dtype}, optimizer: {{adamw: {{lr: 1e-3}}}}}}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One folder for all, so that the text is cut into tokens once."""
    return tmp_path_factory.mktemp("results")


TRAINED = [(name, dtype) for name in decoders() for dtype in ("float32", "bfloat16")]
"""Each takes a step on made-up numbers in test_shipped_files.py."""


@pytest.mark.sampled(0, gate=30)
@pytest.mark.parametrize(("name", "dtype"), TRAINED)
def test_every_named_block_trains_on_real_text(name, dtype, tmp_path, results):
    written = TINY.format(layers=DEPTHS.get(name, 6), dtype=dtype)
    space = space_of(tmp_path, written, name, "op" if name != "op" else "pre_ln")
    plan = ablate.plan_space(space, results=results).plan
    trial = next(trial for trial in plan.trials if trial.variant == plan.baseline)
    events = list(compute(trial, cache=cache_of(results), plugins=(), resume=None, should_stop=lambda: False))
    losses = [event.value for event in events if isinstance(event, Row) and event.metric == "train_loss"]
    outcome = events[-1]
    assert isinstance(outcome, Outcome) and outcome.kind == "finished", outcome
    assert len(losses) > 1 and all(math.isfinite(loss) for loss in losses)
