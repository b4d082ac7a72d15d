"""spaces/skipless.yaml is judged by what rank collapse is: the cosine of tokens within their sequence."""

from pathlib import Path

import pytest
from objectives import next_token

import ablate
from ablate.compiler import compile_model
from ablate.components.registry import declarations
from ablate.data.batch import Examples, evaluation_windows
from ablate.data.streams import prepare
from ablate.probes.registry import select
from ablate.train.events import Row
from ablate.train.microbatches import BatchShares
from ablate.train.objective import evaluate

SPACE = Path(__file__).parents[2] / "spaces" / "skipless.yaml"


@pytest.mark.full
@pytest.mark.parametrize(
    ("seed", "share"), [(0, 8), *(pytest.param(seed, 1, marks=pytest.mark.slow) for seed in (0, 1, 2))]
)
def test_before_the_first_step_the_baseline_has_collapsed_and_no_cure_has(seed, share, tmp_path):
    """The largest cosine over depth, on all or an eighth of the evaluation windows of the seed, of each model."""
    cosine, joint = starts(seed, share, tmp_path)
    assert cosine.pop("skipless_norm") >= 0.99
    # What others are compared with has skips, and is no cure: the mean of its tokens grows with depth, at 0.78 to 0.82.
    assert cosine.pop("pre_rms") <= 0.85
    assert set(cosine) == {"value_skipinit", "u_spa", "e_spa", "e_spa_fast"}
    assert max(cosine.values()) <= 0.80
    # What the space was judged by before cannot tell them apart: some cure looks worse than what it cures.
    assert joint.pop("skipless_norm") < max(joint.values())


def test_it_is_what_the_space_is_judged_by():
    space = ablate.load_space(SPACE)
    assert set(space.judge.metrics) == {"eval_loss", "peak_token_cosine"}
    assert space.judge.against == "skipless_norm"


def starts(seed, share, cache):
    """Peaks over depth of `token_cosine` and `token_correlation_rms`, by variant, as an evaluation reads them."""
    plan = ablate.plan_space(ablate.load_space(SPACE), results=cache).plan
    names = {variant.id: variant.name for variant in plan.variants}
    trials = [trial for trial in plan.trials if trial.seed == seed]
    streams = prepare(trials[0].work.data, Path(trials[0].work.folder), cache / "cache")
    cosine, joint = {}, {}
    for trial in trials:
        model = compile_model(trial.work.architecture, declarations(()), seed=trial.seed)
        number, length = trial.work.measure.evaluation.windows, trial.work.architecture.sizes.seq_len
        held_out = streams.split(trial.split)
        windows = evaluation_windows(held_out, length, number, seed=trial.seed, split=trial.split)
        windows = Examples(*(each[: number // share] for each in windows[:2]), bytes=None)
        rows = list(evaluate(model, windows, 0, trial, BatchShares(), next_token(), select(trial.work.measure.probes)))
        for metric, found in (("token_cosine", cosine), ("token_correlation_rms", joint)):
            values = [row.value for row in rows if isinstance(row, Row) and row.metric == metric]
            assert len(values) == trial.work.architecture.sizes.n_layers + 1
            found[names[trial.variant]] = max(values)
    return cosine, joint
