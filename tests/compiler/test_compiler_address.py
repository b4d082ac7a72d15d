"""The names of the parts of a block: by role, unmoved by what is put before them."""

import itertools

import pytest
from builders import CATALOGUE, gain, many_blocks, node, op, parallel, post_ln, pre_ln, residual, sequence
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.block.address import address, name_parts
from ablate.block.expression import Node, Sequence

pytestmark = pytest.mark.fast


def names(block):
    return [name for _, name in name_parts(block, CATALOGUE)]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (pre_ln(), "attention_residual attention_norm attention mlp_residual mlp_norm mlp"),
        (post_ln(), "attention_residual attention attention_post_norm mlp_residual mlp mlp_post_norm"),
        (op(), "attention_residual attention mlp_residual mlp"),
        (parallel(), "attention_parallel attention_norm attention mlp_norm mlp"),
        (sequence("attention", "layer_norm", "mlp"), "attention mlp_norm mlp"),
        (sequence("rms_norm", "layer_norm", "mlp"), "mlp_norm mlp_norm_2 mlp"),
        (sequence("mlp", "rms_norm", "mlp", "mlp"), "mlp mlp_2_norm mlp_2 mlp_3"),
        (sequence(residual("rms_norm", "mlp", "rms_norm")), "mlp_residual mlp_norm mlp mlp_post_norm"),
        (sequence("rms_norm", residual("mlp")), "mlp_norm mlp_residual mlp"),
        (sequence("mlp", "rms_norm", residual("mlp")), "mlp mlp_post_norm mlp_2_residual mlp_2"),
        (sequence(residual(residual("mlp"))), "mlp_residual mlp_residual_2 mlp"),
        (sequence("rms_norm"), "norm"),
        (sequence(residual("rms_norm"), residual()), "residual norm residual_2"),
        (sequence(residual(residual("rms_norm"), "mlp")), "mlp_residual mlp_residual_2 mlp_norm mlp"),
        (
            sequence(residual(node("first_layer", inside=["rms_norm"]), "attention"), "mlp"),
            "attention_residual attention_first_layer attention_norm attention mlp",
        ),
        (
            sequence("mlp", node("parallel", branches=[["rms_norm"], []])),
            "mlp mlp_post_parallel mlp_post_norm",
        ),
        (sequence(), ""),
    ],
)
def test_named_by_role(block, expected):
    assert names(block) == expected.split()


def test_paths_lead_to_the_parts():
    block = parallel()
    found = dict(name_parts(block, CATALOGUE))
    assert found[(0, "branches", 1, 0)] == "mlp_norm"
    assert found[(0,)] == "attention_parallel"
    assert dict(name_parts(pre_ln(), CATALOGUE))[(1, "branch", 1)] == "mlp"


def test_the_address_in_the_model():
    assert address(3, "attention_norm") == "layers.3.attention_norm"


LEAVES = st.sampled_from([node("mlp"), node("attention"), node("rms_norm"), node("layer_norm")])


def combined(inside):
    parts = st.lists(inside, max_size=3)
    residuals = parts.map(lambda branch: residual(*branch))
    branches = st.lists(parts, min_size=1, max_size=2)
    return residuals | branches.map(lambda several: node("parallel", branches=several))


BLOCKS = st.lists(st.recursive(LEAVES, combined, max_leaves=6), max_size=4).map(lambda parts: sequence(*parts))


def without_norms(sequence_):
    def bare(part):
        changed = {}
        for field, value in part.fields:
            if isinstance(value, Sequence):
                changed[field] = without_norms(value)
            elif isinstance(value, tuple):
                changed[field] = tuple(without_norms(v) if isinstance(v, Sequence) else v for v in value)
        return part.replace(changed)

    return Sequence(tuple(bare(part) for part in sequence_ if not part.name.endswith("_norm")))


def principals(block):
    nodes = {path: step(block, path) for path, _ in name_parts(block, CATALOGUE)}
    return [n for p, n in name_parts(block, CATALOGUE) if nodes[p].name in {"mlp", "attention"}]


def step(value, path) -> Node:
    for key in path:
        value = value[key] if isinstance(key, str) or isinstance(value, tuple) else value.parts[key]
    return value


@settings(max_examples=examples_of(200), deadline=None)
@given(BLOCKS)
def test_each_part_has_a_name_of_its_own_and_norms_rename_no_principal(block):
    found = names(block)
    assert len(found) == len(set(found))
    assert all("." not in name for name in found)
    assert principals(block) == principals(without_norms(block))


def test_removing_a_principal_does_rename_so_the_test_above_can_fail():
    assert principals(sequence("mlp", "mlp")) != principals(sequence("mlp"))


def test_gains_do_not_name():
    trained = sequence(residual("layer_norm", "attention", gain=gain(0, trainable=True)), residual("layer_norm", "mlp"))
    assert names(trained) == names(pre_ln())


def test_every_example_block_has_distinct_names():
    for block in many_blocks().values():
        assert not [n for n, group in itertools.groupby(sorted(names(block))) if len(list(group)) > 1]
