"""Snapshots of the kernel matrix: against NumPy float64, how few there are, and read back from a run."""

import itertools

import numpy as np
import pytest
import torch
from tiny_spaces import write_world

import ablate
from ablate.probes import registry
from ablate.probes.token_kernel import snapshot_due, snapshot_layers, token_kernel
from ablate.probes.watch import watching


def cosines(x):
    """[T, T]: the mean over sequences of the cosines of their tokens."""
    units = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return np.mean([u @ u.T for u in units], axis=0)


def blocked(matrix, ranges):
    """Means over all pairs of positions of two ranges, pair by pair."""
    time = len(matrix)
    of = [[t for t in range(time) if t * ranges // time == r] for r in range(ranges)]
    return np.array([[np.mean([matrix[s, t] for s, t in itertools.product(a, b)]) for b in of] for a in of])


@pytest.mark.fast
@pytest.mark.parametrize(("time", "ranges"), [(1, 1), (5, 5), (16, 16), (17, 16), (37, 16), (64, 16)])
def test_it_is_the_normalised_kernel_averaged_to_sixteen_ranges(time, ranges):
    random = np.random.default_rng(0)
    x = (random.normal(size=(3, time, 8)) + random.normal(size=(3, 1, 8))) * np.exp(random.normal(size=(3, time, 1)))
    found = token_kernel(torch.from_numpy(x)).numpy()
    assert found.shape == (ranges, ranges)
    assert np.max(np.abs(found - blocked(cosines(x), ranges))) < 1e-12
    joined = x.reshape(1, -1, 8)[:, : min(time, 3)]  # the test can fail: of other tokens it is another matrix
    assert time == 1 or token_kernel(torch.from_numpy(joined)).shape != found.shape or time == 3


@pytest.mark.fast
def test_of_collapsed_sequences_it_is_1_everywhere():
    x = np.tile(np.random.default_rng(0).normal(size=(4, 1, 8)), (1, 20, 1))
    assert token_kernel(torch.from_numpy(x)).numpy() == pytest.approx(np.ones((16, 16)))


@pytest.mark.fast
def test_snapshots_are_few():
    """At most five evaluations, eight layers and the head, whatever the length, the depth and the number of steps."""
    for steps, every in itertools.product((1, 7, 20, 199, 200, 80_000), (1, 3, 10, 100, 2000)):
        evaluations = [*range(0, steps, every), steps]
        taken = [step for step in evaluations if snapshot_due(step, steps, every)]
        assert {0, steps} <= set(taken) and len(taken) <= 5
        assert len(taken) == 5 or len(evaluations) < 8
    layers = [f"layers.{n}" for n in range(1, 193)]
    assert len(snapshot_layers(layers)) == 8
    assert {"layers.1", "layers.192"} <= set(snapshot_layers(layers))
    assert snapshot_layers(layers[:8]) == layers[:8]


@pytest.mark.fast
def test_cells_on_and_below_the_diagonal_are_readings_of_blocks_and_head(build, tokens):
    model = build()
    with torch.no_grad(), watching(model, registry.select(["token_kernel"])) as readings:
        model(tokens)
    cells = {r.address: r.value.item() for r in readings if r.metric == "token_kernel"}
    sites = ("layers.1", "layers.2", "head")
    assert set(cells) == {f"{site}[{i},{j}]" for site in sites for i in range(5) for j in range(i + 1)}
    with torch.no_grad():
        x = model.embedding(tokens).numpy()
    assert cells["layers.1[3,1]"] == pytest.approx(cosines(x)[3, 1], abs=1e-12)


@pytest.mark.full
def test_a_run_has_them_in_python_and_in_sql_and_nowhere_else(tmp_path):
    """Two variants of two layers and 20 tokens, evaluated at steps 0, 8 and 12."""
    asked = (
        "design={compare: [pre_ln, op]}",
        "model.context=20",
        "measure.probes=[kurtosis, token_correlation, token_cosine, token_kernel]",
    )
    space = ablate.load_space(write_world(tmp_path, seeds=1), settings=asked)
    done = ablate.run(space, results=tmp_path / "results", executor="inline", mirror=False)
    kernels = done.kernels
    assert len(kernels) == 2 * 3 * 3 * 136  # variants, snapshots, places, cells of 16 ranges
    assert set(kernels.step) == {0, 8, 12} and set(kernels.address) == {"layers.1", "layers.2", "head"}
    assert list(kernels[kernels.i == kernels.i.max()].first_i.unique()) == [19]
    assert list(kernels[kernels.i == 1].first_i.unique()) == [2]  # positions 0 and 1 are in range 0: 2 * 16 // 20 = 1
    rows = ablate.query("SELECT count(*) AS n, max(value) AS most FROM kernels", results=done.results)
    assert rows.n[0] == len(kernels) and rows.most[0] == kernels.value.max() <= 1 + 1e-12
    # Weighted by the pairs of each cell it is the cosine over all pairs, with those of a token and itself.
    sizes = np.bincount(np.arange(20) * 16 // 20)
    for key, cells in kernels.groupby(["variant", "step", "address"]):
        weights = sizes[cells.i] * sizes[cells.j] * np.where(cells.i == cells.j, 1, 2)
        expected = (np.sum(weights * cells.value) - 20) / (20 * 19)
        curve = done.curves.set_index(["metric", "variant", "step", "address"])["mean"]
        assert curve["token_cosine", *key] == pytest.approx(expected, rel=1e-9)
    assert "token_kernel" not in set(done.curves.metric)
    assert not [name for name in done.trials.columns if "token_kernel" in name]
    assert "peak_token_cosine" in done.trials.columns
    page = next(text for name, text in done.report().items() if name == "page.html")
    assert page.count("cosine similarity of tokens within a sequence, by position") == 2
    assert "layers.2, step 8" in page and "head, step 12" in page
