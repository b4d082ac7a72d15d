"""The named blocks of the papers: their sizes at the papers' presets, and that each of them trains on real text."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from reading import DEPTHS, decoders, transformer

import ablate
from ablate.errors import InputError
from ablate.execute.task import cache_of
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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("preset", GRAMMAR.presets)
def test_every_preset_resolves(tmp_path, preset):
    named = GRAMMAR.presets[preset]
    assert named.about and named.source and named.paper
    space = space_of(tmp_path, f"preset: {preset}" + MISSING.get(preset, ""), "pre_rms", "op")
    if space.model.causal:
        assert ablate.check(space).trials
    else:  # to count and to show
        with pytest.raises(InputError, match="causal"):
            ablate.check(space)


LANGUINI = "\ndata: {tokenizer: {bpe: 16384}}"
MISSING = {"outlier_languini": LANGUINI, "simplify_languini": LANGUINI}
"""What a preset leaves to the space, since it is nowhere to be had: Languini's books come with a tool of their own."""

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
OFTEN = [("pre_ln", "float32"), ("op", "bfloat16"), ("sas_p", "float32")]
"""Of the others, a step on made-up numbers is taken in test_shipped_files.py as often."""


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"), [pytest.param(*one, marks=() if one in OFTEN else pytest.mark.full) for one in TRAINED]
)
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
