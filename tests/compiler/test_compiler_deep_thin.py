"""What depth costs in FLOPs at a constant N·d², as Table 23 of the stability paper counts it and as is counted here.

The paper counts as the code of Electra does (Clark et al. 2020): elementwise operations too, the look-up of a token as
a product with the whole table, and logits for 15.625 % of the positions. Here products alone count, and every logit.
"""

import pytest
from builders import CATALOGUE, architecture, node
from reading import transformer

from ablate.block.sizes import Sizes
from ablate.plan.size import cost

LENGTH, VOCABULARY, MASKED = 512, 30522, 0.15625
PUBLISHED = {  # Kedia et al. 2024, App. I.1; its "784" and "384 of 128" are 768 and 384 of 256 (Table 4, constant N·d²)
    (48, 512): ((12, 1024), -2.5),
    (192, 256): ((12, 1024), 6.3),
    (768, 128): ((12, 1024), 30.6),
    (96, 512): ((24, 1024), 2.3),
    (384, 256): ((24, 1024), 14.5),
}
OURS = {(48, 512): -1.6, (192, 256): 7.3, (768, 128): 31.2, (96, 512): 2.7, (384, 256): 14.5}
"""Percent more than the shallow model by products alone: attention's grow as N·d, those of the head shrink as d."""


def products(n_layers, d):
    """FLOPs of the products of the layers, for one sequence: 24 d² + 4 d T for each token."""
    return n_layers * LENGTH * (24 * d**2 + 4 * d * LENGTH)


def as_published(n_layers, d):
    """FLOPs of one sequence as Electra counts them: softmax 5, dropout 4, GELU 8 and a norm 5 for each number."""
    heads = d // 64
    scores = 10 * LENGTH * heads  # softmax, dropout, scale
    after = d + 4 * d + d  # bias, dropout, skip
    layer = 3 * d + scores + (after + 5) + 4 * d * (8 + 1) + (after + 5 * d)  # one norm is 5 in all in that code
    look_up = 2 * d * VOCABULARY + 2 * d * (LENGTH + 2) + 2 * d + 5 * d + 4 * d
    head = 2 * d * VOCABULARY + 2 * d * d + 8 * d + d + 5 * d + 5 * VOCABULARY + 2 * VOCABULARY
    return products(n_layers, d) + LENGTH * (n_layers * layer + look_up + MASKED * head)


def counted_here(n_layers, d):
    """FLOPs of one sequence of DeepScaleLM at these sizes."""
    block = transformer().blocks["dslm_post_ln"].block
    sizes = Sizes(n_layers=n_layers, d_model=d, n_heads=d // 64, seq_len=LENGTH, vocab_size=VOCABULARY, causal=False)
    around = {"positions": "learned", "tied": True, "init": node("normal", std=0.02), "kind": "encoder"}
    return cost(architecture(block, sizes=sizes, **around), CATALOGUE).flops


def extra(count, deep):
    """Percent more than the shallow model of the same N·d²."""
    return 100 * (count(*deep) / count(*PUBLISHED[deep][0]) - 1)


@pytest.mark.parametrize("deep", list(PUBLISHED), ids=str)
def test_depth_costs_what_table_23_says_as_its_authors_count(deep):
    assert extra(as_published, deep) == pytest.approx(PUBLISHED[deep][1], abs=0.06)


@pytest.mark.parametrize("deep", list(PUBLISHED), ids=str)
def test_the_same_shapes_by_products_alone(deep):
    assert counted_here(*deep) == products(*deep) + 2 * LENGTH * deep[1] * VOCABULARY
    assert extra(counted_here, deep) == pytest.approx(OURS[deep], abs=0.06)


def test_a_shape_of_another_size_is_told_apart():
    deep, shallow = (384, 128), (24, 1024)  # as it is printed
    assert abs(100 * (as_published(*deep) / as_published(*shallow) - 1) - 14.5) > 50
