"""An edit says where it acts in the words that rows and modules use."""

import itertools
import random

import pytest
from reading import transformer

from ablate.api import load_block
from ablate.block.address import name_parts
from ablate.block.diff import diff
from ablate.block.normal_form import normalise

GRAMMAR = transformer()
CATALOGUE = GRAMMAR.catalogue
PAIRS = random.Random(0).sample(list(itertools.permutations(GRAMMAR.blocks, 2)), 400)


def names_of(name):
    return {part for _, part in name_parts(normalise(GRAMMAR.block(name), CATALOGUE), CATALOGUE)}


@pytest.mark.sampled(120, gate="all")
@pytest.mark.parametrize(("before", "after"), PAIRS, ids=lambda name: name)
def test_places_are_addresses_of_one_of_the_two_blocks(before, after):
    known = names_of(before) | names_of(after) | {"block"}
    for edit in diff(GRAMMAR.block(before), GRAMMAR.block(after), CATALOGUE, split=True).edits:
        assert {place.split(".")[0] for place in edit.places} <= known, edit


@pytest.mark.fast
def test_a_norm_that_moves_behind_its_part_is_named_after_it():
    found = diff(GRAMMAR.block("pre_ln"), GRAMMAR.block("post_ln"), CATALOGUE).edits
    assert {edit.name: edit.places for edit in found} == {
        "+layer_norm": ("attention_post_norm", "mlp_post_norm"),
        "-layer_norm": ("attention_norm", "mlp_norm"),
    }


@pytest.mark.parametrize(
    ("before", "place"),
    [
        ("[residual: [rms_norm, attention], residual: [{cycle: [layer_norm, rms_norm]}, mlp]]", "mlp_norm"),
        ("[residual: [rms_norm, attention], residual: [mlp], {cycle: [layer_norm, rms_norm]}]", "mlp_post_norm"),
        ("[{where: {layers: first, use: layer_norm, otherwise: rms_norm}}, residual: [attention]]", "attention_norm"),
    ],
)
def test_a_norm_in_a_pattern_that_both_have_is_named_like_one_outside(before, place):
    after = load_block(before.replace("layer_norm", "simple_rms_norm"))
    (edit,) = diff(load_block(before), after, CATALOGUE).edits
    assert edit.places == (place,)
