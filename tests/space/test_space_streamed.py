"""How much of a hub data set a space asks for."""

from __future__ import annotations

import math

import pytest
from objective_worlds import TWO_STACKS
from space_fixtures import space

from ablate.errors import InputError
from ablate.space.data import Layout
from ablate.space.documents import CorpusChoice
from ablate.space.fits import needed_bytes, streamed

pytestmark = pytest.mark.fast

MIB = 2**20


def asked(tmp_path, *settings: str, more: str = "") -> int:
    hub = f"data.corpus={{hub: a/b, split: train, field: text{more}}}"
    return space(tmp_path, hub, *settings).data.corpus.settings["at_most"]


@pytest.mark.parametrize("steps", [1, 100_000, 300_000, 2_000_000])
@pytest.mark.parametrize(("tokenizer", "a_token"), [("bytes", 1), ("{bpe: 4096}", 4)])
def test_it_is_twice_what_the_steps_read_at_the_next_power_of_two(tmp_path, steps, tokenizer, a_token):
    settings = (f"recipe.steps={steps}", "recipe.batch=4", "model.context=128", f"data.tokenizer={tokenizer}")
    settings = (*settings, "data.tuning=10%", "data.verdict=15%", "measure.evaluation.windows=2")
    found = asked(tmp_path, *settings, more=", at_most: 900 TiB")
    need = 2 * a_token * steps * 4 * 128 / 0.75
    assert found == max(64 * MIB, 2 ** math.ceil(math.log2(need)))


def test_held_out_windows_ask_for_text_too(tmp_path):
    few = ("recipe.steps=1", "recipe.batch=1", "model.context=128", "data.tokenizer=bytes", "data.verdict=1%")
    assert asked(tmp_path, *few, "measure.evaluation.windows=10") == 64 * MIB
    assert asked(tmp_path, *few, "measure.evaluation.windows=10000") == 256 * MIB  # 2 × 10,000 × 129 bytes / 1 %


def test_the_cap_is_one_gibibyte_unless_it_is_said(tmp_path):
    much = ("recipe.steps=100000", "recipe.batch=1024", "model.context=128")
    assert asked(tmp_path, *much) == 2**30
    assert asked(tmp_path, *much, more=", at_most: 1.5 GiB") == 3 * 2**29
    assert asked(tmp_path, *much, more=", at_most: 12345") == 12345
    assert asked(tmp_path, "recipe.steps=1", more=", at_most: 4 GiB") == 64 * MIB


@pytest.mark.parametrize("wrong", ["lots", "4 GB", "-1 GiB", "0", "1.5", "true", "nan GiB", "1e999 GiB"])
def test_what_is_no_size_is_refused_where_it_stands(tmp_path, wrong):
    with pytest.raises(InputError, match=r"data\.corpus\.at_most(.|\n)*\^(.|\n)*such as 4 GiB; if left out, 1 GiB"):
        asked(tmp_path, more=f", at_most: {wrong}")


@pytest.mark.parametrize(("steps", "context"), [(1, 128), (10_000, 128), (10_000, 8)])
def test_of_images_it_is_what_their_pixels_take(tmp_path, steps, context):
    """The context of a model says nothing of them."""
    settings = (f"recipe.steps={steps}", "recipe.batch=64", "data.tuning=10%", "data.verdict=15%")
    found = space(tmp_path, *settings)
    layout = Layout(shape=(3, 32, 32), dtype="uint8", targets=0, classes=10)
    need = 2 * 3072 * max(steps * 64 / 0.75, 50 / 0.1)
    asked = needed_bytes(found.data, found.recipe, length=context, windows=50, layout=layout)
    assert asked == max(64 * MIB, 2 ** math.ceil(math.log2(need)))
    hub = CorpusChoice("hub_images", {"at_most": 2**60})
    images = streamed(
        found.data.model_copy(update={"corpus": hub}), found.recipe, length=context, windows=50, layout=layout
    )
    assert images.corpus.settings == {"at_most": asked}


SPANS = ("recipe.objective=span_filling", "model.source=512", "model.context=114")
PAIRS = ("recipe.objective=sequence_to_sequence", "model.source=512", "model.context=114")


@pytest.mark.parametrize(
    ("corpus", "objective", "length"),
    [
        # 568 tokens, of which 85 are hidden in 28 spans: a source of 568 - 85 + 28 + 1, a target of 85 + 28 + 1
        ("{hub: a/b, split: train, field: text, at_most: 900 TiB}", SPANS, 568),
        ("{hub_pairs: a/b, split: train, source: de, target: en, at_most: 900 TiB}", PAIRS, 512 + 114),
    ],
)
def test_of_two_stacks_it_is_what_source_and_target_are_made_of(tmp_path, corpus, objective, length):
    settings = (f"data.corpus={corpus}", *TWO_STACKS, *objective, "recipe.batch=16", "data.tokenizer={bpe: 4096}")
    for steps in (21_000, 150_000):  # with the source alone, or more text, another power of 2
        found = space(tmp_path, *settings, f"recipe.steps={steps}", "data.tuning=10%", "data.verdict=15%")
        need = 2 * 4 * steps * 16 * length / 0.75
        assert found.data.corpus.settings["at_most"] == 2 ** math.ceil(math.log2(need))
